// SPDX-License-Identifier: Apache-2.0
// e4m3, e5m2 and int8 exhaustively against tables, tf32 against 64-bit significands of long double.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <stdexcept>
#include <vector>

#include "reference/dtype.hpp"
#include "reference/inputs.hpp"
#include "reference/philox.hpp"

using namespace assay;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// The OCP tables written out: exponent field, bias, and what the top patterns mean.
double decode_by_fields(DType t, unsigned bits) {
  const double sign = bits >= 128 ? -1 : 1;
  const unsigned m = bits % 128, fractions = t == DType::e4m3 ? 8 : 4, exponent = m / fractions, fraction = m % fractions;
  if (t == DType::e4m3 && m == 127) return not_a_number;
  if (t == DType::e5m2 && exponent == 31) return fraction == 0 ? sign * inf : not_a_number;
  const int bias = t == DType::e4m3 ? 7 : 15;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias) / fractions;
  return sign * std::ldexp(fractions + fraction, static_cast<int>(exponent) - bias) / fractions;
}

constexpr unsigned largest(DType t) {
  return t == DType::e4m3 ? 0x7E : 0x7B;
}

/// What the pattern after the largest finite would be worth, had the format not given it away.
double beyond(DType t) {
  return t == DType::e4m3 ? 480 : 65536;
}

/// Nearest by trying every pattern; a tie goes to the even one.
unsigned encode_by_search(DType t, double x, Overflow overflow = Overflow::special) {
  if (std::isnan(x)) return t == DType::e4m3 ? 0x7F : 0x7E;
  const unsigned sign = std::signbit(x) ? 128 : 0;
  const double m = std::fabs(x);
  unsigned best = largest(t) + 1;
  double least = std::fabs(m - beyond(t));
  for (unsigned bits = 0; bits <= largest(t); ++bits) {
    const double distance = std::fabs(m - decode_by_fields(t, bits));
    if (distance < least || (distance == least && bits % 2 == 0)) best = bits, least = distance;
  }
  if (m > beyond(t)) best = largest(t) + 1;
  if (overflow == Overflow::saturate && best > largest(t)) best = largest(t);
  return sign | best;
}

constexpr DType fp8[] = {DType::e4m3, DType::e5m2};
constexpr double signs[] = {1.0, -1.0};

/// fp32 to tf32 by division: significand times 2^10 as a long double, which holds it exactly, then floor.
double tf32_by_division(float x, Rounding rounding) {
  if (x == 0) return x;
  const int exponent = std::max(std::ilogb(x), -126) - 10;  // one unit of the result is 2^exponent
  const long double units = std::ldexp(static_cast<long double>(std::fabs(x)), -exponent);
  long double whole = std::floor(units);
  const long double rest = units - whole;
  if (rounding == Rounding::nearest) whole += rest > 0.5L || (rest == 0.5L && std::fmod(whole, 2.0L) == 1) ? 1 : 0;
  if (rounding == Rounding::nearest_away) whole += rest >= 0.5L ? 1 : 0;
  const double value = std::ldexp(static_cast<double>(whole), exponent);
  return std::copysign(value >= 0x1p128 ? inf : value, x);
}

}  // namespace

TEST_CASE("every fp8 pattern decodes to the value of its fields and encodes back to itself") {
  for (const DType t : fp8) {
    CAPTURE(name(t));
    int nans = 0, infinities = 0;
    for (unsigned bits = 0; bits < 256; ++bits) {
      CAPTURE(bits);
      const double value = decode(t, bits), dumb = decode_by_fields(t, bits);
      REQUIRE(is_nan(t, bits) == std::isnan(dumb));
      REQUIRE(is_inf(t, bits) == std::isinf(dumb));
      REQUIRE(is_subnormal(t, bits) == (dumb != 0 && std::fabs(dumb) < smallest_normal(t)));
      nans += is_nan(t, bits), infinities += is_inf(t, bits);
      if (std::isnan(dumb)) {
        REQUIRE(std::isnan(value));
        for (const Overflow o : {Overflow::special, Overflow::saturate})
          REQUIRE(encode(t, value, Rounding::nearest, o) == (t == DType::e4m3 ? 0x7Fu : 0x7Eu));
        continue;
      }
      REQUIRE(std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(dumb));
      for (const Rounding r : {Rounding::nearest, Rounding::toward_zero, Rounding::nearest_away})
        REQUIRE(encode(t, value, r) == bits);
      REQUIRE(encode(t, value, 0.0) == bits);
      if (std::isfinite(dumb)) REQUIRE(encode(t, value, Rounding::nearest, Overflow::saturate) == bits);
    }
    CHECK(nans == (t == DType::e4m3 ? 2 : 6));
    CHECK(infinities == (t == DType::e4m3 ? 0 : 2));
  }
}

TEST_CASE("between adjacent fp8 values: the midpoint to even or away, one double to either side to the neighbour") {
  for (const DType t : fp8)
    for (unsigned low = 0; low <= largest(t); ++low) {  // the last pair is the largest finite and what lies beyond
      const unsigned high = low + 1, even = low % 2 == 0 ? low : high;
      const double middle = (decode_by_fields(t, low) + (low == largest(t) ? beyond(t) : decode_by_fields(t, high))) / 2;
      for (const double s : signs) {
        const unsigned sign = s < 0 ? 128 : 0;
        const double under = s * std::nextafter(middle, 0.0), over = s * std::nextafter(middle, inf);
        CAPTURE(s * middle);
        REQUIRE(encode(t, s * middle) == (sign | even));
        REQUIRE(encode(t, s * middle, Rounding::nearest_away) == (sign | high));
        REQUIRE(encode(t, under) == (sign | low));
        REQUIRE(encode(t, over) == (sign | high));
        REQUIRE(encode(t, under, Rounding::nearest_away) == (sign | low));
        REQUIRE(encode(t, over, Rounding::toward_zero) == (sign | low));
        REQUIRE(encode(t, s * middle, s * std::ldexp(middle, -70)) == (sign | high));
        REQUIRE(encode(t, s * middle, -s * std::ldexp(middle, -70)) == (sign | low));
        for (const double x : {s * middle, under, over}) {
          REQUIRE(encode(t, x) == encode_by_search(t, x));
          REQUIRE(encode(t, x, Rounding::nearest, Overflow::saturate) == encode_by_search(t, x, Overflow::saturate));
        }
      }
    }
}

TEST_CASE("fp8 encoding agrees with a search of all patterns on random doubles") {
  for (const DType t : fp8)
    for (std::uint64_t i = 0; i < 50000; ++i) {
      const PhiloxCounter w = philox_element(1, 0, i);
      const double x = std::ldexp(static_cast<double>(static_cast<std::int32_t>(w[0])), static_cast<int>(w[1] % 40) - 31 - 19);
      REQUIRE(encode(t, x) == encode_by_search(t, x));
      REQUIRE(encode(t, x, Rounding::nearest, Overflow::saturate) == encode_by_search(t, x, Overflow::saturate));
    }
}

TEST_CASE("fp8 beyond the largest finite: NaN or infinity, or the largest finite when saturating") {
  const auto saturated = [](DType t, double x) { return encode(t, x, Rounding::nearest, Overflow::saturate); };
  CHECK(largest_finite(DType::e4m3) == 448);
  CHECK(largest_finite(DType::e5m2) == 57344);
  CHECK(encode(DType::e4m3, 464) == 0x7E);  // the tie is even
  CHECK(encode(DType::e4m3, std::nextafter(464, inf)) == 0x7F);
  CHECK(encode(DType::e4m3, -465) == 0xFF);
  CHECK(encode(DType::e4m3, inf) == 0x7F);
  CHECK(encode(DType::e5m2, std::nextafter(61440, 0)) == 0x7B);
  CHECK(encode(DType::e5m2, 61440) == 0x7C);
  CHECK(encode(DType::e5m2, -1e300) == 0xFC);
  for (const DType t : fp8)
    for (const double x : {448.0, 464.5, 480.0, 57344.0, 61440.0, 1e300, inf}) {
      if (x < largest_finite(t)) continue;
      CHECK(saturated(t, x) == largest(t));
      CHECK(saturated(t, -x) == (128 | largest(t)));
      if (std::isfinite(x)) CHECK(encode(t, x, Rounding::toward_zero) == largest(t));
    }
}

TEST_CASE("ulp_index of 8-bit formats counts values: neighbours differ by one, both zeros are 0") {
  for (const DType t : fp8) {
    for (unsigned m = 0; m < largest(t); ++m) {
      REQUIRE(ulp_index(t, m + 1) - ulp_index(t, m) == 1);
      REQUIRE(ulp_index(t, 128 | (m + 1)) - ulp_index(t, 128 | m) == -1);
      REQUIRE(decode(t, m) < decode(t, m + 1));
    }
    CHECK(ulp_distance(t, 0x80, 0) == 0);
    CHECK(ulp_distance(t, 0x7F, 0) == std::numeric_limits<std::int64_t>::max());
  }
  for (int v = -128; v < 128; ++v) CHECK(ulp_index(DType::i8, static_cast<std::uint8_t>(v)) == v);
  CHECK(ulp_distance(DType::i8, 0x80, 0x7F) == 255);
}

TEST_CASE("int8 rounds to the nearest integer, ties to even, saturates, and knows neither NaN nor -0") {
  for (int v = -128; v <= 127; ++v) {
    CAPTURE(v);
    const auto bits = static_cast<std::uint8_t>(v);
    REQUIRE(decode(DType::i8, bits) == v);
    REQUIRE_FALSE(std::signbit(decode(DType::i8, 0)));
    REQUIRE_FALSE((is_nan(DType::i8, bits) || is_inf(DType::i8, bits) || is_subnormal(DType::i8, bits)));
    for (int sixteenth = -16; sixteenth <= 16; ++sixteenth) {  // from the integer below to the one above
      const double x = v + sixteenth / 16.0;
      const double nearest = std::nearbyint(x), away = std::round(x), cut = std::trunc(x);
      const auto clamp = [](double y) {
        return static_cast<std::uint8_t>(static_cast<int>(std::min(127.0, std::max(-128.0, y))));
      };
      REQUIRE(encode(DType::i8, x) == clamp(nearest));
      REQUIRE(encode(DType::i8, x, Rounding::nearest_away) == clamp(away));
      REQUIRE(encode(DType::i8, x, Rounding::toward_zero) == clamp(cut));
    }
    REQUIRE(encode(DType::i8, v + 0.5, 1e-20) == encode(DType::i8, v + 1));
  }
  for (const double x : {127.5, 128.0, 1e9, 1e300, inf}) CHECK(encode(DType::i8, x) == 0x7F);
  for (const double x : {-128.5, -129.0, -1e9, -1e300, -inf}) CHECK(encode(DType::i8, x) == 0x80);
  for (const double x : {not_a_number, -0.0, 0.5, -0.5, 1e-300, -5e-324}) CHECK(encode(DType::i8, x) == 0);
  CHECK(encode(DType::i32, 2147483647.0) == 0x7FFFFFFF);
  CHECK(encode(DType::i32, 2147483646.5) == 0x7FFFFFFE);
  CHECK(encode(DType::i32, 2147483648.0) == 0x7FFFFFFF);
  CHECK(encode(DType::i32, -2147483648.0) == 0x80000000);
  CHECK(decode(DType::i32, 0x80000000) == -2147483648.0);
  CHECK(decode(DType::i32, 0xFFFFFFFF) == -1);
  CHECK(unit_roundoff(DType::i8) == 0);
  CHECK(smallest_subnormal(DType::i8) == 1);
}

TEST_CASE("tf32: all low 13 bits around many exponents, RZ, RNA and RNE, agree with exact division") {
  std::map<Rounding, int> up;
  int wrong = 0, infinite = 0;
  for (const int exponent : {0, 1, 2, 100, 126, 127, 128, 200, 253, 254})  // fields; 0 holds the subnormals
    for (const std::uint32_t kept : {0u, 1u, 2u, 511u, 512u, 1021u, 1022u, 1023u})
      for (std::uint32_t low = 0; low < 8192; ++low)
        for (const std::uint32_t sign : {0u, 0x80000000u}) {
          const auto x = std::bit_cast<float>(sign | static_cast<std::uint32_t>(exponent) << 23 | kept << 13 | low);
          for (const Rounding r : {Rounding::toward_zero, Rounding::nearest_away, Rounding::nearest}) {
            const double want = tf32_by_division(x, r);
            const std::uint64_t bits = encode(DType::tf32, x, r);
            wrong += std::bit_cast<std::uint64_t>(decode(DType::tf32, bits)) != std::bit_cast<std::uint64_t>(want);
            // The pattern is that of fp32 without its 13 low bits.
            wrong += (bits << 13) != std::bit_cast<std::uint32_t>(static_cast<float>(want));
            infinite += std::isinf(want);
            up[r] += std::fabs(want) > std::fabs(static_cast<double>(x));
          }
        }
  CHECK(wrong == 0);
  CHECK(infinite == 2 * (2 * 4096));  // RNA and RNE of the largest significand, upper half, both signs
  CHECK(up[Rounding::toward_zero] == 0);
  CHECK(up[Rounding::nearest] > 0);
  CHECK(up[Rounding::nearest_away] - up[Rounding::nearest] == 10 * 4 * 2);  // ties over an even kept part
  CHECK(round_to(DType::tf32, 1 + 0x1p-11, Rounding::nearest_away) == 1 + 0x1p-10);
  CHECK(round_to(DType::tf32, 1 + 0x1p-11) == 1);
  CHECK(round_to(DType::tf32, 1 + 0x3p-12, Rounding::toward_zero) == 1);
  CHECK(unit_roundoff(DType::tf32) == 0x1p-11);
  CHECK(smallest_subnormal(DType::tf32) == 0x1p-136);
  CHECK(is_nan(DType::tf32, encode(DType::tf32, not_a_number)));
  CHECK(encode(DType::tf32, -inf) == 0xFF800000u >> 13);
}

TEST_CASE("tf32 is an operand format: it has no storage") {
  CHECK_THROWS_AS(size_bytes(DType::tf32), std::logic_error);
  std::byte room[4];
  CHECK_THROWS_AS(store_bits(DType::tf32, room, 0), std::logic_error);
}

TEST_CASE("narrow formats refuse the families that they cannot hold, and fill the others with finite values") {
  for (const DType t : {DType::e4m3, DType::e5m2, DType::i8}) {
    CAPTURE(name(t));
    int held = 0;
    Operand o{.role = "A", .dtype = t, .dims = {32, 32}, .strides = {32, 1}, .span = 1024};
    for (const Family f : all_families()) {
      CAPTURE(name(f));
      const FillRule rule{.family = f, .inner_axis = 1, .limit = integer_limit(32, 14, t)};
      if (!holds(t, f)) {
        CHECK_THROWS_AS(generate(o, rule, 1), std::invalid_argument);
        continue;
      }
      ++held;
      const std::vector<std::uint64_t> bits = generate(o, rule, 1);
      std::map<std::uint64_t, int> seen;
      for (const std::uint64_t b : bits) ++seen[b];
      if (f == Family::patterns)
        CHECK(seen.size() == 256);
      else
        for (const auto& [b, n] : seen) CHECK(std::isfinite(decode(t, b)));
      std::vector<std::byte> storage(1024);
      fill(o, rule, 1, storage);
      for (std::size_t i = 0; i < 1024; ++i) REQUIRE(load_bits(t, &storage[i]) == bits[i]);
    }
    CHECK(held == (t == DType::i8 ? 5 : 7));
  }
}

TEST_CASE("integer limits keep int8 sums inside int32 and fp8 integers inside their format") {
  for (const std::int64_t k : {1, 64, 4096, 131072, 133144, 133145, 524288, 1 << 30}) {
    const std::int64_t limit = integer_limit(k, 31, DType::i8);
    CHECK(limit <= 127);
    CHECK(k * limit * limit < std::int64_t{1} << 31);
  }
  CHECK(integer_limit(133144, 31, DType::i8) == 127);  // 2^31 / 127^2 = 133144.6
  CHECK(integer_limit(133145, 31, DType::i8) == 126);
  CHECK(integer_limit(1 << 19, 31, DType::i8) == 63);  // 2^19 * 64^2 = 2^31
  CHECK(integer_limit(1, 14, DType::e4m3) == 16);
  CHECK(integer_limit(1, 14, DType::e5m2) == 8);
}
