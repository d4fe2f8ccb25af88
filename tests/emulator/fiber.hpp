// SPDX-License-Identifier: Apache-2.0
// Stacks and the switch between them. System calls are made only when a stack is first needed (ucontext makes two a switch and
// is ten times slower).
#pragma once

#include <cstddef>

namespace assay::emulator {

inline constexpr std::size_t stack_bytes = 128 * 1024;  // what one CUDA thread may use; an inaccessible page lies below

/// Stack `number` of at most 1024, mapped on first use and kept.
std::byte* stack(unsigned number);

/// One suspended flow of control.
struct Context {
  void* stack_pointer = nullptr;
  void* fake_stack = nullptr;    // AddressSanitizer's
  const void* bottom = nullptr;  // lowest address of the stack and its size, where AddressSanitizer needs to know them
  std::size_t bytes = 0;
};

/// `entry` runs on the stack at the first switch to the result. It must not return.
Context make_context(unsigned stack_number, void (*entry)());

/// Leaves `from` suspended and goes on in `to`; returns when someone switches back.
void switch_context(Context& from, Context& to);
/// To be called first in `entry`: where it came from.
void enter_context(Context& came_from);
/// Never comes back.
[[noreturn]] void leave_context(Context& to);

}  // namespace assay::emulator
