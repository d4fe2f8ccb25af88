// SPDX-License-Identifier: Apache-2.0
// The approximate units of a GPU, one instruction per entry, over ranges of bit patterns: what fast maths is made of.
#pragma once

#include "kernels/launch.hpp"

namespace assay::kernels {

struct ApproximateArgs {
  float* out;  // out[i] is the function of the float whose bits are first + i * step
  unsigned first, step;
  long long count;
};

inline constexpr Version approximate_versions[] = {
    {"ex2", "2^x", "f32", 75},     {"lg2", "log2 x", "f32", 75}, {"rcp", "1/x", "f32", 75},   {"rsqrt", "1/sqrt x", "f32", 75},
    {"sqrt", "sqrt x", "f32", 75}, {"sin", "sin x", "f32", 75},  {"cos", "cos x", "f32", 75}, {"tanh", "tanh x", "f32", 75},
};

constexpr Launch approximate_launch(const ApproximateArgs& g) {
  return {.grid_x = ceil_div(g.count, 256), .block_x = 256};
}

}  // namespace assay::kernels
