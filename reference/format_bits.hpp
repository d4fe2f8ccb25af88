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
    {DType::tf32, "tf32", 19, 11, -126, 127},
    {DType::e4m3, "e4m3", 8, 4, -6, 8, Kind::finite},
    {DType::e5m2, "e5m2", 8, 3, -14, 15},
    {DType::i8, "int8", 8, 7, 0, 6, Kind::integer},
    {DType::i32, "int32", 32, 31, 0, 30, Kind::integer},
};

constexpr std::uint64_t sign_bit(const Format& f) {
  return std::uint64_t{1} << (f.bits - 1);
}
/// +Inf, of IEEE formats. The exponent field's all-ones value is 2*emax + 1; every larger magnitude is a NaN.
constexpr std::uint64_t infinity_bits(const Format& f) {
  return static_cast<std::uint64_t>(2 * f.emax + 1) << (f.precision - 1);
}
constexpr std::uint64_t largest_finite_bits(const Format& f) {
  if (f.kind == Kind::ieee) return infinity_bits(f) - 1;
  return sign_bit(f) - (f.kind == Kind::finite ? 2 : 1);
}
/// The magnitude that overflow gives, and the next after the largest finite: Inf, or the NaN of a format without Inf.
constexpr std::uint64_t overflow_bits(const Format& f) {
  return largest_finite_bits(f) + 1;
}
/// Integers have no NaN: 0 stands for it.
constexpr std::uint64_t quiet_nan_bits(const Format& f) {
  if (f.kind == Kind::ieee) return infinity_bits(f) | std::uint64_t{1} << (f.precision - 2);
  return f.kind == Kind::finite ? sign_bit(f) - 1 : 0;
}
constexpr bool is_nan_magnitude(const Format& f, std::uint64_t m) {
  if (f.kind == Kind::ieee) return m > infinity_bits(f);
  return f.kind == Kind::finite && m > largest_finite_bits(f);
}

/// A significand with its top bit at 63, without its `dropped` low bits (1 to 64 of them), rounded.
constexpr std::uint64_t round_off(std::uint64_t significand, int dropped, bool sticky, Rounding rounding) {
  std::uint64_t kept = dropped == 64 ? 0 : significand >> dropped;
  if (rounding == Rounding::toward_zero) return kept;
  const std::uint64_t half = std::uint64_t{1} << (dropped - 1);
  const std::uint64_t low = significand & (half | (half - 1));
  const std::uint64_t away = std::uint64_t{rounding == Rounding::nearest_away} | std::uint64_t{sticky} | kept;
  // Bitwise: on random data a branch here is mispredicted every other time.
  return kept + (std::uint64_t{low > half} | (std::uint64_t{low == half} & away & 1));
}

/// Two's complement pattern of (significand + rest) * 2^exponent, saturated.
constexpr std::uint64_t encode_whole(const Format& f, bool negative, std::uint64_t significand, int exponent, bool sticky,
                                     Rounding rounding) {
  if (significand == 0) return 0;
  const int zeros = std::countl_zero(significand);
  const int top = exponent + 63 - zeros;  // 2^top <= value < 2^(top+1)
  const std::uint64_t limit = largest_finite_bits(f) + std::uint64_t{negative};
  std::uint64_t whole = limit;
  if (top <= f.emax) whole = top < -1 ? 0 : std::min(limit, round_off(significand << zeros, 63 - top, sticky, rounding));
  return (negative ? 0 - whole : whole) & (sign_bit(f) | (sign_bit(f) - 1));
}

/// Pattern of (significand + rest) * 2^exponent, where 0 < rest < 1 if `sticky`, else rest = 0.
/// Nearest: overflow from the halfway point beyond the largest finite on. Toward zero: overflow to the largest finite.
/// A sticky significand must have at least two bits more than the format, so that `rest` never reaches the half.
constexpr std::uint64_t encode_integer(const Format& f, bool negative, std::uint64_t significand, int exponent,
                                       bool sticky = false, Rounding rounding = Rounding::nearest,
                                       Overflow overflow = Overflow::special) {
  if (f.kind == Kind::integer) return encode_whole(f, negative, significand, exponent, sticky, rounding);
  const std::uint64_t sign = std::uint64_t{negative} << (f.bits - 1);
  if (significand == 0) return sign;
  const int zeros = std::countl_zero(significand);
  significand <<= zeros;
  const int top = exponent + 63 - zeros;  // 2^top <= value < 2^(top+1)
  const bool bounded = rounding == Rounding::toward_zero || overflow == Overflow::saturate;
  const std::uint64_t most = bounded ? largest_finite_bits(f) : overflow_bits(f);
  if (top > f.emax) return sign | most;

  const int binade = std::max(top, f.emin);
  const int dropped = 64 - f.precision + (binade - top);  // low bits below one ulp of the result
  if (dropped > 64) return sign;                          // under half the smallest subnormal
  // Added, not or-ed: the hidden bit of a normal and a carry out of the rounding both raise the exponent field,
  // from the largest subnormal to the smallest normal and from the largest finite to what overflow gives.
  const std::uint64_t kept = round_off(significand, dropped, sticky, rounding);
  return sign | std::min(most, (static_cast<std::uint64_t>(binade - f.emin) << (f.precision - 1)) + kept);
}

/// The fp64 pattern of the same number; every NaN becomes the quiet one.
constexpr std::uint64_t widen_to_f64(const Format& f, std::uint64_t bits) {
  constexpr const Format& f64 = formats[static_cast<std::size_t>(DType::f64)];
  const bool negative = (bits & sign_bit(f)) != 0;
  if (f.kind == Kind::integer) return encode_integer(f64, negative, negative ? 2 * sign_bit(f) - bits : bits, 0);
  const std::uint64_t m = bits & (sign_bit(f) - 1);
  const std::uint64_t sign = negative ? sign_bit(f64) : 0;
  if (m > largest_finite_bits(f)) return is_nan_magnitude(f, m) ? quiet_nan_bits(f64) : sign | infinity_bits(f64);
  if (m >> (f.precision - 1) == 0) return encode_integer(f64, negative, m, f.emin - (f.precision - 1));
  const std::uint64_t rebias = static_cast<std::uint64_t>(f.emin - f64.emin) << (f64.precision - 1);
  return sign | ((m << (f64.precision - f.precision)) + rebias);
}

}  // namespace assay
