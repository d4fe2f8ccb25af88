// SPDX-License-Identifier: Apache-2.0
// Correct ways to add k products, as real hardware and libraries do it: what must never raise an alarm.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "reference/arithmetic.hpp"

namespace assay::models {

/// A model is a name, the arithmetic it must be judged by, and a function.
/// a, b: k operand values (already in the operand format: `operand_value`) with element strides; returns the sum in the
/// accumulator format.
struct Model {
  std::string_view name;
  Arithmetic arithmetic;  // output left at the accumulator format
  double (*dot)(const double* a, std::int64_t stride_a, const double* b, std::int64_t stride_b, std::int64_t k);
  std::string_view source;
};

/// x as the model's unit takes it: fp32 operands of a tf32 model are reduced as the arithmetic says.
double operand_value(const Model&, double x);

/// f32 (and f64 twins): sequential, sequential_fma, pairwise, lanes32, split_k4; 16-bit operands: v100, a100, h100 tensor
/// cores; fp32 operands reduced to tf32: a100_tf32_rz, a100_tf32_rna, h100_tf32_rne; 8-bit floats: h100_fp8.
std::span<const Model> all_models();
const Model* find_model(std::string_view name);

}  // namespace assay::models
