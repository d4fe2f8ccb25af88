// SPDX-License-Identifier: Apache-2.0
// Packing an integer times a power of two into a binary format, and widening a pattern to fp64. Integers only, so no
// compiler flag, rounding mode or flush-to-zero setting can change a bit. Inlined into hot loops of reference/ only.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "reference/dtype.hpp"

namespace assay {

inline constexpr Format formats[] = {
    {DType::f32, "fp32", 32, 24, -126, 127},
    {DType::f64, "fp64", 64, 53, -1022, 1023},
    {DType::bf16, "bf16", 16, 8, -126, 127},
    {DType::f16, "fp16", 16, 11, -14, 15},
};

constexpr std::uint64_t sign_bit(const Format& f) {
  return std::uint64_t{1} << (f.bits - 1);
}
/// +Inf. The exponent field is biased by emax, so its all-ones value is 2*emax + 1; every larger magnitude is a NaN.
constexpr std::uint64_t infinity_bits(const Format& f) {
  return static_cast<std::uint64_t>(2 * f.emax + 1) << (f.precision - 1);
}
constexpr std::uint64_t quiet_nan_bits(const Format& f) {
  return infinity_bits(f) | std::uint64_t{1} << (f.precision - 2);
}
constexpr std::uint64_t largest_finite_bits(const Format& f) {
  return infinity_bits(f) - 1;
}

enum class Rounding : std::uint8_t { nearest, toward_zero };

/// Pattern of (significand + rest) * 2^exponent, where 0 < rest < 1 if `sticky`, else rest = 0.
/// Nearest: ties to even, overflow to infinity from the halfway point on. Toward zero: overflow to the largest finite.
/// A sticky significand must have at least two bits more than the format, so that `rest` never reaches the half.
constexpr std::uint64_t encode_integer(const Format& f, bool negative, std::uint64_t significand, int exponent,
                                       bool sticky = false, Rounding rounding = Rounding::nearest) {
  const std::uint64_t sign = std::uint64_t{negative} << (f.bits - 1);
  if (significand == 0) return sign;
  const int zeros = std::countl_zero(significand);
  significand <<= zeros;
  const int top = exponent + 63 - zeros;  // 2^top <= value < 2^(top+1)
  if (top > f.emax) return sign | (rounding == Rounding::nearest ? infinity_bits(f) : largest_finite_bits(f));

  const int binade = std::max(top, f.emin);
  const int dropped = 64 - f.precision + (binade - top);  // low bits below one ulp of the result
  if (dropped > 64) return sign;                          // under half the smallest subnormal
  std::uint64_t kept = dropped == 64 ? 0 : significand >> dropped;
  if (rounding == Rounding::nearest) {
    const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
    const std::uint64_t low = significand & (half | (half - 1));
    // Bitwise: on random data a branch here is mispredicted every other time.
    kept += std::uint64_t{low > half} | (std::uint64_t{low == half} & (std::uint64_t{sticky} | kept) & 1);
  }
  // Added, not or-ed: the hidden bit of a normal and a carry out of the rounding both raise the exponent field,
  // from the largest subnormal to the smallest normal and from the largest finite to infinity.
  return sign | ((static_cast<std::uint64_t>(binade - f.emin) << (f.precision - 1)) + kept);
}

/// The fp64 pattern of the same number; every NaN becomes the quiet one.
constexpr std::uint64_t widen_to_f64(const Format& f, std::uint64_t bits) {
  constexpr const Format& f64 = formats[static_cast<std::size_t>(DType::f64)];
  const std::uint64_t m = bits & (sign_bit(f) - 1);
  const std::uint64_t sign = (bits & sign_bit(f)) != 0 ? sign_bit(f64) : 0;
  if (m > infinity_bits(f)) return quiet_nan_bits(f64);
  if (m == infinity_bits(f)) return sign | infinity_bits(f64);
  if (m >> (f.precision - 1) == 0) return encode_integer(f64, sign != 0, m, f.emin - (f.precision - 1));
  const std::uint64_t rebias = static_cast<std::uint64_t>(f64.emax - f.emax) << (f64.precision - 1);
  return sign | ((m << (f64.precision - f.precision)) + rebias);
}

}  // namespace assay
