// SPDX-License-Identifier: Apache-2.0
// Levels that OpenBLAS and oneDNN can be told to use, and whether this CPU and operating system can run them: asked first,
// because a forced level that the CPU lacks ends in an illegal instruction, and some are silently replaced.
#include <cpuid.h>

#include <cstdint>

#include "probes/library/library.hpp"

namespace assay {

namespace {

/// Feature words of CPUID and the register state that the operating system saves (XCR0).
struct Cpu {
  unsigned basic_c = 0;             // leaf 1, ECX
  unsigned b7 = 0, c7 = 0, d7 = 0;  // leaf 7 subleaf 0
  unsigned a71 = 0, d71 = 0;        // leaf 7 subleaf 1, EAX and EDX
  unsigned extended_c = 0;          // leaf 0x80000001, ECX
  std::uint64_t xcr0 = 0;

  Cpu() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (__get_cpuid(1, &a, &b, &c, &d)) basic_c = c;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
      b7 = b, c7 = c, d7 = d;
      if (a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) a71 = a, d71 = d;
    }
    if (__get_cpuid(0x80000001u, &a, &b, &c, &d)) extended_c = c;
    if ((basic_c & bit_OSXSAVE) != 0) {
      std::uint32_t low = 0, high = 0;
      __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
      xcr0 = std::uint64_t{high} << 32 | low;
    }
  }

  static bool all(std::uint64_t word, std::uint64_t bits) { return (word & bits) == bits; }

  // Bits by number where <cpuid.h> of older compilers has no name; Intel SDM vol. 2A (CPUID) and vol. 1, 13.3 (XCR0).
  bool sse3() const { return all(basic_c, bit_SSE3); }
  bool ssse3() const { return all(basic_c, bit_SSSE3); }
  bool sse41() const { return all(basic_c, bit_SSE4_1); }
  bool sse42() const { return sse41() && all(basic_c, bit_SSE4_2 | bit_POPCNT); }
  bool barcelona() const { return sse3() && all(extended_c, bit_SSE4a | bit_PRFCHW); }
  bool avx() const { return sse42() && all(basic_c, bit_AVX) && all(xcr0, 0b110); }  // XMM, YMM
  bool bulldozer() const { return avx() && all(extended_c, bit_SSE4a | bit_FMA4 | bit_XOP); }
  bool piledriver() const { return bulldozer() && all(basic_c, bit_FMA); }
  bool excavator() const { return piledriver() && all(b7, bit_AVX2); }
  bool avx2() const { return avx() && all(basic_c, bit_FMA) && all(b7, bit_AVX2 | bit_BMI | bit_BMI2); }
  bool avx512() const {  // what -march=skylake-avx512 lets a compiler use
    return avx2() && all(b7, bit_AVX512F | bit_AVX512DQ | bit_AVX512CD | bit_AVX512BW | bit_AVX512VL) && all(xcr0, 0b11100110);
  }
  bool avx512_bf16() const { return avx512() && all(c7, bit_AVX512VNNI) && all(a71, 1u << 5); }
  bool avx2_ne_convert() const { return avx2() && all(a71, 1u << 4) && all(d71, 1u << 4 | 1u << 5); }  // AVX-VNNI, VNNI-INT8
  bool avx512_fp16() const { return avx512_bf16() && all(d7, 1u << 23); }
  bool amx_fp16() const { return amx_bf16() && all(a71, 1u << 21); }
  bool amx_bf16() const {  // AMX-BF16, AVX512-FP16, AMX-TILE, AMX-INT8; tile configuration and tile data in XCR0
    return avx512_bf16() && all(d7, 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25) && all(xcr0, 0b11u << 17);
  }
};

}  // namespace

/// Names as openblas_get_corename gives them; what each needs is what its kernels are compiled for (OpenBLAS,
/// driver/others/dynamic.c and Makefile.system). Left out: types that only DYNAMIC_OLDER builds have (Atom, Bobcat, Dunnington,
/// Nano, Opteron) and 32-bit ones.
std::vector<CoreLevel> openblas_levels() {
  const Cpu cpu;
  return {
      {"Prescott", cpu.sse3()},
      {"Core2", cpu.ssse3()},
      {"Penryn", cpu.sse41()},
      {"Nehalem", cpu.sse42()},
      {"Barcelona", cpu.barcelona()},
      {"Sandybridge", cpu.avx()},
      {"Bulldozer", cpu.bulldozer()},
      {"Piledriver", cpu.piledriver()},
      {"Steamroller", cpu.piledriver()},
      {"Excavator", cpu.excavator()},
      {"Haswell", cpu.avx2()},
      {"Zen", cpu.avx2()},
      {"SkylakeX", cpu.avx512()},
      {"Cooperlake", cpu.avx512_bf16()},
      {"SapphireRapids", cpu.amx_bf16()},
  };
}

/// Names and what each needs: oneDNN developer guide, "CPU dispatcher control".
std::vector<CoreLevel> onednn_levels() {
  const Cpu cpu;
  return {
      {"SSE41", cpu.sse41()},
      {"AVX", cpu.avx()},
      {"AVX2", cpu.avx2()},
      {"AVX2_VNNI_2", cpu.avx2_ne_convert()},
      {"AVX512_CORE", cpu.avx512()},
      {"AVX512_CORE_BF16", cpu.avx512_bf16()},
      {"AVX512_CORE_FP16", cpu.avx512_fp16()},
      {"AVX512_CORE_AMX", cpu.amx_bf16()},
      {"AVX512_CORE_AMX_FP16", cpu.amx_fp16()},
  };
}

}  // namespace assay
