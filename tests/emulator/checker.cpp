// SPDX-License-Identifier: Apache-2.0
// The rules of checker.hpp: vector clocks over the lanes of a warp, barrier epochs over a block.
#include "tests/emulator/checker.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "tests/emulator/code_place.hpp"
#include "tests/emulator/shadow.hpp"

namespace assay::emulator {

bool has_checked_kernels = false;

namespace {

using Clocks = std::array<std::array<std::uint32_t, 32>, 32>;  // of one warp: [lane][what it knows of each lane]

struct Checker {
  std::map<std::uintptr_t, Region> regions;  // by base
  Region* recent = nullptr;
  std::vector<Clocks> clocks;
  std::vector<Index3> blocks;  // of this launch, by serial - first_serial
  std::uint32_t serial = 0, first_serial = 1, epoch = 0;
  std::set<std::tuple<char, std::int32_t, std::int32_t>> reported;  // spares building the text again
};
Checker& checker() {
  static Checker one;
  return one;
}

Region* region_at(std::uintptr_t at) {
  Checker& c = checker();
  if (c.recent && at - c.recent->base < c.recent->bytes) return c.recent;
  const auto after = c.regions.upper_bound(at);
  if (after == c.regions.begin()) return nullptr;
  Region& r = std::prev(after)->second;
  if (at - r.base >= r.bytes) return nullptr;
  return c.recent = &r;
}

/// Where an address lies that no region holds.
std::string surroundings(std::uintptr_t at) {
  constexpr std::uintptr_t near = 4096;
  if (at < near) return "near the null pointer";
  for (const Fiber& f : machine->fibers)
    if (const auto bottom = reinterpret_cast<std::uintptr_t>(f.context.bottom); at - bottom < f.context.bytes)
      return "in the local memory of thread " + text(f.index);
  const auto& regions = checker().regions;
  const auto after = regions.upper_bound(at);
  if (after != regions.begin()) {
    const Region& r = std::prev(after)->second;
    const std::uintptr_t end = r.base + r.bytes;
    if (at - end < near) return std::to_string(at - end) + " bytes behind the end of " + r.name;
  }
  if (after != regions.end() && after->first - at < near)
    return std::to_string(after->first - at) + " bytes before the start of " + after->second.name;
  return "in no memory of this launch";
}

struct Now {  // the access at hand
  const Fiber& me;
  std::uintptr_t at;
  std::size_t bytes;
  Access access;
  std::int32_t code;
};

const char* verb(Access a) {
  return a == Access::read ? "reads" : a == Access::write ? "writes" : "updates atomically";
}

std::string sentence(const Now& n, const std::string& where) {
  return text_of(n.me) + " " + verb(n.access) + " " + std::to_string(n.bytes) + " bytes " + where + ", at " + describe(n.code);
}

void find(const char* kind, const Now& n, const std::string& where) {
  if (!checker().reported.insert({kind[0], n.code, 0}).second) return;
  machine->find(kind, describe(n.code), sentence(n, where));
}

std::string offset_in(const Region& r, std::uintptr_t at) {
  return "at byte " + std::to_string(at - r.base) + " of " + r.name;
}

/// Records of blocks before this one are history: of earlier launches, and in shared memory of earlier blocks.
std::uint32_t oldest_block(const Region& region) {
  return region.shared ? checker().serial : checker().first_serial;
}

/// A lane of the record that nothing orders before the running fiber's present; -1 when there is none.
int unordered_lane(const Record& r, std::uint32_t oldest, const Fiber& me) {
  const Checker& c = checker();
  if (r.block < oldest) return -1;
  if (r.block == c.serial) {
    if (r.epoch != c.epoch) return -1;
    if (r.warp == me.warp()) {
      const auto& known = c.clocks[r.warp][me.lane()];
      for (unsigned lane = 0; lane < 32; ++lane)
        if (r.lanes >> lane & 1 && lane != me.lane() && known[lane] < r.clock) return static_cast<int>(lane);
      return -1;
    }
  }
  return __builtin_ctz(r.lanes);
}

void conflict(const Record& r, Access theirs, const Region& region, const Now& n) {
  const int lane = unordered_lane(r, oldest_block(region), n.me);
  if (lane < 0) return;
  if (!checker().reported.insert({'r', std::min(r.code, n.code), std::max(r.code, n.code)}).second) return;
  const Checker& c = checker();
  const Fiber& other = machine->fibers[r.warp * 32 + static_cast<unsigned>(lane)];
  const std::string a = describe(std::min(r.code, n.code)), b = describe(std::max(r.code, n.code));
  machine->find("race", a + " " + b,
                sentence(n, offset_in(region, n.at)) + "; thread " + text(other.index) + " of block " +
                    text(c.blocks[r.block - c.first_serial]) + " " + verb(theirs) + " them at " + describe(r.code) +
                    (r.block == c.serial ? ", and no barrier orders the two" : ", and blocks of one launch are not ordered"));
}

Record record_of(const Now& n) {
  const Checker& c = checker();
  const unsigned warp = n.me.warp(), lane = n.me.lane();
  return {c.serial, c.epoch, c.clocks[warp][lane][lane], 1u << lane, n.code, warp};
}

/// Remembers an access that does not exclude others of its kind. A record that is ordered before this one is told by it: what
/// races with the older also races with the newer.
void remember(std::array<Record, 2>& records, const Record& mine, std::uint32_t oldest, const Fiber& me) {
  for (Record& r : records)
    if (r.block == mine.block && r.epoch == mine.epoch && r.clock == mine.clock && r.warp == mine.warp) {
      r.lanes |= mine.lanes;
      return;
    }
  for (Record& r : records)
    if (unordered_lane(r, oldest, me) < 0) {
      r = mine;
      return;
    }
  // Two of different warps: whoever writes next races with one of them.
  if (records[0].block == records[1].block && records[0].warp == records[1].warp) records[1] = mine;
}

void touch_cell(Cell& cell, const Region& region, const Now& n) {
  conflict(cell.write, Access::write, region, n);
  if (n.access != Access::atomic)
    for (const Record& r : cell.atomics) conflict(r, Access::atomic, region, n);
  if (n.access != Access::read)
    for (const Record& r : cell.reads) conflict(r, Access::read, region, n);
  const Record mine = record_of(n);
  if (n.access == Access::read) return remember(cell.reads, mine, oldest_block(region), n.me);
  if (n.access == Access::atomic) return remember(cell.atomics, mine, oldest_block(region), n.me);
  cell.write = mine;
  cell.reads = {};
  cell.atomics = {};
}

void touch(Region& region, const Now& n) {
  const auto first = region.has_value.begin() + static_cast<std::ptrdiff_t>(n.at - region.base);
  const auto last = first + static_cast<std::ptrdiff_t>(n.bytes);
  if (n.access != Access::write && std::find(first, last, 0) != last)
    find("uninitialised", n, offset_in(region, n.at) + ", which nobody has written");
  if (n.access != Access::read) std::fill(first, last, std::uint8_t{1});
  // An access of 12 bytes at a multiple of 4 has parts of 4 bytes.
  const std::size_t part = std::size_t{1} << __builtin_ctzll(n.at | n.bytes);
  region.refine(part);
  const std::size_t grain = region.grain();
  for (std::uintptr_t at = n.at & ~(grain - 1); at < n.at + n.bytes; at += grain) touch_cell(region.cell(at), region, n);
}

}  // namespace

bool checked() {
  return has_checked_kernels;
}

std::mutex& launch_mutex() {
  static std::mutex one;
  return one;
}

void checker_access(const void* address, std::size_t bytes, std::size_t alignment, Access access, const void* code) {
  if (!has_checked_kernels || !machine) return;
  const Fiber& me = *machine->running;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at - reinterpret_cast<std::uintptr_t>(me.context.bottom) < me.context.bytes) return;  // own local memory
  const Now now{me, at, bytes, access, relative(code)};
  Region* const region = region_at(at);
  if (!region || at + bytes > region->base + region->bytes) {
    if (!region && access == Access::read && in_program(at)) return;  // constants
    find("out of bounds", now, region ? "across the end of " + region->name : surroundings(at));
    end_launch();
  }
  if (at % alignment != 0) {
    find("misaligned", now, offset_in(*region, at) + ", not a multiple of " + std::to_string(alignment) + " in memory");
    end_launch();
  }
  touch(*region, now);
}

void checker_launch() {
  Checker& c = checker();
  c.first_serial = c.serial + 1;
  c.blocks.clear();
  c.reported.clear();
  c.recent = nullptr;
  c.clocks.assign(machine->warps.size(), Clocks{});
}

void checker_block() {
  Checker& c = checker();
  if (!has_checked_kernels) return;
  ++c.serial;
  c.epoch = 0;
  c.blocks.push_back(position.block);
  for (auto& [base, region] : c.regions)
    if (region.shared) std::fill(region.has_value.begin(), region.has_value.end(), std::uint8_t{0});
  for (Clocks& warp : c.clocks)
    for (unsigned lane = 0; lane < 32; ++lane) warp[lane] = {}, warp[lane][lane] = 1;
}

void checker_barrier() {
  ++checker().epoch;
}

void checker_order_lanes(unsigned warp, unsigned lanes) {
  if (!has_checked_kernels) return;
  Clocks& clocks = checker().clocks[warp];
  std::array<std::uint32_t, 32> joined{};
  for (unsigned lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1)
      for (unsigned other = 0; other < 32; ++other) joined[other] = std::max(joined[other], clocks[lane][other]);
  for (unsigned lane = 0; lane < 32; ++lane)
    if (lanes >> lane & 1) clocks[lane] = joined, ++clocks[lane][lane];
}

void checker_add_shared(const SharedArray& s) {
  if (!has_checked_kernels) return;
  const auto base = reinterpret_cast<std::uintptr_t>(s.memory.get());
  const std::string name = s.key ? "shared array " + s.name : s.name;
  checker().regions[base] = Region(name + " (" + std::to_string(s.bytes) + " bytes)", base, s.bytes, true, false);
}

void checker_end_launch() {
  Checker& c = checker();
  std::erase_if(c.regions, [](const auto& r) { return r.second.shared; });
  c.recent = nullptr;
}

void register_memory(const void* base, std::size_t bytes, bool initialised) {
  if (!has_checked_kernels || bytes == 0) return;
  const std::lock_guard lock(launch_mutex());
  static unsigned long number = 0;
  const auto at = reinterpret_cast<std::uintptr_t>(base);
  const std::string name = "global memory " + std::to_string(++number) + " (" + std::to_string(bytes) + " bytes)";
  checker().regions[at] = Region(name, at, bytes, false, initialised);
}

void mark_initialised(const void* base, std::size_t bytes) {
  if (!has_checked_kernels || bytes == 0) return;
  const std::lock_guard lock(launch_mutex());
  const auto at = reinterpret_cast<std::uintptr_t>(base);
  Region* const region = region_at(at);
  if (!region || at + bytes > region->base + region->bytes)
    throw std::invalid_argument("mark_initialised: memory that nobody registered");
  const auto first = region->has_value.begin() + static_cast<std::ptrdiff_t>(at - region->base);
  std::fill(first, first + static_cast<std::ptrdiff_t>(bytes), std::uint8_t{1});
}

void forget_memory(const void* base) {
  const std::lock_guard lock(launch_mutex());
  checker().recent = nullptr;
  checker().regions.erase(reinterpret_cast<std::uintptr_t>(base));
}

}  // namespace assay::emulator
