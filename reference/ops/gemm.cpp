// SPDX-License-Identifier: Apache-2.0
// Reference gemm: fp64 through Eigen or Dot2, with the magnitudes S and R2, block by block on all cores.
#include "reference/ops/gemm.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "reference/wide.hpp"

namespace assay::reference {
namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using MatrixView = Eigen::Map<const Matrix<double>, 0, Eigen::OuterStride<>>;
using MatrixPlace = Eigen::Map<Matrix<double>, 0, Eigen::OuterStride<>>;

// Rows of one task. Eigen packs the columns of B anew for every block of rows, so many rows make that cheap; two cores share
// 256.
constexpr std::int64_t block_rows = 128, most_block_rows = 640;
constexpr std::int64_t block_columns = 512;
// Below this many products a thread team costs more than it saves; Eigen must not start one of its own either.
constexpr double serial_products = 1e6;

/// The rows whose outputs are wanted, contiguous, with what was not finite taken out and remembered.
struct Operands {
  std::vector<double> own_a, own_b;  // used only where the caller's data must be copied
  const double* a = nullptr;         // (rows, k)
  const double* b = nullptr;         // (batch, k, n)
  std::vector<char> dirty_row;       // per wanted row: holds a NaN or Inf; empty when all is finite
  std::vector<char> dirty_column;    // per (batch, column) of B
  double largest_a = 0, largest_b = 0;
  double least_a = 0, least_b = 0;  // smallest nonzero magnitude, 0 if none
};

struct Block {
  std::int64_t row, rows;  // position among the wanted rows; all in one batch entry
  std::int64_t column, columns;
  std::int64_t batch;
};

struct Task {
  const Gemm& g;
  const std::vector<std::int64_t>& rows;
  const Operands& operands;
  bool wide, magnitudes, fp32_magnitudes, serial;
  double lift;
};

void check_sizes(const Gemm& g, const std::vector<std::int64_t>& rows) {
  const auto need = [](std::string_view what, std::size_t got, std::int64_t want) {
    if (got != static_cast<std::size_t>(want))
      throw std::invalid_argument("reference gemm: operand " + std::string(what) + " has " + std::to_string(got) +
                                  " elements, its shape needs " + std::to_string(want));
  };
  if (g.batch < 0 || g.m < 0 || g.n < 0 || g.k < 0) throw std::invalid_argument("reference gemm: a size is negative");
  if (g.alpha != 0) {
    need("A", g.a.size(), g.batch * g.m * g.k);
    need("B", g.b.size(), g.batch * g.k * g.n);
  }
  if (g.beta != 0) need("C", g.c.size(), g.batch * g.m * g.n);
  if (!std::is_sorted(rows.begin(), rows.end()) || (!rows.empty() && (rows.front() < 0 || rows.back() >= g.batch * g.m)))
    throw std::invalid_argument("reference gemm: sampled rows must be sorted and lie in 0.." +
                                std::to_string(g.batch * g.m - 1));
}

/// Largest finite magnitude, smallest nonzero one, and whether everything is finite.
bool scan(std::span<const double> x, double& largest, double& least) {
  double hi = 0, lo = std::numeric_limits<double>::infinity();
  bool finite = true;
#pragma omp parallel for reduction(max : hi) reduction(min : lo) reduction(&& : finite) if (x.size() > 100000)
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = std::fabs(x[i]);
    const bool usable = v <= std::numeric_limits<double>::max();
    finite = finite && usable;
    if (usable) hi = std::max(hi, v);
    if (v > 0) lo = std::min(lo, v);
  }
  largest = hi;
  least = std::isinf(lo) ? 0 : lo;
  return finite;
}

Operands collect(const Gemm& g, const std::vector<std::int64_t>& rows) {
  Operands o;
  o.a = g.a.data();
  o.b = g.b.data();
  if (!rows.empty()) {
    o.own_a.resize(rows.size() * g.k);
    for (std::size_t r = 0; r < rows.size(); ++r) std::copy_n(g.a.data() + rows[r] * g.k, g.k, o.own_a.data() + r * g.k);
    o.a = o.own_a.data();
  }
  const bool finite_a = scan(g.a, o.largest_a, o.least_a), finite_b = scan(g.b, o.largest_b, o.least_b);
  if (finite_a && finite_b) return o;
  // A blocked product may multiply an Inf by padding; compute with zeros there and redo those rows and columns plainly.
  const std::int64_t wanted = rows.empty() ? g.batch * g.m : static_cast<std::int64_t>(rows.size());
  if (rows.empty()) o.own_a.assign(g.a.begin(), g.a.end());
  o.own_b.assign(g.b.begin(), g.b.end());
  o.dirty_row.assign(wanted, 0);
  o.dirty_column.assign(g.batch * g.n, 0);
  for (std::size_t i = 0; i < o.own_a.size(); ++i)
    if (!std::isfinite(o.own_a[i])) o.dirty_row[i / g.k] = 1, o.own_a[i] = 0;
  for (std::size_t i = 0; i < o.own_b.size(); ++i)
    if (!std::isfinite(o.own_b[i])) {
      o.dirty_column[static_cast<std::int64_t>(i) / (g.k * g.n) * g.n + static_cast<std::int64_t>(i) % g.n] = 1;
      o.own_b[i] = 0;
    }
  o.a = o.own_a.data();
  o.b = o.own_b.data();
  return o;
}

std::vector<Block> cut_into_blocks(const Gemm& g, const std::vector<std::int64_t>& rows) {
  std::vector<Block> blocks;
  const std::int64_t wanted = rows.empty() ? g.batch * g.m : static_cast<std::int64_t>(rows.size());
  const auto batch_of = [&](std::int64_t r) { return (rows.empty() ? r : rows[r]) / g.m; };
  // Few rows: narrower blocks, so that every core still has some.
  const std::int64_t width = wanted > block_rows ? block_columns : std::clamp<std::int64_t>(g.n / 8, 16, block_columns);
  // As many blocks of equal height for each core.
  const std::int64_t entry_rows = rows.empty() ? g.m : wanted, cores = Eigen::nbThreads();
  const std::int64_t count = ((entry_rows + most_block_rows - 1) / most_block_rows + cores - 1) / cores * cores;
  const std::int64_t height = std::max(block_rows, count == 0 ? 0 : (entry_rows + count - 1) / count);
  for (std::int64_t r = 0; r < wanted;) {
    std::int64_t end = r + 1;
    while (end < wanted && end - r < height && batch_of(end) == batch_of(r)) ++end;
    for (std::int64_t j = 0; j < g.n; j += width) blocks.push_back({r, end - r, j, std::min(width, g.n - j), batch_of(r)});
    r = end;
  }
  // Blocks that share columns of B follow each other.
  std::ranges::stable_sort(blocks, {}, [](const Block& b) { return std::pair(b.batch, b.column); });
  return blocks;
}

MatrixView block_a(const Gemm& g, const Operands& o, const Block& k) {
  return {o.a + k.row * g.k, k.rows, g.k, Eigen::OuterStride<>(g.k)};
}
MatrixView block_b(const Gemm& g, const Operands& o, const Block& k) {
  return {o.b + k.batch * g.k * g.n + k.column, g.k, k.columns, Eigen::OuterStride<>(g.n)};
}

/// c = a * b; small products without Eigen's blocking and threads.
template <class C, class A, class B>
void multiply(bool serial, const A& a, const B& b, C& c) {
  if (serial)
    c.noalias() = a.lazyProduct(b);
  else
    c.noalias() = a * b;
}

/// |B| and B^2 of the columns that this thread worked on last: converting them for every block of rows would cost a fifth of
/// the products.
template <class T>
struct Panel {
  std::int64_t batch = -1, column = -1;
  Matrix<T> abs, square;

  void take(const Gemm& g, const Operands& o, const Block& k) {
    if (batch == k.batch && column == k.column) return;
    abs = block_b(g, o, k).cwiseAbs().template cast<T>();
    square = abs.cwiseAbs2();
    batch = k.batch, column = k.column;
  }
};
struct Panels {
  Panel<float> narrow;
  Panel<double> wide;
};

/// Where a block's results go: into temporaries, or where nothing is left to be done to them, to their place.
struct Results {
  MatrixPlace hi, sum_abs, sum_sq;
};

/// S and R2 of one block, without alpha, in T: fp32 suffices when no square can overflow or vanish.
template <class T>
void magnitudes_of(const Task& t, const Block& k, Panel<T>& b, Results& to) {
  const Gemm& g = t.g;
  const Operands& o = t.operands;
  Matrix<T> a = block_a(g, o, k).cwiseAbs().template cast<T>();
  b.take(g, o, k);
  Matrix<T> product(k.rows, k.columns);
  // Rounded upwards: conversion, product and k sums err by at most k + 4 roundings, squares by two more.
  const double up = 1 + (static_cast<double>(g.k) + 8) * static_cast<double>(std::numeric_limits<T>::epsilon());
  multiply(t.serial, a, b.abs, product);
  to.sum_abs = product.template cast<double>() * up;
  a.array() *= a.array();
  multiply(t.serial, a, b.square, product);
  to.sum_sq = product.template cast<double>() * up;
}

/// No (ab)^2 may leave fp32's normal range, nor their sum.
bool fp32_magnitudes_suffice(const Gemm& g, const Operands& o) {
  const double least = std::min({o.least_a, o.least_b, o.least_a * o.least_b});
  const double largest = std::max({o.largest_a, o.largest_b, o.largest_a * o.largest_b});
  return least >= 0x1p-60 && largest * largest * static_cast<double>(g.k) <= 0x1p120;
}

/// Factor on sums of products whose low parts would fall below fp64's subnormals; exact, since Dot2 multiplies A by it.
double lift_of(const Operands& o) {
  return o.largest_a * o.largest_b < 0x1p-900 && o.largest_a < 0x1p300 && o.largest_b < 0x1p300 ? 0x1p600 : 1;
}

/// Dot2 (Ogita, Rump & Oishi 2005) of one block: every product and sum keeps its rounding error, those are added apart.
/// 16 columns at a time stay in registers; the panel of B is packed, padded with zeros.
void dot2_block(const Gemm& g, const Operands& o, double lift, const Block& k, Matrix<double>& hi, Matrix<double>& lo) {
  constexpr int width = 16;
  std::vector<double> panel(g.k * width);
  for (std::int64_t j = 0; j < k.columns; j += width) {
    const std::int64_t used = std::min<std::int64_t>(width, k.columns - j);
    const double* b = o.b + k.batch * g.k * g.n + k.column + j;
    for (std::int64_t l = 0; l < g.k; ++l)
      for (int x = 0; x < width; ++x) panel[l * width + x] = x < used ? b[l * g.n + x] : 0;
    for (std::int64_t i = 0; i < k.rows; ++i) {
      const double* a = o.a + (k.row + i) * g.k;
      double sum[width] = {}, error[width] = {};
      for (std::int64_t l = 0; l < g.k; ++l)
        for (int x = 0; x < width; ++x) {
          const DoubleDouble p = two_product(a[l] * lift, panel[l * width + x]);
          const DoubleDouble s = two_sum(sum[x], p.hi);
          sum[x] = s.hi;
          error[x] += p.lo + s.lo;
        }
      for (std::int64_t x = 0; x < used; ++x) {
        const DoubleDouble s = two_sum(sum[x], error[x]);
        hi(i, j + x) = s.hi;
        lo(i, j + x) = s.lo;
      }
    }
  }
}

/// One dot product by IEEE rules, from the caller's own data: for elements that are not finite.
double plain_dot(const Gemm& g, std::int64_t global_row, std::int64_t j) {
  const double* a = g.a.data() + global_row * g.k;
  const double* b = g.b.data() + global_row / g.m * g.k * g.n + j;
  double sum = 0;
  for (std::int64_t l = 0; l < g.k; ++l) sum += a[l] * b[l * g.n];
  return sum;
}

/// alpha * dot + beta * c and their magnitudes, written to their place.
void finish_element(const Task& t, const Block& k, std::int64_t i, std::int64_t j, DoubleDouble dot, double sum_abs,
                    double sum_sq, Expected& e) {
  const Gemm& g = t.g;
  const std::int64_t local = k.row + i, column = k.column + j, at = local * g.n + column;
  const std::int64_t global = t.rows.empty() ? local : t.rows[local];
  const Operands& o = t.operands;
  const bool dirty = !o.dirty_row.empty() && (o.dirty_row[local] || o.dirty_column[k.batch * g.n + column]);
  if (dirty) sum_abs = sum_sq = std::numeric_limits<double>::quiet_NaN();
  if (dirty || !std::isfinite(dot.hi)) dot = {plain_dot(g, global, column) * t.lift, 0};
  const double c = g.beta != 0 ? g.c[global * g.n + column] : 0;
  const double down = dot.hi / t.lift, plain = g.beta != 0 ? g.alpha * down + g.beta * c : g.alpha * down;
  e.value[at] = plain;
  if (t.wide) {
    DoubleDouble v = two_product(g.alpha, dot.hi);
    v.lo += g.alpha * dot.lo;
    if (g.beta != 0) {
      const DoubleDouble q = two_product(g.beta, c * t.lift), s = two_sum(v.hi, q.hi);
      v = {s.hi, s.lo + (v.lo + q.lo)};
    }
    v = two_sum(v.hi, v.lo);
    const bool usable = std::isfinite(v.hi) && std::isfinite(v.lo);  // an overflow on the way leaves NaN behind
    e.value[at] = usable ? v.hi / t.lift : plain;
    e.value_lo[at] = usable ? (v.hi - e.value[at] * t.lift + v.lo) / t.lift : 0;
  }
  if (!t.magnitudes) return;
  e.sum_abs[at] = std::fabs(g.alpha) * sum_abs;
  e.sum_sq[at] = g.alpha * g.alpha * sum_sq;
  if (g.beta != 0) e.addend[at] = std::fabs(g.beta * c);
}

void multiply_block(const Task& t, const Block& k, Panels& b, Results& to) {
  if (!t.wide) multiply(t.serial, block_a(t.g, t.operands, k), block_b(t.g, t.operands, k), to.hi);
  if (t.magnitudes && t.fp32_magnitudes) magnitudes_of<float>(t, k, b.narrow, to);
  if (t.magnitudes && !t.fp32_magnitudes) magnitudes_of<double>(t, k, b.wide, to);
}

void compute_block(const Task& t, const Block& k, Panels& b, Expected& e) {
  const Gemm& g = t.g;
  const bool empty = g.alpha == 0 || g.k == 0;
  // Nothing is added, and everything is finite: the products are the results.
  if (!empty && !t.wide && g.alpha == 1 && g.beta == 0 && t.operands.dirty_row.empty()) {
    const auto place = [&](Numbers& v) {
      return MatrixPlace(v.empty() ? nullptr : v.data() + k.row * g.n + k.column, k.rows, k.columns, Eigen::OuterStride<>(g.n));
    };
    Results to{place(e.value), place(e.sum_abs), place(e.sum_sq)};
    multiply_block(t, k, b, to);
    // fp64 may overflow on the way: then the order of the sum decides, and the plain one is the reference.
    for (std::int64_t i = 0; i < k.rows; ++i)
      if (!to.hi.row(i).allFinite())
        for (std::int64_t j = 0; j < k.columns; ++j)
          if (!std::isfinite(to.hi(i, j)))
            to.hi(i, j) = plain_dot(g, t.rows.empty() ? k.row + i : t.rows[k.row + i], k.column + j);
    return;
  }
  const bool more = t.magnitudes;
  Matrix<double> hi = Matrix<double>::Zero(k.rows, k.columns), lo = Matrix<double>::Zero(t.wide ? k.rows : 0, k.columns);
  Matrix<double> sum_abs = Matrix<double>::Zero(more ? k.rows : 0, k.columns), sum_sq = sum_abs;
  const auto all = [&](Matrix<double>& m) {
    return MatrixPlace(m.data(), m.rows(), m.cols(), Eigen::OuterStride<>(k.columns));
  };
  Results to{all(hi), all(sum_abs), all(sum_sq)};
  if (!empty && t.wide) dot2_block(g, t.operands, t.lift, k, hi, lo);
  if (!empty) multiply_block(t, k, b, to);
  for (std::int64_t i = 0; i < k.rows; ++i)
    for (std::int64_t j = 0; j < k.columns; ++j)
      finish_element(t, k, i, j, {hi(i, j), t.wide ? lo(i, j) : 0}, more ? sum_abs(i, j) : 0, more ? sum_sq(i, j) : 0, e);
}

}  // namespace

Expected gemm(const Gemm& g, bool wide, bool magnitudes, std::vector<std::int64_t> rows) {
  check_sizes(g, rows);
  const Operands operands = g.alpha != 0 && g.k > 0 ? collect(g, rows) : Operands{};
  const std::int64_t wanted = rows.empty() ? g.batch * g.m : static_cast<std::int64_t>(rows.size());
  Expected e;
  e.value.resize(wanted * g.n);
  if (wide) e.value_lo.resize(wanted * g.n);
  if (magnitudes) {
    e.sum_abs.resize(wanted * g.n);
    e.sum_sq.resize(wanted * g.n);
    if (g.beta != 0) e.addend.resize(wanted * g.n);
  }
  e.row_length = g.n;
  e.terms = g.k;
  e.abs_alpha = std::fabs(g.alpha);
  e.largest_input = std::max({1.0, operands.largest_a, operands.largest_b});
  const std::vector<Block> blocks = cut_into_blocks(g, rows);
  const bool serial = static_cast<double>(wanted) * static_cast<double>(g.n) * static_cast<double>(g.k) < serial_products;
  const Task task{
      g, rows, operands, wide, magnitudes, fp32_magnitudes_suffice(g, operands), serial, wide ? lift_of(operands) : 1};
#pragma omp parallel if (!serial)
  {
    Panels panels;
#pragma omp for schedule(dynamic)
    for (std::size_t i = 0; i < blocks.size(); ++i) compute_block(task, blocks[i], panels, e);
  }
  e.rows = std::move(rows);
  return e;
}

std::vector<double> gemm_slow(const Gemm& g) {
  check_sizes(g, {});
  std::vector<double> out(g.batch * g.m * g.n);
  for (std::int64_t r = 0; r < g.batch * g.m; ++r)
    for (std::int64_t j = 0; j < g.n; ++j) {
      long double sum = 0;
      if (g.alpha != 0)
        for (std::int64_t l = g.k - 1; l >= 0; --l)
          sum += static_cast<long double>(g.a[r * g.k + l]) * g.b[(r / g.m * g.k + l) * g.n + j];
      sum *= g.alpha;
      if (g.beta != 0) sum += static_cast<long double>(g.beta) * g.c[r * g.n + j];
      out[r * g.n + j] = static_cast<double>(sum);
    }
  return out;
}

}  // namespace assay::reference
