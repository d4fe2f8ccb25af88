// SPDX-License-Identifier: Apache-2.0
// layernorm: rows of X normalised to mean 0 and variance 1, or (kind=rms) to mean square 1. What every layernorm target reads
// instead of parsing the case again.
#pragma once

#include <cstdint>
#include <vector>

#include "probes/ops/op.hpp"

namespace assay::layernorm {

/// Operands of the Problem, in this order: "X" (rows, n), "G" (n) if gamma, "B" (n) if beta, "Y" (rows, n), and if stats
/// "M" (rows, 1) unless rms and "R" (rows, 1). G, B, M and R are in `parameters`. Leading dimensions in elements.
struct Call {
  std::int64_t rows = 0, n = 0;
  bool rms = false;
  float eps = 0;  // the fp32 number nearest to the case's decimal, also for fp64 data: what every target receives
  bool gamma = false, beta = false, stats = false;
  DType in = DType::f32, out = DType::f32, parameters = DType::f32;
  std::int64_t ldx = 0, ldy = 0;
  // Where the operands are; meaningless where there is none.
  std::size_t x = 0, g = 0, b = 0, y = 0, m = 0, r = 0;
};

Call call_of(const Problem&);
/// Sums, statistics and products: fp64 for fp64 data, else fp32.
inline DType compute_format(const Call& c) {
  return c.parameters;
}

Op make();

/// Targets, one file each; a library's file adds its target to make().
Target eigen_target();    // "eigen": the control
Target model_target();    // "model": correct variants, variant = name
Target planted_target();  // "planted": one fault per variant
Target onednn_target();   // "onednn": its layer normalization, by path
Target kernel_target();   // "kernel": kernels/layernorm.cu
Target cudnn_target();    // "cudnn": its graph API
cudnn::Description cudnn_graph(const Problem&);
std::vector<PlantedFault> planted_faults();
std::vector<std::string> clean_cases();

}  // namespace assay::layernorm
