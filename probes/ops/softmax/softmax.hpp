// SPDX-License-Identifier: Apache-2.0
// softmax: Y = softmax(X) or log-softmax(X) along rows. What every softmax target reads instead of parsing the case again.
#pragma once

#include <cstdint>
#include <vector>

#include "probes/ops/op.hpp"

namespace assay::softmax {

/// Operands of the Problem, in this order: "X" (rows, n), "Y" (rows, n). Leading dimensions in elements.
struct Call {
  std::int64_t rows = 0, n = 0;
  DType in = DType::f32, out = DType::f32;
  bool log = false;
  std::int64_t ldx = 0, ldy = 0;
};

Call call_of(const Problem&);
/// Exponentials and sums: fp64 for fp64 data, else fp32.
inline DType compute_format(const Call& c) {
  return c.in == DType::f64 ? DType::f64 : DType::f32;
}

Op make();

/// Targets, one file each; a library's file adds its target to make().
Target eigen_target();    // "eigen": the control
Target model_target();    // "model": correct variants, variant = name
Target planted_target();  // "planted": one fault per variant
Target onednn_target();   // "onednn": its softmax, by path
Target kernel_target();   // "kernel": kernels/softmax.cu
Target cudnn_target();    // "cudnn": its graph API
cudnn::Description cudnn_graph(const Problem&);
std::vector<PlantedFault> planted_faults();
std::vector<std::string> clean_cases();

}  // namespace assay::softmax
