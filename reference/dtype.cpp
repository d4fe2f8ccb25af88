// SPDX-License-Identifier: Apache-2.0
// Encoding and decoding of binary floating-point formats, in integer code.

#include "reference/dtype.hpp"

#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "reference/format_bits.hpp"

static_assert(std::endian::native == std::endian::little, "buffers are little-endian");

namespace assay {

namespace {

__extension__ using Wide = unsigned __int128;

/// A finite double as an integer times a power of two.
struct Parts {
  bool negative;
  std::uint64_t significand;
  int exponent;
};

constexpr const Format& f64 = formats[static_cast<std::size_t>(DType::f64)];

std::uint64_t magnitude(const Format& f, std::uint64_t bits) {
  return bits & (sign_bit(f) - 1);
}
std::uint64_t magnitude_of(double x) {
  return magnitude(f64, std::bit_cast<std::uint64_t>(x));
}

Parts take_apart(const Format& f, std::uint64_t bits) {
  const std::uint64_t m = magnitude(f, bits);
  const std::uint64_t hidden = std::uint64_t{1} << (f.precision - 1);
  const int field = static_cast<int>(m >> (f.precision - 1));
  const bool negative = (bits & sign_bit(f)) != 0;
  if (field == 0) return {negative, m, f.emin - (f.precision - 1)};
  return {negative, (m & (hidden - 1)) | hidden, field - 1 + f.emin - (f.precision - 1)};
}

double from_parts(std::uint64_t significand, int exponent) {
  return std::bit_cast<double>(encode_integer(f64, false, significand, exponent));
}

}  // namespace

const Format& format(DType t) {
  return formats[static_cast<std::size_t>(t)];
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Format& f : formats) {
    if (name == f.name) return f.dtype;
    // Case ids write f32 for fp32 and i8 for int8; the others have one spelling.
    if (f.name.starts_with("fp") && name.starts_with('f') && name.substr(1) == f.name.substr(2)) return f.dtype;
    if (f.name.starts_with("int") && name.starts_with('i') && name.substr(1) == f.name.substr(3)) return f.dtype;
  }
  return std::nullopt;
}

bool is_integer(DType t) {
  return format(t).kind == Kind::integer;
}

std::size_t stored_bits(DType t) {
  if (t == DType::tf32)
    throw std::logic_error(
        "format tf32 has no storage of its own: store fp32 and name tf32 as the format that operands are reduced to");
  return static_cast<std::size_t>(format(t).bits);
}

double unit_roundoff(DType t) {
  if (is_integer(t)) return 0;
  return from_parts(1, -format(t).precision);
}
double largest_finite(DType t) {
  return decode(t, largest_finite_bits(format(t)));
}
double smallest_normal(DType t) {
  return from_parts(1, format(t).emin);
}
double smallest_subnormal(DType t) {
  return decode(t, 1);
}

double decode(DType t, std::uint64_t bits) {
  return std::bit_cast<double>(widen_to_f64(format(t), bits));
}

std::uint64_t encode(DType t, double x, Rounding rounding, Overflow overflow) {
  const Format& f = format(t);
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t m = magnitude(f64, bits);
  const bool negative = bits != m;
  if (m > infinity_bits(f64)) return quiet_nan_bits(f);
  if (m == infinity_bits(f64)) {
    if (f.kind == Kind::integer) return encode_whole(f, negative, 1, 64, false, rounding);
    return (negative ? sign_bit(f) : 0) | (overflow == Overflow::saturate ? largest_finite_bits(f) : overflow_bits(f));
  }
  const Parts p = take_apart(f64, bits);
  return encode_integer(f, p.negative, p.significand, p.exponent, false, rounding, overflow);
}
std::uint64_t encode_toward_zero(DType t, double x) {
  return encode(t, x, Rounding::toward_zero);
}

std::uint64_t encode(DType t, double hi, double lo) {
  // An infinite or NaN hi is the result; lo is then an artefact of the error-free transformation (Inf - Inf).
  if (magnitude_of(lo) == 0 || magnitude_of(hi) >= infinity_bits(f64)) return encode(t, hi);
  if (magnitude_of(lo) >= infinity_bits(f64) || magnitude_of(hi) == 0) return encode(t, lo);
  if (magnitude_of(lo) > magnitude_of(hi)) std::swap(hi, lo);

  // hi at bit 64 of a wide integer, lo aligned below it; what falls off the end is only known not to be zero.
  const Parts h = take_apart(f64, std::bit_cast<std::uint64_t>(hi));
  const Parts l = take_apart(f64, std::bit_cast<std::uint64_t>(lo));
  const int exponent = h.exponent - 64;
  const int up = l.exponent - exponent;  // at most 64, because |lo| <= |hi|
  Wide sum = Wide{h.significand} << 64;
  Wide addend = 0;
  bool sticky = false;
  if (up >= 0) {
    addend = Wide{l.significand} << up;
  } else if (up > -64) {
    addend = l.significand >> -up;
    sticky = (l.significand & ((std::uint64_t{1} << -up) - 1)) != 0;
  } else {
    sticky = true;
  }
  sum = h.negative == l.negative ? sum + addend : sum - addend - (sticky ? 1 : 0);
  if (sum == 0) return 0;  // exact cancellation: +0, as in round-to-nearest arithmetic

  const auto upper = static_cast<std::uint64_t>(sum >> 64);
  if (upper == 0) return encode_integer(format(t), h.negative, static_cast<std::uint64_t>(sum), exponent, sticky);
  const int shift = 64 - std::countl_zero(upper);  // normalise to 64 bits
  sticky = sticky || (sum & ((Wide{1} << shift) - 1)) != 0;
  return encode_integer(format(t), h.negative, static_cast<std::uint64_t>(sum >> shift), exponent + shift, sticky);
}

std::int64_t ulp_index(DType t, std::uint64_t bits) {
  const Format& f = format(t);
  if (f.kind == Kind::integer) return static_cast<std::int64_t>(decode(t, bits));
  const auto m = static_cast<std::int64_t>(magnitude(f, bits));
  return (bits & sign_bit(f)) != 0 ? -m : m;
}

std::int64_t ulp_distance(DType t, std::uint64_t a, std::uint64_t b) {
  constexpr std::int64_t unordered = std::numeric_limits<std::int64_t>::max();
  if (is_nan(t, a) || is_nan(t, b)) return unordered;
  const std::int64_t x = ulp_index(t, a), y = ulp_index(t, b);
  const std::uint64_t distance = x > y ? static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y)
                                       : static_cast<std::uint64_t>(y) - static_cast<std::uint64_t>(x);
  return static_cast<std::int64_t>(std::min<std::uint64_t>(distance, unordered - 1));  // fp64 of opposite signs can exceed it
}

bool is_nan(DType t, std::uint64_t bits) {
  return is_nan_magnitude(format(t), magnitude(format(t), bits));
}
bool is_inf(DType t, std::uint64_t bits) {
  return format(t).kind == Kind::ieee && magnitude(format(t), bits) == infinity_bits(format(t));
}
bool is_subnormal(DType t, std::uint64_t bits) {
  const Format& f = format(t);
  const std::uint64_t m = magnitude(f, bits);
  return f.kind != Kind::integer && m != 0 && m >> (f.precision - 1) == 0;
}

namespace {

template <class Word>
std::uint64_t load(const std::byte* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

template <class Word>
void store(std::byte* at, std::uint64_t bits) {
  const auto word = static_cast<Word>(bits);
  std::memcpy(at, &word, sizeof word);
}

}  // namespace

std::uint64_t load_bits(DType t, const std::byte* at) {
  switch (size_bytes(t)) {
    case 1:
      return load<std::uint8_t>(at);
    case 2:
      return load<std::uint16_t>(at);
    case 4:
      return load<std::uint32_t>(at);
    default:
      return load<std::uint64_t>(at);
  }
}

void store_bits(DType t, std::byte* at, std::uint64_t bits) {
  switch (size_bytes(t)) {
    case 1:
      return store<std::uint8_t>(at, bits);
    case 2:
      return store<std::uint16_t>(at, bits);
    case 4:
      return store<std::uint32_t>(at, bits);
    default:
      return store<std::uint64_t>(at, bits);
  }
}

}  // namespace assay
