// SPDX-License-Identifier: Apache-2.0
// Activations in wide arithmetic, and their bound; docs/numerics.md, section on activations, derives every line.
#include "reference/ops/activation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string>

namespace assay::reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr long double root_2_over_pi = 0.797884560802865355879892119868763737L;
constexpr long double cubic = 0.044715L;

void require_sizes(const Activation& a) {
  if (a.rows < 0 || a.n < 0 || a.x.size() != static_cast<std::size_t>(a.rows * a.n) ||
      (!a.bias.empty() && a.bias.size() != static_cast<std::size_t>(a.n)))
    throw std::invalid_argument("activation: " + std::to_string(a.rows) + " rows of " + std::to_string(a.n) + " need " +
                                std::to_string(a.rows * a.n) + " elements and a bias of " + std::to_string(a.n) +
                                " or none, got " + std::to_string(a.x.size()) + " and " + std::to_string(a.bias.size()));
}

struct Sum {
  double hi, lo;
};

/// Knuth's two-sum: hi + lo is x + b exactly.
Sum two_sum(double x, double b) {
  const double hi = x + b, of_b = hi - x;
  const double lo = (x - (hi - of_b)) + (b - of_b);
  return {hi, std::isfinite(hi) ? lo : 0};
}

template <class W>
struct Element {
  W value, sensitivity;
};

template <class W>
Element<W> evaluate(ActivationKind kind, Sum sum) {
  const W z = static_cast<W>(sum.hi) + static_cast<W>(sum.lo), size = std::fabs(z);
  switch (kind) {
    case ActivationKind::gelu_erf: {
      const W density = std::exp(-z * z / 2) * std::numbers::inv_sqrtpi_v<W> / std::numbers::sqrt2_v<W>;
      return {z * std::erfc(-z / std::numbers::sqrt2_v<W>) / 2, size * density};
    }
    case ActivationKind::gelu_tanh: {
      const W w = static_cast<W>(root_2_over_pi) * (z + static_cast<W>(cubic) * z * z * z), e = std::exp(-2 * std::fabs(w));
      return {z / (1 + std::exp(-2 * w)), e > 0 ? 2 * std::fabs(w) * e / ((1 + e) * (1 + e)) : W{0}};
    }
    case ActivationKind::silu:
      return {z / (1 + std::exp(-z)), size / (1 + std::exp(z))};
    case ActivationKind::relu:
      break;
  }
  return {z > 0 ? z : W{0}, W{0}};
}

}  // namespace

Expected activation(const Activation& a, std::vector<std::int64_t> rows) {
  require_sizes(a);
  const std::int64_t count = rows.empty() ? a.rows : std::ssize(rows);
  const auto size = static_cast<std::size_t>(count * a.n);
  const bool wide = a.compute == DType::f64;
  Expected out;
  out.value.assign(size, 0), out.sum_abs.assign(size, 0), out.other.assign(size, nan);
  if (wide) out.value_lo.assign(size, 0);
  out.further.assign(element_members, Numbers(size, 0.0));
  const double limit = a.kind == ActivationKind::relu ? nan : 0;
#pragma omp parallel for schedule(dynamic) if (count > 1 && size > 4096)
  for (std::int64_t r = 0; r < count; ++r)
    for (std::int64_t i = 0; i < a.n; ++i) {
      const double x = a.x[static_cast<std::size_t>((rows.empty() ? r : rows[static_cast<std::size_t>(r)]) * a.n + i)];
      const double b = a.bias.empty() ? 0 : a.bias[static_cast<std::size_t>(i)];
      const auto e = static_cast<std::size_t>(r * a.n + i);
      if (!std::isfinite(x) || !std::isfinite(b)) {
        const double z = x + b;
        out.sum_abs[e] = nan;
        out.value[e] = z != -infinity ? z : a.kind == ActivationKind::relu ? 0 : nan;
        if (z == -infinity) out.other[e] = limit;
        continue;
      }
      const Sum z = two_sum(x, b);
      out.sum_abs[e] = a.bias.empty() ? 0 : std::fabs(x) + std::fabs(b);
      out.further[argument][e] = z.hi, out.further[argument_lo][e] = z.lo;
      if (wide) {
        const Element<long double> y = evaluate<long double>(a.kind, z);
        out.value[e] = static_cast<double>(y.value);
        out.value_lo[e] = std::isfinite(out.value[e]) ? static_cast<double>(y.value - out.value[e]) : 0;
        out.further[sensitivity][e] = static_cast<double>(y.sensitivity);
      } else {
        const Element<double> y = evaluate<double>(a.kind, z);
        out.value[e] = y.value, out.further[sensitivity][e] = y.sensitivity;
      }
    }
  if (std::all_of(out.other.begin(), out.other.end(), [](double v) { return std::isnan(v); })) out.other.clear();
  out.rows = std::move(rows);
  out.row_length = a.n;
  out.terms = 1;
  // A logistic function flushed to zero costs its argument times that: beyond these it is zero even as a subnormal.
  out.largest_input = a.kind == ActivationKind::silu ? (wide ? 1024 : 128) : 1;
  return out;
}

namespace {

/// Phi(z). Near zero 1/2 + phi(z) (z + z^3/3 + z^5/(3 5) + ...); in the tails phi(t) / (t + 1/(t + 2/(t + ...))).
long double normal_distribution(long double z) {
  const long double density = std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0L));
  if (std::fabs(z) < 3) {
    long double sum = 0, term = z;
    for (int k = 1; k < 200; ++k) sum += term, term *= z * z / (2 * k + 1);
    return 0.5L + density * sum;
  }
  long double fraction = std::fabs(z);
  for (int k = 300; k > 0; --k) fraction = std::fabs(z) + k / fraction;
  return z > 0 ? 1 - density / fraction : density / fraction;
}

/// (1 + tanh w) / 2 = e^w / (2 cosh w).
long double half_of_one_plus_tanh(long double w) {
  if (std::fabs(w) > 11000) return w > 0 ? 1 : 0;
  return std::exp(w) / (2 * std::cosh(w));
}

}  // namespace

std::vector<double> activation_slow(const Activation& a) {
  require_sizes(a);
  std::vector<double> out(a.x.size());
  for (std::size_t e = 0; e < out.size(); ++e) {
    const long double b = a.bias.empty() ? 0 : a.bias[e % a.bias.size()], z = a.x[e] + b;
    long double y = z;
    if (std::isfinite(z)) {
      if (a.kind == ActivationKind::gelu_erf) y *= normal_distribution(z);
      if (a.kind == ActivationKind::gelu_tanh)
        y *= half_of_one_plus_tanh(std::sqrt(2 / std::acos(-1.0L)) * (z + 44715e-6L * std::pow(z, 3.0L)));
      if (a.kind == ActivationKind::silu) y *= half_of_one_plus_tanh(z / 2);
    } else if (z < 0 && a.kind != ActivationKind::relu) {
      y = nan;
    }
    if (a.kind == ActivationKind::relu && z < 0) y = 0;
    out[e] = static_cast<double>(y);
  }
  return out;
}

namespace {

/// Largest distance from v of what correct arithmetic stores: any number within `error` of v, rounded to the output format.
double stored(DType output, bool narrow, double v, double error) {
  if (!narrow) return error;
  const double low = round_to(output, v - error), high = round_to(output, v + error);
  if (std::isinf(low) || std::isinf(high))
    return error + unit_roundoff(output) * (std::fabs(v) + error) + smallest_subnormal(output) / 2;
  return std::max(std::fabs(low - v), std::fabs(high - v));
}

}  // namespace

Bound activation_bound(const Expected& e, const Arithmetic& a, ActivationKind kind) {
  const std::size_t count = e.value.size();
  if (e.further.size() != element_members || e.sum_abs.size() != count)
    throw std::invalid_argument("activation bound: the expectation has no magnitudes of an activation");
  const double u = unit_roundoff(a.accumulator), function = 2 * a.function_ulps, slope = 2 * a.function_ulps_per_x;
  const double tiny = smallest_subnormal(a.accumulator), log_smallest = std::log(smallest_normal(a.accumulator)),
               log_largest = std::log(largest_finite(a.accumulator));
  const bool narrow = format(a.output).precision < format(a.accumulator).precision;
  const double inner_erf = threshold("gelu_erf_argument").value, inner_tanh = threshold("gelu_tanh_argument").value,
               roundings = threshold("gelu_roundings").value;
  Bound bound;
  bound.hard.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isnan(e.sum_abs[i])) continue;  // a class, not a distance
    const double z = e.further[argument][i], g = e.further[sensitivity][i], value = std::fabs(e.value[i]), size = std::fabs(z);
    // The sum with a bias rounds once, or is exact.
    const double summed = e.further[argument_lo][i] == 0 && round_to(a.accumulator, z) == z ? 0 : 1;
    const double share = size > 0 ? value / size : 0.5;
    // Beyond it every function has reached its limit.
    const double felt = std::min(size, 2 * log_largest);
    double error = 0;
    switch (kind) {
      case ActivationKind::gelu_erf:
        error = (function * std::max(0.5, share) + (inner_erf + slope * (1 + felt)) * g + roundings + summed * (share + g)) *
                    u * size +
                2 * tiny;
        break;
      case ActivationKind::gelu_tanh:
        error = (function * std::max(0.5, share) + (inner_tanh + slope) * g + roundings + summed * (share + 3 * g)) * u * size +
                2 * tiny;
        break;
      case ActivationKind::silu: {
        const double units = (function + slope * felt) / (1 + std::exp(z)) + 4 + summed * (1 + g), t = units * u;
        error = (value == 0 ? 0 : t < 0.5 ? t / (1 - t) * value : infinity) + 2 * tiny;
        if (z < log_smallest + 1) error += (1 + function) * felt * tiny;  // exp(z) is subnormal
        if (-z > log_largest - 1)
          error = std::max(error, value * (1 + 2 * u));  // or exp(-z) infinite; value is the rounded truth
        break;
      }
      case ActivationKind::relu:
        error = summed * u * value;
        break;
    }
    bound.hard[i] = stored(a.output, narrow, e.value[i], error);
  }
  return bound;
}

}  // namespace assay::reference
