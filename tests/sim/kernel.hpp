// SPDX-License-Identifier: Apache-2.0
// One launch on the simulated device: the emulator's function, and the faults that were planted for it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kernels/launch.hpp"
#include "tests/emulator/emulator.hpp"
#include "tests/sim/memory.hpp"

namespace assay::sim {

struct KernelRun {
  const emulator::Kernel* kernel;
  std::string build;  // of the module
  kernels::Launch shape;
  std::size_t shared_limit_bytes;
  std::vector<std::byte> arguments;  // as the caller gave them, device addresses and all
};

/// Shortens the sums of a kernel that has such by one, in its arguments.
void lose_k_tail(std::string_view kernel, std::span<std::byte> arguments);

/// Runs to the end. Throws Refusal with what a real device would report at the next synchronise.
void run_kernel(const Memory&, const KernelRun&);

}  // namespace assay::sim
