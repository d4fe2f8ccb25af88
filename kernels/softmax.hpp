// SPDX-License-Identifier: Apache-2.0
// softmax on the device: Y = softmax(X) or log-softmax(X) along rows. One block per row.
#pragma once

#include "kernels/launch.hpp"

namespace assay::kernels {

struct SoftmaxArgs {
  const void* x;  // (rows, n), ldx elements from row to row
  void* y;        // (rows, n), ldy
  long long rows, n, ldx, ldy;
  int log;       // 1: log-softmax
  int y_is_f32;  // 1: Y is fp32 whatever X is; not for fp64
};

inline constexpr unsigned softmax_threads = 256;

inline constexpr Version softmax_versions[] = {
    {"two_pass", "largest, then sum: each thread strides by 256, then a tree in shared memory", "f32 f64 bf16 f16"},
    {"online", "largest and rescaled sum in one pass, merged by shuffles, then across 8 warps in order", "f32 f64 bf16 f16"},
};

constexpr Launch softmax_launch(const SoftmaxArgs& g) {
  return {.grid_x = static_cast<unsigned>(g.rows), .block_x = softmax_threads};
}

}  // namespace assay::kernels
