// SPDX-License-Identifier: Apache-2.0
// Comparison of an output with its expectation: class first (NaN, Inf, subnormal), then distance, then statistics.
#include "reference/compare.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "reference/rows.hpp"

namespace assay {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t chunk_elements = 4096;  // sums are taken per chunk and merged in order: any thread count, same bits
constexpr std::size_t listed_indices = 64;

struct Judge {
  const Operand& output;
  std::span<const std::byte> storage;
  const Expected& expected;
  const Bound& bound;
  std::uint64_t poison_bits;
  bool subnormals_kept;
  // Derived once:
  std::int64_t row_length;
  double overflow_limit;   // partial sums beyond it may become Inf
  double unscaled;         // S / unscaled: magnitude of the sum before or after alpha, whichever is larger
  bool operands_overflow;  // alpha * a, or the conversion of a to the operand format
  double largest_output;
  double flushed;  // what flushing every product, operand and partial sum to zero could cost
};

struct Element {
  std::size_t e;  // index into Expected
  std::int64_t logical;
  std::uint64_t got_bits;
  double got, value, value_lo;
  double hard, gate;
};

/// Sums of one chunk, merged in order.
struct Partial {
  Discrepancy d;
  double z2 = 0, signed_z = 0, err2 = 0, rounding2 = 0, value2 = 0;
  std::int64_t with_statistic = 0, finite = 0, blind = 0;
};

enum class Outcome : std::uint8_t { good, bad, open };  // open: accepted without a distance

double error_of(const Element& x) {
  return std::fabs((x.got - x.value) - x.value_lo);
}

double ratio(double error, double bound) {
  if (error == 0) return 0;
  return bound > 0 ? error / bound : infinity;
}

std::uint64_t expected_bits(const Judge& j, const Element& x) {
  return x.value_lo == 0 ? encode(j.output.dtype, x.value) : encode(j.output.dtype, x.value, x.value_lo);
}

void list_bad(Discrepancy& d, std::int64_t logical) {
  ++d.bad;
  if (d.first_bad < 0) d.first_bad = logical;
  if (d.bad_indices.size() < listed_indices) d.bad_indices.push_back(logical);
}

void keep_worst(const Judge& j, const Element& x, double over, Discrepancy& d) {
  if (d.worst.index >= 0 && !(over > d.worst.error_over_bound)) return;
  const std::uint64_t want = expected_bits(j, x);
  d.worst = {x.logical, x.got, x.value, over, ulp_distance(j.output.dtype, x.got_bits, want), x.got_bits, want};
}

/// A wrong class: infinitely far.
Outcome wrong_class(const Judge& j, const Element& x, std::int64_t& counter, Discrepancy& d) {
  ++counter;
  list_bad(d, x.logical);
  keep_worst(j, x, infinity, d);
  return Outcome::bad;
}

/// Inputs held NaN or Inf: IEEE fixes the class in any order, a NaN's payload is free.
Outcome judge_special(const Judge& j, const Element& x, Discrepancy& d) {
  if (!j.expected.other.empty() && !std::isnan(j.expected.other[x.e])) {
    ++d.two_values;
    if (x.got == j.expected.other[x.e]) {
      ++d.took_other;
      return Outcome::open;
    }
  }
  if (std::isnan(x.value)) return std::isnan(x.got) ? Outcome::open : wrong_class(j, x, d.nan_missing, d);
  if (std::isnan(x.got)) return wrong_class(j, x, d.nan_unexpected, d);
  return x.got == x.value ? Outcome::open : wrong_class(j, x, d.inf_mismatch, d);
}

bool sum_may_overflow(const Judge& j, const Element& x) {
  const double addend = j.expected.addend.empty() ? 0 : j.expected.addend[x.e];
  return j.operands_overflow || !(j.expected.sum_abs[x.e] / j.unscaled + addend + x.hard <= j.overflow_limit);
}

/// Zero where a subnormal was due, or an error no larger than flushing the terms explains.
bool looks_flushed(const Judge& j, const Element& x) {
  if (x.got == 0 && x.value != 0 && is_subnormal(j.output.dtype, expected_bits(j, x))) return true;
  return error_of(x) <= j.flushed;
}

bool within(const Judge& j, const Element& x, Discrepancy& d, double& over) {
  if (!j.bound.exact) {
    const double error = error_of(x);
    over = ratio(error, x.gate);
    d.max_over_hard = std::max(d.max_over_hard, ratio(error, x.hard));
    const bool inside = error <= x.hard;
    if (!j.bound.iid.empty()) {
      d.max_over_iid = std::max(d.max_over_iid, ratio(error, j.bound.iid[x.e]));
      d.over_iid += inside && !(error <= j.bound.iid[x.e]);
    }
    return inside;
  }
  const std::uint64_t want = expected_bits(j, x);
  const bool same = x.got_bits == want || (x.got == 0 && decode(j.output.dtype, want) == 0);
  d.differing_bits += !same;
  over = same ? 0 : 2.0 * static_cast<double>(ulp_distance(j.output.dtype, x.got_bits, want));  // the bound: half an ulp
  d.max_over_hard = std::max(d.max_over_hard, over);
  return same;
}

Outcome judge_distance(const Judge& j, const Element& x, Discrepancy& d) {
  double over = 0;
  const bool inside = within(j, x, d, over);
  keep_worst(j, x, over, d);
  if (inside) return Outcome::good;
  const bool flushed = looks_flushed(j, x);
  d.subnormal_flushed += flushed;
  if (flushed && !j.subnormals_kept) return Outcome::open;
  list_bad(d, x.logical);
  return Outcome::bad;
}

Outcome judge_element(const Judge& j, const Element& x, Discrepancy& d) {
  const double addend = j.expected.addend.empty() ? 0 : j.expected.addend[x.e];
  if (std::isnan(j.expected.sum_abs[x.e]) || !std::isfinite(addend)) return judge_special(j, x, d);
  if (sum_may_overflow(j, x)) {  // some order reaches Inf, and Inf - Inf
    ++d.overflow_open;
    if (!std::isfinite(x.got) || !std::isfinite(x.value)) return Outcome::open;
    return judge_distance(j, x, d);
  }
  if (std::fabs(x.value) + x.hard > j.largest_output) {  // only the last rounding can overflow, and to one sign
    const auto becomes_inf = [&](double magnitude) { return is_inf(j.output.dtype, encode(j.output.dtype, magnitude)); };
    const bool due = std::isinf(x.got) && std::signbit(x.got) == std::signbit(x.value);
    if (becomes_inf(std::max(0.0, std::fabs(x.value) - x.hard))) {
      if (due) return Outcome::open;
      return wrong_class(j, x, std::isnan(x.got) ? d.nan_unexpected : d.inf_mismatch, d);
    }
    if (becomes_inf(std::fabs(x.value) + x.hard)) {
      ++d.overflow_open;
      if (due) return Outcome::open;
    }
  }
  if (std::isnan(x.got)) {
    ++d.nan_leaked;
    return wrong_class(j, x, d.nan_unexpected, d);
  }
  if (std::isinf(x.got)) return wrong_class(j, x, d.inf_mismatch, d);
  return judge_distance(j, x, d);
}

/// RMS, bias and power: only over elements whose distance means something.
void add_statistics(const Judge& j, const Element& x, Partial& p) {
  const double error = (x.got - x.value) - x.value_lo;
  ++p.finite;
  p.value2 += x.value * x.value;
  // Where the truth itself rounds to zero, a zero is right.
  p.blind += x.gate > 0 && x.gate >= std::fabs(x.value) && decode(j.output.dtype, expected_bits(j, x)) != 0;
  if (j.bound.statistic.empty() || !(j.bound.statistic[x.e] > 0)) return;
  const double statistic = j.bound.statistic[x.e], z = error / statistic;
  ++p.with_statistic;
  p.z2 += z * z;
  p.signed_z += std::copysign(z, x.value * error);
  if (j.bound.out_rms_gate == 0) return;
  const double rounding = round_to(j.output.dtype, x.value) - x.value;
  p.err2 += error * error;
  p.rounding2 += rounding * rounding + statistic * statistic;
}

Partial judge_chunk(const Judge& j, std::size_t first, std::size_t last) {
  Partial p;
  const DType t = j.output.dtype;
  const Expected& e = j.expected;
  const std::int64_t stride = j.output.strides.empty() ? 1 : j.output.strides.back();
  const std::size_t size = size_bytes(t);
  std::int64_t row = -1, row_logical = 0, row_storage = 0;
  for (std::size_t i = first; i < last; ++i) {
    const std::int64_t r = static_cast<std::int64_t>(i) / j.row_length, column = static_cast<std::int64_t>(i) % j.row_length;
    if (r != row) {
      row = r;
      row_logical = (e.rows.empty() ? r : e.rows[r]) * j.row_length;
      row_storage = storage_index(j.output, row_logical);
    }
    Element x{};
    x.e = i;
    x.logical = row_logical + column;
    x.got_bits = load_bits(t, j.storage.data() + (row_storage + column * stride) * size);
    x.got = decode(t, x.got_bits);
    x.value = e.value[i];
    x.value_lo = e.value_lo.empty() ? 0 : e.value_lo[i];
    x.hard = j.bound.hard[i];
    x.gate = j.bound.iid.empty() ? x.hard : std::min(x.hard, j.bound.iid[i]);
    p.d.unwritten += x.got_bits == j.poison_bits;
    const Outcome outcome = judge_element(j, x, p.d);
    if (outcome != Outcome::open && std::isfinite(x.got)) add_statistics(j, x, p);
  }
  return p;
}

void merge(Partial& all, const Partial& p) {
  Discrepancy& d = all.d;
  d.bad += p.d.bad;
  d.over_iid += p.d.over_iid;
  d.nan_unexpected += p.d.nan_unexpected;
  d.nan_leaked += p.d.nan_leaked;
  d.nan_missing += p.d.nan_missing;
  d.inf_mismatch += p.d.inf_mismatch;
  d.unwritten += p.d.unwritten;
  d.subnormal_flushed += p.d.subnormal_flushed;
  d.overflow_open += p.d.overflow_open;
  d.two_values += p.d.two_values;
  d.took_other += p.d.took_other;
  d.differing_bits += p.d.differing_bits;
  if (d.first_bad < 0) d.first_bad = p.d.first_bad;
  if (p.d.worst.index >= 0 && (d.worst.index < 0 || p.d.worst.error_over_bound > d.worst.error_over_bound)) d.worst = p.d.worst;
  d.max_over_hard = std::max(d.max_over_hard, p.d.max_over_hard);
  d.max_over_iid = std::max(d.max_over_iid, p.d.max_over_iid);
  for (const std::int64_t i : p.d.bad_indices)
    if (d.bad_indices.size() < listed_indices) d.bad_indices.push_back(i);
  all.z2 += p.z2;
  all.signed_z += p.signed_z;
  all.err2 += p.err2;
  all.rounding2 += p.rounding2;
  all.value2 += p.value2;
  all.with_statistic += p.with_statistic;
  all.finite += p.finite;
  all.blind += p.blind;
}

/// Median of the gating bound over at most about a million elements, evenly taken. Exact outputs: half an ulp, u*|value|.
double median_bound(const Judge& j) {
  const std::size_t count = j.expected.value.size(), step = count / 1000000 + 1;
  const double u = unit_roundoff(j.output.dtype);
  std::vector<double> bounds;
  for (std::size_t i = 0; i < count; i += step) {
    double b = j.bound.exact ? u * std::fabs(j.expected.value[i]) : j.bound.hard[i];
    if (!j.bound.exact && !j.bound.iid.empty()) b = std::min(b, j.bound.iid[i]);
    if (std::isfinite(b)) bounds.push_back(b);
  }
  if (bounds.empty()) return 0;
  const auto middle = bounds.begin() + static_cast<std::ptrdiff_t>(bounds.size() / 2);
  std::nth_element(bounds.begin(), middle, bounds.end());
  return *middle;
}

Judge make_judge(const Operand& output, std::span<const std::byte> storage, const Expected& e, const Bound& bound,
                 const Arithmetic& a, std::uint64_t poison_bits, bool subnormals_kept) {
  const std::int64_t row_length = output.dims.empty() ? 1 : output.dims.back();
  const std::size_t rows = e.rows.empty() ? (row_length == 0 ? 0 : element_count(output) / row_length) : e.rows.size();
  const std::size_t count = e.value.size();
  const auto fits = [count](std::size_t n) { return n == 0 || n == count; };
  if (count != rows * row_length || e.sum_abs.size() != count || bound.hard.size() != count || !fits(e.value_lo.size()) ||
      !fits(e.addend.size()) || !fits(e.other.size()) || !fits(bound.iid.size()) || !fits(bound.statistic.size()))
    throw std::invalid_argument("compare: output " + output.role + " has " + std::to_string(rows * row_length) +
                                " elements to compare, expectation and bound describe " + std::to_string(count) + " and " +
                                std::to_string(bound.hard.size()));
  require_storage(output, storage);
  // Their overflow rule (saturate, or NaN) is not part of an arithmetic, so a clamped element could not be judged.
  if (stored_bits(output.dtype) == 8)
    throw std::invalid_argument("compare: output " + output.role + " is " + std::string(name(output.dtype)) +
                                ", which cannot be judged: ask for fp32, fp64, bf16, fp16 or int32 results");
  const double enlarged = std::max(1.0, e.abs_alpha) * e.largest_input;
  double limit = largest_finite(a.accumulator);
  if (a.splits > 1) limit = std::min(limit, largest_finite(a.split_format));
  return {.output = output,
          .storage = storage,
          .expected = e,
          .bound = bound,
          .poison_bits = poison_bits,
          .subnormals_kept = subnormals_kept,
          .row_length = row_length,
          .overflow_limit = limit,
          .unscaled = e.abs_alpha > 0 ? std::min(1.0, e.abs_alpha) : 1,
          .operands_overflow =
              e.abs_alpha * e.largest_input > largest_finite(a.accumulator) || e.largest_input > largest_finite(a.operand),
          .largest_output = largest_finite(output.dtype),
          .flushed = (2 * static_cast<double>(e.terms) + 3) * smallest_normal(a.accumulator) * enlarged};
}

/// Elements outside the sampled rows are not judged, but one that was never written must not hide there.
void count_unwritten_elsewhere(const Judge& j, Discrepancy& d) {
  const DType t = j.output.dtype;
  const std::int64_t stride = j.output.strides.empty() ? 1 : j.output.strides.back();
  const std::int64_t rows = j.row_length == 0 ? 0 : element_count(j.output) / j.row_length;
  auto sampled = j.expected.rows.begin();
  for (std::int64_t row = 0; row < rows; ++row) {
    if (sampled != j.expected.rows.end() && *sampled == row) {
      ++sampled;
      continue;
    }
    const std::int64_t first = storage_index(j.output, row * j.row_length);
    for (std::int64_t column = 0; column < j.row_length; ++column) {
      const std::int64_t at = first + column * stride;
      if (load_bits(t, j.storage.data() + at * static_cast<std::int64_t>(size_bytes(t))) != j.poison_bits) continue;
      ++d.unwritten;
      list_bad(d, row * j.row_length + column);
    }
  }
}

}  // namespace

Discrepancy compare(const Operand& output, std::span<const std::byte> storage, const Expected& e, const Bound& bound,
                    const Arithmetic& arithmetic, std::uint64_t poison_bits, bool subnormals_kept) {
  const Judge judge = make_judge(output, storage, e, bound, arithmetic, poison_bits, subnormals_kept);
  const std::int64_t count = static_cast<std::int64_t>(e.value.size());
  std::vector<Partial> chunks((count + chunk_elements - 1) / chunk_elements);
#pragma omp parallel for schedule(dynamic) if (chunks.size() > 4)
  for (std::size_t c = 0; c < chunks.size(); ++c)
    chunks[c] = judge_chunk(judge, c * chunk_elements, std::min<std::size_t>((c + 1) * chunk_elements, count));
  Partial all;
  for (const Partial& p : chunks) merge(all, p);

  Discrepancy& d = all.d;
  d.compared = count;
  if (!e.rows.empty() && output.access == Access::out) count_unwritten_elsewhere(judge, d);
  if (all.with_statistic > 0 && all.z2 > 0) {
    const double n = static_cast<double>(all.with_statistic), rms = std::sqrt(all.z2 / n);
    // Where the output is narrower than the accumulator its rounding drowns what the statistic measures.
    if (unit_roundoff(output.dtype) <= unit_roundoff(arithmetic.accumulator)) d.rms_over_statistic = rms;
    d.bias = all.signed_z / n / rms;
  }
  if (all.rounding2 > 0) d.rms_over_rounding = std::sqrt(all.err2 / all.rounding2);
  d.rms_exceeded = (bound.rms_gate > 0 && !(d.rms_over_statistic <= bound.rms_gate)) ||
                   (bound.out_rms_gate > 0 && !(d.rms_over_rounding <= bound.out_rms_gate));
  if (all.value2 > 0) d.median_bound_over_rms = median_bound(judge) / std::sqrt(all.value2 / static_cast<double>(all.finite));
  if (all.finite > 0) d.blind_fraction = static_cast<double>(all.blind) / static_cast<double>(all.finite);
  return d;
}

}  // namespace assay
