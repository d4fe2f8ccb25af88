// SPDX-License-Identifier: Apache-2.0
// The mma.sync instructions that kernels/mma.cuh wraps: fragments as the PTX ISA lays them out, arithmetic as published for the
// architecture that the launch asks for.
#pragma once

#include "tests/emulator/runtime.hpp"

namespace assay::emulator {

/// D (16x8) = A (16x16) B (16x8) + C, a collective of the whole warp. Of lane l, with g = l/4 and t = l%4, low half first:
///   a  (g, 2t..)  (g+8, 2t..)  (g, 2t+8..)  (g+8, 2t+8..)      b  (2t.., g)  (2t+8.., g)
///   c, d  (g, 2t)  (g, 2t+1)  (g+8, 2t)  (g+8, 2t+1)
/// Source: PTX ISA, section "Matrix fragments for mma.m16n8k16 with floating point type".
void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const float (&c)[4],
                      CodePlace at = code_here());
void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const float (&c)[4],
                       CodePlace at = code_here());

/// D (16x8) = A (16x8) B (8x8) + C; the low 13 bits of an operand are ignored.
///   a  (g, t)  (g+8, t)  (g, t+4)  (g+8, t+4)      b  (t, g)  (t+4, g)      c, d as above
/// Source: PTX ISA, section "Matrix fragments for mma.m16n8k8".
void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const float (&c)[4],
                      CodePlace at = code_here());

}  // namespace assay::emulator
