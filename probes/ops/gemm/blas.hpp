// SPDX-License-Identifier: Apache-2.0
// Where the arguments of a BLAS call say each element lies, and how alpha and beta enter. Shared by the targets in this binary.
// Addresses come from order, transposition and leading dimension, not from Operand::strides: the two descriptions check each
// other.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "probes/ops/gemm/epilogue.hpp"
#include "probes/ops/gemm/gemm.hpp"
#include "probes/ops/target.hpp"

namespace assay::gemm {

/// Steps in elements from one batch entry, row or column of a logical matrix to the next.
struct Layout {
  std::int64_t offset = 0, entry = 0, row = 0, column = 0;
  std::int64_t at(std::int64_t e, std::int64_t i, std::int64_t j) const { return offset + e * entry + i * row + j * column; }
};

inline Layout layout(bool row_major, bool transposed, std::int64_t ld, std::int64_t stride, std::int64_t offset) {
  const bool rows_apart = row_major != transposed;  // columns of the logical matrix are neighbours in memory
  return {.offset = offset, .entry = stride, .row = rows_apart ? ld : 1, .column = rows_apart ? 1 : ld};
}
inline Layout layout_a(const Call& c, const Problem& p) {
  return layout(c.row_major, c.transpose_a, c.lda, c.stride_a, p.operands[0].offset);
}
inline Layout layout_b(const Call& c, const Problem& p) {
  return layout(c.row_major, c.transpose_b, c.ldb, c.stride_b, p.operands[1].offset);
}
inline Layout layout_c(const Call& c, const Problem& p) {
  return layout(c.row_major, false, c.ldc, c.stride_c, p.operands[2].offset);
}

/// BLAS: with alpha = 0 or k = 0 A and B are not read, with beta = 0 C is not read.
inline bool reads_ab(const Call& c) {
  return c.alpha != 0 && c.k > 0;
}
inline bool reads_c(const Call& c) {
  return c.beta != 0;
}

/// Format of alpha, beta and of the accumulator: a library takes its scalars in the format it computes in.
inline DType compute_format(const Call& c) {
  return c.out == DType::f64 ? DType::f64 : DType::f32;
}

/// alpha*sum + beta*addend, every operation rounded to nearest in `format`.
/// fp64 holds the exact product of two fp32 numbers, and rounding an fp64 sum of two fp32 numbers again is innocuous
/// (53 >= 2*24 + 2), so each round_to is the one rounding of an fp32 unit.
inline double scaled(DType format, double alpha, double sum, double beta, double addend) {
  const double product = round_to(format, alpha * sum);
  return beta == 0 ? product : round_to(format, product + round_to(format, beta * addend));
}
inline double scaled(const Call& c, double sum, double addend) {
  const DType f = compute_format(c);
  return scaled(f, round_to(f, c.alpha), sum, round_to(f, c.beta), addend);
}

/// The bias of a column of C in batch entry `entry`; 0 where the call has none.
inline double bias_of(const Problem& p, Images images, std::int64_t entry, std::int64_t column) {
  if (p.operands.size() < 4) return 0;
  const Operand& o = p.operands[3];
  const std::int64_t at = o.offset + entry * o.strides[0] + column;
  return decode(o.dtype, load_bits(o.dtype, images[3].storage + at * static_cast<std::int64_t>(size_bytes(o.dtype))));
}
inline double with_bias(const Call& c, double z, double bias) {
  return c.bias ? round_to(compute_format(c), z + bias) : z;
}
/// f(z) in the format computed in.
inline double finished(const Call& c, double z) {
  if (compute_format(c) == DType::f64) return activated(c.activation, z);
  return static_cast<double>(activated(c.activation, static_cast<float>(z)));
}

/// Entry `e` of a batch as a row-major (rows, columns) matrix, decoded exactly.
inline std::vector<double> read_matrix(DType t, const std::byte* storage, const Layout& at, std::int64_t e, std::int64_t rows,
                                       std::int64_t columns) {
  std::vector<double> v(static_cast<std::size_t>(rows * columns));
  std::size_t next = 0;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      v[next++] = decode(t, load_bits(t, storage + at.at(e, i, j) * static_cast<std::int64_t>(size_bytes(t))));
  return v;
}

inline std::byte* element(DType t, std::byte* storage, std::int64_t index) {
  return storage + index * static_cast<std::int64_t>(size_bytes(t));
}

/// sum (m,n) += the products k0 <= l < k1 of a (m,k) and b (k,n), in that order, one FMA each. All row-major.
template <typename T>
void add_products(const T* a, const T* b, T* sum, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t k0,
                  std::int64_t k1) {
  for (std::int64_t i = 0; i < m; ++i) {
    T* __restrict to = sum + i * n;
    for (std::int64_t l = k0; l < k1; ++l) {
      const T left = a[i * k + l];
      const T* right = b + l * n;
      for (std::int64_t j = 0; j < n; ++j) to[j] = std::fma(left, right[j], to[j]);
    }
  }
}

/// fp32 to TF32, which keeps 10 of its 23 fraction bits. Toward zero: the 13 low bits are ignored.
inline double tf32_toward_zero(double x) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(x)) & ~std::uint32_t{0x1FFF});
}
/// Nearest, ties to even: half a unit less one, plus the last kept bit, is added before the cut.
inline double tf32_nearest(double x) {
  if (!std::isfinite(x)) return x;
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x));
  return std::bit_cast<float>((bits + 0xFFF + (bits >> 13 & 1)) & ~std::uint32_t{0x1FFF});
}

/// Every convention a BLAS can keep, promised by `source`.
inline Contract full_contract(const char* source) {
  const Promise yes{true, source};
  return {yes, yes, yes, yes, yes, yes};
}

}  // namespace assay::gemm
