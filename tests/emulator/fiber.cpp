// SPDX-License-Identifier: Apache-2.0
// The context switch of x86-64: callee-saved registers and the stack pointer. Rounding mode and flush-to-zero belong to a
// launch, not to a fiber, so the control registers stay.
#include "tests/emulator/fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

extern "C" void assay_switch(void** save, void* load);
asm(R"(
.pushsection .text
.hidden assay_switch
.globl assay_switch
.type assay_switch, @function
assay_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size assay_switch, .-assay_switch
.popsection
)");

namespace assay::emulator {
namespace {

constexpr unsigned most_stacks = 1024;
constexpr std::size_t guard_bytes = 4096, spacing = guard_bytes + stack_bytes;

}  // namespace

std::byte* stack(unsigned number) {
  static std::byte* const all = [] {
    void* const got =
        mmap(nullptr, most_stacks * spacing, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (got == MAP_FAILED) throw std::bad_alloc();
    madvise(got, most_stacks * spacing, MADV_NOHUGEPAGE);
    return static_cast<std::byte*>(got);
  }();
  static unsigned usable = 0;
  for (; usable <= number; ++usable)
    if (mprotect(all + usable * spacing + guard_bytes, stack_bytes, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  return all + number * spacing + guard_bytes;
}

Context make_context(unsigned stack_number, void (*entry)()) {
  std::byte* const bottom = stack(stack_number);
#ifdef __SANITIZE_ADDRESS__
  __asan_unpoison_memory_region(bottom, stack_bytes);  // what was abandoned there left its marks
#endif
  // Tops at different offsets in a page: else every stack would compete for the same sets of the cache.
  void** top = reinterpret_cast<void**>(bottom + stack_bytes - 64 - stack_number % 16 * 256);
  *--top = nullptr;                         // where entry would return to; entry sees a stack aligned as after a call
  *--top = reinterpret_cast<void*>(entry);  // what the switch returns to
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  return {.stack_pointer = top, .bottom = bottom, .bytes = stack_bytes};
}

void switch_context(Context& from, [[maybe_unused]] Context& to) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(&from.fake_stack, to.bottom, to.bytes);
#endif
  assay_switch(&from.stack_pointer, to.stack_pointer);
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

void enter_context([[maybe_unused]] Context& came_from) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(nullptr, &came_from.bottom, &came_from.bytes);
#endif
}

void leave_context(Context& to) {
  void* nowhere = nullptr;
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(nullptr, to.bottom, to.bytes);
#endif
  assay_switch(&nowhere, to.stack_pointer);
  std::abort();
}

}  // namespace assay::emulator
