// SPDX-License-Identifier: Apache-2.0
// Reference conv_transpose1d: per batch entry and group, columns W^T X by the reference gemm, then added where they belong.
#include "reference/ops/conv_transpose1d.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <string>

#include "reference/ops/gemm.hpp"
#include "reference/wide.hpp"

namespace assay::reference {
namespace {

// A product at a time: so many frames of X, and columns that stay near the caches.
constexpr std::int64_t product_frames = 512, product_columns = 1 << 17;

/// Wanted rows of one batch entry and group, first <= local < last.
struct Task {
  std::int64_t first, last, entry, group;
};

void check_sizes(const ConvTranspose1d& c, const std::vector<std::int64_t>& rows) {
  if (c.n < 0 || std::min({c.cin, c.cout, c.l, c.k, c.stride, c.dilation, c.groups}) < 1 ||
      std::min({c.padl, c.padr, c.outpad}) < 0 || c.lout() < 0)
    throw std::invalid_argument("reference conv_transpose1d: a size is out of range");
  if (c.cin % c.groups != 0 || c.cout % c.groups != 0)
    throw std::invalid_argument("reference conv_transpose1d: channels are no multiple of the groups");
  const auto need = [](std::string_view what, std::size_t got, std::int64_t want) {
    if (got != static_cast<std::size_t>(want))
      throw std::invalid_argument("reference conv_transpose1d: operand " + std::string(what) + " has " + std::to_string(got) +
                                  " elements, its shape needs " + std::to_string(want));
  };
  need("X", c.x.size(), c.n * c.cin * c.l);
  need("W", c.w.size(), c.cin * (c.cout / c.groups) * c.k);
  if (!c.bias.empty()) need("B", c.bias.size(), c.cout);
  if (!std::is_sorted(rows.begin(), rows.end()) || (!rows.empty() && (rows.front() < 0 || rows.back() >= c.n * c.cout)))
    throw std::invalid_argument("reference conv_transpose1d: sampled rows must be sorted and lie in 0.." +
                                std::to_string(c.n * c.cout - 1));
}

std::vector<Task> cut_into_tasks(const ConvTranspose1d& c, const std::vector<std::int64_t>& rows) {
  const std::int64_t wanted = rows.empty() ? c.n * c.cout : std::ssize(rows), in_group = c.cout / c.groups;
  const std::int64_t most = std::max<std::int64_t>(1, product_columns / (c.k * std::min(c.l, product_frames)));
  const auto group_of = [&](std::int64_t r) { return (rows.empty() ? r : rows[r]) / in_group; };  // batch entry included
  std::vector<Task> tasks;
  for (std::int64_t r = 0; r < wanted;) {
    std::int64_t end = r + 1;
    while (end < wanted && end - r < most && group_of(end) == group_of(r)) ++end;
    tasks.push_back({r, end, group_of(r) / c.groups, group_of(r) % c.groups});
    r = end;
  }
  return tasks;
}

/// hi + lo += term, a double-double; sums that are not finite follow IEEE 754 and keep no low part.
void add(double& hi, double& lo, double term, double term_lo) {
  const DoubleDouble s = two_sum(hi, term), v = two_sum(s.hi, s.lo + (lo + term_lo));
  const bool finite = std::isfinite(v.hi) && std::isfinite(v.lo);
  hi = finite ? v.hi : hi + term;
  lo = finite ? v.lo : 0;
}

/// Adds the columns of frames begin <= i < end to the rows from `row` on: column (row, tap, frame) to i*stride + r*dilation -
/// padl.
void add_columns(const ConvTranspose1d& c, const Expected& columns, std::int64_t first_row, std::int64_t rows,
                 std::int64_t begin, std::int64_t end, Expected& e) {
  const std::int64_t lout = c.lout(), frames = end - begin;
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t r = 0; r < c.k; ++r) {
      const std::int64_t shift = r * c.dilation - c.padl, room = lout - 1 - shift;
      const std::int64_t first = std::max(begin, shift < 0 ? (-shift + c.stride - 1) / c.stride : 0);
      const std::int64_t last = room < 0 ? 0 : std::min(end, room / c.stride + 1);
      const std::int64_t from = (row * c.k + r) * frames - begin, to = (first_row + row) * lout + shift;
      if (columns.value_lo.empty())
        for (std::int64_t i = first; i < last; ++i) e.value[to + i * c.stride] += columns.value[from + i];
      else
        for (std::int64_t i = first; i < last; ++i)
          add(e.value[to + i * c.stride], e.value_lo[to + i * c.stride], columns.value[from + i], columns.value_lo[from + i]);
      for (std::int64_t i = first; i < last; ++i) {
        e.sum_abs[to + i * c.stride] += columns.sum_abs[from + i];
        e.sum_sq[to + i * c.stride] += columns.sum_sq[from + i];
      }
    }
}

void add_bias(double bias, std::int64_t from, std::int64_t count, Expected& e) {
  for (std::int64_t at = from; at < from + count; ++at) {
    if (e.value_lo.empty())
      e.value[at] += bias;
    else
      add(e.value[at], e.value_lo[at], bias, 0);
    e.addend[at] = std::fabs(bias);
  }
}

/// Returns the largest magnitude among the operands, at least 1.
double compute(const ConvTranspose1d& c, const Task& task, const std::vector<std::int64_t>& rows, bool wide, Expected& e) {
  const std::int64_t cin = c.cin / c.groups, cout = c.cout / c.groups, count = task.last - task.first;
  const auto channel = [&](std::int64_t row) { return (rows.empty() ? task.first + row : rows[task.first + row]) % c.cout; };
  // Row (row, r) of the left matrix: the taps w[., co, r].
  std::vector<double> taps(static_cast<std::size_t>(count * c.k * cin));
  for (std::int64_t ci = 0; ci < cin; ++ci)
    for (std::int64_t row = 0; row < count; ++row) {
      const double* from = &c.w[((task.group * cin + ci) * cout + channel(row) % cout) * c.k];
      for (std::int64_t r = 0; r < c.k; ++r) taps[(row * c.k + r) * cin + ci] = from[r];
    }
  const double* const x = c.x.data() + (task.entry * c.cin + task.group * cin) * c.l;
  double largest = 1;
  std::vector<double> part;
  for (std::int64_t begin = 0; begin < c.l; begin += product_frames) {
    const std::int64_t end = std::min(c.l, begin + product_frames), frames = end - begin;
    part.resize(cin * frames);
    for (std::int64_t ci = 0; ci < cin; ++ci) std::copy(x + ci * c.l + begin, x + ci * c.l + end, part.begin() + ci * frames);
    const Expected columns = gemm({.m = count * c.k, .n = frames, .k = cin, .a = taps, .b = part}, wide);
    largest = std::max(largest, columns.largest_input);
    add_columns(c, columns, task.first, count, begin, end, e);
  }
  for (std::int64_t row = 0; row < count && !c.bias.empty(); ++row)
    add_bias(c.bias[channel(row)], (task.first + row) * c.lout(), c.lout(), e);
  return largest;
}

}  // namespace

std::int64_t ConvTranspose1d::most_taps() const {
  const std::int64_t g = std::gcd(stride, dilation), in_taps = stride / g, in_frames = dilation / g;
  return std::min((k + in_taps - 1) / in_taps, (l + in_frames - 1) / in_frames);
}

Expected conv_transpose1d(const ConvTranspose1d& c, bool wide, std::vector<std::int64_t> rows) {
  check_sizes(c, rows);
  const std::int64_t wanted = rows.empty() ? c.n * c.cout : std::ssize(rows);
  Expected e;
  e.row_length = c.lout();
  e.terms = c.cin / c.groups * c.most_taps();
  const auto size = static_cast<std::size_t>(wanted * e.row_length);
  e.value.assign(size, 0), e.sum_abs.assign(size, 0), e.sum_sq.assign(size, 0);
  if (wide) e.value_lo.assign(size, 0);
  if (!c.bias.empty()) e.addend.assign(size, 0);
  const std::vector<Task> tasks = cut_into_tasks(c, rows);
  double largest = 1;
  // A single task is parallel inside its products.
#pragma omp parallel for schedule(dynamic) reduction(max : largest) if (tasks.size() > 1)
  for (std::size_t i = 0; i < tasks.size(); ++i) largest = std::max(largest, compute(c, tasks[i], rows, wide, e));
  e.largest_input = largest;
  e.rows = std::move(rows);
  return e;
}

std::vector<double> conv_transpose1d_slow(const ConvTranspose1d& c) {
  check_sizes(c, {});
  const std::int64_t lout = c.lout(), cin = c.cin / c.groups, cout = c.cout / c.groups;
  std::vector<double> y(static_cast<std::size_t>(c.n * c.cout * lout));
  for (std::int64_t b = 0; b < c.n; ++b)
    for (std::int64_t co = 0; co < c.cout; ++co)
      for (std::int64_t t = 0; t < lout; ++t) {
        long double sum = c.bias.empty() ? 0.0L : c.bias[co];
        for (std::int64_t r = 0; r < c.k; ++r) {
          const std::int64_t at = t + c.padl - r * c.dilation;
          if (at < 0 || at % c.stride != 0 || at / c.stride >= c.l) continue;
          for (std::int64_t own = 0; own < cin; ++own) {
            const std::int64_t ci = co / cout * cin + own;
            sum +=
                static_cast<long double>(c.x[(b * c.cin + ci) * c.l + at / c.stride]) * c.w[(ci * cout + co % cout) * c.k + r];
          }
        }
        y[(b * c.cout + co) * lout + t] = static_cast<double>(sum);
      }
  return y;
}

}  // namespace assay::reference
