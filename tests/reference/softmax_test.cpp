// SPDX-License-Identifier: Apache-2.0
// Softmax's truth against hand-computed values and a second implementation, and its bound just inside and outside.
#include "reference/ops/softmax.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "reference/inputs.hpp"

using namespace assay;
using assay::reference::Softmax;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double u = 0x1p-24;

Expected one_row(const std::vector<double>& x, bool log = false, DType compute = DType::f32) {
  return reference::softmax({.rows = 1, .n = std::ssize(x), .log = log, .compute = compute, .x = x});
}
Bound bound_of(const Expected& e, bool log = false, bool exact = false, Arithmetic a = {}) {
  return reference::softmax_bound(e, a, log, exact);
}

std::vector<double> logits(Family f, DType t, std::int64_t rows, std::int64_t n, std::uint64_t seed) {
  Operand o{.role = "X", .dtype = t, .dims = {rows, n}, .strides = {n, 1}, .span = rows * n, .stream = 1};
  std::vector<double> x;
  for (const std::uint64_t bits : generate(o, {.family = f, .outer_axis = 0, .inner_axis = 1}, seed))
    x.push_back(decode(t, bits));
  return x;
}

}  // namespace

TEST_CASE("softmax of hand-computed rows") {
  const Expected e = one_row({std::log(1.0), std::log(2.0), std::log(5.0)});
  CHECK(e.value[0] == doctest::Approx(0.125).epsilon(1e-15));
  CHECK(e.value[1] == doctest::Approx(0.25).epsilon(1e-15));
  CHECK(e.value[2] == doctest::Approx(0.625).epsilon(1e-15));
  CHECK(e.sum_abs[0] == doctest::Approx(std::log(5.0)));
  CHECK(e.further[reference::mean_gap][0] == doctest::Approx(0.125 * std::log(5.0) + 0.25 * std::log(2.5)));
  CHECK(e.further[reference::log_sum][0] == doctest::Approx(std::log(1.6)));
  CHECK(e.further[reference::rescales][0] == doctest::Approx(0.25 * 1 + 0.125 * 2));  // ranks 1 and 2 below the maximum
  CHECK(e.further[reference::additions][0] == 2);
  CHECK(e.further[reference::spread][0] == doctest::Approx(std::sqrt(3.0)));
  CHECK(one_row({0, 1, 1, 1}).further[reference::spread][0] == doctest::Approx(std::sqrt(10.0)));
  CHECK(e.further[reference::small_part][0] == 0);
  CHECK(e.further[reference::ties][0] == 0);
  const Expected logs = one_row({0, 0, 0, 0}, true);
  for (const double v : logs.value) CHECK(v == doctest::Approx(-std::log(4.0)).epsilon(1e-15));
  CHECK(one_row({-7.5}).value[0] == 1);
  CHECK(one_row({-7.5}, true).value[0] == 0);
}

TEST_CASE("a large common offset changes nothing, and extreme rows stay finite") {
  const Expected near = one_row({0, 1, 2.5}), far = one_row({-1e5, -1e5 + 1, -1e5 + 2.5});
  CHECK(near.value == far.value);
  const Expected e = one_row({1e4, -1e4});
  CHECK(e.value[0] == 1);
  CHECK(e.value[1] == 0);
  CHECK(one_row({1e4, -1e4}, true).value[1] == -2e4);
}

TEST_CASE("special rows: NaN and +Inf fill the row with NaN, -Inf is zero, nothing but -Inf is NaN or zero") {
  for (const double bad : {nan_value, inf}) {
    const Expected e = one_row({1, bad, -inf});
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(std::isnan(e.value[i]));
      CHECK(std::isnan(e.sum_abs[i]));
    }
    CHECK(e.other.empty());
  }
  const Expected some = one_row({-inf, 0, -inf, 0});
  CHECK(some.value == std::vector<double>{0, 0.5, 0, 0.5});
  CHECK(some.sum_abs == std::vector<double>{0, 0, 0, 0});
  const Expected logs = one_row({-inf, 0, 0}, true);
  CHECK(logs.value[0] == -inf);
  CHECK(std::isnan(logs.sum_abs[0]));  // a class, not a distance
  for (const bool log : {false, true}) {
    const std::vector<double> x = {-inf, -inf, 1, 2};
    const Expected e = reference::softmax({.rows = 2, .n = 2, .log = log, .x = x});
    CHECK(std::isnan(e.value[0]));
    CHECK(e.other[0] == (log ? -inf : 0));
    CHECK(std::isfinite(e.value[2]));
    CHECK(std::isnan(e.other[2]));
  }
}

TEST_CASE("the second implementation agrees on every family") {
  for (const DType t : {DType::f32, DType::f64, DType::bf16})
    for (const Family f : logit_families())
      for (const bool log : {false, true})
        for (const std::int64_t n : {1, 2, 67, 300}) {
          const std::vector<double> x = logits(f, t, 4, n, 7);
          const DType compute = t == DType::f64 ? DType::f64 : DType::f32;
          const Softmax s{.rows = 4, .n = n, .log = log, .compute = compute, .x = x};
          const Expected e = reference::softmax(s);
          const std::vector<double> slow = reference::softmax_slow(s);
          // fp64: both round the same long double result; else fp64 sums of n terms, and arguments of exp up to 2e4.
          for (std::size_t i = 0; i < slow.size(); ++i) {
            CAPTURE(name(f));
            CAPTURE(i);
            if (std::isnan(slow[i]) || std::isinf(slow[i])) {
              CHECK((std::isnan(slow[i]) ? std::isnan(e.value[i]) : e.value[i] == slow[i]));
              continue;
            }
            const double scale = (log ? 1 + std::fabs(slow[i]) : slow[i]) * 0x1p-52;
            const double allowed = t == DType::f64 ? scale : scale * static_cast<double>(8 + n);
            REQUIRE(std::fabs(e.value[i] - slow[i]) <= allowed);
          }
        }
}

TEST_CASE("fp64 results carry what fp64 cannot hold") {
  const Expected e = one_row({0, 0, 0}, false, DType::f64);
  REQUIRE(e.value_lo.size() == 3);
  // 1/3 - fl(1/3) = 2^-54 / 3
  CHECK(e.value_lo[0] == doctest::Approx(0x1p-54 / 3).epsilon(1e-2));
}

TEST_CASE("chosen rows are those rows of the whole") {
  const std::vector<double> x = logits(Family::masked, DType::f32, 6, 50, 3);
  const Softmax s{.rows = 6, .n = 50, .x = x};
  const Expected all = reference::softmax(s), some = reference::softmax(s, {1, 4});
  for (std::size_t i = 0; i < 50; ++i) {
    CHECK(some.value[i] == all.value[50 + i]);
    CHECK(some.value[50 + i] == all.value[200 + i]);
  }
  CHECK(some.further[reference::mean_gap][1] == all.further[reference::mean_gap][4]);
  CHECK_THROWS_AS(reference::softmax({.rows = 2, .n = 3, .x = x}), std::invalid_argument);
}

TEST_CASE("rows that only count are exact: a power of two of ties, and one-hot rows") {
  for (const double n : {1, 2, 64, 128}) {
    const Expected e = one_row(std::vector<double>(static_cast<std::size_t>(n), 3.7));
    CHECK(e.further[reference::ties][0] == n);
    CHECK(bound_of(e).hard[0] == 0);
    CHECK(e.value[0] == 1 / n);
  }
  CHECK(bound_of(one_row({3, 3, 3})).hard[0] == doctest::Approx(2 * u / 3));
  std::vector<double> hot(100, 0.5);
  hot[17] = 128;
  const Expected e = one_row(hot);
  CHECK(bound_of(e).hard[17] == 0);
  CHECK(bound_of(e).hard[16] <= 4 * 0x1p-149 * 1.001);
  // 16-bit output: 1/3 must be rounded to nearest; 1 is 1.
  const Arithmetic bf16{.output = DType::bf16};
  CHECK(bound_of(e, false, false, bf16).hard[17] == 0);
  hot[17] = 60;  // its neighbours are subnormal or tiny, but not zero
  CHECK(one_row(hot).further[reference::ties][0] == 0);
}

TEST_CASE("the bound of a row is the derived one") {
  const std::vector<double> x = logits(Family::normal, DType::f32, 1, 300, 5);
  const Expected e = one_row(x);
  const double gap = e.sum_abs[9], mean = e.further[reference::mean_gap][0], chain = e.further[reference::rescales][0];
  const Bound b = bound_of(e);
  const double hard = 2.25 * (gap + mean) + 16 + 299 + 6 * chain,
               gate = 2.25 * (gap + mean) + 16 + 1.5 * std::sqrt(300.0) + 6 * 4;
  CHECK(b.hard[9] == doctest::Approx(hard * u * e.value[9]).epsilon(1e-3));
  CHECK(b.iid[9] == doctest::Approx(gate * u * e.value[9]).epsilon(1e-3));
  // Arguments that are exact leave their terms out; a declared fast exp puts its own in; 16-bit results round once more.
  CHECK(bound_of(e, false, true).iid[9] == doctest::Approx((gate - 2.25 * (gap + mean)) * u * e.value[9]).epsilon(1e-3));
  CHECK(bound_of(e, false, true, {.function_ulps_per_x = 1}).iid[9] ==
        doctest::Approx((gate - 0.25 * (gap + mean)) * u * e.value[9]).epsilon(1e-3));
  CHECK(bound_of(e, false, false, {.output = DType::bf16}).hard[9] ==
        doctest::Approx(hard * u * e.value[9] + 0x1p-8 * e.value[9]).epsilon(1e-3));
  const Expected l = one_row(x, true);
  const double logs = gap + std::fabs(l.value[9]) + 4 * l.further[reference::log_sum][0] + 2.25 * mean + 4 + 1;
  CHECK(bound_of(l, true).iid[9] == doctest::Approx((logs + 1.5 * std::sqrt(300.0) + 6 * 4) * u).epsilon(1e-3));
  CHECK(bound_of(l, true).hard[9] == doctest::Approx((logs + 299 + 6 * chain) * u).epsilon(1e-3));
  CHECK_THROWS_AS(reference::softmax_bound(Expected{}, {}, false, false), std::invalid_argument);
}

TEST_CASE("a logit millions below the maximum has a bound, and 0 is within it") {
  for (const double gap : {100.0, 1e3, 3.7e6, 1e7, 1e30}) {
    const Bound b = bound_of(one_row({0, -1, -gap}));
    CAPTURE(gap);
    CHECK(std::isfinite(b.hard[2]));
    CHECK(std::isfinite(b.iid[2]));
    CHECK(b.hard[2] < 1e-40);
    const Bound log = bound_of(one_row({0, -1, -gap}, true), true);
    CHECK(log.hard[2] >= 2 * u * gap);
    CHECK(log.hard[2] < 2.1 * u * gap + 40 * u);
  }
}

TEST_CASE("small terms are charged with their size, so peaked rows keep a small bound") {
  const Expected peaked = one_row(logits(Family::dyadic, DType::f32, 1, 256, 2)), flat = one_row(std::vector<double>(256, 0.1));
  CHECK(peaked.further[reference::additions][0] < 100);
  CHECK(flat.further[reference::additions][0] == 255);
  // The worst tree there is: every small term is added to a partial sum that just rounds it up to a whole unit.
  std::vector<double> x(1000, std::log(0x1.01p-24));
  x[0] = 0;
  float sum = 1;
  for (std::size_t i = 1; i < x.size(); ++i) sum += static_cast<float>(std::exp(x[i]));
  const Expected e = one_row(x);
  const double exact = 1 + 999 * 0x1.01p-24, error = std::fabs(static_cast<double>(sum) - exact) / exact / u;
  CHECK(error > 900);
  CHECK(error <= e.further[reference::additions][0]);
}
