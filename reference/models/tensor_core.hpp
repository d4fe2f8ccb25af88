// SPDX-License-Identifier: Apache-2.0
// One fused step of an NVIDIA tensor core, as published: exact products, aligned, truncated, summed, rounded toward zero.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "reference/dtype.hpp"

namespace assay::models {

/// Binary exponent of a nonzero finite double; fp64-subnormal numbers cannot occur (operands are 16 bits wide).
inline int exponent_of(double x) {
  return static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff) - 1023;
}

/// 2^e for -1022 <= e <= 1023.
inline double power_of_two(int e) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(e + 1023) << 52);
}

/// fp32 toward zero; beyond the largest finite: infinity (a tensor core does not saturate).
inline double fp32_toward_zero(double x) {
  const double magnitude = std::fabs(x);
  if (magnitude >= 0x1p-126 && magnitude < 0x1p128)
    return std::bit_cast<double>(std::bit_cast<std::uint64_t>(x) & ~std::uint64_t{0x1fffffff});
  if (magnitude >= 0x1p128) return std::copysign(std::numeric_limits<double>::infinity(), x);
  return truncate_to(DType::f32, x);
}

/// accumulator + sum of `count` (at most Block) products. Every significand is aligned to the largest exponent, where a
/// product's exponent is the sum of its operands' exponents (its significand lies in [1, 4) and is not renormalised),
/// cut toward zero after `Fraction` bits, added exactly, and the sum is rounded toward zero to fp32, or, where Fraction < 23,
/// to as many fraction bits (the e8m13 of FP8 on Hopper and Ada). Zeros take no part.
/// Published models differ for subnormal operands (aligned here by their normalised exponent) and in a floor of the
/// alignment exponent near -132 (none here); both stay inside the bound.
template <int Block, int Fraction>
double tensor_core_step(double accumulator, const double* a, std::int64_t stride_a, const double* b, std::int64_t stride_b,
                        int count) {
  double product[Block];
  constexpr int none = -4096;
  int largest = accumulator != 0 ? exponent_of(accumulator) : none;
  bool finite = std::isfinite(accumulator);
  for (int l = 0; l < count; ++l) {
    const double x = a[l * stride_a], y = b[l * stride_b];
    product[l] = x * y;  // exact: at most 22 significant bits
    finite = finite && std::isfinite(product[l]);
    if (product[l] != 0) largest = std::max(largest, exponent_of(x) + exponent_of(y));
  }
  if (!finite) {  // IEEE decides: NaN, or Inf of one sign
    double sum = accumulator;
    for (int l = 0; l < count; ++l) sum += product[l];
    return sum;
  }
  if (largest == none) return 0;  // an all-zero block gives +0
  const double to_quanta = power_of_two(Fraction - largest);
  std::int64_t sum = static_cast<std::int64_t>(accumulator * to_quanta);  // a conversion to integer truncates
  for (int l = 0; l < count; ++l) sum += static_cast<std::int64_t>(product[l] * to_quanta);
  double total = static_cast<double>(sum) * power_of_two(largest - Fraction);
  if constexpr (Fraction < 23)
    total = std::bit_cast<double>(std::bit_cast<std::uint64_t>(total) & ~((std::uint64_t{1} << (52 - Fraction)) - 1));
  return fp32_toward_zero(total);
}

template <int Block, int Fraction>
double tensor_core_dot(const double* a, std::int64_t stride_a, const double* b, std::int64_t stride_b, std::int64_t k) {
  double sum = 0;
  for (std::int64_t l = 0; l < k; l += Block)
    sum = tensor_core_step<Block, Fraction>(sum, a + l * stride_a, stride_a, b + l * stride_b, stride_b,
                                            static_cast<int>(std::min<std::int64_t>(Block, k - l)));
  return sum;
}

}  // namespace assay::models
