// SPDX-License-Identifier: Apache-2.0
// Code places of the program (or shared library) that holds the emulator.
#pragma once

#include <cstdint>
#include <string>

namespace assay::emulator {

/// Short form of an address in the program's code.
std::int32_t relative(const void* code);
/// "softmax_two_pass<float>+0x1a4 (emulator_checked_tests+0x5f2a)": the second is for addr2line.
std::string describe(std::int32_t code);
/// Whether the program's own image holds this address: constants lie there.
bool in_program(std::uintptr_t at);

}  // namespace assay::emulator
