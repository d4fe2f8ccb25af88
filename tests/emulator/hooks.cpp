// SPDX-License-Identifier: Apache-2.0
// What g++ -fsanitize=thread makes a kernel call at each access, in place of ThreadSanitizer's own library.
#include <cstddef>

#include "tests/emulator/checker.hpp"

using assay::emulator::Access;
using assay::emulator::checker_access;

#define ASSAY_HOOKS(bytes, alignment)                                                 \
  void __tsan_read##bytes(void* at) {                                                 \
    checker_access(at, bytes, alignment, Access::read, __builtin_return_address(0));  \
  }                                                                                   \
  void __tsan_write##bytes(void* at) {                                                \
    checker_access(at, bytes, alignment, Access::write, __builtin_return_address(0)); \
  }                                                                                   \
  void __tsan_unaligned_read##bytes(void* at) {                                       \
    checker_access(at, bytes, 1, Access::read, __builtin_return_address(0));          \
  }                                                                                   \
  void __tsan_unaligned_write##bytes(void* at) {                                      \
    checker_access(at, bytes, 1, Access::write, __builtin_return_address(0));         \
  }

extern "C" {
void __tsan_init() {
  assay::emulator::has_checked_kernels = true;
}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
ASSAY_HOOKS(1, 1)
ASSAY_HOOKS(2, 2)
ASSAY_HOOKS(4, 4)
ASSAY_HOOKS(8, 8)
ASSAY_HOOKS(16, 8)  // also a structure of two 8-byte members
void __tsan_read_range(void* at, std::size_t bytes) {
  checker_access(at, bytes, 1, Access::read, __builtin_return_address(0));
}
void __tsan_write_range(void* at, std::size_t bytes) {
  checker_access(at, bytes, 1, Access::write, __builtin_return_address(0));
}
}
