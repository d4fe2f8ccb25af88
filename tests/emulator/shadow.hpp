// SPDX-License-Identifier: Apache-2.0
// What the access checker remembers of memory: per cell who touched it last, per byte whether it has a value.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace assay::emulator {

/// One access, or the same access by several lanes of a warp at one moment of theirs.
struct Record {
  std::uint32_t block = 0;  // serial number over all launches; 0: nobody
  std::uint32_t epoch = 0;  // barriers that the block had passed
  std::uint32_t clock = 0;  // of these lanes: how often __syncwarp had ordered them
  std::uint32_t lanes = 0;
  std::int32_t code = 0;  // place, relative to the program
  std::uint32_t warp = 0;
};

struct Cell {
  Record write;
  std::array<Record, 2> reads, atomics;  // since the write
};

/// Memory with one owner: a shared array, the dynamic part, or what the host registered.
class Region {
 public:
  Region() = default;
  Region(std::string name, std::uintptr_t base, std::size_t bytes, bool shared, bool initialised)
      : name(std::move(name)), base(base), bytes(bytes), shared(shared), has_value(bytes, initialised) {}

  std::string name;
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  bool shared = false;
  std::vector<std::uint8_t> has_value;

  /// Cells become as small as the smallest access (at most 8 bytes), so that neighbours are told apart.
  void refine(std::size_t access_bytes) {
    while (grain_ > 1 && grain_ > access_bytes) halve();
  }
  std::size_t grain() const { return grain_; }
  Cell& cell(std::uintptr_t at) {
    const std::size_t index = (at - origin()) / grain_;
    if (pages_.empty()) pages_.resize(((bytes + 15) / grain_ + page_cells) / page_cells);
    auto& page = pages_[index / page_cells];
    if (!page) page = std::make_unique<Page>();
    return (*page)[index % page_cells];
  }

 private:
  static constexpr std::size_t page_cells = 256;
  using Page = std::array<Cell, page_cells>;
  std::size_t grain_ = 8;
  std::vector<std::unique_ptr<Page>> pages_;  // none: nobody has touched it

  std::uintptr_t origin() const { return base & ~std::uintptr_t{7}; }
  void halve() {
    std::vector<std::unique_ptr<Page>> old;
    old.swap(pages_);
    grain_ /= 2;
    for (std::size_t number = 0; number < old.size(); ++number)
      for (std::size_t i = 0; old[number] && i < page_cells * 2; ++i) {
        const std::size_t at = (number * page_cells * 2 + i) * grain_;
        if (at < bytes + 8) cell(origin() + at) = (*old[number])[i / 2];
      }
  }
};

}  // namespace assay::emulator
