// SPDX-License-Identifier: Apache-2.0
// Number formats, bit-exact, in integer code of our own: never a cast of a vendor type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace assay {

enum class DType : std::uint8_t { f32, f64, bf16, f16 };

/// What a binary format can hold. IEEE 754 layout: sign, exponent, fraction; p counts the hidden bit.
struct Format {
  DType dtype;
  std::string_view name;
  int bits;       // storage width
  int precision;  // p, significant bits
  int emin;       // exponent of the smallest normal, 2^emin
  int emax;       // exponent of the largest finite, < 2^(emax+1)
};

const Format& format(DType);
std::optional<DType> parse_dtype(std::string_view name);
inline std::string_view name(DType t) {
  return format(t).name;
}
inline std::size_t size_bytes(DType t) {
  return static_cast<std::size_t>(format(t).bits) / 8;
}

/// u = 2^-p: the largest relative error of one rounding to nearest.
double unit_roundoff(DType);
double largest_finite(DType);
double smallest_normal(DType);
double smallest_subnormal(DType);

/// The number that a bit pattern means, exactly (every format here is a subset of fp64). NaN keeps no payload.
double decode(DType, std::uint64_t bits);

/// The bit pattern nearest to x, ties to even, overflow to infinity, subnormals kept; NaN -> quiet, payload 0.
std::uint64_t encode(DType, double x);

/// Nearest to the unevaluated sum hi + lo (|lo| <= ulp(hi)/2), rounded once: for double-double references.
std::uint64_t encode(DType, double hi, double lo);

/// The bit pattern of x rounded toward zero (what a truncating unit would store).
std::uint64_t encode_toward_zero(DType, double x);

inline double round_to(DType t, double x) {
  return decode(t, encode(t, x));
}
inline double truncate_to(DType t, double x) {
  return decode(t, encode_toward_zero(t, x));
}

/// Position of a pattern on the number line, adjacent floats differ by 1, -0 and +0 both 0. NaN has no place: do not ask.
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
