// SPDX-License-Identifier: Apache-2.0
// layernorm on the device: rows of X normalised to mean 0 and variance 1, or to mean square 1 (RMSNorm). One block per row.
#pragma once

#include "kernels/launch.hpp"

namespace assay::kernels {

/// Statistics and parameters are fp32, or fp64 for fp64 data.
struct LayernormArgs {
  const void* x;      // (rows, n), ldx elements from row to row
  const void* gamma;  // (n); nullptr: 1
  const void* beta;   // (n); nullptr: 0
  void* y;            // (rows, n), ldy
  void* mean;         // (rows); nullptr: not wanted; not with rms
  void* rstd;         // (rows), 1 / sqrt(variance + eps); nullptr: not wanted
  long long rows, n, ldx, ldy;
  float eps;
  int rms;       // 1: mean square instead of mean and variance
  int y_is_f32;  // 1: Y is fp32 whatever X is; not for fp64
};

inline constexpr unsigned layernorm_threads = 256;

/// y = (x - mean) rstd gamma + beta, rounded after each operation; rstd by IEEE square root and division.
inline constexpr Version layernorm_versions[] = {
    {"two_pass",
     "sum, then squares of deviations, rounded before they are added: each thread strides by 256, then a tree in shared memory",
     "f32 f64 bf16 f16"},
    {"welford",
     "running mean and sum of squares (rms: fused sum of squares): each thread strides by 256, merged by shuffles, then across "
     "8 "
     "warps in order",
     "f32 f64 bf16 f16"},
};

constexpr Launch layernorm_launch(const LayernormArgs& g) {
  return {.grid_x = static_cast<unsigned>(g.rows), .block_x = layernorm_threads};
}

}  // namespace assay::kernels
