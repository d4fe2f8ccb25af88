// SPDX-License-Identifier: Apache-2.0
// Layer and RMS normalisation's truth against hand-computed values and a second implementation, and its bounds just inside and
// outside.
#include "reference/ops/layernorm.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "reference/inputs.hpp"

using namespace assay;
using namespace assay::reference;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double u = 0x1p-24;
const double eps = static_cast<double>(1e-5F);

LayerNormTruth one_row(const std::vector<double>& x, bool rms = false, double e = eps, DType compute = DType::f32) {
  return layernorm({.rows = 1, .n = std::ssize(x), .rms = rms, .eps = e, .compute = compute, .x = x});
}
Bound y_bound(const LayerNormTruth& t, bool rms = false, double e = eps, Arithmetic a = {}) {
  return layernorm_bound(t.y, a, a.output, rms, e);
}

std::vector<double> activations(Family f, DType t, std::int64_t rows, std::int64_t n, std::uint64_t seed,
                                std::int64_t offset = 10) {
  Operand o{.role = "X", .dtype = t, .dims = {rows, n}, .strides = {n, 1}, .span = rows * n, .stream = 1};
  std::vector<double> x;
  for (const std::uint64_t bits : generate(o, {.family = f, .outer_axis = 0, .inner_axis = 1, .limit = offset}, seed))
    x.push_back(decode(t, bits));
  return x;
}

constexpr Family families[] = {Family::normal,   Family::uniform,  Family::heavy,   Family::two_level,
                               Family::constant, Family::extreme,  Family::shifted, Family::subnormal,
                               Family::offset,   Family::balanced, Family::outlier};

/// fp32, sequential: mean(x^2) - mean^2 or the mean of squared deviations.
float variance_in_fp32(const std::vector<double>& x, bool one_pass) {
  float sum = 0, squares = 0;
  const auto n = static_cast<float>(x.size());
  for (const double v : x) sum += static_cast<float>(v);
  const float mean = sum / n, centre = one_pass ? 0 : mean;
  for (const double v : x) squares += (static_cast<float>(v) - centre) * (static_cast<float>(v) - centre);
  return one_pass ? squares / n - mean * mean : squares / n;
}

}  // namespace

TEST_CASE("layernorm of hand-computed rows") {
  const std::vector<double> x = {1, 2, 3, 6}, gamma = {1, -2, 0.5, 3}, beta = {0, 1, -1, 10};
  // Mean 3, deviations -2 -1 0 3, variance 14/4.
  const double rstd = 1 / std::sqrt(3.5 + 0.25);
  const LayerNormTruth t = layernorm({.rows = 1, .n = 4, .eps = 0.25, .x = x, .gamma = gamma, .beta = beta});
  const double want[] = {-2 * rstd, 2 * rstd + 1, -1, 9 * rstd + 10};
  for (std::size_t i = 0; i < 4; ++i) CHECK(t.y.value[i] == doctest::Approx(want[i]).epsilon(1e-15));
  CHECK(t.mean.value[0] == 3);
  CHECK(t.rstd.value[0] == doctest::Approx(rstd).epsilon(1e-15));
  CHECK(t.y.further[norm_variance][0] == 3.5);
  CHECK(t.y.further[norm_mean_abs][0] == 3);
  CHECK(t.y.further[norm_mean_square][0] == 12.5);
  CHECK(t.y.further[norm_spread][0] == 2);
  CHECK(t.y.further[norm_row_members][1] == 2);
  CHECK(t.y.further[norm_row_members + 1][2] == -1);
  // Mean square 12.5; no mean is subtracted or returned.
  const LayerNormTruth r = layernorm({.rows = 1, .n = 4, .rms = true, .eps = 0, .x = x, .gamma = gamma});
  CHECK(r.y.value[3] == doctest::Approx(18 / std::sqrt(12.5)).epsilon(1e-15));
  CHECK(r.rstd.value[0] == doctest::Approx(1 / std::sqrt(12.5)).epsilon(1e-15));
  CHECK(r.mean.value.empty());
  // Squares of 1, 1, -1 are one value, their deviations from the mean 1/3 are not.
  CHECK(one_row({1, 1, -1}, true).y.further[norm_square_spread][0] == 3);
  CHECK(one_row({1, 1, -1}).y.further[norm_square_spread][0] == doctest::Approx(std::sqrt(5.0)));
}

TEST_CASE("rows without variance are beta, bit for bit, and rstd is that of eps") {
  for (const std::vector<double>& x :
       {std::vector<double>{5.25}, std::vector<double>(64, 3.0), std::vector<double>(1024, -0.0)}) {
    const std::vector<double> beta(x.size(), 0.7);
    const LayerNormTruth t = layernorm({.rows = 1, .n = std::ssize(x), .eps = eps, .x = x, .beta = beta});
    CHECK(t.y.value[0] == 0.7);
    const Bound b = y_bound(t);
    CHECK(b.hard[0] == std::fabs(static_cast<double>(0.7F) - 0.7));
    CHECK(norm_mean_bound(t.mean, {}, DType::f32, std::ssize(x), eps).hard[0] == std::fabs(static_cast<float>(x[0]) - x[0]));
    CHECK(norm_rstd_bound(t.rstd, {}, DType::f32, std::ssize(x), false, eps).hard[0] <= 6.001 * u / std::sqrt(eps));
    // A mean folded into the shift does not cancel exactly.
    if (x[0] != 0) CHECK(y_bound(t, false, eps, {.folded_shift = true}).hard[0] > u * std::fabs(x[0]) / std::sqrt(eps));
  }
  // 24 significant bits times 3, 64 or not a power of two: sums round.
  CHECK(y_bound(one_row(std::vector<double>(64, static_cast<double>(0.1F)))).hard[0] > 0);
  CHECK(y_bound(one_row(std::vector<double>(3, 5.0))).hard[0] > 0);
}

TEST_CASE("balanced rows are +-1 in rms within the root's accuracy, for any width") {
  for (const std::int64_t n : {2, 64, 256}) {
    const LayerNormTruth t = one_row(activations(Family::balanced, DType::f32, 1, n, 1), true, 0);
    CHECK(std::fabs(t.y.value[0]) == 1);
    CHECK(y_bound(t, true, 0).hard[0] <= 8.001 * u);
    CHECK(norm_rstd_bound(t.rstd, {}, DType::f32, n, true, 0).hard[0] <= 6.001 * u);
  }
}

TEST_CASE("special rows of layernorm: NaN, Inf, and 0/0") {
  const LayerNormTruth n = one_row({1, nan_value, 2});
  for (std::size_t i = 0; i < 3; ++i) CHECK((std::isnan(n.y.value[i]) && std::isnan(n.y.sum_abs[i])));
  CHECK((std::isnan(n.mean.value[0]) && std::isnan(n.mean.sum_abs[0])));
  CHECK(std::isnan(n.rstd.value[0]));
  const LayerNormTruth i = one_row({1, inf, 2});
  for (const double v : i.y.value) CHECK(std::isnan(v));
  CHECK(i.mean.sum_abs[0] == inf);  // Inf or NaN, as the order has it
  CHECK(std::isnan(i.rstd.sum_abs[0]));
  const LayerNormTruth r = one_row({1, -inf, 2}, true);
  CHECK(r.y.value[0] == 0);
  CHECK(std::isnan(r.y.value[1]));
  CHECK(r.rstd.value[0] == 0);
  for (const bool rms : {false, true}) {
    const LayerNormTruth zero = one_row({0, 0, 0}, rms, 0);
    CHECK(std::isnan(zero.y.value[0]));
    CHECK(zero.y.sum_abs[0] == inf);
    CHECK(y_bound(zero, rms, 0).hard[0] == inf);
  }
}

TEST_CASE("the second implementation of layernorm agrees on every family") {
  for (const DType t : {DType::f32, DType::f64, DType::bf16})
    for (const Family f : families)
      for (const bool rms : {false, true})
        for (const std::int64_t n : {1, 2, 67, 200}) {
          const std::vector<double> x = activations(f, t, 3, n, 7), gamma = activations(Family::normal, t, 1, n, 8),
                                    beta = activations(Family::normal, t, 1, n, 9);
          LayerNorm s{
              .rows = 3, .n = n, .rms = rms, .eps = eps, .compute = t == DType::f64 ? t : DType::f32, .x = x, .gamma = gamma};
          if (!rms) s.beta = beta;
          const LayerNormTruth e = layernorm(s);
          const std::vector<double> slow = layernorm_slow(s);
          // What the reference may add: 70 roundings of the mean, against the bound's own n of the target's.
          const Arithmetic a{.accumulator = s.compute, .output = s.compute};
          const Bound b = layernorm_bound(e.y, a, s.compute, rms, eps);
          const double share = t == DType::f64 ? 0x1p-4 : 0x1p-20;
          for (std::size_t i = 0; i < slow.size(); ++i) {
            CAPTURE(name(f));
            CAPTURE(n);
            CAPTURE(i);
            const double spacing = 0x1p-52 * std::fabs(slow[i]);
            REQUIRE(std::fabs(e.y.value[i] - slow[i]) <= share * b.iid[i] + spacing);
          }
        }
}

TEST_CASE("fp64 normalised values carry what fp64 cannot hold, and chosen rows are those of the whole") {
  const LayerNormTruth t = one_row({1, 2, 4}, false, 0, DType::f64);
  REQUIRE(t.y.value_lo.size() == 3);
  // Mean 7/3, deviations -4/3, -1/3, 5/3, variance 14/9: y = -4/sqrt(14).
  const long double want = -4 / std::sqrt(14.0L);
  CHECK(std::fabs(static_cast<double>(static_cast<long double>(t.y.value[0]) + static_cast<long double>(t.y.value_lo[0]) -
                                      want)) < 0x1p-61);
  const std::vector<double> x = activations(Family::shifted, DType::f32, 6, 50, 3);
  const LayerNorm s{.rows = 6, .n = 50, .eps = eps, .x = x};
  const LayerNormTruth all = layernorm(s), some = layernorm(s, {1, 4});
  for (std::size_t i = 0; i < 50; ++i) {
    CHECK(some.y.value[i] == all.y.value[50 + i]);
    CHECK(some.y.value[50 + i] == all.y.value[200 + i]);
  }
  CHECK(some.mean.value[1] == all.mean.value[4]);
  CHECK(some.rstd.further[norm_variance][1] == all.rstd.further[norm_variance][4]);
  CHECK_THROWS_AS(layernorm({.rows = 2, .n = 3, .x = x}), std::invalid_argument);
  CHECK_THROWS_AS(layernorm_bound(Expected{}, {}, DType::f32, false, eps), std::invalid_argument);
}

TEST_CASE("the bounds of a row are the derived ones") {
  const std::vector<double> x = activations(Family::offset, DType::f32, 1, 300, 5, 4);
  const LayerNormTruth t = one_row(x);
  const auto& f = t.y.further;
  const double n = 300, mean = std::fabs(f[norm_mean][0]), variance = f[norm_variance][0], rstd = t.rstd.value[0];
  const double hard_mean = u * (f[norm_mean_abs][0] * (n - 1 + 3 * std::log2(n)) + 2 * mean),
               gate_mean = u * (1.5 * f[norm_spread][0] * mean +
                                4 * f[norm_spread][0] / std::sqrt(n) * std::sqrt(f[norm_mean_square][0]) + 2 * mean) +
                           f[norm_mean_bias][0];
  const Bound m = norm_mean_bound(t.mean, {}, DType::f32, 300, eps);
  CHECK(m.hard[0] == doctest::Approx(hard_mean).epsilon(1e-3));
  CHECK(m.iid[0] == doctest::Approx(gate_mean).epsilon(1e-3));
  // Half the relative error of the variance, which a running mean's error enters linearly; then 1/sqrt.
  const double hard_root = 0.5 * (u * (n + 8) * variance + 2 * std::sqrt(2.0 * variance) * hard_mean) / variance,
               gate_root = 0.5 *
                           (u * (1.5 * f[norm_square_spread][0] + f[norm_square_bias][0] + 8) * variance +
                            u * 4 * f[norm_spread][0] / std::sqrt(n) * mean * std::sqrt(variance)) /
                           variance;
  const Bound r = norm_rstd_bound(t.rstd, {}, DType::f32, 300, false, eps);
  CHECK(r.hard[0] == doctest::Approx(rstd * (hard_root + 6.5 * u)).epsilon(2e-3));
  CHECK(r.iid[0] == doctest::Approx(rstd * (gate_root + 6.5 * u)).epsilon(2e-3));
  const Bound y = y_bound(t);
  const double value = std::fabs(t.y.value[9]);
  CHECK(y.hard[9] == doctest::Approx(rstd * hard_mean + value * (hard_root + 8.5 * u)).epsilon(2e-3));
  CHECK(y.iid[9] == doctest::Approx(rstd * gate_mean + value * (gate_root + 8.5 * u)).epsilon(2e-3));
  // 16-bit results round once more; a mean folded into the shift is rounded with it.
  CHECK(y_bound(t, false, eps, {.output = DType::bf16}).iid[9] == doctest::Approx(y.iid[9] + 0x1p-8 * value).epsilon(1e-3));
  CHECK(y_bound(t, false, eps, {.folded_shift = true}).iid[9] ==
        doctest::Approx(y.iid[9] + u * (3 * rstd * mean + value)).epsilon(2e-3));
  const LayerNormTruth q = one_row(x, true);
  const double squares = std::min(n + 8, 1.5 * q.y.further[norm_square_spread][0] + q.y.further[norm_square_bias][0] + 8);
  CHECK(y_bound(q, true).iid[9] == doctest::Approx(std::fabs(q.y.value[9]) * u * (0.5 * squares + 8.5)).epsilon(2e-3));
}

TEST_CASE("a variance in one pass is outside the bound of rstd from a mean of 16 deviations on, two passes are inside") {
  for (const std::int64_t offset : {4, 10}) {
    int caught = 0;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const std::vector<double> x = activations(Family::offset, DType::f32, 1, 512, seed, offset);
      const LayerNormTruth t = one_row(x);
      const double gate = norm_rstd_bound(t.rstd, {}, DType::f32, 512, false, eps).iid[0];
      const auto error = [&](bool one_pass) {
        const auto v = static_cast<double>(std::max(0.0F, variance_in_fp32(x, one_pass)));
        return std::fabs(1 / std::sqrt(v + eps) - t.rstd.value[0]);
      };
      CHECK(error(false) <= gate);
      caught += error(true) > gate;
    }
    CHECK(caught >= (offset == 4 ? 14 : 20));
  }
}

TEST_CASE("a row whose squares fall below the format's steps is not exact: 1/0 is within its bound") {
  CHECK(y_bound(one_row({0x1p-130}, true, 0), true, 0).hard[0] == inf);
  CHECK(y_bound(one_row({0x1p-60}, true, 0), true, 0).hard[0] < 1e-6);
  CHECK(y_bound(one_row({0x1p-130}, true), true).hard[0] < 1e-36);
}

TEST_CASE("constant rows need n u: sums of equal numbers err alike") {
  double largest = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const std::vector<double> x = activations(Family::constant, DType::f32, 1, 8192, seed);
    float sum = 0;
    for (const double v : x) sum += static_cast<float>(v);
    const LayerNormTruth t = one_row(x);
    const double error = std::fabs(static_cast<double>(sum / 8192) - t.mean.value[0]);
    CHECK(error <= norm_mean_bound(t.mean, {}, DType::f32, 8192, eps).iid[0]);
    largest = std::max(largest, error / (u * std::fabs(x[0])));
  }
  CHECK(largest > 4 * 1.5 * std::sqrt(8192.0));
}

TEST_CASE("values that are close together on the grid of their sum err alike, in mean and squares") {
  const std::int64_t n = 8192;
  std::vector<double> x = activations(Family::normal, DType::f32, 1, n, 3);
  for (double& v : x) v = static_cast<double>(static_cast<float>(1000.3 + 0.01 * v));
  float sum = 0;
  for (const double v : x) sum += static_cast<float>(v);
  const LayerNormTruth t = one_row(x);
  const double error = std::fabs(static_cast<double>(sum / static_cast<float>(n)) - t.mean.value[0]);
  const double gate = norm_mean_bound(t.mean, {}, DType::f32, n, eps).iid[0];
  CHECK(error <= gate);
  CHECK(error > gate - t.mean.further[norm_mean_bias][0]);
  // One outlier: all others are 39 below the mean, and their squares near 1.86 u of the sum.
  std::vector<double> y = activations(Family::normal, DType::f32, 1, 3000, 3);
  y[0] = 117000;
  const LayerNormTruth o = one_row(y);
  const auto variance = static_cast<double>(variance_in_fp32(y, false));
  const double off = std::fabs(1 / std::sqrt(variance + eps) - o.rstd.value[0]);
  CHECK(off <= norm_rstd_bound(o.rstd, {}, DType::f32, 3000, false, eps).iid[0]);
  CHECK(off / o.rstd.value[0] > 0.5 * u * (1.5 * o.rstd.further[norm_square_spread][0] + 14));
}

TEST_CASE("small squares are charged with their size: an outlier swallows them one by one") {
  std::vector<double> x(1000, 1.0);
  x[0] = 0x1.8p+12;  // its square is 2.25 2^24
  const LayerNormTruth t = one_row(x, true);
  CHECK(t.y.further[norm_square_spread][0] == 1);
  CHECK(t.y.further[norm_square_bias][0] == doctest::Approx(999 / 2.25).epsilon(1e-3));
  float sum = 0;
  for (const double v : x) sum += static_cast<float>(v * v);
  const double error = std::fabs(1 / std::sqrt(static_cast<double>(sum / 1000)) - t.rstd.value[0]);
  const double gate = norm_rstd_bound(t.rstd, {}, DType::f32, 1000, true, eps).iid[0];
  CHECK(error <= gate);
  CHECK(error > 0.5 * gate);
}

TEST_CASE("a running mean leaves squares of its own behind an outlier, lost one by one in long rows") {
  std::vector<double> x(20000, 0.0);
  x[0] = 1;
  for (std::size_t i = 1; i < x.size(); ++i) x[i] = i % 2 == 0 ? 0x1p-20 : -0x1p-20;
  float mean = 0, squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const auto v = static_cast<float>(x[i]);
    const float delta = v - mean;
    mean += delta / static_cast<float>(i + 1);
    squares += delta * (v - mean);
  }
  const LayerNormTruth t = one_row(x, false, 0);
  const double error = std::fabs(std::sqrt(20000 / static_cast<double>(squares)) - t.rstd.value[0]);
  const double gate = norm_rstd_bound(t.rstd, {}, DType::f32, 20000, false, 0).iid[0];
  CHECK(error <= gate);
  CHECK(error > t.rstd.value[0] * 0.5 * u * (1.5 * t.rstd.further[norm_square_spread][0] + 14));
  CHECK(t.rstd.further[norm_square_bias][0] > 2000);
  // A row without outliers pays next to nothing, and mean squares have no running mean.
  CHECK(one_row(activations(Family::normal, DType::f32, 1, 20000, 1)).y.further[norm_square_bias][0] <
        1.5 * std::sqrt(20000.0));
  CHECK(one_row(x, true, 0).rstd.further[norm_square_bias][0] < 1);
}
