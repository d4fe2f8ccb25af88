// SPDX-License-Identifier: Apache-2.0
#include "probes/run/arena.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

namespace assay {

namespace {

std::size_t round_up(std::size_t n, std::size_t to) {
  return (n + to - 1) / to * to;
}

std::size_t read_number(const char* path) {
  std::ifstream in(path);
  std::size_t value = 0;
  return in >> value ? value : std::numeric_limits<std::size_t>::max();
}

}  // namespace

Layout lay_out(const Problem& p) {
  Layout layout;
  for (std::int64_t caller = 0; caller < p.callers; ++caller) {
    for (const Operand& o : p.operands) {
      Region r;
      r.file_offset = layout.total_bytes;
      r.bytes = static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype);
      const std::size_t needed = guard_bytes + r.bytes + (p.place_at_end ? 0 : guard_bytes);
      r.pages_bytes = round_up(needed, page_bytes);
      r.begin = p.place_at_end ? r.pages_bytes - r.bytes : guard_bytes;
      layout.total_bytes += r.pages_bytes;
      layout.regions.push_back(r);
    }
  }
  return layout;
}

Arena::Arena() {
  fd_ = memfd_create("assay", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0 || fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
    throw Unavailable(
        fmt::format("cannot make shared memory for the worker (memfd_create: {}); check the memory limits of this session",
                    std::strerror(errno)));
}

Arena::~Arena() {
  if (base_) munmap(base_, bytes_);
  if (fd_ >= 0) close(fd_);
}

void Arena::reserve(std::size_t bytes) {
  bytes = std::max(round_up(bytes, page_bytes), page_bytes);
  if (bytes <= bytes_) return;
  if (base_) munmap(base_, bytes_);
  base_ = nullptr;
  bytes_ = 0;
  const bool grown = bytes <= file_bytes_ || ftruncate(fd_, static_cast<off_t>(bytes)) == 0;
  if (grown) file_bytes_ = std::max(file_bytes_, bytes);
  void* at = grown ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0) : MAP_FAILED;
  if (at == MAP_FAILED)
    throw Unavailable(fmt::format("cannot reserve {} MiB of shared memory ({}); choose a smaller problem", bytes >> 20,
                                  std::strerror(errno)));
  base_ = static_cast<std::byte*>(at);
  bytes_ = bytes;
}

std::span<std::byte> Arena::pages(const Region& r) const {
  return {base_ + r.file_offset, r.pages_bytes};
}
std::span<std::byte> Arena::storage(const Region& r) const {
  return {base_ + r.file_offset + r.begin, r.bytes};
}

MappedRegion::MappedRegion(int fd, const Region& r) {
  const std::size_t margin = std::max(r.pages_bytes, least_margin_bytes);
  reserved_bytes_ = r.pages_bytes + 2 * margin;
  void* at = mmap(nullptr, reserved_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw Unavailable("cannot reserve address space for an operand");
  reserved_ = static_cast<std::byte*>(at);
  if (mmap(reserved_ + margin, r.pages_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
           static_cast<off_t>(r.file_offset)) == MAP_FAILED)
    throw Unavailable("cannot map an operand");
  image_ = {reserved_ + margin + r.begin, r.bytes};
}

MappedRegion::~MappedRegion() {
  if (reserved_) munmap(reserved_, reserved_bytes_);
}

MappedRegion::MappedRegion(MappedRegion&& other) noexcept
    : reserved_(std::exchange(other.reserved_, nullptr)), reserved_bytes_(other.reserved_bytes_), image_(other.image_) {}

std::size_t available_memory() {
  std::size_t free_bytes = std::numeric_limits<std::size_t>::max();
  std::ifstream in("/proc/meminfo");
  std::string key, unit;
  std::size_t value = 0;
  while (in >> key >> value) {
    std::getline(in, unit);
    if (key == "MemAvailable:") free_bytes = value * 1024;
  }
  const std::size_t limit = read_number("/sys/fs/cgroup/memory.max"), used = read_number("/sys/fs/cgroup/memory.current");
  if (limit != std::numeric_limits<std::size_t>::max() && used <= limit) free_bytes = std::min(free_bytes, limit - used);
  return free_bytes;
}

}  // namespace assay
