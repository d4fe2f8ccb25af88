// SPDX-License-Identifier: Apache-2.0
// The "planted" target: each fault does what its sentence says, and nothing else.
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <cfenv>
#include <csignal>
#include <iostream>
#include <set>

#include "gemm_trial.hpp"

using namespace assay;
using namespace assay::trial;

namespace {

const char* const shape = "g1:gemm:m=48,n=40,k=64,fill=";

/// Outputs that fault `name` changes in the first execution on data `seed`.
std::vector<std::int64_t> changed(const std::string& name, const std::string& id, std::uint64_t seed = 1) {
  Trial right(gemm::planted_target(), id, "none"), wrong(gemm::planted_target(), id, name);
  const auto good = right.run(seed), bad = wrong.run(seed);
  CHECK(disturbed_bytes(wrong, seed) == 0);
  std::vector<std::int64_t> where;
  for (std::size_t e = 0; e < good.size(); ++e)
    if (good[e] != bad[e]) where.push_back(static_cast<std::int64_t>(e));
  return where;
}
std::size_t count(const std::string& name, const std::string& id, std::uint64_t seed = 1) {
  return changed(name, id, seed).size();
}

const std::set<std::string> deaths = {"segfault", "hang",           "exit_call",       "sigfpe",
                                      "sigill",   "heap_scribbled", "memory_exhausted"};
const std::set<std::string> conduct = {"write_past_end", "write_before_start", "write_in_gap",         "input_overwritten",
                                       "read_past_end",  "flush_left_on",      "rounding_left_changed"};

/// Wait status of a child that executes the fault; it exits with 42 if the call returns, with 43 if it throws.
int child_status(const std::string& name) {
  std::cout.flush();  // a child that calls exit() would print it again
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    for (const int signal : {SIGSEGV, SIGFPE, SIGILL, SIGABRT}) std::signal(signal, SIG_DFL);  // doctest's own would report
    close(STDERR_FILENO);
    // What exit() was called with, before LeakSanitizer looks for the threads that fork() left behind.
    on_exit([](int code, void*) { _exit(code); }, nullptr);
    const itimerval limit{{0, 0}, {name == "hang" ? 0 : 20, 300000}};
    setitimer(ITIMER_REAL, &limit, nullptr);
    try {
      Trial t(gemm::planted_target(), "g1:gemm:m=8,n=6,k=16,fill=integer", name);
      t.run(1);
    } catch (...) {
      _exit(43);
    }
    _exit(42);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

bool died_of(const std::string& name, int signal) {
  const int status = child_status(name);
  return WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

}  // namespace

TEST_CASE("without a fault the planted target is exact in every layout and touches nothing else") {
  for (const char* formats : {"", ",in=f64", ",in=bf16,out=f32", ",in=bf16", ",in=f16"})
    require_exact_layouts(gemm::planted_target(), "none", formats);
}

TEST_CASE("faults of one element change one element") {
  for (const char* fill : {"integer", "normal"})
    for (const char* name : {"zero_element", "one_ulp", "one_ulp_in_noise", "nan_element", "bitflip_31", "bitflip_30",
                             "bitflip_23", "bitflip_22", "bitflip_16", "bitflip_12", "bitflip_8", "bitflip_4", "bitflip_0"}) {
      CAPTURE(name);
      CHECK(count(name, std::string(shape) + fill) == 1);
    }
}

TEST_CASE("a flipped bit is that bit") {
  Trial right(gemm::planted_target(), std::string(shape) + "normal", "none");
  Trial wrong(gemm::planted_target(), std::string(shape) + "normal", "bitflip_16");
  const auto good = right.run(1), bad = wrong.run(1);
  for (std::size_t e = 0; e < good.size(); ++e) REQUIRE((good[e] ^ bad[e]) % (1U << 16) == 0);
}

TEST_CASE("the element that is hit depends on the case's seed and not on the execution") {
  std::set<std::int64_t> hit;
  for (int seed = 1; seed <= 8; ++seed)
    hit.insert(changed("zero_element", shape + std::string("normal,seed=") + std::to_string(seed)).at(0));
  CHECK(hit.size() >= 6);
  Trial t(gemm::planted_target(), std::string(shape) + "normal", "zero_element");
  CHECK(t.run(1) == t.run(1));
}

TEST_CASE("whole-tensor faults change every element") {
  for (const char* name : {"all_nan", "all_zero", "all_scaled", "c_read_at_beta_zero"}) {
    CAPTURE(name);
    CHECK(count(name, std::string(shape) + "normal") == 48 * 40);
  }
}

TEST_CASE("faults of place stay in their place") {
  const std::string id = std::string(shape) + "normal";
  CHECK(count("rows_swapped", id) == 2 * 8);
  CHECK(count("tile_unwritten", id) == 16 * 16);
  CHECK(count("tile_transposed", id) == 16 * 16 - 16);
  for (const std::int64_t e : changed("one_lane", id)) {
    CHECK((e / 40 % 16 == 3 || e / 40 % 16 == 11));
    CHECK((e % 40 % 8 == 4 || e % 40 % 8 == 5));
  }
  CHECK(count("one_lane", id) == 6 * 10);
  for (const std::int64_t e : changed("alpha_lost_from_column_128", "g1:gemm:m=16,n=160,k=64,alpha=2,fill=normal"))
    CHECK(e % 160 >= 128);
  CHECK(count("alpha_lost_from_column_128", "g1:gemm:m=16,n=160,k=64,alpha=2,fill=normal") == 16 * 32);
  CHECK(count("alpha_lost_beyond_tile", "g1:gemm:m=80,n=80,k=64,alpha=-2,beta=1,fill=normal") == 80 * 80 - 64 * 64);
  for (const std::int64_t e : changed("batch_stride_ignored", "g1:gemm:m=16,n=12,k=32,batch=3,fill=normal"))
    CHECK(e / (16 * 12) == 1);
}

TEST_CASE("lost and doubled terms are the terms named") {
  // All ones: the sum counts its terms.
  const std::string id = "g1:gemm:m=4,n=3,k=64,fill=ones";
  const auto ones = [&](const char* name) {
    Trial t(gemm::planted_target(), id, name);
    return decode(DType::f32, t.run(1).at(5));
  };
  CHECK(ones("none") == 64);
  CHECK(ones("last_k_lost") == 63);
  CHECK(ones("last_32_k_lost") == 32);
  CHECK(ones("k_slice_doubled") == 80);
}

TEST_CASE("an unwritten tile keeps the poison") {
  Trial t(gemm::planted_target(), std::string(shape) + "normal", "tile_unwritten");
  const auto bits = t.run(1, std::byte{0x7F});
  CHECK(std::count(bits.begin(), bits.end(), 0x7F7F7F7F) == 256);
}

TEST_CASE("a stale call is right until the data changes, an unrepeatable one differs from call to call") {
  const std::string id = std::string(shape) + "normal";
  Trial right(gemm::planted_target(), id, "none"), stale(gemm::planted_target(), id, "stale_second_call");
  const auto first = right.run(1), second = right.run(2);
  CHECK(stale.run(1) == first);
  CHECK(stale.run(1) == first);
  CHECK(stale.run(2) == first);
  CHECK(first != second);
  Trial unrepeatable(gemm::planted_target(), id, "repeat_differs");
  CHECK(unrepeatable.run(1) == first);
  CHECK(differing(unrepeatable.run(1), first) == 1);
  CHECK(unrepeatable.run(1) == first);
}

TEST_CASE("faults of conduct leave the numbers right and disturb just what they name") {
  const std::string id = "g1:gemm:m=8,n=6,k=16,padc=3,fill=integer";
  Trial right(gemm::planted_target(), id, "none");
  const auto good = right.run(1);
  const auto disturbed = [&](const char* name) {
    CAPTURE(name);
    Trial t(gemm::planted_target(), id, name);
    CHECK(t.run(1) == good);
    return disturbed_bytes(t, 1);
  };
  CHECK(disturbed("write_past_end") == 4);
  CHECK(disturbed("write_before_start") == 4);
  CHECK(disturbed("write_in_gap") == 4);
  CHECK(disturbed("input_overwritten") == 1);
  CHECK(disturbed("read_past_end") == 0);

  CHECK(disturbed("rounding_left_changed") == 0);
  CHECK(std::fegetround() == FE_UPWARD);
  std::fesetround(FE_TONEAREST);

  const unsigned before = _mm_getcsr();
  CHECK(disturbed("flush_left_on") == 0);
  CHECK((_mm_getcsr() & 0x8040U) == 0x8040U);
  _mm_setcsr(before);
}

TEST_CASE("the deadly faults are deadly") {
  CHECK(WEXITSTATUS(child_status("none")) == 42);
  CHECK(died_of("segfault", SIGSEGV));
  CHECK(died_of("sigfpe", SIGFPE));
  CHECK(died_of("sigill", SIGILL));
#if defined(__SANITIZE_ADDRESS__)
  CHECK(WEXITSTATUS(child_status("heap_scribbled")) == 1);  // AddressSanitizer reports and exits
#else
  CHECK(died_of("heap_scribbled", SIGABRT));
#endif
  const int exited = child_status("exit_call");
  CHECK((WIFEXITED(exited) && WEXITSTATUS(exited) == 0));
  const int hung = child_status("hang");
  CHECK((WIFSIGNALED(hung) && WTERMSIG(hung) == SIGALRM));
  CHECK(WEXITSTATUS(child_status("memory_exhausted")) == 43);
}

TEST_CASE("every planted fault has cases that parse, without a seed, and a name of its own") {
  std::set<std::string_view> names;
  for (const PlantedFault& f : gemm::planted_faults()) {
    CAPTURE(f.name);
    CHECK(names.insert(f.name).second);
    CHECK_FALSE(f.what.empty());
    REQUIRE_FALSE(f.cases.empty());
    for (const std::string& id : f.cases) {
      CHECK(id.find("seed") == std::string::npos);
      const Problem p = make_problem(id);
      CHECK_FALSE(gemm::planted_target().refuses(
          p, {.target = "planted", .variant = std::string(f.name), .library = {}, .environment = {}}));
    }
  }
  for (const auto& group : {deaths, conduct})
    for (const std::string& name : group) CHECK(names.contains(name));
  CHECK(gemm::planted_target().refuses(make_problem("g1:gemm:m=1,n=1,k=1"),
                                       {.target = "planted", .variant = "nosuch", .library = {}, .environment = {}}));
}

TEST_CASE("the comparison sees every fault of values in at least one of its cases, and nothing without a fault") {
  for (const PlantedFault& f : gemm::planted_faults()) {
    const std::string name(f.name);
    if (deaths.contains(name) || conduct.contains(name) || f.may_hide_in_noise) continue;
    for (std::uint64_t seed = 1; seed <= 2; ++seed) {
      std::int64_t bad = 0, irreproducible = 0, false_alarms = 0;
      for (const std::string& id : f.cases) {
        const std::string seeded = id + ",seed=" + std::to_string(seed);
        Trial right(gemm::planted_target(), seeded, "none"), wrong(gemm::planted_target(), seeded, name);
        const auto first = wrong.run(seed);
        const Expected expected = truth(wrong.problem, seed);
        bad += judge(wrong, expected, wrong.call->report().arithmetic).bad;
        irreproducible += differing(wrong.run(seed, std::byte{0x7F}), first);
        wrong.run(seed + 1000);
        bad += judge(wrong, truth(wrong.problem, seed + 1000), wrong.call->report().arithmetic).bad;
        right.run(seed);
        false_alarms += judge(right, expected, right.call->report().arithmetic).bad;
      }
      CAPTURE(name);
      CAPTURE(seed);
      CHECK(bad + irreproducible > 0);
      CHECK(false_alarms == 0);
    }
  }
}
