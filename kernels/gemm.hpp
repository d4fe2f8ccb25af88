// SPDX-License-Identifier: Apache-2.0
// gemm on the device: C = alpha A B + beta C, batched. Strides are free, so that any order, transpose and padding is the same
// kernel.
#pragma once

#include "kernels/launch.hpp"

namespace assay::kernels {

/// c(i,j) = alpha * (sum over l of a(i,l) b(l,j)) + beta c(i,j) for every batch entry. Strides in elements; 0 allowed on A and
/// B. beta = 0: C is not read; alpha = 0: A and B are not. Both scalars are rounded to the format of the sum: fp32, or fp64 for
/// fp64 data. The sum is multiplied by alpha, then beta c is fused into it; with alpha = 0 the result is beta c.
struct GemmArgs {
  const void* a;    // (batch, m, k): a_batch, a_row, a_column
  const void* b;    // (batch, k, n): b_batch, b_row, b_column
  void* c;          // (batch, m, n): c_batch, c_row, c_column
  void* workspace;  // gemm_workspace_bytes
  long long batch, m, n, k;
  long long a_batch, a_row, a_column;
  long long b_batch, b_row, b_column;
  long long c_batch, c_row, c_column;
  double alpha, beta;
  int c_is_f32;  // 1: C is fp32 whatever A and B are; not for fp64
  int step;      // which of the version's launches this is, from 0
};

/// naive and tiled give the same bits.
inline constexpr Version gemm_versions[] = {
    {"naive", "from 0, l in order, each product fused into the sum", "f32 f64 bf16 f16"},
    {"tiled", "as naive, by tiles of 64 x 64 outputs and 16 products", "f32 f64 bf16 f16"},
    {"split_k", "8 slices of ceil(k/8), each as naive, stored; then added from 0 in order", "f32 f64 bf16 f16"},
    {"mma", "from 0, l in steps of 16: mma.sync.m16n8k16 with an fp32 sum, in the order of the hardware", "bf16 f16", 80},
    {"mma_tf32", "operands rounded to tf32, ties away from zero; from 0, l in steps of 8: mma.sync.m16n8k8", "f32", 80},
};
/// Places in gemm_versions.
enum class GemmVersion { naive, tiled, split_k, mma, mma_tf32 };

inline constexpr unsigned gemm_threads = 256;
inline constexpr unsigned gemm_tile = 64;          // tiled: outputs of a block, rows and columns
inline constexpr unsigned gemm_tile_terms = 16;    // and products of a step
inline constexpr unsigned gemm_slices = 8;         // split_k
inline constexpr unsigned gemm_mma_threads = 128;  // mma: 4 warps, 16 x 8 outputs each

/// Launches of one call, in order, the same entry with step = 0, 1: slices, then their sum.
constexpr int gemm_steps(GemmVersion v) {
  return v == GemmVersion::split_k ? 2 : 1;
}

/// The slices' sums; `compute_bytes`: 4, or 8 for fp64 data.
constexpr long long gemm_workspace_bytes(const GemmArgs& g, GemmVersion v, int compute_bytes) {
  return v == GemmVersion::split_k ? gemm_slices * g.batch * g.m * g.n * compute_bytes : 0;
}

/// For g.step. Blocks take what is left in turns, so that any size fits; no block when C is empty.
constexpr Launch gemm_launch(const GemmArgs& g, GemmVersion v) {
  const auto up = [](long long a, long long b) { return (a + b - 1) / b; };
  const bool mma = v == GemmVersion::mma || v == GemmVersion::mma_tf32;
  const long long outputs = g.batch * g.m * g.n;
  const long long blocks = mma                       ? up(g.batch * up(g.m, 16) * up(g.n, 8), gemm_mma_threads / 32)
                           : v == GemmVersion::tiled ? g.batch * up(g.m, gemm_tile) * up(g.n, gemm_tile)
                           : v == GemmVersion::split_k && g.step == 0 ? up(outputs * gemm_slices, gemm_threads)
                                                                      : up(outputs, gemm_threads);
  return {.grid_x = static_cast<unsigned>(blocks < 2147483647 ? blocks : 2147483647),
          .block_x = mma ? gemm_mma_threads : gemm_threads};
}

}  // namespace assay::kernels
