// SPDX-License-Identifier: Apache-2.0
// mma.sync in the emulator: fragments, and the fingerprint probes P1 to P13 of docs/numerics.md per architecture and format.
#include "reference/models/tensor_core.hpp"

#include <bit>
#include <cmath>
#include <random>
#include <stdexcept>

#include "reference/models/probes.hpp"
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

/// Answers of the Ampere and Ada generation and of Hopper and newer, as published.
struct Published {
  double a100, h100;
};
const Published published[] = {{0, 0}, {0, 0}, {-0.5, -1}, {3, 3}, {0, 3}, {1, 1}, {0, 1}, {15, 15}, {1, 1}, {1, 1}};

/// The terms in every row and column, odd rows negated, so that a lane that is off shows.
Product product_of(const models::Probe& probe) {
  const models::ProbeOperands o = models::operands_of(probe);
  Product p;
  for (int l = 0; l < 64; ++l) {
    const double x = o.a[static_cast<std::size_t>(l)], y = o.b[static_cast<std::size_t>(l)];
    for (int i = 0; i < 16; ++i) p.a(i, l) = static_cast<float>(i % 2 == 0 ? x : -x);
    for (int j = 0; j < 8; ++j) p.b(l, j) = static_cast<float>(y);
  }
  return p;
}

DType format_of(Operand o) {
  return o == f16 ? DType::f16 : o == bf16 ? DType::bf16 : DType::tf32;
}

TEST_CASE("P1 to P10 give the published value per architecture in fp16, bf16 and tf32") {
  const auto probes = models::addition_probes();
  REQUIRE(probes.size() == std::size(published));
  int left_out = 0;
  for (std::size_t at_probe = 0; at_probe < probes.size(); ++at_probe)
    for (const Operand o : all_operands) {
      const models::Probe& probe = probes[at_probe];
      if (!models::representable(probe, format_of(o))) {  // 2^64 is no fp16 number
        ++left_out;
        continue;
      }
      for (const int sm : all_architectures) {
        CAPTURE(probe.name);
        CAPTURE(static_cast<int>(o));
        CAPTURE(sm);
        const auto d = multiply(product_of(probe), o, sm);
        for (std::size_t at = 0; at < d.size(); ++at) {
          const double sum = static_cast<double>(at / 8 % 2 == 0 ? d[at] : -d[at]);
          CHECK(models::answer(probe, sum) == (sm < 90 ? published[at_probe].a100 : published[at_probe].h100));
        }
      }
    }
  CHECK(left_out == 1);
}

TEST_CASE("P11: the FPRev count names how many products one step fuses") {
  for (const Operand o : all_operands)
    for (const int sm : all_architectures) {
      const auto d = multiply(product_of(models::counting_probe(format_of(o))), o, sm);
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
  Product p = product_of({"", "", {{5, 5, 1 + 0x1p-11 + 0x1p-10, 1}}, 0, 1});
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
