// SPDX-License-Identifier: Apache-2.0
// What an x86-64-v3 program needs of a CPU, decided from the CPUID words alone so that a test can feed any CPU.
#pragma once

#include <cstdint>

namespace {  // a copy per translation unit: the linker must not pick one that was compiled for a newer CPU

struct CpuWords {
  std::uint32_t leaf1_ecx = 0, leaf7_ebx = 0, extended1_ecx = 0;
  std::uint32_t xcr0 = 0;  // XGETBV(0), 0 without OSXSAVE
};

/// Name of the first feature of x86-64-v3 that is absent, or nullptr.
/// Source   x86-64 psABI, table "Micro-Architecture Levels"; bits as in the CPUID pages of Intel's and AMD's manuals.
constexpr const char* missing_of_v3(const CpuWords& cpu) {
  struct Feature {
    const char* name;
    std::uint32_t CpuWords::*word;
    int bit;
  };
  constexpr Feature needed[] = {
      {"SSE3", &CpuWords::leaf1_ecx, 0},        {"SSSE3", &CpuWords::leaf1_ecx, 9},    {"FMA", &CpuWords::leaf1_ecx, 12},
      {"CMPXCHG16B", &CpuWords::leaf1_ecx, 13}, {"SSE4.1", &CpuWords::leaf1_ecx, 19},  {"SSE4.2", &CpuWords::leaf1_ecx, 20},
      {"MOVBE", &CpuWords::leaf1_ecx, 22},      {"POPCNT", &CpuWords::leaf1_ecx, 23},  {"AVX", &CpuWords::leaf1_ecx, 28},
      {"F16C", &CpuWords::leaf1_ecx, 29},       {"BMI1", &CpuWords::leaf7_ebx, 3},     {"AVX2", &CpuWords::leaf7_ebx, 5},
      {"BMI2", &CpuWords::leaf7_ebx, 8},        {"LAHF", &CpuWords::extended1_ecx, 0}, {"LZCNT", &CpuWords::extended1_ecx, 5},
      {"OSXSAVE", &CpuWords::leaf1_ecx, 27},
  };
  for (const Feature& feature : needed) {
    if (!(cpu.*feature.word >> feature.bit & 1)) return feature.name;
  }
  return (cpu.xcr0 & 6) == 6 ? nullptr : "AVX registers saved by the operating system";
}

}  // namespace
