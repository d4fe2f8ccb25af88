// SPDX-License-Identifier: Apache-2.0
// Runs kernels/*.cu as plain C++, one fiber per CUDA thread. What a host sees of it; kernel sources see
// tests/emulator/cuda.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/launch.hpp"
#include "tests/emulator/runtime.hpp"

namespace assay::emulator {

/// Every entry of kernels/*.cu, file by file in alphabetical order.
std::span<const Kernel> kernels();
/// nullptr when there is none.
inline const Kernel* find_kernel(std::string_view name) {
  for (const Kernel& k : kernels())
    if (k.name == name) return &k;
  return nullptr;
}

/// In which order fibers of a block (and blocks of a grid) are taken at each scheduling point.
enum class Schedule : std::uint8_t { in_order, reverse, random };

struct Options {
  Schedule schedule = Schedule::in_order;
  std::uint64_t seed = 1;
  int sm = 90;                          // whose tensor-core model mma instructions follow
  bool flush_subnormals = false;        // a device that flushes subnormal operands and results to zero (a fault for tests)
  unsigned shared_limit_bytes = 49152;  // of static and dynamic shared memory together
};

/// What the access checker or the scheduler saw. Races do not depend on the schedule; "uninitialised" does where it follows
/// from one: the read came before the write this time.
struct Finding {
  std::string
      kind;  // "race", "out of bounds", "uninitialised", "misaligned", "bad mask", "deadlock", "divergent barrier", "trap"
  std::string what;    // one sentence: kernel, block, thread, array and offset, the other party, both code places
  std::string places;  // the code places alone
};

struct Report {
  std::vector<Finding> findings;  // at most one per kind and pair of code places
  std::uint64_t switches = 0;     // how often a fiber was resumed
  bool clean() const { return findings.empty(); }
};

/// Whether this program holds the kernels with the access checker's hooks. Without them only collectives, barriers and traps
/// are checked.
bool checked();

/// Device memory that kernels may touch; everything else is out of bounds. `initialised` false: reading before a kernel or the
/// host (mark_initialised) has written is reported. Only the checked build looks at single reads and writes.
void register_memory(const void* base, std::size_t bytes, bool initialised);
void mark_initialised(const void* base, std::size_t bytes);
void forget_memory(const void* base);

/// Runs a whole grid and returns. Shared memory is NaN bytes at the start of each block. A finding does not end the launch,
/// except where hardware would: an access out of bounds or misaligned, and a trap. What would hang is reported and then forced
/// to go on. Launches from several host threads take turns.
/// Throws std::invalid_argument when the launch exceeds a limit of CUDA (1024 threads a block, block 1024 x 1024 x 64, grid
/// 2^31-1 x 65535 x 65535, the limit of shared memory), when args differs in size, or when mma needs another sm.
Report launch(const Kernel&, const kernels::Launch&, std::span<const std::byte> args, const Options& = {});

}  // namespace assay::emulator
