// SPDX-License-Identifier: Apache-2.0
// Layer and RMS normalisation in wide arithmetic, and their bounds; docs/numerics.md section 3.14 derives every line.
#include "reference/ops/layernorm.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace assay::reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

void require_sizes(const LayerNorm& s) {
  const auto fits = [&](std::span<const double> v) { return v.empty() || v.size() == static_cast<std::size_t>(s.n); };
  if (s.rows < 0 || s.n < 0 || s.x.size() != static_cast<std::size_t>(s.rows * s.n) || !fits(s.gamma) || !fits(s.beta))
    throw std::invalid_argument("layernorm: " + std::to_string(s.rows) + " rows of " + std::to_string(s.n) +
                                " need as many elements, and gamma and beta one per column or none; got " +
                                std::to_string(s.x.size()) + ", " + std::to_string(s.gamma.size()) + " and " +
                                std::to_string(s.beta.size()));
}

/// Sum of f(0) .. f(n-1) in blocks of 64 and halves: an error of 64 + log2 n roundings instead of n.
template <class W, class F>
W sum(std::int64_t n, const F& f, std::int64_t first = 0) {
  if (n > 64) {
    const std::int64_t half = n / 2;
    return sum<W>(half, f, first) + sum<W>(n - half, f, first + half);
  }
  W s = 0;
  for (std::int64_t i = first; i < first + n; ++i) s += f(i);
  return s;
}

/// Exponent of the lowest bit set in x; x is finite and not zero.
int lowest_bit(double x) {
  int exponent = 0;
  const auto significand = static_cast<std::int64_t>(std::ldexp(std::frexp(x, &exponent), 53));
  return exponent - 53 + std::countr_zero(static_cast<std::uint64_t>(significand));
}

/// Square root of the sum of squared multiplicities; reorders `x`.
template <class T>
double spread_of(std::vector<T>& x) {
  std::sort(x.begin(), x.end());
  double squares = 0;
  for (std::size_t i = 0, end = 0; i < x.size(); i = end) {
    while (end < x.size() && x[end] == x[i]) ++end;
    squares += static_cast<double>(end - i) * static_cast<double>(end - i);
  }
  return std::sqrt(squares);
}

/// layer: all equal, a power of two of them, and n times the value fits the format. rms: sums of squares fit it.
bool exact_sums(const LayerNorm& s, const double* x, double mean_square) {
  if (!s.rms &&
      (!std::has_single_bit(static_cast<std::uint64_t>(s.n)) || std::any_of(x, x + s.n, [x](double v) { return v != x[0]; })))
    return false;
  const double n = static_cast<double>(s.n), largest = std::ldexp(1.0, format(s.compute).precision);
  const auto fits = [&](double v) {
    if (v == 0) return true;
    const int unit = lowest_bit(v);
    if (s.rms && 2 * unit < std::ilogb(smallest_subnormal(s.compute))) return false;  // the square itself is rounded
    return (s.rms ? std::ldexp(mean_square * n, -2 * unit) : std::ldexp(std::fabs(v) * n, -unit)) <= largest;
  };
  return std::all_of(x, x + (s.rms ? s.n : 1), fits);
}

/// Where one row's results and magnitudes go.
class RowOut {
 public:
  RowOut(LayerNormTruth& t, std::int64_t row, std::int64_t n)
      : t_(t), row_(static_cast<std::size_t>(row)), n_(static_cast<std::size_t>(n)) {}

  template <class W>
  void y(std::int64_t i, W value, double magnitude) {
    set(t_.y, row_ * n_ + static_cast<std::size_t>(i), value, magnitude);
  }
  template <class W>
  void mean(W value, double magnitude) {
    if (!t_.mean.value.empty()) set(t_.mean, row_, value, magnitude);
  }
  template <class W>
  void rstd(W value, double magnitude) {
    set(t_.rstd, row_, value, magnitude);
  }
  void member(NormRow m, double value) {
    for (Expected* e : {&t_.y, &t_.mean, &t_.rstd})
      if (!e->further.empty()) e->further[m][row_] = value;
  }

 private:
  template <class W>
  static void set(Expected& e, std::size_t at, W value, double magnitude) {
    e.value[at] = static_cast<double>(value);
    e.sum_abs[at] = magnitude;
    if (!e.value_lo.empty() && std::isfinite(e.value[at]))
      e.value_lo[at] = static_cast<double>(value - static_cast<W>(e.value[at]));
  }
  LayerNormTruth& t_;
  std::size_t row_, n_;
};

/// Rounding errors that have one sign. A partial sum is a multiple of its last place w, so adding v errs by what v is away from
/// the nearest multiple, whatever the sum: values that are close together on that grid err alike, and so do equal ones.
/// Largest sum of these errors over the last places that partial sums up to `largest` have.
template <class T>
double common_error(const std::vector<T>& values, double largest, DType compute) {
  if (!(largest > 0)) return 0;
  double worst = 0, w = std::ldexp(1.0, std::ilogb(largest) - format(compute).precision + 1);
  for (int halvings = 0; halvings < 8; ++halvings, w /= 2) {
    double error = 0;
    for (const T v : values) error += w * std::nearbyint(static_cast<double>(v) / w) - static_cast<double>(v);
    worst = std::max(worst, std::fabs(error));
  }
  return worst;
}

/// What adding up squares of d costs, d as the format computed in (T) holds it. Those below u of the sum may vanish one by one,
/// which common_error charges them for; updates add squares of a running mean beside: after an outlier D it is D/j^2 for the
/// j-th element.
template <class T, class F>
void square_sum(const LayerNorm& s, const F& d, double total, RowOut& out) {
  const double u = unit_roundoff(s.compute), n = static_cast<double>(s.n);
  std::vector<double> squares(static_cast<std::size_t>(s.n));
  for (std::int64_t i = 0; i < s.n; ++i) {
    const auto v = static_cast<double>(static_cast<T>(d(i)));
    squares[static_cast<std::size_t>(i)] = v * v;
  }
  double units = 0;
  if (total > 0) {
    units = common_error(squares, total, s.compute) / (u * total);
    const double outlier = std::min(total, 4 * *std::max_element(squares.begin(), squares.end())) / (u * total);
    std::erase_if(squares, [&](double v) { return v <= u * total; });
    const double small = n - static_cast<double>(squares.size());
    if (!s.rms) units += small / n * std::max(0.0, std::sqrt(outlier) - outlier / n);
  }
  out.member(norm_square_bias, units);
  out.member(norm_square_spread, spread_of(squares));
}

/// A row that holds NaN or Inf.
void special_row(const LayerNorm& s, const double* x, RowOut& out) {
  const bool has_nan = std::any_of(x, x + s.n, [](double v) { return std::isnan(v); });
  const bool vanishes = s.rms && !has_nan;  // x * (1 / Inf)
  const auto zero_times = [](std::span<const double> v, std::int64_t i) { return v.empty() || std::isfinite(v[i]) ? 0 : nan; };
  for (std::int64_t i = 0; i < s.n; ++i) out.y(i, vanishes && std::isfinite(x[i]) ? zero_times(s.gamma, i) : nan, nan);
  out.mean(nan, has_nan ? nan : infinity);  // Inf by sums, NaN by updates (Inf - Inf): open
  out.rstd(vanishes ? 0 : nan, nan);
  for (std::size_t m = 0; m < norm_row_members; ++m) out.member(static_cast<NormRow>(m), nan);
}

template <class W>
void finite_row(const LayerNorm& s, const double* x, RowOut& out) {
  const W n = static_cast<W>(s.n), eps = static_cast<W>(s.eps);
  const auto at = [&](std::int64_t i) { return static_cast<W>(x[i]); };
  const W mean = sum<W>(s.n, at) / n, centre = s.rms ? W{0} : mean;
  const W mean_abs = sum<W>(s.n, [&](std::int64_t i) { return std::fabs(at(i)); }) / n;
  const W mean_square = sum<W>(s.n, [&](std::int64_t i) { return at(i) * at(i); }) / n;
  const bool equal = std::all_of(x, x + s.n, [x](double v) { return v == x[0]; });
  const W variance = equal ? W{0} : sum<W>(s.n, [&](std::int64_t i) { return (at(i) - mean) * (at(i) - mean); }) / n;
  const W square = (s.rms ? mean_square : variance) + eps, rstd = 1 / std::sqrt(square);
  // Any partial sum and any intermediate stays below this; 0/0 leaves everything open.
  const double largest = square > 0 ? static_cast<double>(n * std::max(mean_square, mean_abs)) : infinity;
  for (std::int64_t i = 0; i < s.n; ++i) {
    const W gamma = s.gamma.empty() ? W{1} : static_cast<W>(s.gamma[i]),
            beta = s.beta.empty() ? W{0} : static_cast<W>(s.beta[i]);
    const W d = equal && !s.rms ? W{0} : at(i) - centre;
    out.y(i, square > 0 ? d * rstd * gamma + beta : std::numeric_limits<W>::quiet_NaN(), largest);
  }
  out.mean(equal ? at(0) : mean, static_cast<double>(n * mean_abs));
  out.rstd(rstd, largest);
  out.member(norm_mean, static_cast<double>(mean));
  out.member(norm_mean_abs, static_cast<double>(mean_abs));
  out.member(norm_mean_square, static_cast<double>(mean_square));
  out.member(norm_variance, static_cast<double>(variance));
  using T = std::conditional_t<std::is_same_v<W, double>, float, double>;
  std::vector<T> values;
  if (!s.rms) values.assign(x, x + s.n);
  const double reach = static_cast<double>(std::max(n * std::fabs(mean), std::sqrt(n * mean_square)));
  out.member(norm_mean_bias, common_error(values, s.rms ? 0 : reach, s.compute) / static_cast<double>(n));
  out.member(norm_spread, spread_of(values));
  square_sum<T>(
      s, [&](std::int64_t i) { return equal && !s.rms ? W{0} : at(i) - centre; },
      static_cast<double>(n * (s.rms ? mean_square : variance)), out);
  out.member(norm_exact_sums, exact_sums(s, x, static_cast<double>(mean_square)) ? 1 : 0);
}

/// Members of one row of an expectation.
struct Row {
  Row(const Expected& e, std::size_t r, std::int64_t width) : n(static_cast<double>(width)) {
    mean = std::fabs(e.further[norm_mean][r]), mean_abs = e.further[norm_mean_abs][r];
    mean_square = e.further[norm_mean_square][r], variance = e.further[norm_variance][r];
    spread = e.further[norm_spread][r], mean_bias = e.further[norm_mean_bias][r],
    square_spread = e.further[norm_square_spread][r];
    square_bias = e.further[norm_square_bias][r], exact = e.further[norm_exact_sums][r] != 0;
  }
  double n, mean, mean_abs, mean_square, variance, spread, mean_bias, square_spread, square_bias;
  bool exact;
};

/// t units of u, with what higher orders can add.
double growth(double units, double u) {
  const double t = units * u;
  return t < 0.5 ? t / (1 - t) : infinity;
}

/// What correct arithmetic can do to the statistics of a row.
struct Errors {
  double mean = 0;    // absolute
  double root = 0;    // of 1 / sqrt(square), relative to it, before its own roundings
  double square = 0;  // variance or mean square, plus eps
  double rstd = 0;    // true 1 / sqrt(square)
};

double mean_error(const Row& r, double u, double tiny, bool gate) {
  if (r.exact || r.mean_abs == 0) return 0;
  const double division = 2 * u * r.mean + tiny;
  const double hard = growth(r.n - 1 + 3 * std::log2(r.n), u) * r.mean_abs + division;
  if (!gate) return hard;
  const double by_chance = threshold("norm_additions").value * r.spread * r.mean +
                           threshold("norm_walk").value * r.spread / std::sqrt(r.n) * std::sqrt(r.mean_square);
  return std::min(hard, u * by_chance + r.mean_bias + division);
}

Errors errors_of(const Row& r, DType compute, bool rms, double eps, bool gate) {
  const double u = unit_roundoff(compute);
  Errors e;
  e.square = (rms ? r.mean_square : r.variance) + eps, e.rstd = 1 / std::sqrt(e.square);
  e.mean = rms ? 0 : mean_error(r, u, smallest_subnormal(compute), gate);
  double additions = r.n + 8;
  if (gate) additions = std::min(additions, threshold("norm_additions").value * r.square_spread + r.square_bias + 8);
  double error;
  if (rms) {
    if (r.exact) additions = std::has_single_bit(static_cast<std::uint64_t>(r.n)) ? 0 : 2;
    error = growth(additions, u) * r.mean_square;
  } else {
    const double deviation = std::sqrt(r.variance);
    double cross = 2 * std::sqrt(2.0) * deviation * e.mean;
    if (gate) cross = std::min(cross, u * threshold("norm_update").value * r.spread / std::sqrt(r.n) * r.mean * deviation);
    error = growth(additions, u) * (r.variance + e.mean * e.mean) + e.mean * e.mean + cross;
  }
  if (eps > 0 && (rms ? r.mean_square : r.variance) + error > 0) error += u * e.square;
  if (error > 0) error += smallest_normal(compute);
  const double t = error / e.square;
  double above = t < 1 ? 1 / std::sqrt(1 - t) - 1 : infinity;
  if (eps > 0) above = std::min(above, std::sqrt(e.square / eps) * (1 + 4 * u) - 1);  // no variance is negative
  e.root = !(e.square > 0) || !(error < infinity) ? infinity : error == 0 ? 0 : std::max(above, 1 - 1 / std::sqrt(1 + t));
  return e;
}

/// The stored result is the rounded truth bit for bit where nothing errs; a narrower one is rounded once more.
double stored(double error, double value, DType compute, DType output) {
  if (error == 0) return std::fabs(round_to(output, value) - value);
  if (std::isnan(error)) return infinity;  // 0 * Inf
  if (format(output).precision >= format(compute).precision) return error;
  return error + unit_roundoff(output) * (std::fabs(value) + error) + smallest_subnormal(output) / 2;
}

/// Error of one row's results, `hard` then `iid`.
template <class F>
Bound bound_by_row(const Expected& e, DType compute, DType output, bool rms, double eps, std::int64_t n, const F& error) {
  if (e.further.size() < norm_row_members || e.sum_abs.size() != e.value.size())
    throw std::invalid_argument("layernorm bound: the expectation has no magnitudes of layernorm");
  const std::size_t count = e.value.size();
  Bound b;
  b.hard.resize(count), b.iid.resize(count);
  for (std::size_t i = 0, r = 0; i < count; ++r) {
    const Row row(e, r, n);
    const Errors hard = errors_of(row, compute, rms, eps, false), gate = errors_of(row, compute, rms, eps, true);
    for (std::int64_t l = 0; l < e.row_length; ++l, ++i) {
      b.hard[i] = stored(error(row, hard, i, static_cast<std::size_t>(l)), e.value[i], compute, output);
      b.iid[i] = stored(error(row, gate, i, static_cast<std::size_t>(l)), e.value[i], compute, output);
    }
  }
  return b;
}

Expected empty_expected(std::int64_t rows, std::int64_t row_length, bool wide, const std::vector<std::int64_t>& chosen) {
  const auto size = static_cast<std::size_t>(rows * row_length);
  Expected e;
  e.value.assign(size, 0), e.sum_abs.assign(size, 0);
  if (wide) e.value_lo.assign(size, 0);
  e.further.assign(norm_row_members, Numbers(static_cast<std::size_t>(rows), 0.0));
  e.rows = chosen;
  e.row_length = row_length;
  return e;
}

}  // namespace

LayerNormTruth layernorm(const LayerNorm& s, std::vector<std::int64_t> rows) {
  require_sizes(s);
  const std::int64_t count = rows.empty() ? s.rows : std::ssize(rows);
  const bool wide = s.compute == DType::f64;
  LayerNormTruth t;
  t.y = empty_expected(count, s.n, wide, rows);
  if (!s.rms) t.mean = empty_expected(count, 1, wide, rows);
  t.rstd = empty_expected(count, 1, wide, rows);
#pragma omp parallel for schedule(dynamic) if (count > 1 && count * s.n > 4096)
  for (std::int64_t r = 0; r < count; ++r) {
    if (s.n == 0) continue;
    const double* x = s.x.data() + (rows.empty() ? r : rows[static_cast<std::size_t>(r)]) * s.n;
    RowOut out(t, r, s.n);
    if (!std::all_of(x, x + s.n, [](double v) { return std::isfinite(v); }))
      special_row(s, x, out);
    else if (wide)
      finite_row<long double>(s, x, out);
    else
      finite_row<double>(s, x, out);
  }
  // Flushing costs an element of the row its value; 1/deviation and gamma enlarge that.
  double largest_root = 1, largest_gamma = 1;
  for (const double v : t.rstd.value)
    if (std::isfinite(v)) largest_root = std::max(largest_root, v);
  for (const double v : s.gamma)
    if (std::isfinite(v)) largest_gamma = std::max(largest_gamma, std::fabs(v));
  t.y.terms = t.mean.terms = t.rstd.terms = 1;
  t.y.largest_input = std::min(largest_root * largest_gamma, 0x1p100);
  t.y.further.emplace_back(static_cast<std::size_t>(s.n), 1.0);
  t.y.further.emplace_back(static_cast<std::size_t>(s.n), 0.0);
  for (std::size_t i = 0; i < s.gamma.size(); ++i) t.y.further[norm_row_members][i] = std::fabs(s.gamma[i]);
  for (std::size_t i = 0; i < s.beta.size(); ++i) t.y.further[norm_row_members + 1][i] = s.beta[i];
  return t;
}

std::vector<double> layernorm_slow(const LayerNorm& s) {
  require_sizes(s);
  std::vector<double> out(s.x.size());
  const auto n = static_cast<long double>(s.n);
  for (std::int64_t r = 0; r < s.rows; ++r) {
    const double* x = s.x.data() + r * s.n;
    const auto at = [x](std::int64_t i) { return static_cast<long double>(x[i]); };
    long double square = 0;
    for (std::int64_t i = s.n; i-- > 0;) {
      if (s.rms) square += at(i) * at(i) / n;
      for (std::int64_t j = i; !s.rms && j-- > 0;) square += (at(i) - at(j)) * (at(i) - at(j)) / n / n;
    }
    for (std::int64_t i = 0; i < s.n; ++i) {
      long double d = s.rms ? at(i) : 0;
      for (std::int64_t j = s.n; !s.rms && j-- > 0;) d += (at(i) - at(j)) / n;
      long double y = d / std::sqrt(square + static_cast<long double>(s.eps));
      if (!s.gamma.empty()) y *= static_cast<long double>(s.gamma[static_cast<std::size_t>(i)]);
      if (!s.beta.empty()) y += static_cast<long double>(s.beta[static_cast<std::size_t>(i)]);
      out[static_cast<std::size_t>(r * s.n + i)] = static_cast<double>(y);
    }
  }
  return out;
}

Bound layernorm_bound(const Expected& e, const Arithmetic& a, DType output, bool rms, double eps) {
  if (e.further.size() != norm_row_members + 2)
    throw std::invalid_argument("layernorm bound: the expectation has no magnitudes of layernorm");
  const Numbers &gamma = e.further[norm_row_members], &beta = e.further[norm_row_members + 1];
  const double u = unit_roundoff(a.accumulator), tiny = smallest_subnormal(a.accumulator);
  // 1/sqrt: as documented; then x - mean, two products, and one for this reference and u^2.
  const double own = growth(2 * a.function_ulps + 4, u);
  const auto error = [&](const Row& row, const Errors& s, std::size_t i, std::size_t column) {
    const double g = gamma[column], b = std::fabs(beta[column]), scale = g * s.rstd * (1 + s.root);
    if (!(s.root < infinity)) return infinity;
    // |x - mean| rstd |gamma|, from the value.
    double normalised = 0;
    if (rms || row.variance > 0) normalised = std::fabs(e.value[i] - beta[column]);
    double units = scale * s.mean * (1 + own) + normalised * ((1 + s.root) * (1 + own) - 1);
    if (a.folded_shift && !rms) units += u * (3 * scale * row.mean + normalised + b);
    if (units == 0 && s.mean == 0 && normalised == 0 && !rms) return 0.0;
    const double widest = rms ? std::sqrt(row.mean_square * row.n) : std::sqrt(row.variance * row.n);
    return units + (b > 0 ? growth(1, u) * (std::fabs(e.value[i]) + units) : 0) + 2 * tiny * (1 + g + widest);
  };
  return bound_by_row(e, a.accumulator, output, rms, eps, e.row_length, error);
}

Bound norm_mean_bound(const Expected& e, const Arithmetic& a, DType output, std::int64_t n, double eps) {
  const auto error = [](const Row&, const Errors& s, std::size_t, std::size_t) { return s.mean; };
  return bound_by_row(e, a.accumulator, output, false, eps, n, error);
}

Bound norm_rstd_bound(const Expected& e, const Arithmetic& a, DType output, std::int64_t n, bool rms, double eps) {
  const double own = growth(2 * a.function_ulps + 2, unit_roundoff(a.accumulator));
  const auto error = [&](const Row&, const Errors& s, std::size_t i, std::size_t) {
    return s.root < infinity ? e.value[i] * ((1 + s.root) * (1 + own) - 1) : infinity;
  };
  return bound_by_row(e, a.accumulator, output, rms, eps, n, error);
}

}  // namespace assay::reference
