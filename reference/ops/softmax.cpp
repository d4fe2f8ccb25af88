// SPDX-License-Identifier: Apache-2.0
// Softmax in wide arithmetic, and its bound; docs/numerics.md section 3.9 derives every line.
#include "reference/ops/softmax.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace assay::reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

void require_sizes(const Softmax& s) {
  if (s.rows < 0 || s.n < 0 || s.x.size() != static_cast<std::size_t>(s.rows * s.n))
    throw std::invalid_argument("softmax: " + std::to_string(s.rows) + " rows of " + std::to_string(s.n) + " need " +
                                std::to_string(s.rows * s.n) + " elements, got " + std::to_string(s.x.size()));
}

/// Below it an exponential is zero even as a subnormal.
double vanishing(DType t) {
  return std::log(smallest_subnormal(t)) - 1;
}

/// Output elements of one row, and what its bound needs.
struct RowOut {
  double *value, *value_lo, *gap, *other;
  double row[row_members];
};

void special_row(const Softmax& s, const RowOut& out, bool all_hidden) {
  for (std::int64_t i = 0; i < s.n; ++i) {
    out.value[i] = out.gap[i] = nan;
    if (out.value_lo != nullptr) out.value_lo[i] = 0;
    if (all_hidden) out.other[i] = s.log ? -infinity : 0;
  }
}

/// Fills what summation needs from the exponentials y (of sum 1), each beside how many elements share its value.
/// In any order: the smaller of n - 1 roundings and of what is left when terms below u are charged with their own size.
void summation(const std::vector<double>& y, const std::vector<double>& sharing, double u, double* row) {
  double large = 0, squares = 0, small_sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] > u ? large += 1, squares += sharing[i] : small_sum += y[i];
  const double n = static_cast<double>(y.size());
  row[small_part] = small_sum / u * (1 + std::log2(n));
  row[additions] = std::max(0.0, std::min(n - 1, large - 1 + row[small_part]));
  row[spread] = std::sqrt(squares);
}

template <class W>
void finite_row(const Softmax& s, const double* x, double max, RowOut& out) {
  const auto n = static_cast<std::size_t>(s.n);
  std::vector<W> e(n);
  W sum = 0;
  double tied = 0;
  bool others_vanish = true;
  for (std::size_t i = 0; i < n; ++i) {
    const W argument = static_cast<W>(x[i]) - static_cast<W>(max);
    e[i] = std::exp(argument);
    sum += e[i];
    tied += x[i] == max;
    others_vanish &= x[i] == max || argument < vanishing(s.compute);
  }
  const W log_of_sum = std::log(sum);
  std::vector<double> y(n);
  double mean = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const W argument = static_cast<W>(x[i]) - static_cast<W>(max), share = e[i] / sum,
            v = s.log ? argument - log_of_sum : share;
    y[i] = static_cast<double>(share);
    out.value[i] = static_cast<double>(v);
    if (out.value_lo != nullptr)
      out.value_lo[i] = std::isfinite(out.value[i]) ? static_cast<double>(v - static_cast<W>(out.value[i])) : 0;
    // -Inf: exactly 0, or exactly -Inf, which is a class and not a distance.
    out.gap[i] = x[i] != -infinity ? static_cast<double>(-argument) : s.log ? nan : 0;
    if (y[i] > 0) mean += y[i] * static_cast<double>(-argument);
  }
  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [x](std::size_t a, std::size_t b) { return x[a] > x[b]; });
  double rank = 0, chain = 0;
  std::vector<double> sharing(n);
  for (std::size_t i = 0, end = 0; i < n; i = end, rank += 1) {
    while (end < n && x[order[end]] == x[order[i]]) ++end;
    for (std::size_t l = i; l < end; ++l) {
      chain += y[order[l]] * rank;
      sharing[order[l]] = static_cast<double>(end - i);
    }
  }
  out.row[mean_gap] = mean, out.row[log_sum] = static_cast<double>(log_of_sum);
  summation(y, sharing, unit_roundoff(s.compute), out.row);
  out.row[rescales] = chain, out.row[ties] = others_vanish ? tied : 0;
}

/// (1+d) with |d| <= t in numerator and denominator cannot move a quotient by more than t/(1-t).
double relative(double units, double u) {
  const double t = units * u;
  return t < 0.5 ? t / (1 - t) : infinity;
}

}  // namespace

Expected softmax(const Softmax& s, std::vector<std::int64_t> rows) {
  require_sizes(s);
  const std::int64_t count = rows.empty() ? s.rows : std::ssize(rows);
  const auto size = static_cast<std::size_t>(count * s.n);
  const bool wide = s.compute == DType::f64;
  Expected out;
  out.value.assign(size, 0), out.sum_abs.assign(size, 0), out.other.assign(size, nan);
  if (wide) out.value_lo.assign(size, 0);
  out.further.assign(row_members, Numbers(static_cast<std::size_t>(count), 0.0));
#pragma omp parallel for schedule(dynamic) if (count > 1 && size > 4096)
  for (std::int64_t r = 0; r < count; ++r) {
    const double* x = s.x.data() + (rows.empty() ? r : rows[static_cast<std::size_t>(r)]) * s.n;
    const std::int64_t at = r * s.n;
    RowOut row{
        out.value.data() + at, wide ? out.value_lo.data() + at : nullptr, out.sum_abs.data() + at, out.other.data() + at, {}};
    double max = -infinity;
    bool special = false;
    for (std::int64_t i = 0; i < s.n; ++i) special |= !(x[i] < infinity), max = std::max(max, x[i]);
    if (special || max == -infinity)
      special_row(s, row, !special);
    else if (wide)
      finite_row<long double>(s, x, max, row);
    else
      finite_row<double>(s, x, max, row);
    for (std::size_t m = 0; m < row_members; ++m) out.further[m][static_cast<std::size_t>(r)] = row.row[m];
  }
  if (std::all_of(out.other.begin(), out.other.end(), [](double v) { return std::isnan(v); })) out.other.clear();
  out.rows = std::move(rows);
  out.row_length = s.n;
  out.terms = 1;  // flushing can cost an element its own exponential, whatever the row's length
  return out;
}

std::vector<double> softmax_slow(const Softmax& s) {
  require_sizes(s);
  std::vector<double> out(s.x.size());
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const double* x = s.x.data() + r * s.n;
    const bool special = std::any_of(x, x + s.n, [](double v) { return !(v < infinity); }) ||
                         std::all_of(x, x + s.n, [](double v) { return v == -infinity; });
    for (std::int64_t i = 0; i < s.n; ++i) {
      long double sum = 0, log_sum = -infinity;
      for (std::int64_t j = s.n; j-- > 0;) {
        const long double d = static_cast<long double>(x[j]) - static_cast<long double>(x[i]);
        sum += std::exp(d);
        // log(exp a + exp b) = max + log(1 + exp(-|a - b|))
        if (x[j] != -infinity) log_sum = std::max(log_sum, d) + std::log1p(std::exp(-std::fabs(log_sum - d)));
      }
      long double y = s.log ? -log_sum : 1 / sum;
      if (x[i] == -infinity) y = s.log ? -infinity : 0;
      out[static_cast<std::size_t>(r * s.n + i)] = special ? nan : static_cast<double>(y);
    }
  }
  return out;
}

Bound softmax_bound(const Expected& e, const Arithmetic& a, bool log, bool exact_arguments) {
  const std::size_t count = e.value.size();
  if (e.further.size() != row_members || e.sum_abs.size() != count)
    throw std::invalid_argument("softmax bound: the expectation has no magnitudes of softmax");
  const double u = unit_roundoff(a.accumulator), function = 2 * a.function_ulps, slope = 2 * a.function_ulps_per_x;
  const double argument = (exact_arguments ? 0 : threshold("softmax_argument").value) + slope;
  const double by_chance = threshold("softmax_additions").value, few_rescales = threshold("softmax_rescales").value;
  const bool narrow = format(a.output).precision < format(a.accumulator).precision;
  const double u_out = narrow ? unit_roundoff(a.output) : 0, output_absolute = narrow ? smallest_subnormal(a.output) / 2 : 0;
  const double underflow = log ? 0 : 4 * smallest_subnormal(a.accumulator);
  Bound b;
  b.hard.resize(count), b.iid.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t r = i / static_cast<std::size_t>(e.row_length);
    const double value = std::fabs(e.value[i]), gap = e.sum_abs[i], ties_here = e.further[ties][r];
    const auto bound_with = [&](double adding, double rescaling) {
      // The sum, relative to itself: nothing errs in it when it only counts.
      const double sum = ties_here > 0 ? 0 : argument * e.further[mean_gap][r] + function + adding + (function + 2) * rescaling;
      double error;
      if (log) {
        // x - m and the difference from log S are rounded once each: that is linear, however large they are.
        const double units = function * e.further[log_sum][r] + sum + (ties_here > 0 ? 0 : 1);
        error = u * (1 + 2 * u) * ((exact_arguments ? 0 : gap) + value) + relative(units, u);
      } else if (ties_here > 0 && gap == 0) {
        error = std::has_single_bit(static_cast<std::uint64_t>(ties_here)) ? 0 : relative(2, u) * value;  // reciprocal, product
      } else {
        // exp, a later rescaling of what was stored (exp, product), reciprocal and product; one for this reference and u^2.
        // A value of 0 lies so far below the maximum that no error of the argument brings it back.
        error = (value == 0 ? 0 : relative(argument * gap + sum + 2 * function + 4, u) * value) + underflow;
      }
      if (error == 0) return std::fabs(round_to(a.output, e.value[i]) - e.value[i]);  // the rounded truth, bit for bit
      return narrow && error < infinity ? error + u_out * (value + error) + output_absolute : error;
    };
    b.hard[i] = bound_with(e.further[additions][r], e.further[rescales][r]);
    const double random = by_chance * e.further[spread][r] + e.further[small_part][r];
    b.iid[i] = bound_with(std::min(e.further[additions][r], random), std::min(e.further[rescales][r], few_rescales));
  }
  return b;
}

}  // namespace assay::reference
