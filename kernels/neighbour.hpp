// SPDX-License-Identifier: Apache-2.0
// A busy neighbour: work on another stream while the operation under test runs, on memory of its own.
#pragma once

#include "kernels/launch.hpp"

namespace assay::kernels {

struct NeighbourArgs {
  float* scratch;  // one number per thread
  int rounds;
};

inline constexpr unsigned neighbour_blocks = 16, neighbour_threads = 128;
inline constexpr unsigned neighbour_bytes = neighbour_blocks * neighbour_threads * 4;

constexpr Launch neighbour_launch() {
  return {.grid_x = neighbour_blocks, .block_x = neighbour_threads};
}

}  // namespace assay::kernels
