// SPDX-License-Identifier: Apache-2.0
#include "reference/verify_elements.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>

#include "reference/ops/gemm.hpp"
#include "reference/verify_kernel.hpp"

namespace assay::reference {
namespace {

using Places = std::vector<std::int64_t>;

/// Bits of C at rows x columns, packed as an operand of its own.
struct Part {
  Operand operand;
  std::vector<std::byte> storage;
};

Part part_of(const View& c, const Places& rows, const Places& columns) {
  const auto m = std::ssize(rows), n = std::ssize(columns);
  const auto size = static_cast<std::int64_t>(size_bytes(c.dtype));
  Part p;
  p.operand = {
      .role = "C", .dtype = c.dtype, .access = Access::out, .dims = {1, m, n}, .strides = {m * n, n, 1}, .span = m * n};
  p.storage.resize(static_cast<std::size_t>(m * n * size));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      store_bits(c.dtype, p.storage.data() + (i * n + j) * size,
                 bits_at(c, rows[static_cast<std::size_t>(i)], columns[static_cast<std::size_t>(j)]));
  return p;
}

bool over_bound(DType t, const Expected& e, const Bound& b, std::size_t i, std::uint64_t bits) {
  const double got = decode(t, bits), value = e.value[i];
  if (b.exact) return encode(t, value) != bits && !(got == 0 && value == 0);
  if (got == value || (std::isnan(got) && std::isnan(value))) return false;
  return !(std::fabs(got - value) <= (b.iid.empty() ? b.hard[i] : std::min(b.hard[i], b.iid[i])));
}

/// `to` takes what `part` found at its place in the whole; statistics: the larger.
void merge(Discrepancy& to, const Discrepancy& part, const std::vector<std::int64_t>& bad_indices, std::int64_t worst_index) {
  to.compared += part.compared, to.bad += part.bad, to.over_iid += part.over_iid;
  to.nan_unexpected += part.nan_unexpected, to.nan_missing += part.nan_missing, to.inf_mismatch += part.inf_mismatch;
  to.nan_leaked += part.nan_leaked, to.unwritten += part.unwritten, to.subnormal_flushed += part.subnormal_flushed;
  to.overflow_open += part.overflow_open, to.differing_bits += part.differing_bits;
  if (part.worst.index >= 0 && (to.worst.index < 0 || part.worst.error_over_bound > to.worst.error_over_bound)) {
    to.worst = part.worst;
    to.worst.index = worst_index;
  }
  to.bad_indices.insert(to.bad_indices.end(), bad_indices.begin(), bad_indices.end());
  std::ranges::sort(to.bad_indices);
  if (to.bad_indices.size() > 64) to.bad_indices.resize(64);
  if (!to.bad_indices.empty()) to.first_bad = to.bad_indices.front();
  to.max_over_hard = std::max(to.max_over_hard, part.max_over_hard);
  to.max_over_iid = std::max(to.max_over_iid, part.max_over_iid);
  if (part.rms_over_statistic > to.rms_over_statistic) to.rms_over_statistic = part.rms_over_statistic, to.bias = part.bias;
  to.rms_over_rounding = std::max(to.rms_over_rounding, part.rms_over_rounding);
  to.rms_exceeded = to.rms_exceeded || part.rms_exceeded;
  if (to.median_bound_over_rms == 0) to.median_bound_over_rms = part.median_bound_over_rms;
  to.blind_fraction = std::max(to.blind_fraction, part.blind_fraction);
}

void judge_part(const FinishedGemm& g, const View& c, std::int64_t batch, const Places& rows, const Places& columns,
                const Expected& e, Discrepancy& found, std::vector<WrongElement>& wrong) {
  const Part p = part_of(c, rows, columns);
  const Bound b = product_sum_bound(e, g.arithmetic, g.exchangeable, g.exact, g.a.dtype);
  const Discrepancy d = compare(p.operand, p.storage, e, b, g.arithmetic, g.poison_bits, g.subnormals_kept);
  const std::int64_t n = std::ssize(columns);
  const auto global = [&](std::int64_t i) {
    return (batch * c.rows + rows[static_cast<std::size_t>(i / n)]) * c.columns + columns[static_cast<std::size_t>(i % n)];
  };
  std::vector<std::int64_t> bad;
  for (const std::int64_t i : d.bad_indices) bad.push_back(global(i));
  merge(found, d, bad, d.worst.index < 0 ? -1 : global(d.worst.index));
  if (d.bad + d.over_iid == 0) return;
  for (std::size_t i = 0; i < e.value.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (over_bound(c.dtype, e, b, i,
                   load_bits(c.dtype, p.storage.data() + at * static_cast<std::int64_t>(size_bytes(c.dtype)))))
      wrong.push_back({rows[i / static_cast<std::size_t>(n)], columns[i % static_cast<std::size_t>(n)]});
  }
}

std::vector<double> take_rows(const View& v, const Places& rows) {
  std::vector<double> out(rows.size() * static_cast<std::size_t>(v.columns));
  for (std::size_t i = 0; i < rows.size(); ++i)
    load_tile(v, rows[i], 1, 0, v.columns, out.data() + i * static_cast<std::size_t>(v.columns), v.columns);
  return out;
}

std::vector<double> take_columns(const View& v, const Places& columns) {
  const auto n = std::ssize(columns);
  std::vector<double> out(static_cast<std::size_t>(v.rows * n));
  constexpr std::int64_t block = 64;
#pragma omp parallel for if (v.rows * n > 100000)
  for (std::int64_t row = 0; row < v.rows; row += block)
    for (std::int64_t j = 0; j < n; ++j)
      load_tile(v, row, std::min(block, v.rows - row), columns[static_cast<std::size_t>(j)], 1, out.data() + row * n + j, n);
  return out;
}

constexpr std::int64_t most_rows = 16, strip_columns = 256, strip_depth = 64;

/// The sampled rows of A by columns, (k, 16), zeros where there are fewer: as they are, |a| and a^2.
template <class T>
struct Left {
  using Value = T;
  std::vector<T> abs, square;
};
struct LeftRows {
  std::vector<double> value;
  Left<float> narrow;
  Left<double> wide;
  double largest = 0, least = 0;  // magnitudes; least nonzero
};

LeftRows left_rows(const View& a, const Places& rows) {
  const std::vector<double> taken = take_rows(a, rows);
  LeftRows left;
  left.value.resize(static_cast<std::size_t>(a.columns * most_rows));
  left.least = std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < std::ssize(rows); ++i)
    for (std::int64_t l = 0; l < a.columns; ++l) {
      const double x = taken[static_cast<std::size_t>(i * a.columns + l)];
      left.value[static_cast<std::size_t>(l * most_rows + i)] = x;
      left.largest = std::max(left.largest, std::fabs(x));
      if (x != 0) left.least = std::min(left.least, std::fabs(x));
    }
  const auto take = [&](auto& to) {
    using T = typename std::remove_reference_t<decltype(to)>::Value;
    to.abs.resize(left.value.size()), to.square.resize(left.value.size());
    for (std::size_t i = 0; i < left.value.size(); ++i) {
      to.abs[i] = static_cast<T>(std::fabs(left.value[i]));
      to.square[i] = static_cast<T>(left.value[i] * left.value[i]);
    }
  };
  take(left.narrow), take(left.wide);
  return left;
}

/// Sums of a strip of columns of the sampled rows, (16, strip_columns): value and magnitudes, without alpha.
struct Sums {
  std::vector<double> value, abs, square;
  double largest = 0;  // |b|
};

/// Of one block: |b| or b^2, and the two sums, in T.
template <class T>
struct Scratch {
  std::vector<T> b = std::vector<T>(strip_depth * strip_columns), abs = std::vector<T>(most_rows * strip_columns), square = abs;
};

/// What magnitudes of one block of the strip add, summed in T; own.b holds |b|.
template <class T>
void add_magnitudes(const Left<T>& left, std::int64_t l, std::int64_t depth, Scratch<T>& own, Sums& s) {
  auto& [b, abs, square] = own;
  std::ranges::fill(abs, T(0)), std::ranges::fill(square, T(0));
  const auto product = [&](const std::vector<T>& a, std::vector<T>& c) {
    multiply_add<T>(a.data() + l * most_rows, 1, most_rows, most_rows, b.data(), strip_columns, strip_columns, depth, c.data(),
                    strip_columns);
  };
  product(left.abs, abs);
  for (T& x : b) x *= x;
  product(left.square, square);
  for (std::size_t i = 0; i < abs.size(); ++i)
    s.abs[i] += static_cast<double>(abs[i]), s.square[i] += static_cast<double>(square[i]);
}

/// Whether no |ab| and no (ab)^2 can leave the normal numbers of fp32, nor can their sums.
bool fp32_suffices(const LeftRows& left, double largest, double least, std::int64_t k) {
  const double high = std::max({left.largest, largest, left.largest * largest}),
               low = std::min({left.least, least, left.least * least});
  return low >= 0x1p-60 && high * high * static_cast<double>(k) <= 0x1p120;
}

Sums sums_of(const View& b, const LeftRows& left, std::int64_t column, std::int64_t width) {
  const auto count = static_cast<std::size_t>(most_rows * strip_columns);
  Sums s{std::vector<double>(count), std::vector<double>(count), std::vector<double>(count), 0};
  std::vector<double> tile(static_cast<std::size_t>(strip_depth * strip_columns));  // columns beyond `width` stay zero
  Scratch<float> narrow;
  Scratch<double> wide;
  for (std::int64_t l = 0; l < b.rows; l += strip_depth) {
    const std::int64_t depth = std::min(strip_depth, b.rows - l);
    load_tile(b, l, depth, column, width, tile.data(), strip_columns);
    multiply_add<double>(left.value.data() + l * most_rows, 1, most_rows, most_rows, tile.data(), strip_columns, strip_columns,
                         depth, s.value.data(), strip_columns);
    // fp32 holds every operand exactly.
    for (std::size_t i = 0; i < tile.size(); ++i) narrow.b[i] = std::fabs(static_cast<float>(tile[i]));
    const Eigen::Map<const Eigen::ArrayXf> all(narrow.b.data(), depth * strip_columns);
    const double largest = all.maxCoeff(), least = (all == 0).select(1.0f, all).minCoeff();
    s.largest = std::max(s.largest, largest);
    if (fp32_suffices(left, largest, least, b.rows)) {
      add_magnitudes(left.narrow, l, depth, narrow, s);
    } else {
      std::ranges::copy(narrow.b, wide.b.begin());
      add_magnitudes(left.wide, l, depth, wide, s);
    }
  }
  return s;
}

/// Pieces of one line (of width 1 across): from three on they are one region, with gaps.
void join_pieces(std::vector<WrongRegion>& regions, std::int64_t WrongRegion::*at, std::int64_t WrongRegion::*length,
                 std::int64_t WrongRegion::*across, std::int64_t WrongRegion::*width) {
  std::map<std::int64_t, std::vector<WrongRegion>> lines;
  for (const WrongRegion& r : regions)
    if (r.*width == 1) lines[r.*across].push_back(r);
  for (const auto& [line, pieces] : lines) {
    if (pieces.size() < 3) continue;
    std::erase_if(regions, [&](const WrongRegion& r) { return r.*width == 1 && r.*across == line; });
    WrongRegion whole = pieces[0];
    std::int64_t end = 0;
    whole.wrong = 0;
    for (const WrongRegion& r : pieces) {
      whole.*at = std::min(whole.*at, r.*at);
      end = std::max(end, r.*at + r.*length);
      whole.wrong += r.wrong;
    }
    whole.*length = end - whole.*at;
    regions.push_back(whole);
  }
}

}  // namespace

double rms_gate(const Arithmetic& a) {
  return threshold(a.accumulation == Accumulation::tensor_core ? "rms_tensor_core" : "rms_nearest").value;
}

void compare_rectangle(const FinishedGemm& g, const Product& p, std::int64_t batch, const Places& rows, const Places& columns,
                       Discrepancy& found, std::vector<WrongElement>& wrong) {
  const std::vector<double> a = take_rows(p.a, rows), b = take_columns(p.b, columns);
  std::vector<double> c0;
  if (p.c0)
    for (const std::int64_t i : rows)
      for (const std::int64_t j : columns) c0.push_back(decode(p.c0->dtype, bits_at(*p.c0, i, j)));
  const Gemm part{.m = std::ssize(rows),
                  .n = std::ssize(columns),
                  .k = p.a.columns,
                  .alpha = p.alpha,
                  .beta = p.beta,
                  .a = a,
                  .b = b,
                  .c = c0};
  judge_part(g, p.c, batch, rows, columns, gemm(part, false, true), found, wrong);
}

void compare_rows(const FinishedGemm& g, const Product& p, std::int64_t batch, const Places& rows, Discrepancy& found,
                  std::vector<WrongElement>& wrong) {
  if (std::ssize(rows) > most_rows) throw std::invalid_argument("verify: at most 16 rows at a time");
  const std::int64_t n = p.c.columns, k = p.a.columns;
  const LeftRows left = left_rows(p.a, rows);
  Expected e;
  const std::size_t count = rows.size() * static_cast<std::size_t>(n);
  e.value.resize(count), e.sum_abs.resize(count), e.sum_sq.resize(count);
  if (p.c0) e.addend.resize(count);
  e.row_length = n, e.terms = k, e.abs_alpha = std::fabs(p.alpha);
  const double up = 1 + (static_cast<double>(k) + 8) * 0x1p-23;  // magnitudes are never too small, in fp32 either
  double largest = left.largest;
#pragma omp parallel for schedule(dynamic) reduction(max : largest)
  for (std::int64_t j0 = 0; j0 < n; j0 += strip_columns) {
    const std::int64_t width = std::min(strip_columns, n - j0);
    const Sums s = sums_of(p.b, left, j0, width);
    largest = std::max(largest, s.largest);
    for (std::int64_t i = 0; i < std::ssize(rows); ++i)
      for (std::int64_t j = 0; j < width; ++j) {
        const auto at = static_cast<std::size_t>(i * n + j0 + j), from = static_cast<std::size_t>(i * strip_columns + j);
        e.value[at] = p.alpha * s.value[from];
        e.sum_abs[at] = std::fabs(p.alpha) * s.abs[from] * up;
        e.sum_sq[at] = p.alpha * p.alpha * s.square[from] * up;
        if (!p.c0) continue;
        const double addend = p.beta * decode(p.c0->dtype, bits_at(*p.c0, rows[static_cast<std::size_t>(i)], j0 + j));
        e.value[at] += addend;
        e.addend[at] = std::fabs(addend);
      }
  }
  e.largest_input = std::max(1.0, largest);
  Places columns(static_cast<std::size_t>(n));
  for (std::int64_t j = 0; j < n; ++j) columns[static_cast<std::size_t>(j)] = j;
  judge_part(g, p.c, batch, rows, columns, e, found, wrong);
}

std::vector<WrongElement> elements_from(const View& c, double limit, std::int64_t most) {
  std::vector<WrongElement> all;
#pragma omp parallel
  {
    std::vector<double> row(static_cast<std::size_t>(c.columns) * 16);
#pragma omp for schedule(static) ordered
    for (std::int64_t first = 0; first < c.rows; first += 16) {
      const std::int64_t rows = std::min<std::int64_t>(16, c.rows - first);
      load_tile(c, first, rows, 0, c.columns, row.data(), c.columns);
      std::vector<WrongElement> here;
      for (std::int64_t i = 0; i < rows * c.columns && std::ssize(here) <= most; ++i)
        if (!(std::fabs(row[static_cast<std::size_t>(i)]) < limit)) here.push_back({first + i / c.columns, i % c.columns});
#pragma omp ordered
      if (std::ssize(all) <= most) all.insert(all.end(), here.begin(), here.end());
    }
  }
  return all;
}

double true_value(const Product& p, std::int64_t row, std::int64_t column) {
  double sum = 0;
  for (std::int64_t l = 0; l < p.a.columns; ++l)
    sum += decode(p.a.dtype, bits_at(p.a, row, l)) * decode(p.b.dtype, bits_at(p.b, l, column));
  return p.alpha * sum + (p.c0 ? p.beta * decode(p.c0->dtype, bits_at(*p.c0, row, column)) : 0);
}

void add_regions(std::int64_t batch, std::vector<WrongElement> wrong, std::vector<WrongRegion>& regions) {
  constexpr std::int64_t reach = 16;
  // Split where more than `reach` rows in turn are free of wrong elements, then by columns, until nothing splits.
  const auto split = [&](std::vector<WrongElement> part, std::int64_t WrongElement::*along) {
    std::ranges::sort(part, {}, along);
    std::vector<std::vector<WrongElement>> pieces;
    for (const WrongElement& w : part) {
      if (pieces.empty() || w.*along - pieces.back().back().*along > reach) pieces.emplace_back();
      pieces.back().push_back(w);
    }
    return pieces;
  };
  std::vector<std::vector<WrongElement>> open;
  std::vector<WrongRegion> here;
  if (!wrong.empty()) open.push_back(std::move(wrong));
  while (!open.empty()) {
    std::vector<WrongElement> part = std::move(open.back());
    open.pop_back();
    auto pieces = split(part, &WrongElement::row);
    if (pieces.size() == 1) pieces = split(std::move(part), &WrongElement::column);
    if (pieces.size() > 1) {
      for (auto& piece : pieces) open.push_back(std::move(piece));
      continue;
    }
    const auto [top, bottom] = std::ranges::minmax(pieces[0], {}, &WrongElement::row);
    const auto [left, right] = std::ranges::minmax(pieces[0], {}, &WrongElement::column);
    regions.push_back(
        {batch, top.row, bottom.row - top.row + 1, left.column, right.column - left.column + 1, std::ssize(pieces[0])});
  }
  join_pieces(here, &WrongRegion::row, &WrongRegion::rows, &WrongRegion::column, &WrongRegion::columns);
  join_pieces(here, &WrongRegion::column, &WrongRegion::columns, &WrongRegion::row, &WrongRegion::rows);
  regions.insert(regions.end(), here.begin(), here.end());
  std::ranges::stable_sort(regions, std::greater{}, &WrongRegion::wrong);
  if (regions.size() > 64) regions.resize(64);
}

}  // namespace assay::reference
