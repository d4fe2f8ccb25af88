// SPDX-License-Identifier: Apache-2.0
// Reference conv1d: the signal is unrolled into one column per output position, then a batched product with one entry per
// group.
#include "reference/ops/conv1d.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

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
void unroll(const Conv1d& c, const double* x, std::vector<double>& panel) {
  const std::int64_t lout = c.output_length();
  panel.resize(static_cast<std::size_t>(c.cin * c.k * lout));
#pragma omp parallel for schedule(static) if (panel.size() > 100000)
  for (std::int64_t i = 0; i < c.cin; ++i)
    for (std::int64_t t = 0; t < c.k; ++t) {
      double* const row = panel.data() + (i * c.k + t) * lout;
      const Reach r = reach(c, t);
      std::fill(row, row + r.first, 0.0);
      const double* const from = x + i * c.l + r.start;
      if (c.stride == 1)
        std::copy(from + r.first, from + r.last, row + r.first);
      else
        for (std::int64_t j = r.first; j < r.last; ++j) row[j] = from[j * c.stride];
      std::fill(row + r.last, row + lout, 0.0);
    }
}

/// Euclidean and largest norm of the finite elements.
struct Norms {
  double two = 0, max = 0;
};
std::vector<Norms> norms(std::span<const double> v, std::int64_t length) {
  std::vector<Norms> out(length == 0 ? 0 : v.size() / static_cast<std::size_t>(length));
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
  e.further.assign(row_members, std::vector<double>(static_cast<std::size_t>(count)));
  if (x.empty()) return;
  for (std::int64_t r = 0; r < count; ++r) {
    const std::int64_t row = e.rows.empty() ? r : e.rows[static_cast<std::size_t>(r)], o = row % c.cout;
    const Norms* const taps = w.data() + o * own;
    const Norms* const signal = x.data() + row / c.cout * c.cin + o / (c.cout / c.groups) * own;
    double two = 0, max = 0;
    for (std::int64_t i = 0; i < own; ++i) two += taps[i].two * signal[i].two, max += taps[i].max * signal[i].max;
    e.further[norm_2][static_cast<std::size_t>(r)] = two;
    e.further[norm_max][static_cast<std::size_t>(r)] = max;
  }
}

void append(std::vector<double>& to, const std::vector<double>& from) {
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
  std::vector<double> panel;
  auto next = rows.begin();
  for (std::int64_t b = 0; b < c.n; ++b) {
    std::vector<std::int64_t> wanted;
    for (; next != rows.end() && *next < (b + 1) * c.cout; ++next) wanted.push_back(*next - b * c.cout);
    if (!rows.empty() && wanted.empty()) continue;
    unroll(c, c.x.data() + b * c.cin * c.l, panel);
    Expected one = gemm({.batch = c.groups,
                         .m = c.cout / c.groups,
                         .n = lout,
                         .k = e.terms,
                         .alpha = 1,
                         .beta = c.bias.empty() ? 0.0 : 1.0,
                         .a = c.w,
                         .b = panel,
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

Bound conv1d_bound(const Expected& e, const Arithmetic& a, bool exchangeable, bool exact, std::optional<DType> input) {
  return product_sum_bound(e, a, exchangeable, exact, input);
}

}  // namespace assay::reference
