// SPDX-License-Identifier: Apache-2.0
// conv1d on the device: Y = W * X + B, cross-correlation along one axis, grouped, strided, dilated, in any layout.
#pragma once

#include "kernels/launch.hpp"

namespace assay::kernels {

/// y[b,o,j] = bias[o] + sum over i < cin/groups, t < k of w[o,i,t] x[b, group(o) cin/groups + i, j stride - padl + t dilation],
/// where x outside 0..l-1 is zero. Strides in elements.
struct Conv1dArgs {
  const void* x;     // (n, cin, l): x_n, x_channel, x_position
  const void* w;     // (cout, cin/groups, k): w_output, w_input, w_tap
  const void* bias;  // (cout), packed; nullptr: none
  void* y;           // (n, cout, lout): y_n, y_channel, y_position
  long long n, cin, cout, l, k, lout;
  long long stride, dilation, padl, groups;
  long long x_n, x_channel, x_position;
  long long w_output, w_input, w_tap;
  long long y_n, y_channel, y_position;
  int y_is_f32;  // 1: Y is fp32 whatever X is; not for fp64
};

/// One sum per output, from 0, each product fused into it; then the bias is added. All versions give the same bits unless W is
/// not finite: implicit_gemm multiplies the zeros of the padding, the others leave them out.
inline constexpr Version conv1d_versions[] = {
    {"direct", "channels in order, in each its taps in order", "f32 f64 bf16 f16"},
    {"implicit_gemm", "as direct, by tiles of 64 x 64 outputs and 16 products", "f32 f64 bf16 f16"},
    {"depthwise", "taps in order; one input channel a group", "f32 f64 bf16 f16"},
};
/// Places in conv1d_versions.
enum class Conv1dVersion { direct, implicit_gemm, depthwise };

inline constexpr unsigned conv1d_threads = 256;
inline constexpr unsigned conv1d_tile = 64;  // implicit_gemm: outputs of a block: channels, and positions of all batch entries
inline constexpr unsigned conv1d_tile_terms = 16;  // and products of a step

constexpr bool conv1d_takes(const Conv1dArgs& g, Conv1dVersion v) {
  return v != Conv1dVersion::depthwise || g.groups == g.cin;
}

constexpr Launch conv1d_launch(const Conv1dArgs& g, Conv1dVersion v) {
  const long long blocks = v == Conv1dVersion::direct ? ceil_div(g.n * g.cout * g.lout, conv1d_threads)
                           : v == Conv1dVersion::depthwise
                               ? g.n * g.cout * ceil_div(g.lout, conv1d_threads)
                               : g.groups * ceil_div(g.cout / g.groups, conv1d_tile) * ceil_div(g.n * g.lout, conv1d_tile);
  return {.grid_x = static_cast<unsigned>(blocks), .block_x = conv1d_threads};
}

}  // namespace assay::kernels
