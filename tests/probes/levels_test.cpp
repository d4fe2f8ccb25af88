// SPDX-License-Identifier: Apache-2.0
// OpenBLAS's core types against what the kernel says this CPU has.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>

#include "probes/library/library.hpp"

using namespace assay;

namespace {

std::set<std::string> kernel_flags() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("flags")) {
      std::istringstream words(line.substr(line.find(':') + 1));
      return {std::istream_iterator<std::string>(words), {}};
    }
  return {};
}

bool has(const std::string& level) {
  const auto all = openblas_levels();
  const auto found = std::ranges::find(all, level, &CoreLevel::name);
  REQUIRE(found != all.end());
  return found->cpu_has_it;
}

}  // namespace

TEST_CASE("a core type is offered exactly when the kernel lists every instruction set it is compiled for") {
  // The kernel drops a flag whose register state it does not save, so this also checks the XCR0 half of our answer.
  const std::map<std::string, std::set<std::string>> needs = {
      {"Prescott", {"pni"}},
      {"Core2", {"ssse3"}},
      {"Penryn", {"sse4_1"}},
      {"Nehalem", {"sse4_2", "popcnt"}},
      {"Barcelona", {"pni", "sse4a", "3dnowprefetch"}},
      {"Sandybridge", {"avx"}},
      {"Bulldozer", {"avx", "sse4a", "fma4", "xop"}},
      {"Piledriver", {"avx", "sse4a", "fma4", "xop", "fma"}},
      {"Steamroller", {"avx", "sse4a", "fma4", "xop", "fma"}},
      {"Excavator", {"avx", "sse4a", "fma4", "xop", "fma", "avx2"}},
      {"Haswell", {"avx2", "fma", "bmi1", "bmi2"}},
      {"Zen", {"avx2", "fma", "bmi1", "bmi2"}},
      {"SkylakeX", {"avx2", "avx512f", "avx512dq", "avx512cd", "avx512bw", "avx512vl"}},
      {"Cooperlake", {"avx512f", "avx512vl", "avx512_vnni", "avx512_bf16"}},
      {"SapphireRapids", {"avx512_bf16", "avx512_fp16", "amx_bf16", "amx_tile", "amx_int8"}},
  };
  const std::set<std::string> flags = kernel_flags();
  REQUIRE(!flags.empty());
  const auto levels = openblas_levels();
  CHECK(levels.size() == needs.size());
  for (const CoreLevel& level : levels) {
    REQUIRE_MESSAGE(needs.contains(level.name), level.name);
    const bool listed = std::ranges::all_of(needs.at(level.name), [&](const std::string& f) { return flags.contains(f); });
    CHECK_MESSAGE(level.cpu_has_it == listed, level.name);
  }
}

TEST_CASE("levels rise: a CPU that has one has those it is built upon") {
  // This program itself needs x86-64-v3.
  CHECK(has("Prescott"));
  CHECK(has("Haswell"));
  if (has("SapphireRapids")) CHECK(has("Cooperlake"));
  if (has("Cooperlake")) CHECK(has("SkylakeX"));
  if (has("SkylakeX")) CHECK(has("Haswell"));
  if (has("Haswell")) CHECK(has("Sandybridge"));
  if (has("Excavator")) CHECK(has("Bulldozer"));
}
