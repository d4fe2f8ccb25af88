// SPDX-License-Identifier: Apache-2.0
// The bounds of attention's output and log-sum-exp; docs/numerics.md, attention, derives every line.
#include <algorithm>
#include <bit>
#include <cmath>
#include <stdexcept>

#include "reference/ops/attention.hpp"

namespace assay::reference {
namespace {

bool narrower(DType t, DType than) {
  return format(t).precision < format(than).precision;
}
double growth(double n, double u) {
  return std::expm1(n * std::log1p(u));
}

/// What does not depend on the element.
struct Terms {
  double u = 0, function = 0;  // of the format computed in; E, the error of exp and log in u
  double enlarged = 1;         // what a declaration adds to the errors of scores and arguments, as a factor
  double u_weights = 0, weight_absolute = 0;
  double u_out = 0, output_absolute = 0;
  bool parts_by_lse = false;
  double by_chance = 0, few_rescales = 0, nearest = 0, function_chance = 0;
};

Terms terms_of(const Expected& e, const Arithmetic& a) {
  if (a.accumulation != Accumulation::nearest)
    throw std::invalid_argument("attention bound: only sums rounded to nearest are derived, got " + describe(a));
  if (e.further.size() != attention_row_members || e.sum_abs.size() != e.value.size())
    throw std::invalid_argument("attention bound: the expectation has no magnitudes of attention");
  Terms t;
  const double u = unit_roundoff(a.accumulator);
  t.u = u + (e.value_lo.empty() ? 0x1p-52 : 0x1p-63);  // the reference rounds as well
  t.function = 2 * a.function_ulps;
  // An argument's share of 2.25 u per unit, a score's of 4 u: docs/numerics.md.
  t.enlarged = 1 + 2 * a.function_ulps_per_x / threshold("softmax_argument").value;
  if (narrower(a.scores, a.accumulator) && a.scores != DType::f32) t.enlarged += unit_roundoff(a.scores) / (2 * u);
  if (narrower(a.probabilities, a.accumulator) && a.probabilities != DType::f32) {
    t.u_weights = unit_roundoff(a.probabilities);
    t.weight_absolute = smallest_subnormal(a.probabilities) / 2;
  }
  if (narrower(a.output, a.accumulator))
    t.u_out = unit_roundoff(a.output), t.output_absolute = smallest_subnormal(a.output) / 2;
  t.parts_by_lse = a.splits > 1;
  t.by_chance = threshold("softmax_additions").value, t.few_rescales = threshold("softmax_rescales").value;
  t.nearest = threshold("iid_nearest").value, t.function_chance = threshold("attention_function").value;
  return t;
}

/// Row members that both outputs use.
struct Line {
  double n, ties, function, rescales, amplify;
};

Line line_of(const Expected& e, const Terms& t, std::size_t r) {
  Line l{};
  l.ties = e.further[tie_count][r];
  l.n = l.ties > 0 ? l.ties : e.further[key_count][r];  // what vanishes is not added
  if (l.ties > 0) return {l.n, l.ties, 0, 0, 1};
  l.function = t.function, l.rescales = std::max(0.0, l.n - 1);
  // exp of every argument is off by a factor within exp(+-Z): a quotient of sums of them, first order times exp(2 Z).
  const double z = t.u * (t.enlarged * e.further[largest_gap][r] + t.function + (t.function + 2) * l.rescales);
  l.amplify = std::exp(2 * z);
  return l;
}

}  // namespace

Bound attention_bound(const Expected& e, const Arithmetic& a, std::int64_t d, bool exchangeable) {
  const Terms t = terms_of(e, a);
  const std::size_t count = e.value.size();
  // Rigorous over by-chance error of a score: |q||k| <= sqrt(d R2) makes the latter at least 10 sqrt(1/6) |q||k|.
  const double rigorous = std::max(1.0, (static_cast<double>(d) + 3) / (t.nearest * std::sqrt(1.0 / 6)));
  Bound b;
  b.hard.resize(count);
  if (exchangeable) b.iid.resize(count);
#pragma omp parallel for if (count > 20000)
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t r = i / static_cast<std::size_t>(e.row_length);
    const Line l = line_of(e, t, r);
    const double o = std::fabs(e.value[i]), s = e.sum_abs[i], root = std::sqrt(e.sum_sq[i]), w = e.further[weighted][i];
    if (l.ties == 1 || (l.ties > 0 && !t.parts_by_lse && std::has_single_bit(static_cast<std::uint64_t>(l.ties)))) {
      b.hard[i] = std::fabs(round_to(a.output, e.value[i]) - e.value[i]);  // the rounded truth, bit for bit
      if (exchangeable) b.iid[i] = b.hard[i];
      continue;
    }
    // Products with V, rescaled sums and the division underflow by half a step each, weights by half a step times a value.
    const double step = smallest_subnormal(a.accumulator);
    const double absolute = (l.n + 2) * step + l.n * (step / 2 + t.weight_absolute) * e.further[largest_value][r];
    const double cap = o + e.further[largest_value][r];  // a mean of values, whatever the weights
    const auto finish = [&](double error) {
      error = std::min(error, cap) + absolute;
      return error + t.u_out * (o + error) + t.output_absolute;
    };
    const bool exact = l.ties > 0;
    double hard = 0;
    if (!exact)
      hard = l.amplify * t.u *
             (t.enlarged * ((exchangeable ? rigorous * std::sqrt(l.n * w) : w) + o * e.further[mean_gap_of][r]) +
              (l.function + (l.function + 2) * l.rescales) * (s + o));
    // Parts combined by exp(lse of a part - lse of all): both are rounded at their own size, and nothing divides by their sum.
    const double parts =
        t.parts_by_lse ? 4 * t.u * l.amplify * (std::fabs(e.further[row_max][r]) + std::log(l.n) + 2 + t.function) : 0;
    hard += parts * (s + o);
    hard += growth(2 * l.n + 4, t.u) * s + growth(l.n + 5, t.u) * o + t.u_weights * (s + o);
    b.hard[i] = finish(hard);
    if (!exchangeable) continue;
    const double rescales = std::min(l.rescales, t.few_rescales);
    const double chance =
        parts * (root + o) +
        l.amplify * t.u *
            (t.enlarged * (std::sqrt(w) + o * e.further[root_gap_of][r]) +
             (t.function_chance * l.function + (l.function + 2) * rescales) * (root + o * e.further[root_sum][r])) +
        t.nearest * t.u * std::sqrt((l.n + 8) * (o * o / 3 + root * root / 6) + 2 * root * root + o * o) +
        t.u * o * (t.by_chance * std::sqrt(l.n) + 6) +
        std::min(t.u_weights * (s + o), threshold("attention_weights").value * t.u_weights * root + 2 * t.u_weights * o);
    b.iid[i] = std::min(b.hard[i], finish(chance));
  }
  return b;
}

Bound log_sum_exp_bound(const Expected& e, const Arithmetic& a, bool exchangeable) {
  const Terms t = terms_of(e, a);
  const std::size_t count = e.value.size();
  Bound b;
  b.hard.resize(count);
  if (exchangeable) b.iid.resize(count);
  for (std::size_t r = 0; r < count; ++r) {
    const Line l = line_of(e, t, r);
    const double log_sum = e.further[row_log_sum][r];
    // max + log S: the product with ln 2 of a form in base 2 and its constant, the logarithm, the addition.
    const double end = t.u * (3 * std::fabs(e.further[row_max][r]) + (t.function + 3) * log_sum + 2);
    const bool exact = l.ties > 0;
    const double scores = exact ? 0 : t.enlarged * e.further[mean_gap_of][r] + l.function;
    b.hard[r] = l.amplify * t.u * (scores + (l.function + 2) * l.rescales / 2) + growth(l.n, t.u) + end;
    if (!exchangeable) continue;
    const double chance = exact ? 0 : t.enlarged * (e.further[root_gap_of][r] + e.further[mean_argument][r]) + l.function;
    b.iid[r] = std::min(b.hard[r], l.amplify * t.u * (chance + (l.function + 2) * std::min(l.rescales, t.few_rescales)) +
                                       t.u * t.by_chance * std::sqrt(l.n) + end);
  }
  return b;
}

}  // namespace assay::reference
