// SPDX-License-Identifier: Apache-2.0
// Products with few columns or few rows, from operands where they lie: packing them, as a large GEMM does, would cost as much
// as the product. Eigen's packets, for FMA whatever -ffp-contract says.
#pragma once

#include <Eigen/Core>
#include <cstdint>

namespace assay::reference {

template <class T>
using Packet = typename Eigen::internal::packet_traits<T>::type;
template <class T>
inline constexpr std::int64_t lanes = Eigen::internal::unpacket_traits<Packet<T>>::size;

/// Sums of `R` rows by `P` packets of columns: c(i,j) += sum_l a(i,l) b(l,j). Strides in elements; b and c have unit column
/// stride.
template <int R, int P, class T>
void multiply_add_tile(const T* a, std::int64_t a_row, std::int64_t a_inner, const T* b, std::int64_t ldb, std::int64_t depth,
                       T* c, std::int64_t ldc) {
  namespace ei = Eigen::internal;
  Packet<T> sum[R][P];
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < P; ++j) sum[i][j] = ei::ploadu<Packet<T>>(c + i * ldc + j * lanes<T>);
  for (std::int64_t l = 0; l < depth; ++l) {
    Packet<T> right[P];
    for (int j = 0; j < P; ++j) right[j] = ei::ploadu<Packet<T>>(b + l * ldb + j * lanes<T>);
    for (int i = 0; i < R; ++i) {
      const Packet<T> left = ei::pset1<Packet<T>>(a[i * a_row + l * a_inner]);
      for (int j = 0; j < P; ++j) sum[i][j] = ei::pmadd(left, right[j], sum[i][j]);
    }
  }
  for (int i = 0; i < R; ++i)
    for (int j = 0; j < P; ++j) ei::pstoreu(c + i * ldc + j * lanes<T>, sum[i][j]);
}

/// c (rows, columns) += a (rows, depth) b (depth, columns); columns must be a multiple of lanes<T>.
template <class T>
void multiply_add(const T* a, std::int64_t a_row, std::int64_t a_inner, std::int64_t rows, const T* b, std::int64_t ldb,
                  std::int64_t columns, std::int64_t depth, T* c, std::int64_t ldc) {
  std::int64_t j = 0;
  for (; j + 2 * lanes<T> <= columns; j += 2 * lanes<T>) {
    const std::int64_t fours = rows / 4 * 4;
    for (std::int64_t i = 0; i < fours; i += 4)
      multiply_add_tile<4, 2>(a + i * a_row, a_row, a_inner, b + j, ldb, depth, c + i * ldc + j, ldc);
    for (std::int64_t r = 0; r < rows % 4; ++r) {
      const std::int64_t i = fours + r;
      multiply_add_tile<1, 2>(a + i * a_row, a_row, a_inner, b + j, ldb, depth, c + i * ldc + j, ldc);
    }
  }
  for (; j < columns; j += lanes<T>)
    for (std::int64_t i = 0; i < rows; ++i)
      multiply_add_tile<1, 1>(a + i * a_row, a_row, a_inner, b + j, ldb, depth, c + i * ldc + j, ldc);
}

/// x.r0, x.r1 and x.x, added to `sums`.
inline void signed_sums(const double* x, const double* r0, const double* r1, std::int64_t count, double sums[3]) {
  namespace ei = Eigen::internal;
  using P = Packet<double>;
  constexpr std::int64_t step = lanes<double>;
  P sum[3][2];
  for (auto& s : sum) s[0] = s[1] = ei::pset1<P>(0.0);
  std::int64_t j = 0;
  for (; j + 2 * step <= count; j += 2 * step)
    for (int h = 0; h < 2; ++h) {
      const P v = ei::ploadu<P>(x + j + h * step);
      sum[0][h] = ei::pmadd(v, ei::ploadu<P>(r0 + j + h * step), sum[0][h]);
      sum[1][h] = ei::pmadd(v, ei::ploadu<P>(r1 + j + h * step), sum[1][h]);
      sum[2][h] = ei::pmadd(v, v, sum[2][h]);
    }
  for (int s = 0; s < 3; ++s) sums[s] += ei::predux(ei::padd(sum[s][0], sum[s][1]));
  for (; j < count; ++j) sums[0] += x[j] * r0[j], sums[1] += x[j] * r1[j], sums[2] += x[j] * x[j];
}

}  // namespace assay::reference
