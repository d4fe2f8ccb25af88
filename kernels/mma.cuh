// SPDX-License-Identifier: Apache-2.0
// The tensor-core instructions mma.sync, one wrapper each. Their twins are in tests/emulator/tensor_core.hpp. For an
// architecture that has none of them a file still compiles: Version::lowest_sm keeps such a kernel from being launched.
#pragma once

#include "kernels/portable.cuh"

namespace assay::kernels {

#if defined(ASSAY_EMULATOR)
#define ASSAY_MMA(name, instruction)                                                                            \
  __device__ inline void name(float(&d)[4], const unsigned(&a)[4], const unsigned(&b)[2], const float(&c)[4]) { \
    assay::emulator::name(d, a, b, c);                                                                          \
  }
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define ASSAY_MMA(name, instruction)                                                                        \
  __device__ inline void name(float(&)[4], const unsigned(&)[4], const unsigned(&)[2], const float(&)[4]) { \
    __trap();                                                                                               \
  }
#else
#define ASSAY_MMA(name, instruction)                                                                                  \
  __device__ inline void name(float(&d)[4], const unsigned(&a)[4], const unsigned(&b)[2], const float(&c)[4]) {       \
    asm volatile(instruction " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"                   \
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), \
                   "f"(c[3]));                                                                                        \
  }
#endif

/// D (16x8) = A (16x16) B (16x8) + C, by all 32 lanes together. Of lane l, with g = l/4 and t = l%4, low half first:
///   a  (g, 2t..)  (g+8, 2t..)  (g, 2t+8..)  (g+8, 2t+8..)      b  (2t.., g)  (2t+8.., g)
///   c, d  (g, 2t)  (g, 2t+1)  (g+8, 2t)  (g+8, 2t+1)
/// Source: PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type".
ASSAY_MMA(mma_m16n8k16_f16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
ASSAY_MMA(mma_m16n8k16_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")

/// D (16x8) = A (16x8) B (8x8) + C. Operands as fp32 whose low 13 bits are ignored:
///   a  (g, t)  (g+8, t)  (g, t+4)  (g+8, t+4)      b  (t, g)  (t+4, g)      c, d as above
/// Source: PTX ISA, "Matrix Fragments for mma.m16n8k8".
ASSAY_MMA(mma_m16n8k8_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
#undef ASSAY_MMA

/// Rounds to 10 fraction bits, ties away from zero: what the operands of mma_m16n8k8_tf32 should go through, since the
/// instruction itself truncates. Source: PTX ISA, "cvt", .rna and .tf32.
__device__ inline unsigned cvt_rna_tf32(float x) {
#if defined(ASSAY_EMULATOR)
  const unsigned u = __float_as_uint(x), magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7fffffffu;
  return magnitude == 0x7f800000u ? u : (u + 0x1000u) & 0xffffe000u;
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
  __trap();
  return 0;
#else
  unsigned y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
#endif
}

}  // namespace assay::kernels
