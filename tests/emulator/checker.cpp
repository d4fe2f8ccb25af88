// SPDX-License-Identifier: Apache-2.0
// The rules of checker.hpp: vector clocks over the lanes of a warp, barrier epochs over a block.
#include "tests/emulator/checker.hpp"

#include <algorithm>
#include <array>
#include <cstring>
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
  std::array<Region*, 4> recent{};           // operands take turns
  unsigned next_recent = 0;
  std::vector<Clocks> clocks;
  std::vector<Index3> blocks;  // of this launch, by serial - first_serial
  std::uint32_t serial = 0, first_serial = 1, epoch = 0;
  std::set<std::tuple<char, std::int32_t, std::int32_t>> reported;  // spares building the text again
} checker;

Region* region_at(std::uintptr_t at) {
  for (Region* const r : checker.recent)
    if (r && at - r->base < r->bytes) return r;
  const auto after = checker.regions.upper_bound(at);
  if (after == checker.regions.begin()) return nullptr;
  Region& r = std::prev(after)->second;
  if (at - r.base >= r.bytes) return nullptr;
  return checker.recent[checker.next_recent++ % checker.recent.size()] = &r;
}

/// Where an address lies that no region holds.
std::string surroundings(std::uintptr_t at) {
  constexpr std::uintptr_t near = 4096;
  if (at < near) return "near the null pointer";
  for (const Fiber& f : machine->fibers)
    if (const auto bottom = reinterpret_cast<std::uintptr_t>(f.context.bottom); at - bottom < f.context.bytes)
      return "in the local memory of thread " + text(f.index);
  const auto& regions = checker.regions;
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
  Record mine;
  const std::array<std::uint32_t, 32>& known;  // clocks of the warp's lanes up to which this lane is ordered after them
  std::uint32_t oldest = 0;                    // records of blocks before this one are history
};

const char* verb(Access a) {
  return a == Access::read ? "reads" : a == Access::write ? "writes" : "updates atomically";
}

std::string sentence(const Now& n, const std::string& where) {
  return text_of(n.me) + " " + verb(n.access) + " " + std::to_string(n.bytes) + " bytes " + where + ", at " +
         describe(n.mine.code);
}

void find(const char* kind, const Now& n, const std::string& where) {
  if (!checker.reported.insert({kind[0], n.mine.code, 0}).second) return;
  machine->find(kind, describe(n.mine.code), sentence(n, where));
}

std::string offset_in(const Region& r, std::uintptr_t at) {
  return "at byte " + std::to_string(at - r.base) + " of " + r.name;
}

/// A lane of the record that nothing orders before the running fiber's present; -1 when there is none.
inline int unordered_lane(const Record& r, const Now& n) {
  if (r.block < n.oldest) return -1;
  if (r.block == n.mine.block) {
    if (r.epoch != n.mine.epoch) return -1;
    if (r.warp == n.mine.warp) {
      for (std::uint32_t lanes = r.lanes & ~n.mine.lanes; lanes != 0; lanes &= lanes - 1)
        if (n.known[static_cast<std::size_t>(__builtin_ctz(lanes))] < r.clock) return __builtin_ctz(lanes);
      return -1;
    }
  }
  return __builtin_ctz(r.lanes);
}

void report_race(const Record& r, unsigned lane, Access theirs, const Region& region, const Now& n) {
  if (!checker.reported.insert({'r', std::min(r.code, n.mine.code), std::max(r.code, n.mine.code)}).second) return;
  const Fiber& other = machine->fibers[r.warp * 32 + lane];
  const std::string a = describe(std::min(r.code, n.mine.code)), b = describe(std::max(r.code, n.mine.code));
  machine->find(
      "race", a + " " + b,
      sentence(n, offset_in(region, n.at)) + "; thread " + text(other.index) + " of block " +
          text(checker.blocks[r.block - checker.first_serial]) + " " + verb(theirs) + " them at " + describe(r.code) +
          (r.block == n.mine.block ? ", and no barrier orders the two" : ", and blocks of one launch are not ordered"));
}

inline void conflict(const Record& r, Access theirs, const Region& region, const Now& n) {
  if (const int lane = unordered_lane(r, n); lane >= 0) report_race(r, static_cast<unsigned>(lane), theirs, region, n);
}

inline bool same_moment(const Record& a, const Record& b) {
  return a.block == b.block && a.epoch == b.epoch && a.clock == b.clock && a.warp == b.warp;
}

/// Remembers an access that does not exclude others of its kind. A record that is ordered before this one is told by it: what
/// races with the older also races with the newer.
void remember(std::array<Record, 2>& records, const Now& n) {
  for (Record& r : records)
    if (same_moment(r, n.mine)) {
      r.lanes |= n.mine.lanes;
      return;
    }
  for (Record& r : records)
    if (unordered_lane(r, n) < 0) {
      r = n.mine;
      return;
    }
  // Two of different warps: whoever writes next races with one of them.
  if (records[0].block == records[1].block && records[0].warp == records[1].warp) records[1] = n.mine;
}

void touch_cell(Cell& cell, const Region& region, const Now& n) {
  if (n.access == Access::read)  // once more, nothing written since
    for (const Record& r : cell.reads)
      if (same_moment(r, n.mine) && (r.lanes & n.mine.lanes)) return;
  conflict(cell.write, Access::write, region, n);
  if (n.access != Access::atomic)
    for (const Record& r : cell.atomics) conflict(r, Access::atomic, region, n);
  if (n.access != Access::read)
    for (const Record& r : cell.reads) conflict(r, Access::read, region, n);
  if (n.access == Access::read) return remember(cell.reads, n);
  if (n.access == Access::atomic) return remember(cell.atomics, n);
  cell = {.write = n.mine, .reads = {}, .atomics = {}};
}

void touch(Region& region, const Now& n) {
  std::uint8_t* const first = region.has_value.data() + (n.at - region.base);
  if (n.access != Access::write && std::memchr(first, 0, n.bytes))
    find("uninitialised", n, offset_in(region, n.at) + ", which nobody has written");
  if (n.access != Access::read) std::memset(first, 1, n.bytes);
  // An access of 12 bytes at a multiple of 4 has parts of 4 bytes.
  const std::size_t part = std::size_t{1} << __builtin_ctzll(n.at | n.bytes);
  region.refine(part);
  const std::size_t grain = region.grain();
  for (std::uintptr_t at = n.at & ~(grain - 1); at < n.at + n.bytes; at += grain) touch_cell(region.cell(at), region, n);
}

/// Not the thread's own local memory.
void checker_access_elsewhere(const Fiber& me, std::uintptr_t at, std::size_t bytes, std::size_t alignment, Access access,
                              const void* code) {
  const unsigned warp = me.warp(), lane = me.lane();
  const auto& known = checker.clocks[warp][lane];
  Now now{me, at, bytes, access, {checker.serial, checker.epoch, known[lane], 1u << lane, relative(code), warp}, known};
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
  now.oldest = region->shared ? checker.serial : checker.first_serial;
  touch(*region, now);
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
  checker_access_elsewhere(me, at, bytes, alignment, access, code);
}

void checker_launch() {
  checker.first_serial = checker.serial + 1;
  checker.blocks.clear();
  checker.reported.clear();
  checker.recent = {};
  checker.clocks.assign(machine->warps.size(), Clocks{});
}

void checker_block() {
  if (!has_checked_kernels) return;
  ++checker.serial;
  checker.epoch = 0;
  checker.blocks.push_back(position.block);
  for (auto& [base, region] : checker.regions)
    if (region.shared) std::fill(region.has_value.begin(), region.has_value.end(), std::uint8_t{0});
  for (Clocks& warp : checker.clocks)
    for (unsigned lane = 0; lane < 32; ++lane) warp[lane] = {}, warp[lane][lane] = 1;
}

void checker_barrier() {
  ++checker.epoch;
}

void checker_order_lanes(unsigned warp, unsigned lanes) {
  if (!has_checked_kernels) return;
  Clocks& clocks = checker.clocks[warp];
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
  checker.regions[base] = Region(name + " (" + std::to_string(s.bytes) + " bytes)", base, s.bytes, true, false);
}

void checker_end_launch() {
  std::erase_if(checker.regions, [](const auto& r) { return r.second.shared; });
  checker.recent = {};
}

void register_memory(const void* base, std::size_t bytes, bool initialised) {
  if (!has_checked_kernels || bytes == 0) return;
  const std::lock_guard lock(launch_mutex());
  static unsigned long number = 0;
  const auto at = reinterpret_cast<std::uintptr_t>(base);
  const std::string name = "global memory " + std::to_string(++number) + " (" + std::to_string(bytes) + " bytes)";
  checker.regions[at] = Region(name, at, bytes, false, initialised);
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
  checker.recent = {};
  checker.regions.erase(reinterpret_cast<std::uintptr_t>(base));
}

}  // namespace assay::emulator
