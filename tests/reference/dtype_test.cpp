// SPDX-License-Identifier: Apache-2.0
// Number formats: 16-bit ones exhaustively against tables built by ldexp, fp32 and fp64 against the hardware's casts.

#include "reference/dtype.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/philox.hpp"

using namespace assay;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

/// The dumb decoder: fields by division, value by ldexp.
double decode_by_fields(DType t, std::uint64_t bits) {
  const int fraction_bits = t == DType::bf16 ? 7 : 10, bias = t == DType::bf16 ? 127 : 15, fields = t == DType::bf16 ? 256 : 32;
  const auto fraction = static_cast<double>(bits % (std::uint64_t{1} << fraction_bits));
  const int exponent = static_cast<int>((bits >> fraction_bits) % static_cast<std::uint64_t>(fields));
  const double sign = bits >= 32768 ? -1 : 1;
  if (exponent == fields - 1) return fraction == 0 ? sign * inf : std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(1 + std::ldexp(fraction, -fraction_bits), exponent - bias);
}

/// Positive values of a 16-bit format, by pattern; the infinity stands in as the power of two that rounding treats it as.
std::vector<double> magnitudes(DType t) {
  const std::uint64_t infinity = t == DType::bf16 ? 0x7F80 : 0x7C00;
  std::vector<double> values;
  for (std::uint64_t bits = 0; bits < infinity; ++bits) values.push_back(decode_by_fields(t, bits));
  values.push_back(t == DType::bf16 ? std::ldexp(1.0, 128) : 65536.0);
  return values;
}

/// The dumb encoder: search the table, compare with the midpoint of the two neighbours.
std::uint64_t encode_by_search(const std::vector<double>& values, double x) {
  const std::uint64_t sign = std::signbit(x) ? 0x8000 : 0;
  const double m = std::fabs(x);
  if (m >= values.back()) return sign | (values.size() - 1);
  const auto above = static_cast<std::uint64_t>(std::upper_bound(values.begin(), values.end(), m) - values.begin());
  const std::uint64_t below = above - 1;
  const double middle = (values[below] + values[above]) / 2;
  if (m == middle) return sign | (below % 2 == 0 ? below : above);
  return sign | (m < middle ? below : above);
}

std::uint64_t word64(std::uint64_t seed, std::uint64_t index) {
  const PhiloxCounter w = philox_element(seed, 0, index);
  return std::uint64_t{w[0]} << 32 | w[1];
}

/// A double with random sign and significand and an exponent uniform in [least, most].
double random_double(std::uint64_t seed, std::uint64_t index, int least, int most) {
  const PhiloxCounter w = philox_element(seed, 1, index);
  const std::uint64_t fraction = word64(seed, index) & ((std::uint64_t{1} << 52) - 1);
  const int exponent = least + static_cast<int>(w[0] % static_cast<unsigned>(most - least + 1));
  return std::bit_cast<double>(std::uint64_t{w[1] & 1} << 63 | static_cast<std::uint64_t>(exponent + 1023) << 52 | fraction);
}

constexpr std::array sixteen_bit = {DType::bf16, DType::f16};
constexpr std::array stored_formats = {DType::f32,  DType::f64,  DType::bf16, DType::f16,
                                       DType::e4m3, DType::e5m2, DType::i8,   DType::i32};

}  // namespace

TEST_CASE("every 16-bit pattern decodes to the value of its fields and encodes back to itself") {
  for (const DType t : sixteen_bit) {
    int wrong = 0;
    for (std::uint64_t bits = 0; bits < 65536; ++bits) {
      const double value = decode(t, bits), dumb = decode_by_fields(t, bits);
      if (std::isnan(dumb)) {
        wrong += !std::isnan(value) || !is_nan(t, bits) || encode(t, value) != (t == DType::bf16 ? 0x7FC0 : 0x7E00);
      } else {
        wrong += std::bit_cast<std::uint64_t>(value) != std::bit_cast<std::uint64_t>(dumb) || encode(t, value) != bits ||
                 encode_toward_zero(t, value) != bits || encode(t, value, 0.0) != bits || is_nan(t, bits);
      }
      wrong += is_inf(t, bits) != std::isinf(dumb);
      wrong += is_subnormal(t, bits) != (dumb != 0 && std::fabs(dumb) < smallest_normal(t));
    }
    CHECK_MESSAGE(wrong == 0, name(t));
  }
}

TEST_CASE("midpoints of adjacent 16-bit values round to even, one double to either side rounds to the neighbour") {
  for (const DType t : sixteen_bit) {
    const std::vector<double> values = magnitudes(t);
    int wrong = 0;
    for (std::uint64_t low = 0; low + 1 < values.size(); ++low) {  // the last pair is the largest finite and infinity
      const double middle = (values[low] + values[low + 1]) / 2;
      const std::uint64_t even = low % 2 == 0 ? low : low + 1;
      for (const std::uint64_t sign : {0u, 0x8000u}) {
        const double s = sign != 0 ? -1 : 1;
        const double under = s * std::nextafter(middle, 0.0), over = s * std::nextafter(middle, inf);
        wrong +=
            encode(t, s * middle) != (sign | even) || encode(t, under) != (sign | low) || encode(t, over) != (sign | (low + 1));
        wrong += encode_by_search(values, s * middle) != (sign | even) || encode_by_search(values, over) != (sign | (low + 1));
        wrong += encode_toward_zero(t, over) != (sign | low) || encode_toward_zero(t, under) != (sign | low);
      }
    }
    CHECK_MESSAGE(wrong == 0, name(t));
  }
}

TEST_CASE("16-bit encoding agrees with a table search on random doubles") {
  for (const DType t : sixteen_bit) {
    const std::vector<double> values = magnitudes(t);
    const int least = t == DType::bf16 ? -140 : -30, most = t == DType::bf16 ? 130 : 18;
    int wrong = 0;
    for (std::uint64_t i = 0; i < 1000000; ++i) {
      const double x = random_double(1, i, least, most);
      wrong += encode(t, x) != encode_by_search(values, x);
    }
    CHECK_MESSAGE(wrong == 0, name(t));
  }
}

TEST_CASE("fp32 encoding and decoding agree with the hardware casts, subnormals included") {
  int wrong = 0, subnormal = 0;
  for (std::uint64_t i = 0; i < 2000000; ++i) {
    const double x = random_double(2, i, -155, 130);
    const std::uint64_t bits = encode(DType::f32, x);
    wrong += bits != std::bit_cast<std::uint32_t>(static_cast<float>(x));
    subnormal += is_subnormal(DType::f32, bits);

    const auto pattern = static_cast<std::uint32_t>(word64(3, i));
    const auto value = static_cast<double>(std::bit_cast<float>(pattern));
    if (!std::isnan(value)) {
      wrong += decode(DType::f32, pattern) != value || encode(DType::f32, value) != pattern;
      // Ties and near-ties of fp32, which random doubles never hit.
      const double middle = (value + static_cast<double>(std::nextafterf(std::bit_cast<float>(pattern), 0.0f))) / 2;
      wrong += encode(DType::f32, middle) != std::bit_cast<std::uint32_t>(static_cast<float>(middle));
    }
  }
  CHECK(wrong == 0);
  CHECK(subnormal > 100000);
}

TEST_CASE("fp64 encoding is the identity, and a NaN loses its payload") {
  int wrong = 0;
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const std::uint64_t bits = word64(4, i);
    if (is_nan(DType::f64, bits)) continue;
    wrong += encode(DType::f64, std::bit_cast<double>(bits)) != bits;
    wrong += encode(DType::f64, std::bit_cast<double>(bits >> 12)) != bits >> 12;  // subnormals
  }
  CHECK(wrong == 0);
  CHECK(encode(DType::f64, decode(DType::f64, 0xFFF8000000000123u)) == 0x7FF8000000000000u);
  CHECK(encode(DType::f32, std::bit_cast<double>(std::uint64_t{0xFFF0000000000001u})) == 0x7FC00000u);
}

TEST_CASE("a double-double is rounded once: the sign of lo decides a tie of hi") {
  CHECK(encode(DType::f32, 1 + 0x1p-24) == encode(DType::f32, 1.0));  // a tie, to even
  CHECK(encode(DType::f32, 1 + 0x1p-24, 0x1p-80) == encode(DType::f32, 1 + 0x1p-23));
  CHECK(encode(DType::f32, 1 + 0x1p-24, -0x1p-80) == encode(DType::f32, 1.0));
  CHECK(encode(DType::f32, 1 + 0x3p-24, -0x1p-1000) == encode(DType::f32, 1 + 0x1p-23));
  for (const DType t : sixteen_bit) {
    const std::vector<double> values = magnitudes(t);
    int wrong = 0;
    for (std::uint64_t low = 0; low + 1 < values.size(); ++low) {
      const double middle = (values[low] + values[low + 1]) / 2, tiny = std::ldexp(middle, -70);
      wrong += encode(t, middle, tiny) != low + 1 || encode(t, middle, -tiny) != low;
      wrong += encode(t, -middle, -tiny) != (0x8000 | (low + 1)) || encode(t, -middle, tiny) != (0x8000 | low);
      wrong += encode(t, middle, 0.0) != (low % 2 == 0 ? low : low + 1);
    }
    CHECK_MESSAGE(wrong == 0, name(t));
  }
}

TEST_CASE("a double-double agrees with the x87 sum of hi and lo, cast once") {
  static_assert(std::numeric_limits<long double>::digits == 64);
  int wrong = 0, moved = 0, ties = 0;
  for (std::uint64_t i = 0; i < 500000; ++i) {
    // lo is a multiple of ulp(hi)/2^10 up to half an ulp: the sum fits 64 bits and is exact. Exponents cover subnormal fp32.
    double hi = random_double(5, i, -150, 100);
    if (i % 8 == 0) hi = std::ldexp(1.0, std::ilogb(hi));  // below a power of two the spacing halves
    const double quantum = std::ldexp(1.0, std::ilogb(hi) - 52 - 10);
    const double lo = static_cast<double>(static_cast<int>(philox_element(5, 2, i)[0] % 1025) - 512) * quantum;
    const long double sum = static_cast<long double>(hi) + lo;
    wrong += encode(DType::f64, hi, lo) != std::bit_cast<std::uint64_t>(static_cast<double>(sum));
    wrong += encode(DType::f32, hi, lo) != std::bit_cast<std::uint32_t>(static_cast<float>(sum));
    moved += encode(DType::f64, hi, lo) != encode(DType::f64, hi);
    ties += std::fabs(lo) == 512 * quantum;
  }
  CHECK(wrong == 0);
  CHECK(moved > 0);
  CHECK(ties > 100);
}

TEST_CASE("a double-double with a special part gives what its parts say") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(encode(DType::f32, inf, nan) == 0x7F800000u);  // Inf - Inf left by an error-free transformation
  CHECK(encode(DType::f32, -inf, 0.0) == 0xFF800000u);
  CHECK(encode(DType::f32, nan, 1.0) == 0x7FC00000u);
  CHECK(encode(DType::f32, 1.0, nan) == 0x7FC00000u);
  CHECK(encode(DType::f32, -0.0, 0.0) == 0x80000000u);
  CHECK(encode(DType::f32, 1.5, -1.5) == 0);
  CHECK(encode(DType::f64, 1.0, 3.0) == std::bit_cast<std::uint64_t>(4.0));  // not normalised: still the sum
  CHECK(encode(DType::f64, 0x1p1023, 0x1.fffffffffffffp1023) == 0x7FF0000000000000u);
  CHECK(encode(DType::f32, 0x1.ffffffp127, -0x1p50) == 0x7F7FFFFFu);  // just under the overflow threshold
  CHECK(encode(DType::f32, 0x1.ffffffp127, 0x1p50) == 0x7F800000u);
  CHECK(encode(DType::f64, 5e-324, 5e-324) == 2);
}

TEST_CASE("overflow: nearest goes to infinity from the halfway point, toward zero stops at the largest finite") {
  CHECK(encode(DType::f16, 65519.99) == 0x7BFF);
  CHECK(encode(DType::f16, 65520.0) == 0x7C00);
  CHECK(encode(DType::f16, -1e300) == 0xFC00);
  CHECK(encode_toward_zero(DType::f16, 1e300) == 0x7BFF);
  CHECK(encode_toward_zero(DType::f16, inf) == 0x7C00);
  CHECK(encode_toward_zero(DType::f32, -0x1.ffffffp127) == 0xFF7FFFFFu);
  CHECK(encode(DType::f32, 0x1p-150) == 0);  // tie between 0 and the smallest subnormal
  CHECK(encode(DType::f32, 0x1.0000000000001p-150) == 1);
  CHECK(encode(DType::f32, -0x1p-1074) == 0x80000000u);
  CHECK(encode_toward_zero(DType::f32, 0x1.fffffffffffffp-149) == 1);
}

TEST_CASE("ulp_index counts floats: adjacent 16-bit patterns differ by one, both zeros are 0") {
  for (const DType t : sixteen_bit) {
    const std::uint64_t infinity = t == DType::bf16 ? 0x7F80 : 0x7C00;
    int wrong = 0;
    for (std::uint64_t m = 0; m < infinity; ++m) {
      wrong += ulp_index(t, m + 1) - ulp_index(t, m) != 1 || ulp_index(t, 0x8000 | (m + 1)) - ulp_index(t, 0x8000 | m) != -1;
      wrong += !(decode(t, m) < decode(t, m + 1));
    }
    CHECK_MESSAGE(wrong == 0, name(t));
    CHECK(ulp_index(t, 0x8000) == 0);
    CHECK(ulp_distance(t, 0x8001, 1) == 2);
  }
  CHECK(ulp_distance(DType::f32, 0x7FC00000u, 0) == std::numeric_limits<std::int64_t>::max());
  CHECK(ulp_distance(DType::f32, 0x3F800000u, 0x3F7FFFFFu) == 1);
  // -largest to +largest of fp64 is more than an int64 holds: saturates below the NaN answer.
  CHECK(ulp_distance(DType::f64, 0x7FEFFFFFFFFFFFFFu, 0xFFEFFFFFFFFFFFFFu) == std::numeric_limits<std::int64_t>::max() - 1);
}

TEST_CASE("format constants are those of the standard library where it has the format") {
  CHECK(unit_roundoff(DType::f32) == std::numeric_limits<float>::epsilon() / 2);
  CHECK(unit_roundoff(DType::f64) == std::numeric_limits<double>::epsilon() / 2);
  CHECK(unit_roundoff(DType::bf16) == 0x1p-8);
  CHECK(unit_roundoff(DType::f16) == 0x1p-11);
  CHECK(largest_finite(DType::f32) == static_cast<double>(std::numeric_limits<float>::max()));
  CHECK(largest_finite(DType::f64) == std::numeric_limits<double>::max());
  CHECK(largest_finite(DType::f16) == 65504);
  CHECK(largest_finite(DType::bf16) == 0x1.FEp127);
  CHECK(smallest_normal(DType::f32) == static_cast<double>(std::numeric_limits<float>::min()));
  CHECK(smallest_normal(DType::f64) == std::numeric_limits<double>::min());
  CHECK(smallest_subnormal(DType::f32) == 0x1p-149);
  CHECK(smallest_subnormal(DType::f64) == std::numeric_limits<double>::denorm_min());
  CHECK(smallest_subnormal(DType::f16) == 0x1p-24);
  CHECK(smallest_subnormal(DType::bf16) == 0x1p-133);
  CHECK(round_to(DType::bf16, 1 + 0x1p-8) == 1);
  CHECK(truncate_to(DType::f16, 1 + 0x1.8p-10) == 1 + 0x1p-10);
}

TEST_CASE("format names parse in the long and in the case-id spelling, others do not") {
  for (const DType t : stored_formats) {
    CHECK(parse_dtype(name(t)) == t);
    CHECK(format(t).dtype == t);
  }
  CHECK(parse_dtype("f32") == DType::f32);
  CHECK(parse_dtype("f64") == DType::f64);
  CHECK(parse_dtype("f16") == DType::f16);
  CHECK(parse_dtype("tf32") == DType::tf32);
  CHECK(parse_dtype("i8") == DType::i8);
  CHECK(parse_dtype("i32") == DType::i32);
  for (const char* bad : {"", "f", "fp", "f8", "fp33", "16", "FP32", "float", "b16", "int", "i", "int16", "i16", "f8e4m3"})
    CHECK_FALSE(parse_dtype(bad).has_value());
}

TEST_CASE("elements load and store at any alignment without touching their neighbours") {
  for (const DType t : stored_formats) {
    std::array<std::byte, 24> buffer;
    buffer.fill(std::byte{0xA5});
    const std::uint64_t bits = 0x8182838485868788u & (~std::uint64_t{0} >> (64 - format(t).bits));
    store_bits(t, &buffer[3], bits);
    CHECK(load_bits(t, &buffer[3]) == bits);
    CHECK(buffer[2] == std::byte{0xA5});
    CHECK(buffer[3] == std::byte{0x88});  // little-endian
    CHECK(buffer[3 + size_bytes(t)] == std::byte{0xA5});
  }
}
