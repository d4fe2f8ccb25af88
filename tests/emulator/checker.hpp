// SPDX-License-Identifier: Apache-2.0
// The access checker: every read and write of a checked kernel against what other threads did to the same bytes. It does not
// depend on the schedule: two accesses are a race when one of them writes, not both are atomic, and nothing orders them.
// What orders: __syncthreads all threads of a block; __syncwarp the lanes in its mask; the end of a launch everything. Shuffles
// and votes do not (CUDA C++ Programming Guide, "Warp Shuffle Functions"), and different blocks are never ordered in a launch.
// Limits: order through atomics and fences (grid barriers, "the last block finishes") is not modelled and reported as a race.
// Of each cell two groups of lanes that read it since its last write are known, which is enough unless __syncwarp with
// several masks is used on one array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

#include "tests/emulator/machine.hpp"

namespace assay::emulator {

enum class Access : std::uint8_t { read, write, atomic };

/// An access of the running fiber from the code place `code`; `alignment` is what hardware demands. Does nothing in a program
/// without checked kernels.
void checker_access(const void* at, std::size_t bytes, std::size_t alignment, Access, const void* code);

void checker_launch();
void checker_block();    // nothing in shared memory is initialised
void checker_barrier();  // all threads of the block have met
void checker_order_lanes(unsigned warp, unsigned lanes);
void checker_add_shared(const SharedArray&);
void checker_end_launch();

/// Set before main by the hooks in checked kernels.
extern bool has_checked_kernels;
/// Held by a launch and by changes of what memory there is.
std::mutex& launch_mutex();

}  // namespace assay::emulator
