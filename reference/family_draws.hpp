// SPDX-License-Identifier: Apache-2.0
// What the generators of families share: random words of an element, integers from them, the normal value, encoding.
#pragma once

#include <cstdint>

#include "reference/families.hpp"
#include "reference/philox.hpp"

namespace assay::draws {

__extension__ using Wide = unsigned __int128;

// Last counter word of a draw: what the four random words are for.
enum Draw : std::uint32_t {
  element = 0,
  element_more = 1,
  per_line = 2,
  per_tensor = 3,
  per_contraction = 4,
  per_channel = 5,
  per_time = 6,
  per_channel_and_time = 7
};
// Draws that the left and the right operand must agree on use a stream of neither.
inline constexpr std::uint32_t shared_stream = 0xFFFFFFFFu;

struct Value {
  bool negative = false;
  std::uint64_t significand = 0;
  int exponent = 0;
};

inline Value signed_value(std::int64_t v, int exponent = 0) {
  return {v < 0, static_cast<std::uint64_t>(v < 0 ? -v : v), exponent};
}

inline std::uint64_t encoded(const Recipe& r, const Value& v) {
  return encode_integer(*r.format, v.negative, v.significand, v.exponent + r.rule.exponent);
}

inline PhiloxCounter words(const Recipe& r, std::uint64_t index, Draw draw = element) {
  return philox_element(r.seed, r.stream, index, draw);
}

/// Uniform in [0, n), from one word: floor(word * n / 2^32); the bias is below n * 2^-32.
inline std::uint64_t below(std::uint32_t word, std::uint64_t n) {
  return std::uint64_t{word} * n >> 32;
}

/// Uniform in [0, n) from two words, for n beyond 32 bits.
inline std::uint64_t below(std::uint32_t high, std::uint32_t low, std::uint64_t n) {
  return static_cast<std::uint64_t>(Wide{std::uint64_t{high} << 32 | low} * n >> 64);
}

/// Sum of eight 16-bit uniforms minus its mean, over its deviation sqrt(8 (2^32 - 1)/12) = 53509.9: mean 0, variance 1,
/// bounded at 4.9. The reciprocal has 30 bits, so that significands are full and rounding to 24 bits or fewer meets no
/// run of ties. fp64 adds 32 random bits below the sum and, to stay within 63 bits, has a reciprocal of 13.
inline std::int64_t normal_sum(const PhiloxCounter& w) {
  std::int64_t sum = -262140;  // 8 * 65535 / 2
  for (const std::uint32_t word : w) sum += (word >> 16) + (word & 0xFFFFu);
  return sum;
}

inline Value normal(const Recipe& r, std::uint64_t index) {
  const std::int64_t sum = normal_sum(words(r, index));
  if (r.format->dtype != DType::f64) return signed_value(657529896 * sum, -45);
  const std::int64_t fraction = std::int64_t{words(r, index, element_more)[1]} - (std::int64_t{1} << 31);
  return signed_value(5017 * (sum * (std::int64_t{1} << 32) + fraction), -60);
}

inline std::uint64_t normal_bits(const Recipe& r, const Position& p) {
  return encoded(r, normal(r, p.index));
}

/// Families that resemble the data of models.
std::uint64_t outlier_bits(const Recipe&, const Position&);
std::uint64_t post_softmax_bits(const Recipe&, const Position&);
std::uint64_t mel_bits(const Recipe&, const Position&);
std::uint64_t underflow_bits(const Recipe&, const Position&);
std::uint64_t vanishing_bits(const Recipe&, const Position&);

}  // namespace assay::draws
