// SPDX-License-Identifier: Apache-2.0
// The CPU check refuses every CPU that lacks one feature of x86-64-v3.

#include "probes/cli/cpu_check.hpp"

#include <doctest/doctest.h>

#include <string>

namespace {
// What a Haswell reports.
constexpr CpuWords haswell = {0x7ffafbffu, 0x000027abu, 0x00000021u, 7};
}  // namespace

TEST_CASE("a Haswell has all of x86-64-v3") {
  CHECK(missing_of_v3(haswell) == nullptr);
}

TEST_CASE("a CPU that lacks one feature of x86-64-v3 is refused by that feature's name") {
  const auto without = [](std::uint32_t CpuWords::*word, int bit) {
    CpuWords cpu = haswell;
    cpu.*word &= ~(1u << bit);
    const char* name = missing_of_v3(cpu);
    return std::string(name ? name : "");
  };
  CHECK(without(&CpuWords::leaf7_ebx, 5) == "AVX2");
  CHECK(without(&CpuWords::leaf7_ebx, 3) == "BMI1");
  CHECK(without(&CpuWords::leaf7_ebx, 8) == "BMI2");
  CHECK(without(&CpuWords::leaf1_ecx, 12) == "FMA");
  CHECK(without(&CpuWords::leaf1_ecx, 22) == "MOVBE");
  CHECK(without(&CpuWords::leaf1_ecx, 28) == "AVX");
  CHECK(without(&CpuWords::leaf1_ecx, 29) == "F16C");
  CHECK(without(&CpuWords::leaf1_ecx, 27) == "OSXSAVE");
  CHECK(without(&CpuWords::extended1_ecx, 5) == "LZCNT");
  CHECK(without(&CpuWords::xcr0, 2) == "AVX registers saved by the operating system");
  CHECK(missing_of_v3(CpuWords{}) != nullptr);
}
