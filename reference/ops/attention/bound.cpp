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
  // Sums that are cut off err in one direction: where chance would let errors cancel, these take the place of the two above.
  double sum_u = 0, sum_enlarged = 1;
  bool cut = false, reduced_operands = false;
  double u_weights = 0, weight_absolute = 0;
  double u_out = 0, output_absolute = 0;
  bool parts_by_lse = false;
  double by_chance = 0, few_rescales = 0, nearest = 0, function_chance = 0;
};

/// `d`: terms of a score.
Terms terms_of(const Expected& e, const Arithmetic& a, std::int64_t d) {
  if (e.further.size() != attention_row_members || e.sum_abs.size() != e.value.size())
    throw std::invalid_argument("attention bound: the expectation has no magnitudes of attention");
  Terms t;
  const double u = unit_roundoff(a.accumulator);
  const double reference = e.value_lo.empty() ? 0x1p-52 : 0x1p-63;  // it rounds as well
  t.nearest = threshold("iid_nearest").value;
  t.cut = a.accumulation == Accumulation::tensor_core;
  t.u = t.sum_u = u + reference;
  if (t.cut) {
    // A step over b products errs by up to `step` of the magnitudes, so n of them by (n + b) step / b. Where the sums to
    // nearest have n + 3 roundings, step / b or, for few terms, step / 4 for each covers that; where they have 10 sqrt(n / 6)
    // by chance, (n + b) / (10 sqrt(1 / 6)) times as much.
    const double step = (a.block + 1) * std::ldexp(1.0, -a.fraction_bits) + 2 * u;
    const auto& keys = e.further[key_count];
    const double longest =
        std::max(static_cast<double>(d), keys.empty() ? 0.0 : *std::max_element(keys.begin(), keys.end())) + a.block;
    t.u = std::max(step / a.block, step / 4) + reference;
    t.sum_u = t.u * std::max(1.0, longest / (t.nearest * std::sqrt(1.0 / 6)));
  }
  t.function = 2 * a.function_ulps;
  // An argument's share of 2.25 u per unit, a score's of 4 u: docs/numerics.md.
  t.enlarged = 1 + 2 * a.function_ulps_per_x / threshold("softmax_argument").value;
  t.sum_enlarged = t.enlarged;
  if (narrower(a.scores, a.accumulator) && a.scores != DType::f32) {
    t.enlarged += unit_roundoff(a.scores) / (2 * u);
    t.sum_enlarged = t.enlarged;
  }
  if (narrower(a.probabilities, a.accumulator) && a.probabilities != DType::f32) {
    t.u_weights = unit_roundoff(a.probabilities);
    t.weight_absolute = smallest_subnormal(a.probabilities) / 2;
  }
  // fp32 data that tensor cores multiply: both operands of a score, by up to 2 u |q||k| each way; weights and values.
  t.reduced_operands = a.operand == DType::tf32;
  if (t.reduced_operands) {
    const double u_operand = (a.operand_rounding == Rounding::toward_zero ? 2 : 1) * unit_roundoff(a.operand);
    // G is at least (d + 3) |scale| |q||k|, by chance at least 10 sqrt(1/3) |scale| |q||k|.
    t.enlarged += 2.01 * u_operand / ((static_cast<double>(d) + 3) * t.u);
    t.sum_enlarged += 2.01 * u_operand / (t.nearest * std::sqrt(1.0 / 3) * t.sum_u);
    t.u_weights += 2 * u_operand, t.weight_absolute += 2 * smallest_subnormal(a.operand);
  }
  if (narrower(a.output, a.accumulator))
    t.u_out = unit_roundoff(a.output), t.output_absolute = smallest_subnormal(a.output) / 2;
  t.parts_by_lse = a.splits > 1;
  t.by_chance = threshold("softmax_additions").value, t.few_rescales = threshold("softmax_rescales").value;
  t.function_chance = threshold("attention_function").value;
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
  const double z = std::max(t.u * t.enlarged, t.sum_u * t.sum_enlarged) * e.further[largest_gap][r] +
                   t.u * (t.function + (t.function + 2) * l.rescales);
  l.amplify = std::exp(2 * z);
  return l;
}

}  // namespace

Bound attention_bound(const Expected& e, const Arithmetic& a, std::int64_t d, bool exchangeable) {
  const Terms t = terms_of(e, a, d);
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
    const bool power_of_two = std::has_single_bit(static_cast<std::uint64_t>(l.ties));
    if (!t.reduced_operands && (l.ties == 1 || (l.ties > 0 && !t.cut && !t.parts_by_lse && power_of_two))) {
      b.hard[i] = std::fabs(round_to(a.output, e.value[i]) - e.value[i]);  // the rounded truth, bit for bit
      if (exchangeable) b.iid[i] = b.hard[i];
      continue;
    }
    const double absolute = (l.n + 2) * (smallest_subnormal(a.accumulator) + t.weight_absolute) * e.largest_input;
    const double cap = o + e.largest_input;  // a mean of values, whatever the weights
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
        l.amplify *
            (t.sum_u * t.sum_enlarged * (std::sqrt(w) + o * e.further[root_gap_of][r]) +
             t.u * (t.function_chance * l.function + (l.function + 2) * rescales) * (root + o * e.further[root_sum][r])) +
        t.nearest * t.sum_u * std::sqrt((l.n + 8) * (o * o / 3 + root * root / 6) + 2 * root * root + o * o) +
        t.sum_u * o * (t.by_chance * std::sqrt(l.n) + 6) +
        std::min(t.u_weights * (s + o), threshold("attention_weights").value * t.u_weights * root + 2 * t.u_weights * o);
    b.iid[i] = std::min(b.hard[i], finish(chance));
  }
  return b;
}

Bound log_sum_exp_bound(const Expected& e, const Arithmetic& a, std::int64_t d, bool exchangeable) {
  const Terms t = terms_of(e, a, d);
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
    // Scores that all err in one direction shift the result: nothing averages.
    if (t.cut || t.reduced_operands) {
      b.iid[r] = b.hard[r];
      continue;
    }
    const double by_chance =
        exact ? 0 : t.u * (t.enlarged * (e.further[root_gap_of][r] + e.further[mean_argument][r]) + l.function);
    b.iid[r] = std::min(b.hard[r], l.amplify * (by_chance + t.u * (l.function + 2) * std::min(l.rescales, t.few_rescales)) +
                                       t.u * t.by_chance * std::sqrt(l.n) + end);
  }
  return b;
}

}  // namespace assay::reference
