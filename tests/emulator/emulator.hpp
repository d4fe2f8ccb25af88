// SPDX-License-Identifier: Apache-2.0
// Runs kernels/*.cu as plain C++, one fiber per CUDA thread. What a host sees of it; kernel sources see
// tests/emulator/cuda.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/launch.hpp"

namespace assay::emulator {

/// An entry of a kernel file. `run` is the body for one thread; it reads the thread's position from the running fiber.
struct Kernel {
  const char* name;  // "softmax_online_bf16"
  void (*run)(const void* args);
  std::size_t args_bytes;
};
std::span<const Kernel> kernels();
/// nullptr when there is none.
const Kernel* find_kernel(std::string_view name);

/// In which order fibers of a block (and blocks of a grid) are taken at each scheduling point.
enum class Schedule : std::uint8_t { in_order, reverse, random };

struct Options {
  Schedule schedule = Schedule::in_order;
  std::uint64_t seed = 1;
  int sm = 90;                    // whose tensor-core model mma instructions follow
  bool flush_subnormals = false;  // a device that flushes: fp32 results below the normal range become zero (fault for tests)
};

/// What the access checker, the bounds check or the scheduler saw. Empty: a clean launch.
struct Finding {
  std::string kind;  // "race", "out of bounds", "uninitialised", "bad mask", "deadlock", "divergent barrier", "misaligned"
  std::string what;  // one sentence: which kernel, block, thread, address or array, the other party, both code places
};

struct Report {
  std::vector<Finding> findings;  // at most one per (kind, code place)
  std::uint64_t switches = 0;     // fiber switches
  bool clean() const { return findings.empty(); }
};

/// Device memory that kernels may touch; everything else is out of bounds. `initialised` false: reading before a kernel or the
/// host (mark_initialised) has written is reported. Only the checked build reports reads and writes one by one.
void register_memory(const void* base, std::size_t bytes, bool initialised);
void mark_initialised(const void* base, std::size_t bytes);
void forget_memory(const void* base);

/// Runs a whole grid and returns. Shared memory is NaN bytes at the start of each block. A finding does not end the launch
/// where going on is possible. Throws std::invalid_argument when the launch exceeds a limit of CUDA (1024 threads, 48 KiB of
/// static and dynamic shared memory unless `shared_limit_bytes` says more, grid 2^31-1 x 65535 x 65535), or args_bytes differs.
Report launch(const Kernel&, const kernels::Launch&, std::span<const std::byte> args, const Options& = {});

}  // namespace assay::emulator
