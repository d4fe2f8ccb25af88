// SPDX-License-Identifier: Apache-2.0
// conv_transpose1d on the device: each output gathers the products that fall on it, so nothing is added atomically.
#pragma once

#include "kernels/launch.hpp"

namespace assay::kernels {

/// y[b,o,t] = bias[o] + sum of x[b,i,f] w[i, o within its group, r] over input channels i of o's group and all (f, r) with
/// f stride + r dilation = t + padl. Cropping on the right and padding of the output are a matter of lout alone. Strides in
/// elements.
struct ConvTranspose1dArgs {
  const void* x;     // (n, cin, l): x_n, x_channel, x_position
  const void* w;     // (cin, cout/groups, k): w_input, w_output, w_tap
  const void* bias;  // (cout), packed; nullptr: none
  void* y;           // (n, cout, lout): y_n, y_channel, y_position
  long long n, cin, cout, l, k, lout;
  long long stride, dilation, padl, groups;
  long long x_n, x_channel, x_position;
  long long w_input, w_output, w_tap;
  long long y_n, y_channel, y_position;
  int y_is_f32;  // 1: Y is fp32 whatever X is; not for fp64
};

/// One sum per output, from 0, each product fused into it; then the bias is added. Both versions give the same bits.
inline constexpr Version conv_transpose1d_versions[] = {
    {"gather", "taps in order, for each that meets a frame the input channels in order", "f32 f64 bf16 f16"},
    {"phases", "as gather, but only taps that meet frames are tried", "f32 f64 bf16 f16"},
};

inline constexpr unsigned conv_transpose1d_threads = 256;

constexpr Launch conv_transpose1d_launch(const ConvTranspose1dArgs& g) {
  return {.grid_x = ceil_div(g.n * g.cout * g.lout, conv_transpose1d_threads), .block_x = conv_transpose1d_threads};
}

}  // namespace assay::kernels
