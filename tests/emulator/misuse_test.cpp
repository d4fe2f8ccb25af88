// SPDX-License-Identifier: Apache-2.0
// Each way to misuse CUDA gives its finding under every schedule, and code that is right gives none.
#include <set>

#include "tests/emulator/language.hpp"
#include "tests/emulator/trial.hpp"

namespace assay::emulator {
namespace {

Report run(int which, Schedule schedule) {
  Memory<float> in(std::vector<float>(128, 1.f));
  Memory<float> y(128);
  Memory<unsigned> counters(std::vector<unsigned>(2, 0));
  const LanguageArgs args{nullptr, which == null_pointer ? nullptr : in.at(), y.at(), counters.at(), which};
  return launch_kernel("language_misuse", {.grid_x = 2, .block_x = 64}, args, {.schedule = schedule});
}

struct Expected {
  Misuse which;
  const char* kind;
  const char* says;  // part of the sentence
};

/// What the scheduler itself sees.
constexpr Expected of_scheduler[] = {
    {mask_without_self, "bad mask", "with mask 0xfffffffe, which does not name its own lane 0"},
    {mask_with_exited_lane, "bad mask", "with mask 0xffffffff, but lane 7 has exited"},
    {two_collectives_one_mask, "bad mask", "waits in __"},
    {shuffle_against_barrier, "deadlock", "but lane 3 waits at the barrier at language.cu:"},
    {barrier_after_exit, "divergent barrier", "but thread (40,0,0) has exited without reaching it"},
    {two_barriers, "divergent barrier", "meets thread (32,0,0) at different barriers, at language.cu:"},
    {absent_source, "bad mask", "reads lane 20 at language.cu:"},
    {incomplete_mma, "bad mask", "but lane 31 has exited"},
    {trapped, "trap", "thread (5,0,0) of block"},
};

#ifdef ASSAY_CHECKED
/// What takes the checker.
constexpr Expected of_checker[] = {
    {misaligned_read, "misaligned", "at byte 2 of global memory"},
    {unwritten_global, "uninitialised", "which nobody has written"},
    {unwritten_shared, "uninitialised", "of shared array part (256 bytes), which nobody has written"},
    {unwritten_in_one_block, "uninitialised", "of block (1,0,0) reads 4 bytes at byte"},
    {across_the_end, "out of bounds", "across the end of shared array odd (12 bytes)"},
    {past_shared, "out of bounds", "0 bytes behind the end of shared array part (256 bytes)"},
    {past_global, "out of bounds", "bytes behind the end of global memory"},
    {null_pointer, "out of bounds", "reads 4 bytes near the null pointer"},
    {foreign_local, "out of bounds", "in the local memory of thread (0,0,0)"},
    {blocks_write_one_place, "race", "and blocks of one launch are not ordered"},
    {warps_write_one_place, "race", "and no barrier orders the two"},
    {lanes_write_one_place, "race", "and no barrier orders the two"},
    {atomic_then_plain, "race", "updates atomically"},
    {no_syncwarp, "race", "of shared array part (256 bytes)"},
    {shuffle_is_no_barrier, "race", "of shared array part (256 bytes)"},
    {race_after_syncwarp, "race", "of shared array part (256 bytes)"},
    {narrower_reader, "race", "of shared array part (256 bytes)"},
    {syncwarp_of_others, "race", "of shared array part (256 bytes)"},
    {read_then_write, "race", "of shared array part (256 bytes)"},
    {reader_in_other_warp, "race", "of shared array part (256 bytes)"},
    {late_reader_in_other_warp, "race", "of shared array part (256 bytes)"},
    {atomics_then_reader, "race", "updates atomically"},
    {last_block_reads, "race", "and blocks of one launch are not ordered"},  // a limit: see checker.hpp
};
#endif

void check_found(const Expected& e) {
  for (const Schedule s : all_schedules) {
    const Report report = run(e.which, s);
    bool found = false;
    for (const Finding& f : report.findings)
      found =
          found || (f.kind == e.kind && f.what.starts_with("language_misuse: ") && f.what.find(e.says) != std::string::npos);
    CHECK_MESSAGE(found, static_cast<int>(e.which) << " " << std::string(e.kind) << " under schedule " << static_cast<int>(s)
                                                   << ", got: " << text(report));
  }
}

TEST_CASE("what a wrong mask, an exited lane, a split barrier or a trap does is reported and the launch comes back") {
  for (const Expected& e : of_scheduler) check_found(e);
}

#ifdef ASSAY_CHECKED
TEST_CASE("the checker reports races, bounds, unwritten and misaligned memory under every schedule") {
  for (const Expected& e : of_checker) check_found(e);
}

TEST_CASE("both code places of a race are named") {
  const Report report = run(no_syncwarp, Schedule::in_order);
  REQUIRE(report.findings.size() >= 1);
  const std::string& what = report.findings.back().what;
  CAPTURE(what);
  const auto first = what.find("at misuse+0x"), last = what.rfind("at misuse+0x");
  CHECK(first != std::string::npos);
  CHECK(what.substr(first, 18) != what.substr(last, 18));
  CHECK(what.find("(emulator_checked_tests+0x") != std::string::npos);
}

#endif

TEST_CASE("a launch is ordered after the one before it") {
  Memory<float> in(std::vector<float>(128, 1.f)), y(128);
  Memory<unsigned> counters(std::vector<unsigned>(2, 0));
  const LanguageArgs args{nullptr, in.at(), y.at(), counters.at(), constants};
  for (const Schedule s : {Schedule::in_order, Schedule::reverse}) {
    const Report report = launch_kernel("language_misuse", {.grid_x = 2, .block_x = 64}, args, {.schedule = s});
    CHECK_MESSAGE(report.clean(), text(report));
  }
}

TEST_CASE("the checker is in the program that is named after it, and only there") {
#ifdef ASSAY_CHECKED
  CHECK(checked());
#else
  CHECK_FALSE(checked());
#endif
}

TEST_CASE("what CUDA allows is clean under every schedule") {
  for (int which = clean_first; which < misuse_end; ++which)
    for (const Schedule s : all_schedules) {
      const Report report = run(which, s);
      CHECK_MESSAGE(report.clean(), which << " under schedule " << static_cast<int>(s) << ": " << text(report));
    }
}

}  // namespace
}  // namespace assay::emulator
