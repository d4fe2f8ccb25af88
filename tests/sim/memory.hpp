// SPDX-License-Identifier: Apache-2.0
// Device memory: pages of this process at addresses that only the device can follow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "tests/sim/status.hpp"

namespace assay::sim {

/// An address on the device. Bits 63 and 47 differ, so no CPU can follow it by mistake.
using Address = unsigned long long;
inline constexpr Address address_tag = 0xDE71'0000'0000'0000;

/// Allocations lie 256 bytes aligned at the end of their pages, with inaccessible pages between them; the address of one that
/// was freed is not given out again. Filled with 0xFF bytes, which are NaN in every format. Every allocation is registered with
/// the emulator.
class Memory {
 public:
  explicit Memory(std::size_t limit_bytes) : limit_(limit_bytes) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Refuses with OUT_OF_MEMORY beyond the limit.
  Address allocate(std::size_t bytes);
  /// Refuses with INVALID_VALUE what is not the start of an allocation.
  void free(Address);
  void free_all();

  std::size_t limit_bytes() const { return limit_; }
  std::size_t free_bytes() const;

  /// Host's view of a range. What does not lie inside one allocation is refused: by a call as INVALID_VALUE, by the device,
  /// when the work's turn comes, as ILLEGAL_ADDRESS.
  std::byte* at(Address, std::size_t bytes, Status refused = ERROR_INVALID_VALUE) const;
  std::byte* at_run(Address a, std::size_t bytes) const { return at(a, bytes, ERROR_ILLEGAL_ADDRESS); }
  /// The allocation that an address lies in, or an empty span.
  std::span<std::byte> allocation(Address) const;

  /// Every aligned word of a parameter block that holds a device address becomes the host's, and where such words are.
  std::vector<std::size_t> translate(std::span<std::byte> arguments) const;
  /// The device address of a host address, for messages; 0 when it is none of the device's.
  Address device_address(const void*) const;

 private:
  struct Piece {
    std::size_t bytes, first_page, pages_bytes;  // offsets into the reserved range
  };
  mutable std::mutex mutex_;  // work runs while other threads allocate
  std::size_t limit_, used_ = 0, next_ = 0;
  std::byte* base_ = nullptr;
  std::map<std::size_t, Piece> pieces_;  // by offset of their first byte
};

}  // namespace assay::sim
