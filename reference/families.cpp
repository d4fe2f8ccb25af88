// SPDX-License-Identifier: Apache-2.0
// The input families. Every value is a sign, an integer and a power of two, rounded once into the operand's format.

#include "reference/families.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "reference/family_draws.hpp"

namespace assay {

namespace {

using namespace draws;

std::uint64_t integer_bits(const Recipe& r, const Position& p, std::int64_t limit) {
  const PhiloxCounter w = words(r, p.index);
  return encoded(r,
                 signed_value(static_cast<std::int64_t>(below(w[0], w[1], 2 * static_cast<std::uint64_t>(limit) + 1)) - limit));
}

/// A: odd, top bit set, so that any format with fewer bits must round it. B (and an addend): -1, 0, 1.
std::uint64_t reveal_bits(const Recipe& r, const Position& p) {
  if (!r.rule.left || r.addend) return integer_bits(r, p, 1);
  const PhiloxCounter w = words(r, p.index);
  const int bits = reveal_bits(r.format->dtype);
  const std::uint64_t top = std::uint64_t{1} << (bits - 1);
  return encoded(r, {(w[1] & 1) != 0, top | (w[0] & (top - 2)) | 1, 0});
}

/// A: row `line` has its 1 at (line * stride + offset) mod k; the stride is prime to k, so k rows in turn use every l.
/// B: code index + 1, unique while the format holds it. An addend: small integers, told apart from codes by their size.
struct PositionCode {
  explicit PositionCode(const Recipe& r) {
    const PhiloxCounter w = words(r, 0, per_tensor);
    offset = below(w[0], r.length);
    stride = 1 + below(w[1], r.length);
    while (std::gcd(stride, r.length) != 1) stride = stride % r.length + 1;
  }
  std::uint64_t operator()(const Recipe& r, const Position& p) const {
    if (r.addend) return integer_bits(r, p, 8);
    if (r.rule.left) {
      const bool here = static_cast<std::uint64_t>((Wide{p.line} * stride + offset) % r.length) == p.inner;
      return encoded(r, {false, here ? 1u : 0u, 0});
    }
    return encoded(r, {false, p.index % (std::uint64_t{1} << r.format->precision) + 1, 0});
  }
  std::uint64_t offset = 0, stride = 1;
};

std::uint64_t sign_bits(const Recipe& r, const Position& p) {
  return encoded(r, {(words(r, p.index)[0] >> 31) != 0, 1, 0});
}

/// 24 random bits (fp64: 53), cut to the format toward zero: rounding to nearest could reach 1.
std::uint64_t uniform_bits(const Recipe& r, const Position& p) {
  const PhiloxCounter w = words(r, p.index);
  if (r.format->dtype == DType::f64)
    return encode_integer(*r.format, false, (std::uint64_t{w[0]} << 32 | w[1]) >> 11, -53 + r.rule.exponent);
  return encode_integer(*r.format, false, w[0] >> 8, -24 + r.rule.exponent, false, Rounding::toward_zero);
}

/// P(g) = 2^-(g+1). The cap keeps products of two fp16 operands, and their sums, inside fp16.
std::uint64_t heavy_bits(const Recipe& r, const Position& p) {
  const int cap = r.format->dtype == DType::f16 ? 6 : 32;
  Value v = normal(r, p.index);
  v.exponent += std::min(std::countl_zero(words(r, p.index, element_more)[0]), cap);
  return encoded(r, v);
}

/// 2^-20..2^20; fp16 2^-8..2^4, so that a product of two scaled operands still leaves room for the sum.
std::uint64_t wide_bits(const Recipe& r, const Position& p) {
  const bool narrow = r.format->dtype == DType::f16;
  const int least = narrow ? -8 : -20, most = narrow ? 4 : 20;
  Value v = normal(r, p.index);
  v.exponent += least + static_cast<int>(below(words(r, p.line, per_line)[0], static_cast<std::uint64_t>(most - least + 1)));
  return encoded(r, v);
}

/// With h = k/2: A[l+h] = A[l] and B[l+h] = -B[l], bit for bit. What remains of each sum is small: for odd k the last term,
/// a sixteenth of an ordinary one; for even k one pair per column of B, whose second half is 15/16 of the first.
std::uint64_t cancel_bits(const Recipe& r, const Position& p) {
  const std::uint64_t half = r.length / 2;
  if (r.addend || p.inner == 2 * half) {
    Value v = normal(r, p.index);
    if (r.addend || !r.rule.left) v.exponent -= 4;
    return encoded(r, v);
  }
  if (p.inner < half) return normal_bits(r, p);
  const std::uint64_t first = encoded(r, normal(r, p.index - half * r.inner_step));
  if (r.rule.left) return first;
  const bool remainder = r.length % 2 == 0 && below(words(r, p.line, per_line)[0], half) == p.inner - half;
  if (!remainder) return first ^ sign_bit(*r.format);
  Value v = normal(r, p.index - half * r.inner_step);
  return encoded(r, {!v.negative, v.significand - v.significand / 16, v.exponent});
}

/// num/den (num < 16) rounded once: 60 fraction bits, and whether anything is left.
std::uint64_t fraction_bits(const Recipe& r, bool negative, std::uint64_t num, std::uint64_t den) {
  const std::uint64_t q = (num << 60) / den;
  return encode_integer(*r.format, negative, q, -60 + r.rule.exponent, (num << 60) % den != 0);
}

/// Two values with endless binary expansions and one sign per line: sums of equal products round the same way again and
/// again. Half of the lines switch value once along k (long runs), half at random.
std::uint64_t two_level_bits(const Recipe& r, const Position& p) {
  constexpr std::array<std::array<std::uint64_t, 2>, 8> fractions = {
      {{1, 3}, {1, 10}, {2, 3}, {7, 10}, {3, 7}, {5, 9}, {6, 11}, {9, 13}}};
  const PhiloxCounter w = words(r, p.line, per_line);
  const std::uint64_t one = w[0] & 7, other = (one + 1 + below(w[1], 7)) & 7;
  const bool runs = (w[0] >> 3 & 1) != 0, negative = (w[0] >> 4 & 1) != 0;
  const bool second = runs && !r.addend ? p.inner >= below(w[2], r.length + 1) : (words(r, p.index)[0] >> 31) != 0;
  const auto [num, den] = fractions[second ? other : one];
  return fraction_bits(r, negative, num, den);
}

struct NanOne {
  explicit NanOne(const Recipe& r) {
    const PhiloxCounter w = words(r, 0, per_tensor);
    at = below(w[0], w[1], r.count);
  }
  std::uint64_t operator()(const Recipe& r, const Position& p) const {
    if (r.rule.left && !r.addend && p.index == at) return quiet_nan_bits(*r.format);
    return normal_bits(r, p);
  }
  std::uint64_t at = 0;
};

/// A has +Inf at one row and one l; both operands know that l from the seed and k. In row l of B every third column is
/// zero (Inf * 0 = NaN), the others alternate sign (+Inf, -Inf).
struct InfOne {
  explicit InfOne(const Recipe& r) {
    inner = below(philox_element(r.seed, shared_stream, r.length, per_contraction)[0], r.length);
    const PhiloxCounter w = words(r, 0, per_tensor);
    line = below(w[0], w[1], r.count / r.length);
    shift = w[2] % 3;
  }
  std::uint64_t operator()(const Recipe& r, const Position& p) const {
    if (r.addend || p.inner != inner) return normal_bits(r, p);
    if (r.rule.left) return p.line == line ? infinity_bits(*r.format) : normal_bits(r, p);
    const std::uint64_t third = (p.line + shift) % 3;
    return third == 0 ? 0 : third == 1 ? normal_bits(r, p) & ~sign_bit(*r.format) : normal_bits(r, p) | sign_bit(*r.format);
  }
  std::uint64_t inner = 0, line = 0, shift = 0;
};

/// Small integers times powers of two, so that every product is an integer multiple of 2^grid, subnormal, and exact.
/// Three kinds of term take turns along k: a subnormal A times an integer, an integer times a subnormal B, and two normal
/// factors with a subnormal product. The grid is 16 steps above the smallest subnormal, so that a scalar of a few bits
/// does not push it out and the accumulator's underflow term stays far below the signal. bf16 has no room for the 16.
std::uint64_t subnormal_bits(const Recipe& r, const Position& p) {
  const Format& f = *r.format;
  const int smallest = f.emin - (f.precision - 1);
  const int grid = f.dtype == DType::bf16 ? smallest : smallest + 4;
  // bf16 operands with an fp32 result: two normal factors can reach the grid of fp32.
  const int product_grid = f.dtype == DType::bf16 ? -145 : grid;
  const PhiloxCounter w = words(r, p.index);
  const int magnitude = 1 + static_cast<int>(below(w[0], 7));
  Value v{(w[1] & 1) != 0, static_cast<std::uint64_t>(magnitude), 0};
  const std::uint64_t kind = p.inner % 3;
  if (r.addend)
    v.exponent = grid;
  else if (kind == 2)
    v.exponent = r.rule.left ? -(-product_grid / 2) : product_grid + -product_grid / 2;
  else if ((kind == 0) == r.rule.left)
    v.exponent = grid;
  return encoded(r, v);
}

// Rows of logits. Integers times 2^-45 like the normal family's, so an offset up to 2^14 is added exactly.
constexpr std::int64_t logit_one = std::int64_t{1} << 45;
std::int64_t logit_normal(const PhiloxCounter& w) {
  return 657529896 * normal_sum(w);
}

/// Halves: at most 120 of them either way, 7 bits, so exact in every format.
std::uint64_t dyadic_bits(const Recipe& r, const Position& p) {
  return encoded(r, signed_value(normal_sum(words(r, p.index)) * 30 >> 16, -1));
}

/// The others stay within 4.9 of zero, so the gap is at least 123 (exp(-123) is zero in fp32), 1019 (in fp64), or 11.
std::uint64_t one_hot_bits(const Recipe& r, const Position& p) {
  const PhiloxCounter w = words(r, p.line, per_line);
  if (p.inner != below(w[0], r.length)) return normal_bits(r, p);
  const std::uint64_t far = r.format->dtype == DType::f64 ? 1024 : 128;
  return encoded(r, {false, (w[1] & 1) != 0 ? far : 16, 0});
}

std::uint64_t constant_bits(const Recipe& r, const Position& p) {
  return encoded(r, signed_value(logit_normal(words(r, p.line, per_line)), -45));
}

std::uint64_t masked_bits(const Recipe& r, const Position& p) {
  const PhiloxCounter w = words(r, p.line, per_line);
  const bool leading = (w[0] & 1) != 0;
  const std::uint64_t kept = below(w[1], r.length), eighths = 1 + below(w[2], 7);
  const bool hidden = leading ? p.inner < kept : p.inner != kept && words(r, p.index, element_more)[0] >> 29 < eighths;
  return hidden ? infinity_bits(*r.format) | sign_bit(*r.format) : normal_bits(r, p);
}

struct AllMasked {
  explicit AllMasked(const Recipe& r) {
    const PhiloxCounter w = words(r, 0, per_tensor);
    line = below(w[0], w[1], r.count / r.length);
  }
  std::uint64_t operator()(const Recipe& r, const Position& p) const {
    return p.line == line ? infinity_bits(*r.format) | sign_bit(*r.format) : masked_bits(r, p);
  }
  std::uint64_t line = 0;
};

std::uint64_t extreme_bits(const Recipe& r, const Position& p) {
  const std::uint32_t kind = words(r, p.line, per_line)[0] & 3;
  const bool positive = kind == 2 || (kind == 3 && (words(r, p.index, element_more)[0] & 1) != 0);
  return encoded(r, signed_value((positive ? 10000 : -10000) * logit_one + 8 * logit_normal(words(r, p.index)), -45));
}

/// 2^6 to 2^13 of either sign; 16-bit formats 2^4 to 2^8, so that something is left of the normal part.
std::uint64_t shifted_bits(const Recipe& r, const Position& p) {
  const PhiloxCounter w = words(r, p.line, per_line);
  const bool narrow = r.format->bits == 16;
  const std::int64_t shift = logit_one << (narrow ? 4 + below(w[0], 5) : 6 + below(w[0], 8));
  return encoded(r, signed_value(((w[1] & 1) != 0 ? shift : -shift) + logit_normal(words(r, p.index)), -45));
}

/// 29 fraction bits of the normal part: more than any format but fp64 holds beside the offset.
std::uint64_t offset_bits(const Recipe& r, const Position& p) {
  const bool negative = (words(r, p.line, per_line)[0] & 1) != 0;
  const std::int64_t offset = std::int64_t{1} << (29 + std::min<std::int64_t>(r.rule.limit, 24));
  return encoded(r, signed_value((negative ? -offset : offset) + (657529896 * normal_sum(words(r, p.index)) >> 16), -29));
}

/// Neighbours along the row have opposite signs, at random which; the last of an odd row is 0.
std::uint64_t balanced_bits(const Recipe& r, const Position& p) {
  if ((p.inner | 1) >= r.length) return 0;
  const bool second = (p.inner & 1) != 0;
  const bool swapped = (words(r, p.index - (second ? r.inner_step : 0))[0] >> 31) != 0;
  return encoded(r, {second != swapped, 1, 0});
}

std::uint64_t pattern_bits(const Recipe& r, const Position& p) {
  if (r.format->bits <= 16) return p.index & ((std::uint64_t{1} << r.format->bits) - 1);
  const PhiloxCounter w = words(r, p.index);
  return r.format->bits == 32 ? w[0] : std::uint64_t{w[1]} << 32 | w[0];
}

/// An operand without a contracted axis has no rows of logits: it follows the normal family.
template <class Function>
auto rows_only(const Function& f) {
  return [f](const Recipe& r, const Position& p) { return r.addend ? normal_bits(r, p) : f(r, p); };
}

/// Weights and addends beside such data are normal.
template <class Function>
auto left_only(const Function& f) {
  return [f](const Recipe& r, const Position& p) { return r.addend || !r.rule.left ? normal_bits(r, p) : f(r, p); };
}

template <class Function>
void each(const Recipe& r, Position p, const Position& step, std::int64_t count, std::uint64_t* bits, const Function& f) {
  for (std::int64_t i = 0; i < count; ++i) {
    bits[i] = f(r, p);
    p.index += step.index;
    p.line += step.line;
    p.inner += step.inner;
  }
}

}  // namespace

int reveal_bits(DType operand) {
  return operand == DType::f64 ? 30 : std::min(13, format(operand).precision);
}

void draw(const Recipe& r, Position first, const Position& step, std::int64_t count, std::uint64_t* bits) {
  const auto with = [&](const auto& f) { each(r, first, step, count, bits, f); };
  const auto constant = [](std::uint64_t value) { return [value](const Recipe&, const Position&) { return value; }; };
  const std::int64_t limit = r.rule.limit;
  switch (r.rule.family) {
    case Family::integer:
      return with([limit](const Recipe& x, const Position& p) { return integer_bits(x, p, limit); });
    case Family::reveal:
      return with([](const Recipe& x, const Position& p) { return reveal_bits(x, p); });
    case Family::position:
      return with(PositionCode(r));
    case Family::ones:
      return with(constant(encoded(r, {false, 1, 0})));
    case Family::sign:
      return with(sign_bits);
    case Family::normal:
      return with(normal_bits);
    case Family::uniform:
      return with(uniform_bits);
    case Family::heavy:
      return with(heavy_bits);
    case Family::wide:
      return with(wide_bits);
    case Family::cancel:
      return with(cancel_bits);
    case Family::two_level:
      return with(two_level_bits);
    case Family::nan_one:
      return with(NanOne(r));
    case Family::inf_one:
      return with(InfOne(r));
    case Family::subnormal:
      return with(subnormal_bits);
    case Family::dyadic:
      return with(rows_only(dyadic_bits));
    case Family::one_hot:
      return with(rows_only(one_hot_bits));
    case Family::constant:
      return with(rows_only(constant_bits));
    case Family::masked:
      return with(rows_only(masked_bits));
    case Family::all_masked:
      return with(rows_only(AllMasked(r)));
    case Family::extreme:
      return with(rows_only(extreme_bits));
    case Family::shifted:
      return with(rows_only(shifted_bits));
    case Family::offset:
      return with(rows_only(offset_bits));
    case Family::balanced:
      return with(rows_only(balanced_bits));
    case Family::patterns:
      return with(rows_only(pattern_bits));
    case Family::outlier:
      return with(left_only(outlier_bits));
    case Family::post_softmax:
      return with(left_only(post_softmax_bits));
    case Family::mel:
      return with(left_only(mel_bits));
    case Family::underflow:
      return with(underflow_bits);
    case Family::vanishing:
      return with(rows_only(vanishing_bits));
  }
}

}  // namespace assay
