// SPDX-License-Identifier: Apache-2.0
// Shared memory between judge and worker: one memfd, one region of whole pages per operand and caller.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "probes/ops/problem.hpp"
#include "probes/ops/target.hpp"

namespace assay {

inline constexpr std::size_t page_bytes = 4096;
/// Guard bytes on both sides inside the pages.
inline constexpr std::size_t guard_bytes = 256;
/// Beyond the pages the worker maps nothing on either side, as far as the operand is long and at least this far: a kernel that
/// strays by whole rows (BLIS 0.9: 4 KiB beyond the end at k = 1025) must not land in another operand. Address space costs
/// nothing.
inline constexpr std::size_t least_margin_bytes = std::size_t{1} << 20;

/// Where one operand's allocation lies in the memfd. [begin, begin + bytes) is the allocation, the rest of the pages is guard.
struct Region {
  std::size_t file_offset = 0, pages_bytes = 0;
  std::size_t begin = 0, bytes = 0;
};

struct Layout {
  std::vector<Region> regions;  // caller-major: regions[caller * operands + operand]
  std::size_t total_bytes = 0;
};

/// place=start: after a front guard, 64-byte aligned. place=end: the last byte touches the end of the last page.
Layout lay_out(const Problem&);

/// The judge's view: the whole memfd. Grown on demand; sealed against shrinking, so a worker cannot take pages away.
class Arena {
 public:
  Arena();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  /// Makes room for `bytes`; throws Unavailable when there is no memory for it.
  void reserve(std::size_t bytes);
  int fd() const { return fd_; }
  std::span<std::byte> pages(const Region&) const;
  std::span<std::byte> storage(const Region&) const;

 private:
  int fd_ = -1;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0, file_bytes_ = 0;
};

/// The worker's view of one region: its pages with an inaccessible margin on either side.
class MappedRegion {
 public:
  MappedRegion(int fd, const Region&);
  ~MappedRegion();
  MappedRegion(MappedRegion&&) noexcept;
  MappedRegion(const MappedRegion&) = delete;
  MappedRegion& operator=(const MappedRegion&) = delete;
  Image image() const { return image_; }

 private:
  std::byte* reserved_ = nullptr;
  std::size_t reserved_bytes_ = 0;
  Image image_;
};

/// Bytes of memory that could be taken now: the smaller of MemAvailable and what the control group leaves.
std::size_t available_memory();

}  // namespace assay
