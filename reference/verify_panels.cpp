// SPDX-License-Identifier: Apache-2.0
// Tiles are decoded into the cache, combined there and forgotten: no operand is ever copied whole.
#include "reference/verify_panels.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "reference/philox.hpp"
#include "reference/verify_kernel.hpp"

namespace assay::reference {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr std::int64_t tile_rows = 32, tile_columns = 512;

/// Every value of a format of at most 16 bits: looking one up is cheaper than decoding it.
const std::vector<float>& values_of(DType t) {
  static const auto tables = [] {
    std::array<std::vector<float>, 9> all;
    for (const DType narrow : {DType::bf16, DType::f16, DType::e4m3, DType::e5m2, DType::i8}) {
      std::vector<float>& table = all[static_cast<std::size_t>(narrow)];
      table.resize(std::size_t{1} << stored_bits(narrow));
      for (std::size_t bits = 0; bits < table.size(); ++bits) table[bits] = static_cast<float>(decode(narrow, bits));
    }
    return all;
  }();
  return tables[static_cast<std::size_t>(t)];
}

/// Walks a tile in the order of its memory; `T` is the stored word, `value` makes it a number.
template <class T, class F>
void copy_tile(const View& v, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns, double* out,
               std::int64_t ld, F value) {
  const auto read = [&](std::int64_t at) {
    T word;
    std::memcpy(&word, v.base + at * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
    return static_cast<double>(value(word));
  };
  const std::int64_t first = row * v.row_stride + column * v.column_stride;
  if (v.column_stride == 1) {
    // Pieces of rows lie on different pages, where the hardware does not look ahead.
    constexpr std::int64_t ahead = 2, line = 64 / static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t i = 0; i < rows; ++i) {
      if (i + ahead < rows)
        for (std::int64_t j = 0; j < columns; j += line)
          __builtin_prefetch(v.base + (first + (i + ahead) * v.row_stride + j) * static_cast<std::int64_t>(sizeof(T)));
      for (std::int64_t j = 0; j < columns; ++j) out[i * ld + j] = read(first + i * v.row_stride + j);
    }
    return;
  }
  constexpr std::int64_t square = 16;  // columns that are read along their rows, a few cache lines at a time
  for (std::int64_t j0 = 0; j0 < columns; j0 += square)
    for (std::int64_t i0 = 0; i0 < rows; i0 += square)
      for (std::int64_t j = j0; j < std::min(j0 + square, columns); ++j)
        for (std::int64_t i = i0; i < std::min(i0 + square, rows); ++i)
          out[i * ld + j] = read(first + i * v.row_stride + j * v.column_stride);
}

struct Signs {
  std::vector<double> of[panel_seeds];  // per column
};

Signs draw_signs(std::int64_t columns, std::uint64_t seed) {
  constexpr std::uint32_t sign_stream = 98;
  Signs s;
  for (std::vector<double>& v : s.of) v.resize(static_cast<std::size_t>(columns));
  for (std::int64_t j = 0; j < columns; ++j) {
    const PhiloxCounter words = philox_element(seed, sign_stream, static_cast<std::uint64_t>(j));
    for (int x = 0; x < panel_seeds; ++x)
      s.of[x][static_cast<std::size_t>(j)] = (words[static_cast<std::size_t>(x)] & 1) ? 1 : -1;
  }
  return s;
}

/// Sums over the columns of one panel for a block of rows: with both signs, and of squares, (rows, 3).
using PanelSums = std::vector<double>;

void sum_panel(const View& v, const Signs& signs, std::int64_t row, std::int64_t rows, std::int64_t panel,
               std::vector<double>& tile, PanelSums& to) {
  to.assign(static_cast<std::size_t>(rows) * 3, 0);
  tile.resize(static_cast<std::size_t>(rows * tile_columns));
  const std::int64_t end = std::min((panel + 1) * panel_width, v.columns);
  for (std::int64_t j = panel * panel_width; j < end; j += tile_columns) {
    const std::int64_t width = std::min(tile_columns, end - j);
    load_tile(v, row, rows, j, width, tile.data(), width);
    for (std::int64_t i = 0; i < rows; ++i)
      signed_sums(tile.data() + i * width, signs.of[0].data() + j, signs.of[1].data() + j, width, to.data() + i * 3);
  }
}

std::int64_t padded(std::int64_t columns) {
  return (columns + lanes<double> - 1) / lanes<double> * lanes<double>;
}

/// B combined: (k, panels * seeds), and the squares of its panels' rows (k, panels); both padded with zeros to whole packets.
struct CombinedB {
  Matrix vectors, squares;
};

CombinedB combine_b(const View& b, const Signs& signs, std::int64_t panels, bool magnitudes) {
  CombinedB out{Matrix::Zero(b.rows, padded(panels * panel_seeds)), Matrix::Zero(magnitudes ? b.rows : 0, padded(panels))};
#pragma omp parallel
  {
    std::vector<double> tile;
    PanelSums sums;
#pragma omp for collapse(2) schedule(dynamic)
    for (std::int64_t row = 0; row < b.rows; row += tile_rows)
      for (std::int64_t q = 0; q < panels; ++q) {
        const std::int64_t rows = std::min(tile_rows, b.rows - row);
        sum_panel(b, signs, row, rows, q, tile, sums);
        for (std::int64_t i = 0; i < rows; ++i) {
          const double* s = sums.data() + i * 3;
          for (int x = 0; x < panel_seeds; ++x) out.vectors(row + i, q * panel_seeds + x) = s[x];
          if (magnitudes) out.squares(row + i, q) = s[2];
        }
      }
  }
  return out;
}

/// A times what B was combined to, for a block of rows.
struct BlockOfA {
  Matrix tile, vectors, squares;
  Eigen::ArrayXd norm_sq;
};

/// c += a b, b with whole packets of columns.
template <class B>
void add_product(const Matrix& a, const B& b, Matrix& c) {
  multiply_add<double>(a.data(), a.cols(), 1, a.rows(), b.data(), b.outerStride(), b.cols(), a.cols(), c.data(), c.cols());
}

void multiply_block(const View& a, const CombinedB& b, std::int64_t row, std::int64_t rows, bool magnitudes, BlockOfA& to) {
  to.vectors.setZero(rows, b.vectors.cols());
  to.squares.setZero(magnitudes ? rows : 0, b.squares.cols());
  to.norm_sq.setZero(rows);
  for (std::int64_t l = 0; l < a.columns; l += tile_columns) {
    const std::int64_t width = std::min(tile_columns, a.columns - l);
    to.tile.resize(rows, width);
    load_tile(a, row, rows, l, width, to.tile.data(), width);
    add_product(to.tile, b.vectors.middleRows(l, width), to.vectors);
    if (!magnitudes) continue;
    to.tile = to.tile.cwiseAbs2();
    to.norm_sq += to.tile.rowwise().sum().array();
    add_product(to.tile, b.squares.middleRows(l, width), to.squares);
  }
}

}  // namespace

void load_tile(const View& v, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns, double* out,
               std::int64_t ld) {
  switch (v.dtype) {
    case DType::f32:
      return copy_tile<float>(v, row, rows, column, columns, out, ld, [](float x) { return x; });
    case DType::f64:
      return copy_tile<double>(v, row, rows, column, columns, out, ld, [](double x) { return x; });
    case DType::i32:
      return copy_tile<std::int32_t>(v, row, rows, column, columns, out, ld, [](std::int32_t x) { return x; });
    case DType::bf16:
      return copy_tile<std::uint16_t>(v, row, rows, column, columns, out, ld, [](std::uint16_t x) {
        return std::bit_cast<float>(static_cast<std::uint32_t>(x) << 16);
      });
    default:
      break;
  }
  const float* table = values_of(v.dtype).data();
  if (stored_bits(v.dtype) == 16)
    copy_tile<std::uint16_t>(v, row, rows, column, columns, out, ld, [table](std::uint16_t x) { return table[x]; });
  else
    copy_tile<std::uint8_t>(v, row, rows, column, columns, out, ld, [table](std::uint8_t x) { return table[x]; });
}

std::uint64_t bits_at(const View& v, std::int64_t row, std::int64_t column) {
  const auto size = static_cast<std::int64_t>(size_bytes(v.dtype));
  return load_bits(v.dtype, v.base + (row * v.row_stride + column * v.column_stride) * size);
}

Combinations combine(const Product& p, std::uint64_t seed, bool magnitudes, const std::vector<KnownElement>& known) {
  Combinations out;
  out.lines = p.c.rows;
  out.panels = (p.c.columns + panel_width - 1) / panel_width;
  const auto count = static_cast<std::size_t>(out.lines * out.panels);
  for (std::vector<double>& v : out.left_over) v.resize(count);
  if (magnitudes) {
    for (std::vector<double>* v : {&out.value_sq, &out.term_sq, &out.abs_sq}) v->resize(count);
    if (p.c0) out.addend_sq.resize(count);
  }
  const Signs signs = draw_signs(p.c.columns, seed);
  const CombinedB b = combine_b(p.b, signs, out.panels, magnitudes);
  const Eigen::RowVectorXd norms_of_b = b.squares.colwise().sum();  // empty sums are zero
  const double alpha_sq = p.alpha * p.alpha, beta_sq = p.beta * p.beta;
  double largest_sq = norms_of_b.size() > 0 ? norms_of_b.maxCoeff() : 0;
#pragma omp parallel reduction(max : largest_sq)
  {
    BlockOfA a;
    std::vector<double> tile;
    PanelSums c, c0(static_cast<std::size_t>(tile_rows) * 3);
#pragma omp for schedule(dynamic)
    for (std::int64_t row = 0; row < out.lines; row += tile_rows) {
      const std::int64_t rows = std::min(tile_rows, out.lines - row);
      multiply_block(p.a, b, row, rows, magnitudes, a);
      largest_sq = std::max(largest_sq, a.norm_sq.maxCoeff());
      for (std::int64_t q = 0; q < out.panels; ++q) {
        sum_panel(p.c, signs, row, rows, q, tile, c);
        if (p.c0) sum_panel(*p.c0, signs, row, rows, q, tile, c0);
        for (std::int64_t i = 0; i < rows; ++i) {
          const auto at = static_cast<std::size_t>((row + i) * out.panels + q);
          const double *of_c = c.data() + i * 3, *of_c0 = c0.data() + i * 3;
          for (int x = 0; x < panel_seeds; ++x) {
            double rest = of_c[x] - p.alpha * a.vectors(i, q * panel_seeds + x);
            if (p.c0) rest -= p.beta * of_c0[x];
            out.left_over[x][at] = rest;
          }
          if (!magnitudes) continue;
          out.value_sq[at] = of_c[2];
          out.term_sq[at] = alpha_sq * a.squares(i, q);
          out.abs_sq[at] = alpha_sq * a.norm_sq(i) * norms_of_b(q);
          if (p.c0) out.addend_sq[at] = beta_sq * of_c0[2];
        }
      }
    }
  }
  out.largest_input = std::max(1.0, std::sqrt(largest_sq));
  for (const KnownElement& e : known)
    for (int x = 0; x < panel_seeds; ++x)
      out.left_over[x][static_cast<std::size_t>(e.row * out.panels + e.column / panel_width)] +=
          signs.of[x][static_cast<std::size_t>(e.column)] * e.instead;
  return out;
}

}  // namespace assay::reference
