// SPDX-License-Identifier: Apache-2.0
// Attention's truth against hand-computed values and a second implementation, and its bounds just inside and outside.
#include "reference/ops/attention.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "reference/inputs.hpp"
#include "reference/models/tensor_core.hpp"

using namespace assay;
using assay::reference::Attention;
using assay::reference::KeyRange;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double u = 0x1p-24;

/// Owns what an Attention refers to.
struct Sample {
  std::vector<double> q, k, v, bias;
  std::vector<KeyRange> visible;
  Attention a;

  explicit Sample(Attention shape) : a(shape) {
    q.assign(static_cast<std::size_t>(a.batch * a.hq * a.sq * a.d), 0);
    k.assign(static_cast<std::size_t>(a.batch * a.hkv * a.skv * a.d), 0);
    v.assign(static_cast<std::size_t>(a.batch * a.hkv * a.skv * a.dv), 0);
    bias.assign(static_cast<std::size_t>(a.bias_heads * a.sq * a.skv), 0);
    visible.assign(static_cast<std::size_t>(a.batch * a.sq), {0, a.skv});
  }
  void fill(Family f, DType t, std::uint64_t seed) {
    draw(q, f, t, a.d, true, seed, 1), draw(k, f, t, a.d, false, seed, 2), draw(v, Family::normal, t, a.dv, true, seed, 3);
    if (!bias.empty()) draw(bias, Family::masked, t, a.skv, true, seed, 4);
  }
  const Attention& view() {
    a.q = q, a.k = k, a.v = v, a.bias = bias, a.visible = visible;
    return a;
  }

 private:
  static void draw(std::vector<double>& to, Family f, DType t, std::int64_t width, bool left, std::uint64_t seed,
                   std::uint32_t stream) {
    const std::int64_t rows = std::ssize(to) / width;
    Operand o{.role = "X", .dtype = t, .dims = {rows, width}, .strides = {width, 1}, .span = rows * width, .stream = stream};
    const std::vector<std::uint64_t> bits = generate(o, {.family = f, .outer_axis = 0, .inner_axis = 1, .left = left}, seed);
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = decode(t, bits[i]);
  }
};

/// One query whose scores are the logs of 1, 2 and 5; values 8, 16, 32 and 1, 1, 1.
Sample one_query() {
  Sample s({.sq = 1, .skv = 3, .d = 2, .dv = 2, .scale = 0.5});
  s.q = {2, 0};
  s.k = {std::log(1.0), 9, std::log(2.0), 9, std::log(5.0), 9};
  s.v = {8, 1, 16, 1, 32, 1};
  return s;
}

}  // namespace

TEST_CASE("attention of a hand-computed query") {
  Sample s = one_query();
  const std::vector<Expected> e = reference::attention(s.view());
  CHECK(e[0].value[0] == doctest::Approx((8 + 32 + 160) / 8.0).epsilon(1e-15));
  CHECK(e[0].value[1] == doctest::Approx(1).epsilon(1e-15));
  CHECK(e[1].value[0] == doctest::Approx(std::log(8.0)).epsilon(1e-15));
  CHECK(e[0].sum_abs[0] == doctest::Approx(25).epsilon(1e-5));
  CHECK(e[0].sum_sq[0] == doctest::Approx(25 * 25).epsilon(1e-5));  // a bound
  s.a.exchangeable = true;
  const Expected by_chance = reference::attention(s.view())[0];
  CHECK(by_chance.sum_sq[0] == doctest::Approx(1 + 16 + 400).epsilon(1e-5));
  CHECK(by_chance.sum_abs[0] == doctest::Approx(std::sqrt(3 * 417.0)).epsilon(1e-5));
  CHECK(e[0].further[reference::key_count][0] == 3);
  CHECK(e[0].further[reference::row_max][0] == doctest::Approx(std::log(5.0)));
  CHECK(e[0].further[reference::row_log_sum][0] == doctest::Approx(std::log(1.6)));
  CHECK(e[0].further[reference::root_sum][0] == doctest::Approx(std::sqrt(1 + 4 + 25.0) / 8));
  // G of key 2: (d + 3) scale |q||k| + 2.25 X + 4 |s| + max.
  const auto gap = [](double logit) {
    return 5 * 0.5 * 2 * std::sqrt(logit * logit + 81) + 2.25 * (std::log(5.0) - logit) + 4 * logit + std::log(5.0);
  };
  const double g[] = {gap(0), gap(std::log(2.0)), gap(std::log(5.0))};
  CHECK(e[0].further[reference::mean_gap_of][0] == doctest::Approx((g[0] + 2 * g[1] + 5 * g[2]) / 8).epsilon(1e-5));
  CHECK(e[0].further[reference::weighted][0] == doctest::Approx((8 * g[0] + 32 * g[1] + 160 * g[2]) / 8).epsilon(1e-5));
  CHECK(e[0].further[reference::largest_gap][0] == doctest::Approx(std::max({g[0], g[1], g[2]})).epsilon(1e-5));
}

TEST_CASE("hidden keys, a shared key head and a bias enter where they should") {
  Sample s = one_query();
  s.visible = {{0, 2}};
  CHECK(reference::attention(s.view())[0].value[0] == doctest::Approx(40 / 3.0).epsilon(1e-15));
  s.visible = {{2, 3}};
  CHECK(reference::attention(s.view())[0].value[0] == 32);
  Sample biased({.sq = 1, .skv = 2, .d = 1, .dv = 1, .bias_heads = 1});
  biased.bias = {std::log(3.0), 0}, biased.v = {4, 8};
  CHECK(reference::attention(biased.view())[0].value[0] == doctest::Approx(5).epsilon(1e-15));
  // Heads 0, 1 use key head 0 and heads 2, 3 key head 1.
  Sample grouped({.hq = 4, .hkv = 2, .sq = 1, .skv = 1, .d = 1, .dv = 1});
  grouped.v = {5, 7};
  CHECK(reference::attention(grouped.view())[0].value == std::vector<double>{5, 5, 7, 7});
}

TEST_CASE("special rows: NaN and +Inf give NaN, no visible key gives NaN or zero and a log-sum-exp of -Inf") {
  for (const double bad : {nan_value, inf}) {
    Sample s({.sq = 2, .skv = 2, .d = 1, .dv = 1, .bias_heads = 1});
    s.v = {1, 2}, s.bias = {0, bad, 0, 0};
    const std::vector<Expected> e = reference::attention(s.view());
    CHECK(std::isnan(e[0].value[0]));
    CHECK(std::isnan(e[1].value[0]));
    CHECK(e[0].value[1] == 1.5);
    CHECK(e[0].other.empty());
  }
  for (const bool by_range : {true, false}) {
    Sample s({.sq = 2, .skv = 2, .d = 1, .dv = 1, .bias_heads = 1});
    s.v = {1, 2};
    if (by_range)
      s.visible[0] = {1, 1};
    else
      s.bias = {-inf, -inf, -inf, 0};
    const std::vector<Expected> e = reference::attention(s.view());
    CHECK(std::isnan(e[0].value[0]));
    CHECK(std::isnan(e[0].sum_abs[0]));
    CHECK(e[0].other[0] == 0);
    CHECK(std::isnan(e[0].other[1]));
    CHECK(e[1].value[0] == -inf);
    CHECK(std::isfinite(e[0].value[1]));
  }
}

TEST_CASE("the second implementation agrees on every family, with heads, masks and a bias") {
  for (const DType t : {DType::f32, DType::f64, DType::bf16})
    for (const Family f : {Family::normal, Family::uniform, Family::heavy, Family::two_level, Family::nan_one, Family::inf_one})
      for (const std::int64_t bias_heads : {0, 1, 4})
        for (const std::int64_t skv : {1, 37}) {
          Sample s(
              {.batch = 2, .hq = 4, .hkv = 2, .sq = 3, .skv = skv, .d = 8, .dv = 5, .scale = 0.25, .bias_heads = bias_heads});
          s.a.compute = t == DType::f64 ? DType::f64 : DType::f32;
          s.fill(f, t, 11);
          s.visible[1] = {0, 0}, s.visible[2] = {skv / 3, skv}, s.visible[5] = {0, skv / 2};
          const std::vector<Expected> e = reference::attention(s.view());
          const std::vector<std::vector<double>> slow = reference::attention_slow(s.view());
          CAPTURE(name(f));
          CAPTURE(name(t));
          for (const std::size_t out : {0, 1})
            for (std::size_t i = 0; i < slow[out].size(); ++i) {
              const double want = slow[out][i], got = e[out].value[i];
              CAPTURE(i);
              if (!std::isfinite(want)) {
                REQUIRE((std::isnan(want) ? std::isnan(got) : got == want));
                continue;
              }
              const std::size_t row = out == 0 ? i / 5 : i;
              const double g = 1 + e[out].further[reference::largest_gap][row];
              const double scale = (out == 0 ? e[0].sum_abs[i] + std::fabs(want) : e[1].sum_abs[i] + 1) * g;
              REQUIRE(std::fabs(got - want) <= scale * (t == DType::f64 ? 0x1p-60 : 0x1p-51) + std::fabs(want) * 0x1p-52);
            }
        }
}

TEST_CASE("chosen queries are those of the whole, and sizes are checked") {
  Sample s({.batch = 2, .hq = 2, .hkv = 1, .sq = 200, .skv = 40, .d = 8, .dv = 4, .exchangeable = true});
  s.fill(Family::normal, DType::f32, 5);
  const std::vector<Expected> all = reference::attention(s.view()),
                              some = reference::attention(s.view(), {0, 3, 399, 401, 799});
  const std::size_t rows[] = {0, 3, 399, 401, 799};
  for (std::size_t r = 0; r < 5; ++r) {
    CHECK(some[1].value[r] == doctest::Approx(all[1].value[rows[r]]).epsilon(1e-14));
    for (std::size_t c = 0; c < 4; ++c) {
      CHECK(std::fabs(some[0].value[r * 4 + c] - all[0].value[rows[r] * 4 + c]) <= 1e-14);
      CHECK(some[0].further[reference::weighted][r * 4 + c] ==
            doctest::Approx(all[0].further[reference::weighted][rows[r] * 4 + c]).epsilon(1e-4));
    }
  }
  s.q.pop_back();
  CHECK_THROWS_AS(reference::attention(s.view()), std::invalid_argument);
}

TEST_CASE("fp64 results carry what fp64 cannot hold") {
  Sample s({.sq = 1, .skv = 3, .d = 1, .dv = 1, .compute = DType::f64});
  s.v = {1, 0, 0};
  const Expected e = reference::attention(s.view())[0];
  CHECK(e.value_lo[0] == doctest::Approx(0x1p-54 / 3).epsilon(1e-2));  // 1/3 - fl(1/3)
}

TEST_CASE("equal exact scores over 2^m keys are exact, other counts are not") {
  for (const std::int64_t n : {1, 3, 4, 64}) {
    Sample s({.sq = 1, .skv = n, .d = 1, .dv = 1, .exact_scores = true});
    s.q = {16}, s.k.assign(static_cast<std::size_t>(n), 8.0), s.v.assign(static_cast<std::size_t>(n), 7.0);
    s.v[0] = 3;
    const Expected e = reference::attention(s.view())[0];
    CHECK(e.further[reference::tie_count][0] == static_cast<double>(n));
    const Bound b = reference::attention_bound(e, {}, 1, false);
    CHECK((b.hard[0] == 0) == (n != 3));
    // bf16 output: the rounded truth, bit for bit.
    const double rounding = std::fabs(round_to(DType::bf16, e.value[0]) - e.value[0]);
    if (n != 3) CHECK(reference::attention_bound(e, {.output = DType::bf16}, 1, false).hard[0] == rounding);
    // Parts combined by their log-sum-exp are exact only where one key holds all.
    if (n == 4) CHECK(reference::attention_bound(e, {.splits = 2}, 1, false).hard[0] > 0);
  }
  Sample hot({.sq = 1, .skv = 9, .d = 1, .dv = 1, .exact_scores = true});
  hot.q = {16}, hot.k[4] = 8, hot.v[4] = 5, hot.v[5] = 1e6;
  const Expected e = reference::attention(hot.view())[0];
  CHECK(e.value[0] == 5);
  CHECK(reference::attention_bound(e, {}, 1, false).hard[0] == 0);
  hot.k[3] = 2;  // exp(-96) is not zero in fp32
  CHECK(reference::attention(hot.view())[0].further[reference::tie_count][0] == 0);
}

TEST_CASE("the bounds of a row are the derived ones") {
  using namespace assay::reference;
  Sample s({.sq = 1, .skv = 300, .d = 16, .dv = 1, .scale = 0.25, .exchangeable = true});
  s.fill(Family::normal, DType::f32, 3);
  const std::vector<Expected> both = attention(s.view());
  const Expected& e = both[0];
  const double n = 300, o = std::fabs(e.value[0]), sum = e.sum_abs[0], root = std::sqrt(e.sum_sq[0]),
               w = e.further[weighted][0];
  const double g = e.further[mean_gap_of][0], root_g = e.further[root_gap_of][0], root_y = e.further[root_sum][0];
  const double hard = 19 / (10 * std::sqrt(1 / 6.0)) * std::sqrt(n * w) + o * g + (4 + 6 * (n - 1)) * (sum + o) +
                      (2 * n + 4) * sum + (n + 5) * o;
  const double chance = std::sqrt(w) + o * root_g + (3.5 * 4 + 6 * 4) * (root + o * root_y) +
                        10 * std::sqrt((n + 8) * (o * o / 3 + root * root / 6) + 2 * root * root + o * o) +
                        o * (1.5 * std::sqrt(n) + 6);
  const Bound b = attention_bound(e, {}, 16, true);
  CHECK(b.hard[0] == doctest::Approx(hard * u).epsilon(1e-3));
  CHECK(b.iid[0] == doctest::Approx(chance * u).epsilon(1e-3));
  // Declared 16-bit probabilities, a 16-bit output and 16-bit scores each add their share.
  const double p = 0x1p-8;
  CHECK(attention_bound(e, {.probabilities = DType::bf16}, 16, true).iid[0] ==
        doctest::Approx(chance * u + std::min(p * (sum + o), 4 * p * root + 2 * p * o)).epsilon(1e-3));
  CHECK(attention_bound(e, {.output = DType::bf16}, 16, true).iid[0] == doctest::Approx(chance * u + p * o).epsilon(1e-3));
  CHECK(attention_bound(e, {.scores = DType::bf16}, 16, true).iid[0] > 1000 * chance * u);
  CHECK(attention_bound(e, {.splits = 4}, 16, true).iid[0] > b.iid[0]);
  CHECK(attention_bound(e, {.function_ulps_per_x = 1}, 16, true).iid[0] > b.iid[0]);
  const Expected& l = both[1];
  const double m = std::fabs(l.further[row_max][0]), log_sum = l.further[row_log_sum][0], end = 3 * m + 7 * log_sum + 2;
  const Bound lse = log_sum_exp_bound(l, {}, 16, true);
  CHECK(lse.hard[0] == doctest::Approx((g + 4 + 6 * (n - 1) / 2 + n + end) * u).epsilon(1e-3));
  CHECK(lse.iid[0] ==
        doctest::Approx((root_g + l.further[mean_argument][0] + 4 + 6 * 4 + 1.5 * std::sqrt(n) + end) * u).epsilon(1e-3));
  CHECK_THROWS_AS(attention_bound(Expected{}, {}, 16, false), std::invalid_argument);
}

TEST_CASE("sums cut off on tensor cores stay inside the bound that declares them") {
  using namespace assay::reference;
  for (const bool tf32 : {false, true})
    for (const std::int64_t keys : {1, 3, 40, 700}) {
      CAPTURE(tf32);
      CAPTURE(keys);
      Sample s({.sq = 3, .skv = keys, .d = 64, .dv = 5, .scale = 0.125, .exchangeable = true});
      s.fill(Family::uniform, tf32 ? DType::f32 : DType::bf16, 7);  // of one sign: nothing cancels what is cut off
      const std::vector<Expected> both = attention(s.view());
      const Expected &e = both[0], &lse = both[1];
      Arithmetic a{.operand = tf32 ? DType::tf32 : DType::bf16,
                   .operand_rounding = tf32 ? Rounding::toward_zero : Rounding::nearest,
                   .accumulation = Accumulation::tensor_core,
                   .block = tf32 ? 4 : 8,
                   .fraction_bits = 24,
                   .probabilities = tf32 ? DType::f32 : DType::bf16};
      const Bound b = attention_bound(e, a, 64, true), of_lse = log_sum_exp_bound(lse, a, 64, true);
      const auto operand = [&](double x) { return tf32 ? truncate_to(DType::tf32, x) : round_to(DType::bf16, x); };
      const auto dot = [&](const std::vector<double>& x, const std::vector<double>& y) {
        const std::int64_t n = std::ssize(x);
        return tf32 ? models::tensor_core_dot<4, 24>(x.data(), 1, y.data(), 1, n)
                    : models::tensor_core_dot<8, 24>(x.data(), 1, y.data(), 1, n);
      };
      const auto reduced = [&](std::vector<double> x) {
        for (double& value : x) value = operand(value);
        return x;
      };
      const std::vector<double> q = reduced(s.q), k = reduced(s.k), v = reduced(s.v);
      double largest = 0;
      for (std::int64_t i = 0; i < 3; ++i) {
        std::vector<double> scores, weights;
        for (std::int64_t j = 0; j < keys; ++j)
          scores.push_back(dot({q.begin() + i * 64, q.begin() + (i + 1) * 64}, {k.begin() + j * 64, k.begin() + (j + 1) * 64}) /
                           8);
        const double top = *std::max_element(scores.begin(), scores.end());
        float sum = 0;
        for (const double score : scores) {
          const float weight = std::exp(static_cast<float>(score - top));
          sum += weight, weights.push_back(operand(weight));
        }
        const double got_lse = static_cast<float>(top) + std::log(sum);
        CHECK(std::fabs(got_lse - lse.value[static_cast<std::size_t>(i)]) <= of_lse.iid[static_cast<std::size_t>(i)]);
        for (std::int64_t c = 0; c < 5; ++c) {
          std::vector<double> column;
          for (std::int64_t j = 0; j < keys; ++j) column.push_back(v[static_cast<std::size_t>(j * 5 + c)]);
          const std::size_t at = static_cast<std::size_t>(i * 5 + c);
          const double got = static_cast<float>(dot(weights, column)) / sum, error = std::fabs(got - e.value[at]);
          CHECK(error <= b.iid[at]);
          CHECK(error <= b.hard[at]);
          largest = std::max(largest, error / b.iid[at]);
        }
      }
      if (tf32)
        CHECK(largest > 0);
      else
        CHECK((keys == 1 ? largest == 0 : largest > 0.1));
      if (tf32 || keys == 1) continue;
      // What the sums add is small beside 16-bit weights and results.
      a.output = DType::bf16;
      const double cut = attention_bound(e, a, 64, true).iid[0];
      a.accumulation = Accumulation::nearest;
      CHECK(cut < 1.5 * attention_bound(e, a, 64, true).iid[0]);
      CHECK(cut > attention_bound(e, a, 64, true).iid[0]);
    }
}

TEST_CASE("whatever the weights, an output is a mean of values: a declaration cannot widen the bound beyond that") {
  Sample s({.sq = 1, .skv = 20, .d = 4, .dv = 1, .exchangeable = true});
  s.fill(Family::normal, DType::f32, 3);
  for (double& x : s.q) x *= 1000;
  const Expected e = reference::attention(s.view())[0];
  const Bound b = reference::attention_bound(e, {.scores = DType::bf16}, 4, true);
  CHECK(b.hard[0] <= std::fabs(e.value[0]) + e.largest_input + 1e-30);
}
