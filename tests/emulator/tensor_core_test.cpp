// SPDX-License-Identifier: Apache-2.0
// mma.sync in the emulator: fragments, and the fingerprint probes P1 to P13 of docs/numerics.md per architecture and format.
#include "reference/models/tensor_core.hpp"

#include <bit>
#include <cmath>
#include <random>
#include <stdexcept>

#include "reference/models/accumulate.hpp"
#include "tests/emulator/language.hpp"
#include "tests/emulator/trial.hpp"

namespace assay::emulator {
namespace {

enum Operand : int { f16, bf16, tf32 };
constexpr Operand all_operands[] = {f16, bf16, tf32};
constexpr int ampere[] = {80, 86, 89}, hopper[] = {90, 100, 120};
constexpr int all_architectures[] = {80, 86, 89, 90, 100, 120};

/// a (16,64), b (64,8), c (16,8), row by row, one after another.
struct Product {
  std::vector<float> memory = std::vector<float>(16 * 64 + 64 * 8 + 16 * 8, 0.f);
  float& a(int i, int l) { return memory[static_cast<std::size_t>(i * 64 + l)]; }
  float& b(int l, int j) { return memory[static_cast<std::size_t>(16 * 64 + l * 8 + j)]; }
  float& c(int i, int j) { return memory[static_cast<std::size_t>(16 * 64 + 64 * 8 + i * 8 + j)]; }
};

/// d (16,8) of the emulated kernel.
std::vector<float> multiply(const Product& p, Operand o, int sm) {
  Memory<float> in(p.memory);
  const LanguageArgs args{nullptr, in.at(), nullptr, nullptr, o};
  return clean_result<float>("language_multiply", {.block_x = 32}, args, &LanguageArgs::y, 128, {.sm = sm});
}

TEST_CASE("fragments meet where the PTX ISA says: integer products are exact in every element") {
  Product p;
  for (int i = 0; i < 16; ++i)
    for (int l = 0; l < 64; ++l) p.a(i, l) = static_cast<float>((i * 5 + l * 3) % 17 - 8);
  for (int l = 0; l < 64; ++l)
    for (int j = 0; j < 8; ++j) p.b(l, j) = static_cast<float>((l * 7 + j * 11) % 13 - 6);
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) p.c(i, j) = static_cast<float>(1000 * i + j);
  for (const Operand o : all_operands)
    for (const int sm : all_architectures) {
      const auto d = multiply(p, o, sm);
      for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 8; ++j) {
          float sum = p.c(i, j);
          for (int l = 0; l < 64; ++l) sum += p.a(i, l) * p.b(l, j);
          CHECK(d[static_cast<std::size_t>(i * 8 + j)] == sum);
        }
    }
}

/// Products x y at places of K, everything else 0.
struct Term {
  int first, last;  // places
  double x, y;
};
struct Probe {
  const char* name;
  std::vector<Term> terms;
  double base, unit;  // the answer is (sum - base) / unit
  double a100, h100;
};

const std::vector<Probe>& probes() {
  static const double ulp = 0x1p-23;
  static const std::vector<Probe> all{
      {"P1: 1 + 0.75 ulp", {{0, 0, 1, 1}, {1, 1, 0.75 * 0x1p-11, 0x1p-12}}, 1, ulp, 0, 0},
      {"P2: -1 - 0.75 ulp", {{0, 0, -1, 1}, {1, 1, -0.75 * 0x1p-11, 0x1p-12}}, -1, ulp, 0, 0},
      {"P3: 1 - 0.75 ulp", {{0, 0, 1, 1}, {1, 1, -0.75 * 0x1p-11, 0x1p-12}}, 1, ulp, -0.5, -1},
      {"P4: 1 + 7 * 2^-24", {{0, 0, 1, 1}, {1, 7, 0x1p-12, 0x1p-12}}, 1, ulp, 3, 3},
      {"P5: 1 + 15 * 2^-25", {{0, 0, 1, 1}, {1, 15, 0x1p-12, 0x1p-13}}, 1, ulp, 0, 3},
      {"P6: 2^-24 + 1 - 1", {{0, 0, 0x1p-12, 0x1p-12}, {1, 1, 1, 1}, {2, 2, -1, 1}}, 0, 0x1p-24, 1, 1},
      {"P7: 2^-25 + 1 - 1", {{0, 0, 0x1p-12, 0x1p-13}, {1, 1, 1, 1}, {2, 2, -1, 1}}, 0, 0x1p-25, 0, 1},
      {"P8: 1 + 15 * 2^-14", {{0, 0, 1, 1}, {1, 15, 0x1p-7, 0x1p-7}}, 1, 0x1p-14, 15, 15},
      {"P9: 2048 at 0, 1 at 32", {{0, 0, 2048, 1}, {32, 32, 1, 1}}, 2048, 1, 1, 1},
      {"P10: 2^127 + 2^127 - 2^127", {{0, 1, 0x1p64, 0x1p63}, {2, 2, -0x1p64, 0x1p63}}, 0, 0x1p127, 1, 1},
  };
  return all;
}

/// The terms in every row and column, odd rows negated, so that a lane that is off shows.
Product product_of(const std::vector<Term>& terms) {
  Product p;
  for (const Term& t : terms)
    for (int l = t.first; l <= t.last; ++l) {
      for (int i = 0; i < 16; ++i) p.a(i, l) = static_cast<float>(i % 2 == 0 ? t.x : -t.x);
      for (int j = 0; j < 8; ++j) p.b(l, j) = static_cast<float>(t.y);
    }
  return p;
}

TEST_CASE("P1 to P10 give the published value per architecture in fp16, bf16 and tf32") {
  for (const Probe& probe : probes())
    for (const Operand o : all_operands) {
      if (o == f16 && probe.name[1] == '1' && probe.name[2] == '0') continue;  // 2^64 is no fp16 number
      for (const int sm : all_architectures) {
        CAPTURE(probe.name);
        CAPTURE(static_cast<int>(o));
        CAPTURE(sm);
        const auto d = multiply(product_of(probe.terms), o, sm);
        for (std::size_t at = 0; at < d.size(); ++at) {
          const double sum = static_cast<double>(at / 8 % 2 == 0 ? d[at] : -d[at]);
          CHECK((sum - probe.base) / probe.unit == (sm < 90 ? probe.a100 : probe.h100));
        }
      }
    }
}

TEST_CASE("P11: the FPRev count names how many products one step fuses") {
  for (const Operand o : all_operands)
    for (const int sm : all_architectures) {
      const double m = o == f16 ? 0x1p15 : 0x1p40;
      const auto d = multiply(product_of({{0, 63, 1, 1}, {0, 0, m, m}, {1, 1, -m, m}}), o, sm);
      const float count = o == tf32 ? (sm < 90 ? 60.f : 56.f) : (sm < 90 ? 56.f : 48.f);
      CAPTURE(static_cast<int>(o));
      CAPTURE(sm);
      for (std::size_t at = 0; at < d.size(); ++at) CHECK(d[at] == (at / 8 % 2 == 0 ? count : -count));
    }
}

/// N(0,1) operands in the operand format (8 significant bits fit all three), several products.
template <class Each>
void with_random_products(int count, Each each) {
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  for (int n = 0; n < count; ++n) {
    Product p;
    for (float& x : p.memory) x = static_cast<float>(decode(DType::bf16, encode(DType::bf16, normal(random))));
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 8; ++j) p.c(i, j) = 0;
    each(p);
  }
}

TEST_CASE("P12 and P13: truncation pulls sums toward zero, and outputs use all bits of fp32") {
  for (const int sm : {80, 90, 120}) {
    double bias = 0, squares = 0, outputs = 0;
    unsigned bits = 0;
    with_random_products(40, [&](Product& p) {
      const auto d = multiply(p, bf16, sm);
      for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 8; ++j) {
          double exact = 0;
          for (int l = 0; l < 64; ++l) exact += static_cast<double>(p.a(i, l)) * static_cast<double>(p.b(l, j));
          const float got = d[static_cast<std::size_t>(i * 8 + j)];
          const double error = static_cast<double>(got) - exact;
          bias += exact > 0 ? error : -error;
          squares += error * error;
          outputs += 1;
          bits |= std::bit_cast<unsigned>(got);
        }
    });
    CAPTURE(sm);
    const double p12 = bias / outputs / std::sqrt(squares / outputs);
    CHECK(p12 < -0.5);
    CHECK(p12 > -0.75);
    CHECK(bits % 2 == 1);
  }
}

TEST_CASE("random products equal the accumulator models bit for bit, split where the instruction is") {
  with_random_products(5, [](Product& p) {
    for (const Operand o : all_operands)
      for (const int sm : all_architectures) {
        const auto d = multiply(p, o, sm);
        for (int i = 0; i < 16; ++i)
          for (int j = 0; j < 8; ++j) {
            double a[64], b[64];
            for (int l = 0; l < 64; ++l) a[l] = static_cast<double>(p.a(i, l)), b[l] = static_cast<double>(p.b(l, j));
            const double expected = o == tf32 ? (sm < 90 ? models::tensor_core_dot<4, 24>(a, 1, b, 1, 64)
                                                         : models::tensor_core_dot<8, 25>(a, 1, b, 1, 64))
                                              : models::find_model(sm < 90 ? "a100" : "h100")->dot(a, 1, b, 1, 64);
            CHECK(static_cast<double>(d[static_cast<std::size_t>(i * 8 + j)]) == expected);
          }
      }
  });
}

TEST_CASE("tf32 operands lose their low 13 bits, NaN has hardware's one pattern, and sm_75 has no such instruction") {
  Product p = product_of({{5, 5, 1 + 0x1p-11 + 0x1p-10, 1}});
  for (const float x : multiply(p, tf32, 90)) CHECK(std::fabs(x) == 1 + 0x1p-10f);
  p.c(0, 0) = -NAN;
  p.a(3, 9) = INFINITY, p.b(9, 2) = 0;
  const auto d = multiply(p, bf16, 80);
  CHECK(std::bit_cast<unsigned>(d[0]) == 0x7fffffffu);
  for (int j = 0; j < 8; ++j) CHECK(std::bit_cast<unsigned>(d[static_cast<std::size_t>(3 * 8 + j)]) == 0x7fffffffu);
  CHECK(std::isfinite(d[1]));
  CHECK_THROWS_WITH_AS(multiply(p, bf16, 75), "mma.sync of this shape needs sm_80 or newer, the launch asks for sm_75",
                       std::invalid_argument);
}

}  // namespace
}  // namespace assay::emulator
