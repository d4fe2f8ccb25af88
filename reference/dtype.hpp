// SPDX-License-Identifier: Apache-2.0
// Number formats, bit-exact, in integer code of our own: never a cast of a vendor type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace assay {

/// tf32 is what a multiplier keeps of an fp32 operand, never stored: its pattern is that of fp32 without the 13 low bits.
enum class DType : std::uint8_t { f32, f64, bf16, f16, tf32, e4m3, e5m2, i8, i32 };

enum class Kind : std::uint8_t {
  ieee,     // all-ones exponent: Inf and NaN
  finite,   // E4M3 of the OCP 8-bit specification (E4M3FN): no Inf, one NaN per sign, with all bits ones
  integer,  // two's complement: no Inf, NaN or -0
};

/// What a format can hold. Layout of the floating ones: sign, exponent (biased by 1 - emin), fraction; p counts the hidden bit.
struct Format {
  DType dtype;
  std::string_view name;
  int bits;       // width of a pattern
  int precision;  // p, significant bits
  int emin;       // exponent of the smallest normal, 2^emin; 0 for integers
  int emax;       // exponent of the largest finite, < 2^(emax+1)
  Kind kind = Kind::ieee;
};

enum class Rounding : std::uint8_t { nearest, toward_zero, nearest_away };  // RN ties to even, RZ, RN ties away (RNA)

/// What becomes of a magnitude that rounds beyond the largest finite, and of Inf. Integers always saturate.
enum class Overflow : std::uint8_t {
  special,   // Inf; NaN where the format has no Inf. Under RZ only Inf itself, as in IEEE 754
  saturate,  // the largest finite of that sign; NaN stays NaN
};

const Format& format(DType);
std::optional<DType> parse_dtype(std::string_view name);
inline std::string_view name(DType t) {
  return format(t).name;
}
bool is_integer(DType);
/// Errors   throws std::logic_error for tf32, which has no storage of its own.
std::size_t stored_bits(DType);
inline std::size_t size_bytes(DType t) {
  return stored_bits(t) / 8;
}

/// u = 2^-p: the largest relative error of one rounding to nearest; 0 for integers, whose error is absolute.
double unit_roundoff(DType);
double largest_finite(DType);
double smallest_normal(DType);
/// The spacing around zero (1 for integers).
double smallest_subnormal(DType);

/// The number that a bit pattern means, exactly (every format here is a subset of fp64). NaN keeps no payload.
double decode(DType, std::uint64_t bits);

/// The bit pattern of x, subnormals kept; NaN -> quiet, payload 0, sign 0 (integers: 0, as CUDA's conversions).
/// Nearest, ties to even, unless said otherwise; e4m3 overflows beyond 464, halfway to the 480 that its NaN took.
std::uint64_t encode(DType, double x, Rounding rounding = Rounding::nearest, Overflow overflow = Overflow::special);

/// Nearest to the unevaluated sum hi + lo (|lo| <= ulp(hi)/2), rounded once: for double-double references.
std::uint64_t encode(DType, double hi, double lo);

/// The bit pattern of x rounded toward zero (what a truncating unit would store).
std::uint64_t encode_toward_zero(DType, double x);

inline double round_to(DType t, double x, Rounding rounding = Rounding::nearest) {
  return decode(t, encode(t, x, rounding));
}
inline double truncate_to(DType t, double x) {
  return decode(t, encode_toward_zero(t, x));
}

/// Position of a pattern on the number line, adjacent numbers differ by 1, -0 and +0 both 0. NaN has no place: do not ask.
std::int64_t ulp_index(DType, std::uint64_t bits);
/// Distance in units in the last place; INT64_MAX when either is NaN.
std::int64_t ulp_distance(DType, std::uint64_t a, std::uint64_t b);

bool is_nan(DType, std::uint64_t bits);
bool is_inf(DType, std::uint64_t bits);
bool is_subnormal(DType, std::uint64_t bits);

/// Raw element access in a little-endian buffer; no alignment is assumed.
std::uint64_t load_bits(DType, const std::byte* at);
void store_bits(DType, std::byte* at, std::uint64_t bits);

}  // namespace assay
