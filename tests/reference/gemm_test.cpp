// SPDX-License-Identifier: Apache-2.0
// The reference gemm: hand-computed values, a second implementation, quad precision, special values, sampling.
#include "reference/ops/gemm.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "reference/inputs.hpp"

using namespace assay;
using reference::Gemm;

namespace {

__extension__ using Quad = __float128;
constexpr double inf = std::numeric_limits<double>::infinity();
const double quiet_nan = std::nan("");

std::vector<double> drawn(DType t, std::vector<std::int64_t> dims, const FillRule& rule, std::uint32_t stream) {
  Operand o;
  o.dtype = t;
  o.dims = dims;
  o.strides = {dims[1] * dims[2], dims[2], 1};
  o.span = element_count(o);
  o.stream = stream;
  std::vector<double> v;
  for (const std::uint64_t bits : generate(o, rule, 11)) v.push_back(decode(t, bits));
  return v;
}

struct Data {
  Gemm g;
  std::vector<double> a, b, c;
};

Data make(Family f, DType t, Gemm g) {
  Data d{g, {}, {}, {}};
  d.a = drawn(t, {g.batch, g.m, g.k}, {f, 1, 2, true, 3}, 1);
  d.b = drawn(t, {g.batch, g.k, g.n}, {f, 2, 1, false, 3}, 2);
  d.c = drawn(t, {g.batch, g.m, g.n}, {f, 1, 1, false, 3}, 3);
  d.g.a = d.a, d.g.b = d.b, d.g.c = d.c;
  return d;
}

bool same_class(double x, double y) {
  return std::isnan(x) ? std::isnan(y) : std::isinf(x) ? x == y : std::isfinite(y);
}

/// One sum with its magnitudes in quad precision.
struct Slow {
  Quad value = 0, sum_abs = 0, sum_sq = 0;
};
Slow quad_element(const Gemm& g, std::int64_t row, std::int64_t j) {
  Slow s;
  for (std::int64_t l = 0; l < g.k; ++l) {
    const Quad p = static_cast<Quad>(g.a[row * g.k + l]) * g.b[(row / g.m * g.k + l) * g.n + j];
    s.value += p;
    s.sum_abs += p < 0 ? -p : p;
    s.sum_sq += p * p;
  }
  const Quad alpha = g.alpha;
  s.value *= alpha;
  s.sum_abs *= alpha < 0 ? -alpha : alpha;
  s.sum_sq *= alpha * alpha;
  if (g.beta != 0) s.value += static_cast<Quad>(g.beta) * g.c[row * g.n + j];
  return s;
}

/// A dot product of condition about 2^bits (Ogita, Rump & Oishi, Algorithm 6.1): large terms, then terms that cancel them.
void ill_conditioned(int bits, std::vector<double>& x, std::vector<double>& y) {
  std::mt19937_64 random(5);
  const auto uniform = [&random] { return static_cast<double>(random() >> 11) * 0x1p-52 - 1; };
  Quad sum = 0;
  const int half = static_cast<int>(x.size()) / 2;
  for (int i = 0; i < 2 * half; ++i) {
    const int e = i < half ? static_cast<int>(random() % (bits / 2 + 1)) : (2 * half - 1 - i) * bits / 2 / half;
    x[i] = std::ldexp(uniform(), e);
    y[i] = i < half ? std::ldexp(uniform(), e) : static_cast<double>((std::ldexp(uniform(), e) - sum) / x[i]);
    sum += static_cast<Quad>(x[i]) * y[i];
  }
}

}  // namespace

TEST_CASE("reference gemm gives hand-computed values and magnitudes, batched, with alpha and beta") {
  // (1 2; 3 4)(5 6; 7 8) = (19 22; 43 50); second batch entry: (1 0; 0 -1)(5 6; 7 8) = (5 6; -7 -8).
  const std::vector<double> a{1, 2, 3, 4, 1, 0, 0, -1}, b{5, 6, 7, 8, 5, 6, 7, 8}, c{1, 1, 1, 1, 1, 2, 3, 4};
  for (const bool wide : {false, true}) {
    const Expected e = reference::gemm({2, 2, 2, 2, -2, 10, a, b, c}, wide);
    CHECK(e.value == std::vector<double>{-28, -34, -76, -90, 0, 8, 44, 56});
    CHECK(e.addend == std::vector<double>{10, 10, 10, 10, 10, 20, 30, 40});
    CHECK(e.sum_abs[0] == doctest::Approx(38).epsilon(1e-5));
    CHECK(e.sum_abs[6] == doctest::Approx(14).epsilon(1e-5));
    CHECK(e.sum_sq[0] == doctest::Approx(4 * (25 + 196)).epsilon(1e-5));
    CHECK(e.terms == 2);
    CHECK(e.row_length == 2);
    CHECK(e.abs_alpha == 2);
    CHECK(e.largest_input == 8);
    CHECK(e.value_lo == std::vector<double>(wide ? 8 : 0, 0.0));
    CHECK(reference::gemm_slow({2, 2, 2, 2, -2, 10, a, b, c}) == e.value);
  }
}

TEST_CASE("two independent references agree within 4 sqrt(k) 2^-53 S on every finite family") {
  const Gemm shapes[] = {
      {1, 1, 1, 1, 1, 0}, {2, 3, 5, 7, 1, 0}, {1, 37, 33, 257, -0.75, 0.5}, {3, 1, 2, 1000, 1, 1}, {1, 140, 530, 9, 1, 0}};
  for (const Family f : product_families())
    for (const DType t : {DType::f32, DType::f64, DType::bf16, DType::f16})
      for (const Gemm& shape : shapes) {
        if (f == Family::nan_one || f == Family::inf_one) continue;
        CAPTURE(name(f));
        CAPTURE(name(t));
        CAPTURE(shape.k);
        const Data d = make(f, t, shape);
        const Expected plain = reference::gemm(d.g, false), wide = reference::gemm(d.g, true);
        const std::vector<double> slow = reference::gemm_slow(d.g);
        const double k = static_cast<double>(shape.k);
        // Repeated terms round the same way again and again (two_level reaches 7.6 sqrt(k) at k = 257): there the rigorous law.
        const double growth = f == Family::two_level ? k + 3 : 4 * std::sqrt(k);
        // Products and scaled numbers that underflow in fp64; the wide reference rounds once.
        const double underflow = (k + 3) * 0x1p-1074;
        std::size_t outside = 0, differing = 0;
        for (std::size_t i = 0; i < slow.size(); ++i) {
          const double s = plain.sum_abs[i] + (plain.addend.empty() ? 0 : plain.addend[i]);
          outside += !(std::fabs(plain.value[i] - slow[i]) <= growth * 0x1p-53 * s + underflow);
          // Dot2 against x87: the rounding of `slow` to fp64, and k + 3 roundings to 64 bits.
          const double distance = std::fabs(wide.value[i] - slow[i] + wide.value_lo[i]);
          differing += !(distance <= 0x1p-53 * std::fabs(slow[i]) + (k + 3) * 0x1p-64 * s + 0x1p-1074);
        }
        CHECK(outside == 0);
        CHECK(differing == 0);
      }
}

TEST_CASE("magnitudes are never too small and at most rounding too large, in fp32 and fp64") {
  for (const Family f : {Family::normal, Family::wide, Family::uniform, Family::subnormal})
    for (const DType t : {DType::f32, DType::f64}) {
      CAPTURE(name(f));
      const Data d = make(f, t, {2, 5, 6, 70, -1.5, 0});
      const Expected e = reference::gemm(d.g, t == DType::f64);
      for (std::int64_t i = 0; i < 60; ++i) {
        const Slow s = quad_element(d.g, i / 6, i % 6);
        const double sum_abs = static_cast<double>(s.sum_abs), sum_sq = static_cast<double>(s.sum_sq);
        CHECK(e.sum_abs[i] >= sum_abs * (1 - 0x1p-52));
        CHECK(e.sum_abs[i] <= sum_abs * (1 + 1e-4));
        if (sum_sq > 0x1p-900) CHECK(e.sum_sq[i] >= sum_sq * (1 - 0x1p-52));
        if (sum_sq > 0x1p-900) CHECK(e.sum_sq[i] <= sum_sq * (1 + 1e-4));
      }
    }
}

TEST_CASE("Dot2 keeps k^2 2^-106 S on dot products of condition 10^8, 10^12 and beyond 1/u") {
  for (const int bits : {27, 40, 70}) {
    CAPTURE(bits);
    Data d;
    d.a.resize(200), d.b.resize(200);
    ill_conditioned(bits, d.a, d.b);
    d.g = {1, 1, 1, 200, 1, 0, d.a, d.b, {}};
    const Slow exact = quad_element(d.g, 0, 0);
    const double condition = static_cast<double>(2 * exact.sum_abs / (exact.value < 0 ? -exact.value : exact.value));
    CHECK(condition > std::ldexp(1.0, bits - 6));
    const Expected e = reference::gemm(d.g, true);
    const double error = std::fabs(static_cast<double>(static_cast<Quad>(e.value[0]) + e.value_lo[0] - exact.value));
    CHECK(error <= 200.0 * 200.0 * 0x1p-106 * static_cast<double>(exact.sum_abs));
    // Plain fp64 does not reach that: the test can fail.
    const double plain_error = std::fabs(static_cast<double>(reference::gemm(d.g, false).value[0] - exact.value));
    CHECK(plain_error > 1000 * error);
  }
}

TEST_CASE("alpha and beta keep the double-double result exact to 2^-100") {
  const Data d = make(Family::normal, DType::f64, {1, 9, 9, 50, 0.1, -1.7});
  const Expected e = reference::gemm(d.g, true);
  for (std::int64_t i = 0; i < 81; ++i) {
    const Quad exact = quad_element(d.g, i / 9, i % 9).value;
    const double error = std::fabs(static_cast<double>(static_cast<Quad>(e.value[i]) + e.value_lo[i] - exact));
    CHECK(error <= 0x1p-95 * (e.sum_abs[i] + e.addend[i]));
    CHECK(std::fabs(e.value_lo[i]) <= 0x1p-53 * std::fabs(e.value[i]));
  }
}

TEST_CASE("NaN and infinity come out by IEEE rules and leave clean rows and columns alone") {
  for (const bool wide : {false, true})
    for (const Family f : {Family::nan_one, Family::inf_one}) {
      CAPTURE(name(f));
      const Data d = make(f, DType::f32, {2, 20, 30, 40, 1.5, 0.5});
      const Expected e = reference::gemm(d.g, wide);
      const std::vector<double> slow = reference::gemm_slow(d.g);
      std::int64_t special = 0, marked = 0;
      for (std::size_t i = 0; i < slow.size(); ++i) {
        CHECK(same_class(slow[i], e.value[i]));
        special += !std::isfinite(slow[i]);
        marked += std::isnan(e.sum_abs[i]);
        if (std::isfinite(slow[i])) CHECK(std::fabs(e.value[i] - slow[i]) <= 0x1p-45 * e.sum_abs[i]);
      }
      CHECK(special == marked);
      CHECK(special == 30);  // one row of one batch entry
    }
  // Inf in B: a column; Inf - Inf; 0 * Inf; and the zero padding of blocked products must not turn Inf into NaN.
  const std::vector<double> a{1, 1, 0, 1, 1, -1}, b{inf, 2, inf, 3};
  const std::vector<double> want{inf, 5, quiet_nan, 3, quiet_nan, -1};
  for (const bool wide : {false, true}) {
    const Expected e = reference::gemm({1, 3, 2, 2, 1, 0, a, b, {}}, wide);
    for (int i = 0; i < 6; ++i) CHECK((std::isnan(want[i]) ? std::isnan(e.value[i]) : e.value[i] == want[i]));
  }
}

TEST_CASE("overflow of the fp64 reference itself is seen in S, not taken for an input infinity") {
  const std::vector<double> a{1e200, 1e200, 1, 1}, b{1e200, 1, -1e200, 1};
  const Expected e = reference::gemm({1, 2, 2, 2, 1, 0, a, b, {}}, true);
  CHECK(std::isinf(e.sum_abs[0]));
  CHECK(!std::isfinite(e.value[0]));
  CHECK(e.value[1] == 2e200);
  CHECK(e.value[2] == 0);
  CHECK(e.value[3] == 2);
}

TEST_CASE("alpha = 0 does not look at A and B, beta = 0 does not look at C, k = 0 leaves beta C") {
  const std::vector<double> c{1, -2, 3, quiet_nan}, bad(4, quiet_nan);
  for (const bool wide : {false, true}) {
    Expected e = reference::gemm({1, 2, 2, 2, 0, 2, {}, {}, c}, wide);
    CHECK(e.value[0] == 2);
    CHECK(e.value[1] == -4);
    CHECK(std::isnan(e.value[3]));
    CHECK(e.sum_abs == std::vector<double>(4, 0.0));
    e = reference::gemm({1, 2, 2, 2, 0, 2, bad, bad, c}, wide);
    CHECK(e.value[2] == 6);
    e = reference::gemm({1, 2, 2, 0, 1, -1, {}, {}, c}, wide);
    CHECK(e.value[2] == -3);
    const std::vector<double> two(4, 2);
    e = reference::gemm({1, 2, 2, 2, 1, 0, two, two, bad}, wide);
    CHECK(e.value == std::vector<double>(4, 8.0));
    CHECK(e.addend.empty());
    e = reference::gemm({1, 2, 2, 0, 1, 0, {}, {}, {}}, wide);
    CHECK(e.value == std::vector<double>(4, 0.0));
  }
}

TEST_CASE("empty outputs and empty batches are no problem") {
  CHECK(reference::gemm({0, 3, 3, 3, 1, 0, {}, {}, {}}, false).value.empty());
  const std::vector<double> b(6, 1.0);
  CHECK(reference::gemm({1, 0, 2, 3, 1, 0, {}, b, {}}, true).value.empty());
  CHECK(reference::gemm({1, 2, 0, 3, 1, 0, b, {}, {}}, true).value.empty());
}

TEST_CASE("sampled rows equal the same rows of the whole") {
  for (const bool wide : {false, true}) {
    const Data d = make(Family::normal, DType::f32, {3, 150, 20, 31, 2, 1});
    const Expected all = reference::gemm(d.g, wide);
    const std::vector<std::int64_t> rows{0, 7, 149, 150, 299, 300, 449};
    const Expected some = reference::gemm(d.g, wide, true, rows);
    CHECK(some.rows == rows);
    CHECK(some.row_length == 20);
    REQUIRE(some.value.size() == rows.size() * 20);
    for (std::size_t i = 0; i < some.value.size(); ++i) {
      const std::size_t whole = rows[i / 20] * 20 + i % 20;
      CHECK(std::fabs(some.value[i] - all.value[whole]) <= 0x1p-48 * all.sum_abs[whole]);
      CHECK(some.sum_abs[i] == doctest::Approx(all.sum_abs[whole]).epsilon(1e-5));
      CHECK(some.addend[i] == all.addend[whole]);
    }
  }
}

TEST_CASE("wrong sizes and impossible rows are refused") {
  const std::vector<double> four(4, 1), three(3, 1);
  CHECK_THROWS_AS(reference::gemm({1, 2, 2, 2, 1, 0, four, three, {}}, false), std::invalid_argument);
  CHECK_THROWS_AS(reference::gemm({1, 2, 2, 2, 1, 1, four, four, {}}, false), std::invalid_argument);
  CHECK_THROWS_AS(reference::gemm({1, 2, 2, 2, 1, 0, four, four, {}}, false, true, {2}), std::invalid_argument);
  CHECK_THROWS_AS(reference::gemm({1, 2, 2, 2, 1, 0, four, four, {}}, false, true, {1, 0}), std::invalid_argument);
  CHECK_THROWS_AS(reference::gemm({1, -2, 2, 2, 1, 0, four, four, {}}, false), std::invalid_argument);
}
