// SPDX-License-Identifier: Apache-2.0
// Allocations, copies, fills. Copies read and write host memory when their turn comes, as from pinned memory.
#include <cstring>

#include "tests/sim/driver.hpp"

using namespace assay::sim;

namespace {

/// Another bit each time, so that two downloads of the same bytes differ.
void flip_a_bit(std::byte* bytes, std::size_t count, std::size_t time) {
  const std::size_t bit = (time * 2654435761u + 12345) % (count * 8);
  bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
}

}  // namespace

ASSAY_SIM_ENTRY cuMemGetInfo_v2(std::size_t* free_bytes, std::size_t* total_bytes) {
  return call("cuMemGetInfo_v2", Needs::context, [&](Driver& d, Lock&) {
    checked(free_bytes) = d.memory.free_bytes();
    checked(total_bytes) = d.memory.limit_bytes();
    return std::string();
  });
}

ASSAY_SIM_ENTRY cuMemAlloc_v2(CUdeviceptr* at, std::size_t bytes) {
  return call("cuMemAlloc_v2", Needs::context, [&](Driver& d, Lock&) {
    d.require_no_capture("cuMemAlloc_v2");
    if (fault("alloc_fail", {.before = d.allocations})) throw Refusal(ERROR_OUT_OF_MEMORY, "planted fault alloc_fail");
    checked(at) = d.memory.allocate(bytes);
    ++d.allocations;
    return fmt::format("{} bytes at {:#x}", bytes, *at);
  });
}

ASSAY_SIM_ENTRY cuMemFree_v2(CUdeviceptr at) {
  return call("cuMemFree_v2", Needs::context, [&](Driver& d, Lock& lock) {
    if (at == 0) return std::string("nothing");
    d.require_no_capture("cuMemFree_v2");
    d.wait_for_all(lock);
    d.memory.free(at);
    return fmt::format("{:#x}", at);
  });
}

ASSAY_SIM_ENTRY cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return call("cuMemcpyHtoDAsync_v2", Needs::context, [&](Driver& d, Lock&) {
    Stream& s = d.stream(stream);
    if (bytes == 0) return std::string("0 bytes");
    if (!from) throw Refusal(ERROR_INVALID_VALUE, "copy from a null pointer");
    d.memory.at(to, bytes);
    d.enqueue(s, [&d, to, from, bytes] {
      std::byte* const host = d.memory.at_run(to, bytes);
      std::memcpy(host, from, bytes);
      assay::emulator::mark_initialised(host, bytes);
    });
    return fmt::format("{} bytes to {:#x}", bytes, to);
  });
}

ASSAY_SIM_ENTRY cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return call("cuMemcpyDtoHAsync_v2", Needs::context, [&](Driver& d, Lock&) {
    Stream& s = d.stream(stream);
    if (bytes == 0) return std::string("0 bytes");
    if (!to) throw Refusal(ERROR_INVALID_VALUE, "copy to a null pointer");
    d.memory.at(from, bytes);
    d.enqueue(s, [&d, to, from, bytes] {
      std::memcpy(to, d.memory.at_run(from, bytes), bytes);
      const std::size_t time = d.copies_to_host++;
      if (fault("copy_flip", {.kernel = d.latest_kernel, .build = d.latest_build, .before = time}))
        flip_a_bit(static_cast<std::byte*>(to), bytes, time);
    });
    return fmt::format("{} bytes from {:#x}", bytes, from);
  });
}

ASSAY_SIM_ENTRY cuMemsetD8Async(CUdeviceptr to, unsigned char byte, std::size_t bytes, CUstream stream) {
  return call("cuMemsetD8Async", Needs::context, [&](Driver& d, Lock&) {
    Stream& s = d.stream(stream);
    if (bytes == 0) return std::string("0 bytes");
    d.memory.at(to, bytes);
    d.enqueue(s, [&d, to, byte, bytes] {
      std::byte* const host = d.memory.at_run(to, bytes);
      std::memset(host, byte, bytes);
      assay::emulator::mark_initialised(host, bytes);
    });
    return fmt::format("{} bytes of {:#04x} to {:#x}", bytes, byte, to);
  });
}
