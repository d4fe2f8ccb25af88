// SPDX-License-Identifier: Apache-2.0
// Correct ways to add k products, as real hardware and libraries do it: what must never raise an alarm.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "reference/arithmetic.hpp"

namespace assay::models {

/// A model is a name, the arithmetic it must be judged by, and a function.
/// a, b: k operand values (already in the operand format) with element strides; returns the sum in the accumulator format.
struct Model {
  std::string_view name;
  Arithmetic arithmetic;  // output left at the accumulator format
  double (*dot)(const double* a, std::int64_t stride_a, const double* b, std::int64_t stride_b, std::int64_t k);
  std::string_view source;
};

/// f32 (and f64 twins): sequential, sequential_fma, pairwise, lanes32, split_k4; 16-bit operands: v100, a100, h100 tensor
/// cores.
std::span<const Model> all_models();
const Model* find_model(std::string_view name);

}  // namespace assay::models
