// SPDX-License-Identifier: Apache-2.0
// Accumulator models against the published probes: docs/numerics.md, section 2.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "reference/models/accumulate.hpp"
#include "reference/models/tensor_core.hpp"

using namespace assay;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

struct Products {
  std::vector<double> a = std::vector<double>(64, 0.0), b = a;
  Products& set(int l, double x, double y) {
    a[l] = x;
    b[l] = y;
    return *this;
  }
  double sum(std::string_view model) const {
    const models::Model* m = models::find_model(model);
    REQUIRE(m != nullptr);
    return m->dot(a.data(), 1, b.data(), 1, 64);
  }
};

/// What each of the four classes of hardware returns for one probe.
struct Probe {
  std::string name;
  Products products;
  double base, unit;  // the answer is (sum - base) / unit
  double ffma, v100, a100, h100;
};

std::vector<Probe> probes() {
  const double ulp = 0x1p-23;
  std::vector<Probe> all;
  all.push_back({"P1: 1 + 0.75 ulp", Products().set(0, 1, 1).set(1, 0.75 * 0x1p-11, 0x1p-12), 1, ulp, 1, 0, 0, 0});
  all.push_back({"P2: -1 - 0.75 ulp", Products().set(0, -1, 1).set(1, -0.75 * 0x1p-11, 0x1p-12), -1, ulp, -1, 0, 0, 0});
  all.push_back({"P3: 1 - 0.75 ulp", Products().set(0, 1, 1).set(1, -0.75 * 0x1p-11, 0x1p-12), 1, ulp, -1, 0, -0.5, -1});
  Products p4 = Products().set(0, 1, 1), p5 = p4, p8 = p4;
  for (int l = 1; l <= 7; ++l) p4.set(l, 0x1p-12, 0x1p-12);
  for (int l = 1; l <= 15; ++l) p5.set(l, 0x1p-12, 0x1p-13);
  for (int l = 1; l <= 15; ++l) p8.set(l, 0x1p-7, 0x1p-7);
  all.push_back({"P4: 1 + 7 * 2^-24", p4, 1, ulp, 0, 0, 3, 3});
  all.push_back({"P5: 1 + 15 * 2^-25", p5, 1, ulp, 0, 0, 0, 3});
  all.push_back({"P6: 2^-24 + 1 - 1", Products().set(0, 0x1p-12, 0x1p-12).set(1, 1, 1).set(2, -1, 1), 0, 0x1p-24, 0, 0, 1, 1});
  all.push_back({"P7: 2^-25 + 1 - 1", Products().set(0, 0x1p-12, 0x1p-13).set(1, 1, 1).set(2, -1, 1), 0, 0x1p-25, 0, 0, 0, 1});
  all.push_back({"P8: 1 + 15 * 2^-14", p8, 1, 0x1p-14, 15, 15, 15, 15});
  all.push_back({"P9: 2048 at 0, 1 at 32", Products().set(0, 2048, 1).set(32, 1, 1), 2048, 1, 1, 1, 1, 1});
  return all;
}

/// Ones everywhere, +M at i, -M at j: how many ones survive tells where i and j meet (FPRev).
double survivors(std::string_view model, int i, int j) {
  Products p;
  for (int l = 0; l < 64; ++l) p.set(l, 1, 1);
  // The largest product of fp16 operands would do for F <= 25; bf16 reaches further. V100 multiplies fp16 only.
  const double m = model == "v100" ? 0x1p15 : 0x1p40;
  return p.set(i, m, m).set(j, -m, m).sum(model);
}

/// The step again, dumber: long double, std::trunc, frexp.
double slow_step(double accumulator, const std::vector<double>& a, const std::vector<double>& b, int fraction) {
  int largest = accumulator != 0 ? std::ilogb(accumulator) : -10000;
  for (std::size_t l = 0; l < a.size(); ++l)
    if (a[l] * b[l] != 0) largest = std::max(largest, std::ilogb(a[l]) + std::ilogb(b[l]));
  if (largest == -10000) return 0;
  const long double quantum = std::ldexp(1.0L, largest - fraction);
  long double sum = std::trunc(accumulator / quantum);
  for (std::size_t l = 0; l < a.size(); ++l) sum += std::trunc(static_cast<long double>(a[l]) * b[l] / quantum);
  return truncate_to(DType::f32, static_cast<double>(sum * quantum));
}

}  // namespace

TEST_CASE("models answer the published probes P1 to P9 as their hardware does") {
  for (const Probe& p : probes()) {
    CAPTURE(p.name);
    const auto answer = [&p](std::string_view model) { return (p.products.sum(model) - p.base) / p.unit; };
    CHECK(answer("sequential") == p.ffma);
    CHECK(answer("sequential_fma") == p.ffma);
    CHECK(answer("v100") == p.v100);
    CHECK(answer("a100") == p.a100);
    CHECK(answer("h100") == p.h100);
  }
}

TEST_CASE("P10: a tensor-core block stays finite where fp32 additions pass through infinity") {
  const Products p = Products().set(0, 0x1p64, 0x1p63).set(1, 0x1p64, 0x1p63).set(2, -0x1p64, 0x1p63);
  CHECK(p.sum("sequential_fma") == inf);
  CHECK(p.sum("a100") == 0x1p127);
  CHECK(p.sum("h100") == 0x1p127);
}

TEST_CASE("P11: the FPRev count of surviving ones gives the number of fused products") {
  CHECK(survivors("sequential", 0, 1) == 62);
  CHECK(survivors("sequential_fma", 0, 1) == 62);
  CHECK(survivors("v100", 0, 1) == 60);
  CHECK(survivors("a100", 0, 1) == 56);
  CHECK(survivors("h100", 0, 1) == 48);
}

TEST_CASE("FPRev counts name the summation tree of every rounding-to-nearest model") {
  for (const std::string suffix : {"", "_f64"}) {
    CAPTURE(suffix);
    CHECK(survivors("sequential" + suffix, 0, 63) == 0);
    CHECK(survivors("sequential" + suffix, 0, 40) == 23);
    CHECK(survivors("pairwise" + suffix, 0, 1) == 62);
    CHECK(survivors("pairwise" + suffix, 0, 2) == 60);
    CHECK(survivors("pairwise" + suffix, 0, 32) == 0);
    CHECK(survivors("lanes32" + suffix, 0, 32) == 62);  // the same lane
    CHECK(survivors("lanes32" + suffix, 0, 16) == 60);  // lanes 0 and 16 meet first
    CHECK(survivors("lanes32" + suffix, 0, 1) == 0);    // lanes 0 and 1 meet last
    CHECK(survivors("split_k4" + suffix, 0, 1) == 62);
    CHECK(survivors("split_k4" + suffix, 0, 16) == 32);  // slices 0 and 1
    CHECK(survivors("split_k4" + suffix, 0, 48) == 0);   // slices 0 and 3
  }
}

TEST_CASE("TF32 and FP8 models: products per step, and the bits that their sums keep") {
  const auto count = [](std::string_view model, double m) {
    Products p;
    for (int l = 0; l < 64; ++l) p.set(l, 1, 1);
    return p.set(0, m, m).set(1, -m, m).sum(model);
  };
  CHECK(count("a100_tf32_rz", 0x1p40) == 60);
  CHECK(count("h100_tf32_rne", 0x1p40) == 56);
  CHECK(count("h100_fp8", 0x1p15) == 32);
  const auto one_plus = [](double x) { return Products().set(0, 1, 1).set(1, x, 0x1p-7).sum("h100_fp8") - 1; };
  CHECK(one_plus(0x1p-6) == 0x1p-13);  // the last bit that e8m13 holds
  CHECK(one_plus(0x1p-7) == 0);
  // Two steps: 2^14 holds, 2^14 + 1 does not, as every larger odd count.
  Products p = Products().set(0, 0x1p7, 0x1p7).set(32, 1, 1);
  CHECK(p.sum("h100_fp8") == 0x1p14);
  CHECK(p.set(0, 0x1p7, 0x1p7 - 0x1p4).sum("h100_fp8") == 0x1p14 - 0x1p11 + 1);
}

TEST_CASE("TF32 models take fp32 operands as their rounding says") {
  const auto value = [](std::string_view model, double x) { return models::operand_value(*models::find_model(model), x); };
  // 1 + 2^-11 is a tie, 1 + 3 * 2^-12 lies above one, 1 + 2^-10 + 2^-11 is a tie over an odd last bit.
  const double x[] = {1 + 0x1p-11, 1 + 0x3p-12, 1 + 0x3p-11};
  const double rz[] = {1, 1, 1 + 0x1p-10}, rna[] = {1 + 0x1p-10, 1 + 0x1p-10, 1 + 0x1p-9}, rne[] = {1, 1 + 0x1p-10, 1 + 0x1p-9};
  for (int i = 0; i < 3; ++i) {
    CHECK(value("a100_tf32_rz", x[i]) == rz[i]);
    CHECK(value("a100_tf32_rna", x[i]) == rna[i]);
    CHECK(value("h100_tf32_rne", x[i]) == rne[i]);
    CHECK(value("sequential", x[i]) == x[i]);
    CHECK(value("h100", x[i]) == x[i]);
  }
}

TEST_CASE("FMA on and off differ where a product does not fit the accumulator") {
  const Products p = Products().set(0, -(1 + 0x1p-11), 1).set(1, 1 + 0x1p-12, 1 + 0x1p-12);
  CHECK(p.sum("sequential") == 0);
  CHECK(p.sum("sequential_fma") == 0x1p-24);
  CHECK(p.sum("sequential_f64") == 0x1p-24);
}

TEST_CASE("a tensor-core step agrees with a second, slower implementation bit for bit") {
  std::mt19937_64 random(7);
  const auto draw = [&random](int exponents) {
    const double significand = static_cast<double>(static_cast<int>(random() % 511) - 255);  // 8 bits: bf16
    return std::ldexp(significand, static_cast<int>(random() % exponents) - exponents / 2);
  };
  int nonzero = 0, short_sums = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const int exponents = trial % 3 == 0 ? 2 : trial % 3 == 1 ? 30 : 100;
    std::vector<double> a(16), b(16);
    for (int l = 0; l < 16; ++l) a[l] = draw(exponents), b[l] = draw(exponents);
    const double accumulator = trial % 4 == 0 ? 0 : round_to(DType::f32, draw(exponents) * draw(exponents) * 1.0000001);
    const double got = models::tensor_core_step<16, 25>(accumulator, a.data(), 1, b.data(), 1, 16);
    REQUIRE(got == slow_step(accumulator, a, b, 25));
    a.resize(4), b.resize(4);
    REQUIRE(models::tensor_core_step<4, 23>(accumulator, a.data(), 1, b.data(), 1, 4) == slow_step(accumulator, a, b, 23));
    // FP8 on Hopper: sums of 13 fraction bits, 3 significant bits per operand.
    for (double& v : a) v = round_to(DType::e5m2, v);
    for (double& v : b) v = round_to(DType::e5m2, v);
    if (std::all_of(a.begin(), a.end(), [](double v) { return std::isfinite(v); }) &&
        std::all_of(b.begin(), b.end(), [](double v) { return std::isfinite(v); })) {
      const double wide = slow_step(accumulator, a, b, 13);
      const double kept =
          wide == 0 ? 0 : std::ldexp(std::trunc(std::ldexp(wide, 13 - std::ilogb(wide))), std::ilogb(wide) - 13);
      REQUIRE(models::tensor_core_step<32, 13>(accumulator, a.data(), 1, b.data(), 1, 4) == kept);
      ++short_sums;
    }
    nonzero += got != 0;
  }
  CHECK(nonzero > 19000);
  CHECK(short_sums > 5000);
}

TEST_CASE("every model follows IEEE 754 for NaN and infinity and returns zero for an empty sum") {
  for (const models::Model& m : models::all_models()) {
    CAPTURE(m.name);
    CHECK(m.dot(nullptr, 1, nullptr, 1, 0) == 0);
    Products nan_in, zero_inf, both, one;
    CHECK(std::isnan(nan_in.set(9, std::nan(""), 0).sum(m.name)));
    CHECK(std::isnan(zero_inf.set(9, inf, 0).sum(m.name)));
    CHECK(std::isnan(both.set(9, inf, 1).set(40, -inf, 1).sum(m.name)));
    CHECK(one.set(9, -inf, 1).set(40, 5, 1).sum(m.name) == -inf);
    const double a[] = {1, 100, 2, 100, 3}, b[] = {10, 20, 30};
    CHECK(m.dot(a, 2, b, 1, 3) == 140);  // strides
  }
}

TEST_CASE("model names are unique and find_model knows only them") {
  for (const models::Model& m : models::all_models()) CHECK(models::find_model(m.name) == &m);
  CHECK(models::find_model("b300") == nullptr);
  CHECK(models::all_models().size() == 17);
}
