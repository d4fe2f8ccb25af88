// SPDX-License-Identifier: Apache-2.0
// Which memory kernels may touch.
#include "tests/emulator/checker.hpp"

namespace assay::emulator {

bool checked() {
  return false;
}
void checker_access(const void*, std::size_t, Access, const void*) {}
void checker_launch() {}
void checker_block() {}
void checker_barrier() {}
void checker_order_lanes(unsigned, unsigned) {}
void checker_add_shared(const SharedArray&) {}
void checker_end_launch() {}
void register_memory(const void*, std::size_t, bool) {}
void mark_initialised(const void*, std::size_t) {}
void forget_memory(const void*) {}

}  // namespace assay::emulator
