// SPDX-License-Identifier: Apache-2.0
// mma.sync: gathers the fragments of 32 lanes into matrices, multiplies them by the published rule, hands the result back.
#include "tests/emulator/tensor_core.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "reference/dtype.hpp"
#include "reference/models/tensor_core.hpp"
#include "tests/emulator/machine.hpp"
#include "tests/emulator/runtime.hpp"

namespace assay::emulator {
namespace {

/// What one lane brings and takes away.
struct Fragments {
  unsigned a[4], b[2];
  float c[4], d[4];
};

enum class Operand { f16, bf16, tf32 };

double half_of(Operand o, unsigned word, int half) {
  return decode(o == Operand::f16 ? DType::f16 : DType::bf16, word >> 16 * half & 0xffffu);
}

/// k values of a row of A against a column of B, added to c.
using Dot = double (*)(double c, const double* a, const double* b);

template <int Block, int Fraction, int K>
double dot(double c, const double* a, const double* b) {
  for (int l = 0; l < K; l += Block) c = models::tensor_core_step<Block, Fraction>(c, a + l, 1, b + l, 1, Block);
  return c;
}

/// Xie et al. (MMA-Sim), arXiv 2511.10909; Khattak & Mikaitis, arXiv 2512.07004: 24 fraction bits and half an instruction a
/// step on Ampere and Ada, 25 bits and the whole instruction on Hopper and Blackwell.
Dot dot_of(Operand o, int sm) {
  if (sm < 80)
    throw std::invalid_argument("mma.sync of this shape needs sm_80 or newer, the launch asks for sm_" + std::to_string(sm));
  if (o == Operand::tf32) return sm < 90 ? dot<4, 24, 8> : dot<8, 25, 8>;
  return sm < 90 ? dot<8, 24, 16> : dot<16, 25, 16>;
}

template <Operand o>
void finish(void* const (&lanes)[32]) {
  constexpr int k = o == Operand::tf32 ? 8 : 16;
  for (const void* lane : lanes)
    if (!lane) return report_incomplete_warp("mma.sync");

  double a[16][k], b[8][k];  // B by columns
  for (int lane = 0; lane < 32; ++lane) {
    const auto& f = *static_cast<const Fragments*>(lanes[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int r = 0; r < 4; ++r) {
      const int row = g + 8 * (r % 2), right = r / 2;
      if constexpr (o == Operand::tf32)
        a[row][t + 4 * right] = static_cast<double>(std::bit_cast<float>(f.a[r] & 0xffffe000u));
      else
        for (int half = 0; half < 2; ++half) a[row][2 * t + half + 8 * right] = half_of(o, f.a[r], half);
    }
    for (int r = 0; r < 2; ++r)
      if constexpr (o == Operand::tf32)
        b[g][t + 4 * r] = static_cast<double>(std::bit_cast<float>(f.b[r] & 0xffffe000u));
      else
        for (int half = 0; half < 2; ++half) b[g][2 * t + half + 8 * r] = half_of(o, f.b[r], half);
  }

  const Dot multiply = dot_of(o, current_sm());
  for (int lane = 0; lane < 32; ++lane) {
    auto& f = *static_cast<Fragments*>(lanes[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; ++i) {
      const double sum = multiply(static_cast<double>(f.c[i]), a[g + 8 * (i / 2)], b[2 * t + i % 2]);
      f.d[i] = std::isnan(sum) ? std::bit_cast<float>(0x7fffffffu) : static_cast<float>(sum);  // hardware's only NaN
    }
  }
}

template <Operand o>
void mma(const char* name, float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const float (&c)[4], CodePlace at) {
  static const Collective kind{name, finish<o>};
  Fragments mine{};
  for (int i = 0; i < 4; ++i) mine.a[i] = a[i], mine.c[i] = c[i];
  for (int i = 0; i < 2; ++i) mine.b[i] = b[i];
  collective(0xffffffffu, kind, &mine, at);
  for (int i = 0; i < 4; ++i) d[i] = mine.d[i];
}

}  // namespace

void mma_m16n8k16_f16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const float (&c)[4], CodePlace at) {
  mma<Operand::f16>("mma.m16n8k16.f16", d, a, b, c, at);
}
void mma_m16n8k16_bf16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const float (&c)[4], CodePlace at) {
  mma<Operand::bf16>("mma.m16n8k16.bf16", d, a, b, c, at);
}
void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], const float (&c)[4], CodePlace at) {
  mma<Operand::tf32>("mma.m16n8k8.tf32", d, a, b, c, at);
}

}  // namespace assay::emulator
