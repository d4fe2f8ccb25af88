// SPDX-License-Identifier: Apache-2.0
// activation: Y = f(X) or f(X + b). What every activation target reads instead of parsing the case again.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "probes/ops/op.hpp"
#include "reference/ops/activation.hpp"

namespace assay::activation {

using Kind = reference::ActivationKind;

/// Operands of the Problem, in this order: "X" (rows, n), then "B" (n) if bias, then "Y" (rows, n). Leading dimensions in
/// elements. B has the format of X. The sum x + b is rounded to the compute format, not to a 16-bit one.
struct Call {
  std::int64_t rows = 0, n = 0;
  DType in = DType::f32, out = DType::f32;
  Kind kind = Kind::relu;
  bool bias = false;
  std::int64_t ldx = 0, ldy = 0;

  std::size_t y_index() const { return bias ? 2 : 1; }
};

Call call_of(const Problem&);
/// Arguments, functions and products: fp64 for fp64 data, else fp32.
inline DType compute_format(const Call& c) {
  return c.in == DType::f64 ? DType::f64 : DType::f32;
}

Op make();

/// Targets, one file each; a library's file adds its target to make().
Target eigen_target();    // "eigen": the control
Target model_target();    // "model": correct variants, variant = name
Target planted_target();  // "planted": one fault per variant
Target onednn_target();   // "onednn": its elementwise functions, by path
std::vector<PlantedFault> planted_faults();
std::vector<std::string> clean_cases();
std::span<const Family> families();

}  // namespace assay::activation
