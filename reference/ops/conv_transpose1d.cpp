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

// Columns of one task: few enough to stay near the caches, enough rows that the product is not bound by reading X.
constexpr std::int64_t task_columns = 1 << 19;

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
  const std::int64_t most = std::max<std::int64_t>(1, task_columns / (c.k * c.l));
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

void compute(const ConvTranspose1d& c, const Task& task, const std::vector<std::int64_t>& rows, bool wide, Expected& e,
             double& largest_input) {
  const std::int64_t lout = c.lout(), cin = c.cin / c.groups, cout = c.cout / c.groups, count = task.last - task.first;
  const auto global = [&](std::int64_t local) { return rows.empty() ? local : rows[local]; };
  // Row (row, r) of the left matrix: the taps w[., co, r].
  std::vector<double> taps(static_cast<std::size_t>(count * c.k * cin));
  for (std::int64_t ci = 0; ci < cin; ++ci)
    for (std::int64_t row = 0; row < count; ++row) {
      const std::int64_t co = global(task.first + row) % cout;
      const double* from = &c.w[((task.group * cin + ci) * cout + co) * c.k];
      for (std::int64_t r = 0; r < c.k; ++r) taps[(row * c.k + r) * cin + ci] = from[r];
    }
  const std::span<const double> x = c.x.subspan((task.entry * c.cin + task.group * cin) * c.l, cin * c.l);
  const Expected columns = gemm({.m = count * c.k, .n = c.l, .k = cin, .a = taps, .b = x}, wide);
  largest_input = columns.largest_input;
  for (std::int64_t row = 0; row < count; ++row) {
    const std::int64_t to = (task.first + row) * lout;
    for (std::int64_t r = 0; r < c.k; ++r) {
      // The frames whose output t = i*stride + r*dilation - padl exists.
      const std::int64_t shift = r * c.dilation - c.padl;
      const std::int64_t first = shift < 0 ? (-shift + c.stride - 1) / c.stride : 0;
      const std::int64_t last = lout - 1 - shift < 0 ? 0 : std::min(c.l, (lout - 1 - shift) / c.stride + 1);
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t from = (row * c.k + r) * c.l + i, at = to + i * c.stride + shift;
        if (wide)
          add(e.value[at], e.value_lo[at], columns.value[from], columns.value_lo[from]);
        else
          e.value[at] += columns.value[from];
        e.sum_abs[at] += columns.sum_abs[from];
        e.sum_sq[at] += columns.sum_sq[from];
      }
    }
    if (c.bias.empty()) continue;
    const double bias = c.bias[global(task.first + row) % c.cout];
    for (std::int64_t at = to; at < to + lout; ++at) {
      if (wide)
        add(e.value[at], e.value_lo[at], bias, 0);
      else
        e.value[at] += bias;
      e.addend[at] = std::fabs(bias);
    }
  }
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
  e.value.resize(size), e.sum_abs.resize(size), e.sum_sq.resize(size);
  if (wide) e.value_lo.resize(size);
  if (!c.bias.empty()) e.addend.resize(size);
  const std::vector<Task> tasks = cut_into_tasks(c, rows);
  double largest = 1;
  // Few tasks are parallel inside their products.
#pragma omp parallel for schedule(dynamic) reduction(max : largest) if (tasks.size() >= 16)
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    double of_task = 1;
    compute(c, tasks[i], rows, wide, e, of_task);
    largest = std::max(largest, of_task);
  }
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
