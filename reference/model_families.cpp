// SPDX-License-Identifier: Apache-2.0
// Families that resemble what models compute with: activations with outlier channels, attention weights, log-mel spectrograms,
// and numbers whose products or exponentials underflow.

#include <algorithm>

#include "reference/family_draws.hpp"

namespace assay::draws {

/// A channel is an index of the contracted axis. One is chosen for certain, of the others one in 64.
std::uint64_t outlier_bits(const Recipe& r, const Position& p) {
  const PhiloxCounter tensor = words(r, 0, per_tensor), channel = words(r, p.inner, per_channel);
  Value v = normal(r, p.index);
  if (p.inner == below(tensor[0], tensor[1], r.length) || channel[0] >> 26 == 0) v.exponent += 5 + (channel[1] & 1);
  return encoded(r, v);
}

/// share + (1 - share) w at one element of a row and (1 - share) w elsewhere, share in eighths, w = 5 U^4 / k, U uniform: the
/// mean of w is 1/k. In units of 2^-60, cut.
std::uint64_t post_softmax_bits(const Recipe& r, const Position& p) {
  const PhiloxCounter line = words(r, p.line, per_line);
  const std::uint64_t share = 1 + below(line[1], 7), u = words(r, p.index)[0] >> 16, square = u * u >> 16;
  const std::uint64_t numerator = (8 - share) * 5 * (square * square) << 25;  // of (8 - share) 5 U^4 2^57: below 2^63
  const std::uint64_t peak = p.inner == below(line[0], r.length) ? share << 57 : 0;
  return encode_integer(*r.format, false, peak + numerator / r.length, -60 + r.rule.exponent);
}

/// Uniform noise in units of 2^-32, straight lines between knots `1 << bits` frames apart. `at` gives the noise of a knot.
template <class Noise>
std::int64_t track(std::uint64_t time, int bits, const Noise& at) {
  const auto step = static_cast<std::int64_t>(time & ((std::uint64_t{1} << bits) - 1)), period = std::int64_t{1} << bits;
  const std::uint64_t knot = time >> bits;
  return ((period - step) * static_cast<std::int64_t>(at(knot)) + step * static_cast<std::int64_t>(at(knot + 1))) >> bits;
}

/// Whisper's normalisation: two units wide, what is below is the floor; the loudest frame at 1 to 1.5. Time runs along lines,
/// bands along the contracted axis: a loudness that all bands share, one that each band has, a level per band (in random order,
/// as if bands were permuted), noise. About a third of the elements is floor.
std::uint64_t mel_bits(const Recipe& r, const Position& p) {
  const auto loudness = [&](std::uint64_t knot) { return words(r, knot, per_time)[0]; };
  const auto own = [&](std::uint64_t knot) { return words(r, knot * r.length + p.inner, per_channel_and_time)[0]; };
  const std::int64_t level = words(r, p.inner, per_channel)[0], noise = words(r, p.index)[0];
  constexpr int unit = 36;  // fraction bits: sixteenths of 2^-32
  std::int64_t v = 42 * track(p.line, 5, loudness) + 14 * track(p.line, 3, own) + 8 * level + 5 * noise;
  v = std::clamp<std::int64_t>(v - (std::int64_t{29} << (unit - 4)), 0, std::int64_t{2} << unit);
  const std::int64_t floor = static_cast<std::int64_t>(words(r, 0, per_tensor)[0]) << (unit - 33);  // 0 to 1/2
  return encoded(r, signed_value(v + floor - (std::int64_t{1} << unit), -unit));
}

/// Normal times the square root of 2^-6 times the smallest normal number (an even exponent); an addend is as large as a
/// product. Sums of up to a thousand products stay below the smallest normal number, and each product loses bits.
std::uint64_t underflow_bits(const Recipe& r, const Position& p) {
  Value v = normal(r, p.index);
  const int half = r.format->emin / 2 - 3;
  v.exponent += r.addend ? 2 * half : half;
  return encoded(r, v);
}

/// One logit is 0; the exponentials of the others are spread from normal numbers to the smallest subnormal, a third of them
/// (fp16: half) subnormal.
std::uint64_t vanishing_bits(const Recipe& r, const Position& p) {
  if (p.inner == below(words(r, p.line, per_line)[0], r.length)) return 0;
  struct Range {
    std::uint64_t from, width;
  };
  const auto [from, width] = r.format->dtype == DType::f64   ? Range{640, 104}
                             : r.format->dtype == DType::f16 ? Range{4, 12}
                                                             : Range{60, 43};
  return encoded(r, {true, (from << 32) + width * words(r, p.index)[0], -32});
}

}  // namespace assay::draws
