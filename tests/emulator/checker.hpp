// SPDX-License-Identifier: Apache-2.0
// The access checker: every read and write of a checked kernel against what other threads did to the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/emulator/machine.hpp"

namespace assay::emulator {

enum class Access : std::uint8_t { read, write, atomic };

/// An access of the running fiber from the code place `code`. Does nothing in a program without checked kernels.
void checker_access(const void* at, std::size_t bytes, Access, const void* code);

void checker_launch();   // at the start of a launch
void checker_block();    // at the start of a block: nothing in shared memory is initialised
void checker_barrier();  // all threads of the block have met
void checker_order_lanes(unsigned warp, unsigned lanes);
void checker_add_shared(const SharedArray&);
void checker_end_launch();

/// A new array of the block, poisoned. Throws when the limit of shared memory is passed.
void* add_shared(Machine&, const void* key, std::size_t bytes, std::size_t alignment, const char* name);

}  // namespace assay::emulator
