// SPDX-License-Identifier: Apache-2.0
// Reference conv1d: the signal is unrolled into one column per output position, then a batched product with one entry per
// group.
#include "reference/ops/conv1d.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>

#include "reference/ops/gemm.hpp"

namespace assay::reference {
namespace {

void check_sizes(const Conv1d& c, const std::vector<std::int64_t>& rows) {
  if (c.n < 0 || c.l < 0 || c.cin < 1 || c.cout < 1 || c.k < 1 || c.stride < 1 || c.dilation < 1 || c.groups < 1 ||
      c.cin % c.groups != 0 || c.cout % c.groups != 0 || c.padl < 0 || c.padr < 0 ||
      c.l + c.padl + c.padr < c.dilation * (c.k - 1) + 1)
    throw std::invalid_argument("reference conv1d: a size is out of range, or the kernel is longer than the padded signal");
  const auto need = [](std::string_view what, std::size_t got, std::int64_t want) {
    if (got != static_cast<std::size_t>(want))
      throw std::invalid_argument("reference conv1d: operand " + std::string(what) + " has " + std::to_string(got) +
                                  " elements, its shape needs " + std::to_string(want));
  };
  need("x", c.x.size(), c.n * c.cin * c.l);
  need("w", c.w.size(), c.cout * (c.cin / c.groups) * c.k);
  if (!c.bias.empty()) need("bias", c.bias.size(), c.cout);
  if (!std::is_sorted(rows.begin(), rows.end()) || (!rows.empty() && (rows.front() < 0 || rows.back() >= c.n * c.cout)))
    throw std::invalid_argument("reference conv1d: sampled rows must be sorted and lie in 0.." +
                                std::to_string(c.n * c.cout - 1));
}

/// Output positions first..last-1 whose tap `t` lies inside the signal; position j reads x[j*stride + start].
struct Reach {
  std::int64_t first, last, start;
};
Reach reach(const Conv1d& c, std::int64_t t) {
  const std::int64_t start = t * c.dilation - c.padl, lout = c.output_length();
  const auto ceil_div = [&](std::int64_t v) { return v <= 0 ? 0 : (v + c.stride - 1) / c.stride; };
  const std::int64_t first = std::min(lout, ceil_div(-start)), last = std::min(lout, ceil_div(c.l - start));
  return {first, std::max(first, last), start};
}

/// Row (channel, tap), column output position; zero where the tap lies in the padding.
void unroll(const Conv1d& c, const double* x, double* panel) {
  const std::int64_t lout = c.output_length();
#pragma omp parallel for schedule(static) if (c.cin * c.k * lout > 100000)
  for (std::int64_t i = 0; i < c.cin; ++i)
    for (std::int64_t t = 0; t < c.k; ++t) {
      double* const row = panel + (i * c.k + t) * lout;
      const Reach r = reach(c, t);
      std::fill(row, row + r.first, 0.0);
      const double* const from = r.first < r.last ? x + (i * c.l + r.start + r.first * c.stride) : nullptr;
      for (std::int64_t j = r.first; j < r.last; ++j) row[j] = from[(j - r.first) * c.stride];
      std::fill(row + r.last, row + lout, 0.0);
    }
}

/// Euclidean and largest norm of the finite elements.
struct Norms {
  double two = 0, max = 0;
};
std::vector<Norms> norms(std::span<const double> v, std::int64_t length) {
  std::vector<Norms> out(length == 0 ? 0 : v.size() / static_cast<std::size_t>(length));
#pragma omp parallel for schedule(static) if (v.size() > 100000)
  for (std::size_t r = 0; r < out.size(); ++r) {
    double squares = 0;
    for (const double e : v.subspan(r * static_cast<std::size_t>(length), static_cast<std::size_t>(length)))
      if (std::isfinite(e)) squares += e * e, out[r].max = std::max(out[r].max, std::fabs(e));
    out[r].two = std::sqrt(squares);
  }
  return out;
}

void add_norms(const Conv1d& c, Expected& e) {
  const std::int64_t own = c.cin / c.groups, count = e.rows.empty() ? c.n * c.cout : std::ssize(e.rows);
  const std::vector<Norms> w = norms(c.w, c.k), x = norms(c.x, c.l);
  e.further.assign(row_members, Numbers(static_cast<std::size_t>(count), 0.0));
  if (x.empty()) return;
#pragma omp parallel for schedule(static) if (count * own > 100000)
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int64_t row = e.rows.empty() ? r : e.rows[static_cast<std::size_t>(r)], o = row % c.cout;
    const Norms* const taps = w.data() + o * own;
    const Norms* const signal = x.data() + row / c.cout * c.cin + o / (c.cout / c.groups) * own;
    double two = 0, max = 0, root = 0;
    for (std::int64_t i = 0; i < own; ++i) {
      const double largest = taps[i].max * signal[i].max;
      two += taps[i].two * signal[i].two, max += largest, root += largest * largest;
    }
    e.further[norm_2][static_cast<std::size_t>(r)] = two;
    e.further[norm_max][static_cast<std::size_t>(r)] = max;
    e.further[norm_root][static_cast<std::size_t>(r)] = std::sqrt(root);
  }
}

/// hard * norm bounds every error, gate the errors of random data; docs/numerics.md section 3.13.
struct TransformTerms {
  Conv1dRow norm = norm_max;
  double u = 0, hard = 0, absolute = 0;
  double gate = 0;       // Winograd: of the direct T_iid, at most `tile` outputs away; FFT: of the norm
  std::size_t tile = 0;  // 0: the whole row
};

TransformTerms transform_terms(const Conv1d& c, const Arithmetic& a, bool fp64_reference) {
  const double channels = static_cast<double>(c.cin / c.groups);
  TransformTerms t;
  t.u = unit_roundoff(a.accumulator) + (fp64_reference ? 0x1p-53 : 0);
  if (a.transform == Transform::fft) {
    const double padded = static_cast<double>(c.l + c.padl + c.padr + c.dilation * (c.k - 1) + 1);
    t.norm = norm_2;
    t.hard = (21 * (std::ceil(std::log2(padded)) + 1) + channels + 8) * t.u;
    t.gate = threshold("conv1d_fft").value * t.u;
  } else {
    // max over outputs of sum_j |A'_j| |G_j|_1 |B'_j|_1, and m.
    const auto [amplification, gate, outputs] =
        a.transform == Transform::winograd_2   ? std::tuple{8.0, threshold("conv1d_winograd_2").value, 2}
        : a.transform == Transform::winograd_4 ? std::tuple{48.0, threshold("conv1d_winograd_4").value, 4}
                                               : std::tuple{68.0, threshold("conv1d_winograd_6").value, 6};
    t.hard = amplification * std::expm1((channels + 20) * std::log1p(t.u));
    t.gate = gate;
    t.tile = static_cast<std::size_t>(outputs) + 1;
  }
  t.absolute = 64 * (channels * static_cast<double>(c.k) + 2) * smallest_subnormal(a.accumulator);
  return t;
}

void append(Numbers& to, Numbers& from) {
  if (to.empty())
    to = std::move(from);
  else
    to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

Expected conv1d(const Conv1d& c, bool wide, std::vector<std::int64_t> rows) {
  check_sizes(c, rows);
  const std::int64_t lout = c.output_length();
  Expected e;
  e.row_length = lout;
  e.terms = c.cin / c.groups * c.k;
  std::vector<double> addend;
  for (std::size_t o = 0; o < c.bias.size(); ++o) addend.insert(addend.end(), static_cast<std::size_t>(lout), c.bias[o]);
  const std::int64_t size = c.cin * c.k * lout;
  const auto panel = std::make_unique_for_overwrite<double[]>(static_cast<std::size_t>(size));
  auto next = rows.begin();
  for (std::int64_t b = 0; b < c.n; ++b) {
    std::vector<std::int64_t> wanted;
    for (; next != rows.end() && *next < (b + 1) * c.cout; ++next) wanted.push_back(*next - b * c.cout);
    if (!rows.empty() && wanted.empty()) continue;
    unroll(c, c.x.data() + b * c.cin * c.l, panel.get());
    Expected one = gemm({.batch = c.groups,
                         .m = c.cout / c.groups,
                         .n = lout,
                         .k = e.terms,
                         .alpha = 1,
                         .beta = c.bias.empty() ? 0.0 : 1.0,
                         .a = c.w,
                         .b = {panel.get(), static_cast<std::size_t>(size)},
                         .c = addend},
                        wide, true, std::move(wanted));
    append(e.value, one.value), append(e.value_lo, one.value_lo), append(e.addend, one.addend);
    append(e.sum_abs, one.sum_abs), append(e.sum_sq, one.sum_sq);
    e.largest_input = std::max(e.largest_input, one.largest_input);
  }
  e.rows = std::move(rows);
  add_norms(c, e);
  return e;
}

std::vector<double> conv1d_slow(const Conv1d& c) {
  check_sizes(c, {});
  const std::int64_t lout = c.output_length(), own = c.cin / c.groups;
  std::vector<double> out(static_cast<std::size_t>(c.n * c.cout * lout));
  for (std::int64_t b = 0; b < c.n; ++b)
    for (std::int64_t o = 0; o < c.cout; ++o)
      for (std::int64_t j = 0; j < lout; ++j) {
        long double sum = c.bias.empty() ? 0.0L : static_cast<long double>(c.bias[static_cast<std::size_t>(o)]);
        for (std::int64_t t = c.k - 1; t >= 0; --t) {
          const std::int64_t position = j * c.stride - c.padl + t * c.dilation;
          if (position < 0 || position >= c.l) continue;
          for (std::int64_t i = own - 1; i >= 0; --i) {
            const std::int64_t channel = o / (c.cout / c.groups) * own + i;
            sum += static_cast<long double>(c.w[static_cast<std::size_t>((o * own + i) * c.k + t)]) *
                   c.x[static_cast<std::size_t>((b * c.cin + channel) * c.l + position)];
          }
        }
        out[static_cast<std::size_t>((b * c.cout + o) * lout + j)] = static_cast<double>(sum);
      }
  return out;
}

Bound conv1d_bound(const Conv1d& c, const Expected& e, const Arithmetic& a, bool exchangeable, bool exact,
                   std::optional<DType> input) {
  if (a.transform == Transform::none) return product_sum_bound(e, a, exchangeable, exact, input);
  if (e.further.size() != row_members || e.row_length < 1)
    throw std::invalid_argument("conv1d bound: the expectation has no norms, which the bound of a transform needs");
  Arithmetic inside = a;
  inside.output = a.accumulator;
  Bound b = product_sum_bound(e, inside, true, false, input);
  const TransformTerms t = transform_terms(c, a, e.value_lo.empty());
  const bool narrow = format(a.output).precision < format(a.accumulator).precision;
  const double u_out = narrow ? unit_roundoff(a.output) : 0, out_absolute = narrow ? smallest_subnormal(a.output) / 2 : 0;
  const auto rounded = [&](double error, double value) { return error + u_out * (value + error) + out_absolute; };
  const std::vector<double> direct = b.iid;
  const double few_channels = threshold("conv1d_winograd_few").value;
  for (std::size_t i = 0; i < direct.size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(e.row_length), first = row * static_cast<std::size_t>(e.row_length);
    const double value = std::fabs(e.value[i]), addend = e.addend.empty() ? 0 : e.addend[i];
    const double epilogue = 2 * t.u * (value + addend);  // the bias, and 1/N
    const double hard = t.hard * e.further[t.norm][row] + t.absolute * e.largest_input + epilogue;
    double gate = t.gate * e.further[t.norm][row] + epilogue;
    if (t.tile > 0) {
      const std::size_t from = std::max(first, i - std::min(i, t.tile)),
                        to = std::min(first + static_cast<std::size_t>(e.row_length), i + t.tile + 1);
      const double near = *std::max_element(direct.begin() + static_cast<std::ptrdiff_t>(from),
                                            direct.begin() + static_cast<std::ptrdiff_t>(to));
      // At the ends of a row an output may have a single tap, whose product says nothing of the other two that its tile mixes
      // in.
      gate = t.gate * std::max(near, few_channels * t.u * e.further[norm_root][row]);
    }
    // Integers: what an error of a quarter cannot hide, where the transform is that exact.
    b.hard[i] = rounded(exact ? std::min(hard, std::max(0.25, gate)) : hard, value);
    b.iid[i] = rounded(gate, value);
    b.statistic[i] *= std::max(1.0, t.tile > 0 ? t.gate : 0.0);
  }
  b.rms_gate = b.out_rms_gate = 0;  // errors of the outputs of one tile or row are not independent
  if (!exchangeable) b.iid.clear(), b.statistic.clear();
  return b;
}

}  // namespace assay::reference
