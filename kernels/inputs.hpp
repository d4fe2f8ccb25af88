// SPDX-License-Identifier: Apache-2.0
// Inputs made on the device: the very bits that reference/inputs.cpp makes on the host, for contiguous operands.
#pragma once

#include "kernels/launch.hpp"

namespace assay::kernels {

struct InputsArgs {
  void* out;  // count elements in logical order
  long long count;
  unsigned long long seed;
  unsigned stream;
  long long limit;  // integer family: largest |v|
};

inline constexpr Version inputs_versions[] = {
    {"normal", "one element per thread", "f32 f64 bf16 f16"},
    {"uniform", "one element per thread", "f32 f64 bf16 f16"},
    {"integer", "one element per thread", "f32 f64 bf16 f16"},
};

constexpr Launch inputs_launch(const InputsArgs& g) {
  return {.grid_x = ceil_div(g.count, 256), .block_x = 256};
}

}  // namespace assay::kernels
