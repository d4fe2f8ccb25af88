// SPDX-License-Identifier: Apache-2.0
// One pass of panel Freivalds over a product: what random combinations of its columns leave, and what they may leave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "reference/dtype.hpp"

namespace assay::reference {

inline constexpr std::int64_t panel_width = 512;  // columns that one combination adds up
inline constexpr int panel_seeds = 2;             // independent combinations of each panel

/// A matrix where it lies. Strides in elements; element (i, j) is at base + (i * row_stride + j * column_stride) elements.
struct View {
  DType dtype = DType::f32;
  const std::byte* base = nullptr;
  std::int64_t rows = 0, columns = 0, row_stride = 0, column_stride = 0;

  View transposed() const { return {dtype, base, columns, rows, column_stride, row_stride}; }
};

/// Elements [row, row + rows) x [column, column + columns), decoded exactly, to `out` (rows, columns) with leading dimension
/// ld.
void load_tile(const View&, std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns, double* out,
               std::int64_t ld);
std::uint64_t bits_at(const View&, std::int64_t row, std::int64_t column);

/// C = alpha A B + beta C0: a (m,k), b (k,n), c (m,n), c0 (m,n) when there is one.
struct Product {
  View a, b, c;
  std::optional<View> c0{};
  double alpha = 1, beta = 0;

  Product transposed() const {
    Product t{b.transposed(), a.transposed(), c.transposed(), {}, alpha, beta};
    if (c0) t.c0 = c0->transposed();
    return t;
  }
};

/// An element of C whose true value is known: the pass takes that in the place of what C holds.
struct KnownElement {
  std::int64_t row, column;
  double instead;  // true value minus what C holds
};

/// Per row and panel of columns, row-major (lines, panels).
struct Combinations {
  std::int64_t lines = 0, panels = 0;
  std::vector<double> left_over[panel_seeds];  // C r - alpha A (B r) - beta C0 r, in fp64
  // Sums over the panel's columns, empty unless asked for:
  std::vector<double> value_sq;   // c^2, of the C observed
  std::vector<double> addend_sq;  // (beta c0)^2; empty without C0
  std::vector<double> term_sq;    // R2 = alpha^2 sum_l (ab)^2
  std::vector<double> abs_sq;     // at least the sum of S^2, by Cauchy: (alpha |a_i| |b_j|)^2
  double largest_input = 1;       // at least every |a| and |b|
};

/// r of +1 and -1 per column from Philox; the same for every row. O(mk + kn + mn) reads, 2 seeds (+ 1 for the magnitudes) times
/// n / 512 products of A with a vector. All cores; the result does not depend on their number.
Combinations combine(const Product&, std::uint64_t seed, bool magnitudes, const std::vector<KnownElement>& known = {});

}  // namespace assay::reference
