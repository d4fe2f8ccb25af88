// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/memory.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstring>
#include <iterator>

#include "tests/emulator/emulator.hpp"

namespace assay::sim {
namespace {

constexpr std::size_t page = 4096, alignment = 256;
/// Addresses only: enough for every allocation of a process without using one twice.
constexpr std::size_t reserved_bytes = std::size_t{1} << 42;

constexpr std::size_t round_up(std::size_t bytes, std::size_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

/// The emulator may be gone already, so nothing is taken back from it.
Memory::~Memory() {
  if (base_) munmap(base_, reserved_bytes);
}

Address Memory::allocate(std::size_t bytes) {
  if (bytes == 0) throw Refusal(ERROR_INVALID_VALUE, "an allocation of 0 bytes");
  const std::lock_guard lock(mutex_);
  if (bytes > limit_ - used_)
    throw Refusal(ERROR_OUT_OF_MEMORY, fmt::format("{} bytes wanted, {} of {} are free", bytes, limit_ - used_, limit_));
  if (!base_) {
    void* const got = mmap(nullptr, reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED) throw Refusal(ERROR_OUT_OF_MEMORY, "this process may not reserve 4 TiB of addresses");
    base_ = static_cast<std::byte*>(got);
  }
  const std::size_t body = round_up(bytes, page), first_page = next_ + page;
  if (first_page + body + page > reserved_bytes) throw Refusal(ERROR_OUT_OF_MEMORY, "all addresses are used up");
  if (mprotect(base_ + first_page, body, PROT_READ | PROT_WRITE) != 0)
    throw Refusal(ERROR_OUT_OF_MEMORY, fmt::format("the host has no {} bytes", bytes));
  const std::size_t start = first_page + body - round_up(bytes, alignment);
  std::memset(base_ + first_page, 0xFF, body);
  next_ = first_page + body;
  used_ += bytes;
  pieces_[start] = {bytes, first_page, body};
  emulator::register_memory(base_ + start, bytes, false);
  return address_tag + start;
}

void Memory::free(Address at) {
  const std::lock_guard lock(mutex_);
  const auto piece = pieces_.find(at - address_tag);
  if (piece == pieces_.end()) throw Refusal(ERROR_INVALID_VALUE, fmt::format("{:#x} is not the start of an allocation", at));
  emulator::forget_memory(base_ + piece->first);
  madvise(base_ + piece->second.first_page, piece->second.pages_bytes, MADV_DONTNEED);
  mprotect(base_ + piece->second.first_page, piece->second.pages_bytes, PROT_NONE);
  used_ -= piece->second.bytes;
  pieces_.erase(piece);
}

void Memory::free_all() {
  while (!pieces_.empty()) free(address_tag + pieces_.begin()->first);
}

std::size_t Memory::free_bytes() const {
  const std::lock_guard lock(mutex_);
  return limit_ - used_;
}

std::span<std::byte> Memory::allocation(Address at) const {
  const std::lock_guard lock(mutex_);
  const std::size_t offset = at - address_tag;
  const auto after = pieces_.upper_bound(offset);
  if (after == pieces_.begin()) return {};
  const auto& [start, piece] = *std::prev(after);
  if (offset - start >= piece.bytes) return {};
  return {base_ + start, piece.bytes};
}

std::byte* Memory::at(Address at, std::size_t bytes, Status refused) const {
  const std::span<std::byte> inside = allocation(at);
  std::byte* const host = base_ + (at - address_tag);
  if (inside.empty() || bytes > static_cast<std::size_t>(inside.data() + inside.size() - host))
    throw Refusal(refused, fmt::format("{} bytes from {:#x} are not inside one allocation", bytes, at));
  return host;
}

std::vector<std::size_t> Memory::translate(std::span<std::byte> arguments) const {
  std::vector<std::size_t> places;
  for (std::size_t at = 0; at + 8 <= arguments.size(); at += 8) {
    Address word;
    std::memcpy(&word, arguments.data() + at, 8);
    if (word - address_tag >= reserved_bytes || !base_) continue;
    std::byte* const host = base_ + (word - address_tag);
    std::memcpy(arguments.data() + at, &host, 8);
    places.push_back(at);
  }
  return places;
}

Address Memory::device_address(const void* host) const {
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(host) - base_);
  return base_ && offset < reserved_bytes ? address_tag + offset : 0;
}

}  // namespace assay::sim
