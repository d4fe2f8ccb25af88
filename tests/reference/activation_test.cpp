// SPDX-License-Identifier: Apache-2.0
// The activations' truth against known values and a second implementation, and their bound just inside and outside.
#include "reference/ops/activation.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "reference/inputs.hpp"

using namespace assay;
using assay::reference::Activation;

namespace {

using ActivationKind = reference::ActivationKind;
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double u = 0x1p-24;
constexpr ActivationKind kinds[] = {ActivationKind::gelu_erf, ActivationKind::gelu_tanh, ActivationKind::silu,
                                    ActivationKind::relu};

Expected one_row(ActivationKind kind, const std::vector<double>& x, DType compute = DType::f32,
                 const std::vector<double>& bias = {}) {
  return reference::activation({.rows = 1, .n = std::ssize(x), .kind = kind, .compute = compute, .x = x, .bias = bias});
}
double bound_at(ActivationKind kind, double x, Arithmetic a = {}) {
  return reference::activation_bound(one_row(kind, {x}), a, kind).hard.at(0);
}

std::vector<double> values(Family f, DType t, std::int64_t rows, std::int64_t n, std::uint64_t seed, int exponent = 0) {
  Operand o{.role = "X", .dtype = t, .dims = {rows, n}, .strides = {n, 1}, .span = rows * n, .stream = 1};
  std::vector<double> x;
  for (const std::uint64_t bits : generate(o, {.family = f, .outer_axis = 0, .inner_axis = 1, .exponent = exponent}, seed))
    x.push_back(decode(t, bits));
  return x;
}

}  // namespace

TEST_CASE("activations of tabulated arguments") {
  // Normal distribution: Abramowitz and Stegun, table 26.1; logistic function: 1/(1 + e).
  for (const DType compute : {DType::f32, DType::f64}) {
    const Expected gelu = one_row(ActivationKind::gelu_erf, {1, -1, 2, -3, 0}, compute);
    CHECK(gelu.value[0] == doctest::Approx(0.841344746068543).epsilon(1e-14));
    CHECK(gelu.value[1] == doctest::Approx(-0.158655253931457).epsilon(1e-14));
    CHECK(gelu.value[2] == doctest::Approx(2 * 0.977249868051821).epsilon(1e-14));
    CHECK(gelu.value[3] == doctest::Approx(-3 * 0.00134989803163009).epsilon(1e-13));
    CHECK(gelu.value[4] == 0);
    const Expected silu = one_row(ActivationKind::silu, {1, -1, -40}, compute);
    CHECK(silu.value[0] == doctest::Approx(0.731058578630005).epsilon(1e-14));
    CHECK(silu.value[1] == doctest::Approx(-0.268941421369995).epsilon(1e-14));
    CHECK(silu.value[2] == doctest::Approx(-40 * 4.248354255291589e-18).epsilon(1e-14));
    // sqrt(2/pi) * 1.044715 = 0.8335619...; its tanh is 0.68238...
    CHECK(one_row(ActivationKind::gelu_tanh, {1}, compute).value[0] == doctest::Approx(0.841191990608276).epsilon(1e-13));
    CHECK(one_row(ActivationKind::relu, {-2, 0, 3.5}, compute).value == std::vector<double>{0, 0, 3.5});
  }
}

TEST_CASE("the two GELU forms differ by at most 4.8e-4, so one taken for the other is visible") {
  double most = 0;
  for (double x = -6; x <= 6; x += 1.0 / 128)
    most = std::max(
        most, std::fabs(one_row(ActivationKind::gelu_erf, {x}).value[0] - one_row(ActivationKind::gelu_tanh, {x}).value[0]));
  CHECK(most > 4.7e-4);
  CHECK(most < 4.8e-4);
  CHECK(most > 100 * bound_at(ActivationKind::gelu_erf, 3));
}

TEST_CASE("special arguments: NaN stays, +Inf stays, -Inf is the limit or the NaN of -Inf * 0") {
  for (const ActivationKind kind : kinds) {
    const Expected e = one_row(kind, {nan_value, inf, -inf, 1});
    CHECK(std::isnan(e.value[0]));
    CHECK(e.value[1] == inf);
    for (std::size_t i = 0; i < 3; ++i) CHECK(std::isnan(e.sum_abs[i]));
    CHECK(e.sum_abs[3] == 0);
    if (kind == ActivationKind::relu) {
      CHECK(e.value[2] == 0);
      CHECK(e.other.empty());
    } else {
      CHECK(std::isnan(e.value[2]));
      CHECK(e.other[2] == 0);
      CHECK(std::isnan(e.other[0]));
      CHECK(std::isnan(e.other[3]));
    }
  }
}

TEST_CASE("arguments of any size give finite values: the function saturates, nothing overflows") {
  for (const DType t : {DType::f32, DType::f64})
    for (const ActivationKind kind : kinds) {
      const double large = largest_finite(t);
      const Expected e = one_row(kind, {large, -large, 0x1p50, -0x1p50, smallest_subnormal(t), -smallest_subnormal(t)}, t);
      CHECK(e.value[0] == large);
      CHECK(e.value[1] == 0);
      CHECK(e.value[2] == 0x1p50);
      CHECK(e.value[3] == 0);
      const Bound b = reference::activation_bound(e, {.operand = t, .accumulator = t, .output = t}, kind);
      for (const double hard : b.hard) CHECK(std::isfinite(hard));
    }
}

TEST_CASE("the bias is added per column, exactly") {
  const std::vector<double> x = {1, -1, 0x1p60, 1}, bias = {2, 0x1p-60};
  const Expected e =
      reference::activation({.rows = 2, .n = 2, .kind = ActivationKind::relu, .compute = DType::f64, .x = x, .bias = bias});
  CHECK(e.value == std::vector<double>{3, 0, 0x1p60, 1});
  CHECK(e.value_lo[2] == 2);
  CHECK(e.value_lo[3] == 0x1p-60);
  CHECK(e.further[reference::argument_lo][2] == 2);
  CHECK(e.sum_abs[1] == 1);
  // A sum that the format holds is exact, another may round once.
  const Bound b = reference::activation_bound(e, {.operand = DType::f64, .accumulator = DType::f64, .output = DType::f64},
                                              ActivationKind::relu);
  CHECK(b.hard[0] == 0);
  CHECK(b.hard[3] == 0x1p-53);
}

TEST_CASE("the second implementation agrees on every family and far into the tails") {
  for (const DType t : {DType::f32, DType::f64, DType::bf16})
    for (const Family f : activation_families())
      for (const ActivationKind kind : kinds)
        for (const int exponent : {0, 3}) {
          const std::vector<double> x = values(f, t, 4, 65, 7, exponent), bias = values(Family::normal, t, 1, 65, 9);
          const DType compute = t == DType::f64 ? DType::f64 : DType::f32;
          const Activation a{.rows = 4, .n = 65, .kind = kind, .compute = compute, .x = x, .bias = bias};
          const Expected e = reference::activation(a);
          const std::vector<double> slow = reference::activation_slow(a);
          for (std::size_t i = 0; i < slow.size(); ++i) {
            CAPTURE(name(f));
            CAPTURE(x[i]);
            if (!std::isfinite(slow[i])) {
              CHECK((std::isnan(slow[i]) ? std::isnan(e.value[i]) : e.value[i] == slow[i]));
              continue;
            }
            if (e.value[i] == slow[i]) continue;
            // Relative, even in the left tail: exp of an argument z^2/2 or 2w that was itself rounded.
            const double z = x[i] + bias[i % 65], w = std::fabs(z) * (1 + 0.05 * z * z);
            const double units = 8 + (kind == ActivationKind::gelu_erf ? z * z : kind == ActivationKind::gelu_tanh ? 8 * w : 0);
            const double epsilon = t == DType::f64 ? 0x1p-52 + units * 0x1p-62 : units * 0x1p-52;
            REQUIRE(std::fabs(e.value[i] - slow[i]) <= epsilon * std::fabs(slow[i]) + 1e-300);
          }
        }
}

TEST_CASE("fp64 results carry what fp64 cannot hold") {
  const Expected e = one_row(ActivationKind::silu, {1}, DType::f64);
  const long double exact = 1 / (1 + std::exp(-1.0L));
  CHECK(std::fabs(static_cast<long double>(e.value[0]) + e.value_lo[0] - exact) <= 0x1p-63L);
  CHECK(e.value_lo[0] != 0);
}

TEST_CASE("chosen rows are those rows of the whole") {
  const std::vector<double> x = values(Family::normal, DType::f32, 6, 50, 3),
                            bias = values(Family::normal, DType::f32, 1, 50, 4);
  const Activation a{.rows = 6, .n = 50, .kind = ActivationKind::silu, .x = x, .bias = bias};
  const Expected all = reference::activation(a), some = reference::activation(a, {1, 4});
  for (std::size_t i = 0; i < 50; ++i) {
    CHECK(some.value[i] == all.value[50 + i]);
    CHECK(some.value[50 + i] == all.value[200 + i]);
    CHECK(some.further[reference::sensitivity][50 + i] == all.further[reference::sensitivity][200 + i]);
  }
  CHECK_THROWS_AS(reference::activation({.rows = 2, .n = 3, .x = x}), std::invalid_argument);
  CHECK_THROWS_AS(reference::activation({.rows = 6, .n = 50, .x = x, .bias = std::vector<double>(49)}), std::invalid_argument);
  CHECK_THROWS_AS(reference::activation_bound(Expected{}, {}, ActivationKind::relu), std::invalid_argument);
}

TEST_CASE("the bound is the derived one") {
  const auto phi = [](double z) { return std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0)); };
  const double at = 1.5, share = one_row(ActivationKind::gelu_erf, {at}).value[0] / at;
  CHECK(bound_at(ActivationKind::gelu_erf, at) == doctest::Approx((4 * share + 2 * at * phi(at) + 4) * u * at).epsilon(1e-6));
  CHECK(bound_at(ActivationKind::gelu_erf, -at) == doctest::Approx((2 + 2 * at * phi(at) + 4) * u * at).epsilon(1e-6));
  // A declared error of 4 ulp reaches 12 u |x|, and never more.
  CHECK(bound_at(ActivationKind::gelu_erf, 50, {.function_ulps = 4}) == doctest::Approx(12 * u * 50).epsilon(1e-6));
  const double w = std::sqrt(2 / std::acos(-1.0)) * (at + 0.044715 * at * at * at), sech = 1 / std::cosh(w);
  const double tanh_share = (1 + std::tanh(w)) / 2;
  CHECK(bound_at(ActivationKind::gelu_tanh, at) ==
        doctest::Approx((4 * tanh_share + 7 * w * sech * sech / 2 + 4) * u * at).epsilon(1e-6));
  // SiLU is relative: 2 ulp of exp weigh 1 - sigma, and 4 roundings.
  const double sigma = 1 / (1 + std::exp(20.0));
  CHECK(bound_at(ActivationKind::silu, -20) == doctest::Approx((4 * (1 - sigma) + 4) * u * 20 * sigma).epsilon(1e-5));
  CHECK(bound_at(ActivationKind::silu, -20, {.function_ulps_per_x = 1}) ==
        doctest::Approx((44 * (1 - sigma) + 4) * u * 20 * sigma).epsilon(1e-5));
  // exp(100) is infinite in fp32, and the quotient 0.
  for (const double z :
       {-709.5, -711.25, -713.0, -720.5}) {  // 0 is as right as the whole truth, of which value is the rounded half
    const Expected e = one_row(ActivationKind::silu, {z}, DType::f64);
    const Arithmetic wide{.operand = DType::f64, .accumulator = DType::f64, .output = DType::f64};
    CHECK(reference::activation_bound(e, wide, ActivationKind::silu).hard[0] >=
          std::fabs(e.value[0]) + std::fabs(e.value_lo[0]));
  }
  CHECK(bound_at(ActivationKind::silu, -100) >= std::fabs(one_row(ActivationKind::silu, {-100}).value[0]));
  for (const double x : {-1.25, 0.125, 0x1p100}) CHECK(bound_at(ActivationKind::relu, x) == 0);
}

TEST_CASE("a 16-bit result is the rounded truth, or its neighbour only where the truth lies beside the midpoint") {
  const Arithmetic bf16{.operand = DType::bf16, .output = DType::bf16};
  int strict = 0, either = 0;
  for (std::uint64_t bits = 0x3C00; bits < 0x4200; ++bits) {
    const double x = decode(DType::bf16, bits), value = one_row(ActivationKind::gelu_erf, {x}).value[0];
    const double nearest = std::fabs(round_to(DType::bf16, value) - value), hard = bound_at(ActivationKind::gelu_erf, x, bf16);
    CHECK(hard >= nearest);
    CHECK(hard <= 0x1p-8 * value * (1 + 0x1p-6));
    (hard == nearest ? strict : either) += 1;
  }
  CHECK(strict > 100 * either);
}
