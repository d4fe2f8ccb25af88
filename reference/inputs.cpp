// SPDX-License-Identifier: Apache-2.0
// Names and properties of the input families, and the walk over an operand's elements.

#include "reference/inputs.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>

#include "reference/families.hpp"
#include "reference/rows.hpp"

namespace assay {

namespace {

struct FamilyRow {
  Family family;
  std::string_view name;
  bool exchangeable;
  bool exact;
};

// Not exchangeable: terms in pairs (cancel), terms that repeat (two_level and the integer families: rounding errors of
// equal terms are not independent), channels and frames that all rows share (outlier, mel), special values and numbers near
// the smallest (judged by class and by the rigorous bound).
constexpr FamilyRow rows[] = {
    {Family::integer, "integer", false, true},
    {Family::reveal, "reveal", false, true},
    {Family::position, "position", false, true},
    {Family::ones, "ones", false, true},
    {Family::sign, "sign", false, true},
    {Family::normal, "normal", true, false},
    {Family::uniform, "uniform", true, false},
    {Family::heavy, "heavy", true, false},
    {Family::wide, "wide", true, false},
    {Family::cancel, "cancel", false, false},
    {Family::two_level, "two_level", false, false},
    {Family::nan_one, "nan_one", false, false},
    {Family::inf_one, "inf_one", false, false},
    {Family::subnormal, "subnormal", false, false},
    {Family::dyadic, "dyadic", false, false},
    {Family::one_hot, "one_hot", false, false},
    {Family::constant, "constant", false, false},
    {Family::masked, "masked", false, false},
    {Family::all_masked, "all_masked", false, false},
    {Family::extreme, "extreme", false, false},
    {Family::shifted, "shifted", false, false},
    {Family::offset, "offset", false, false},
    {Family::balanced, "balanced", false, false},
    {Family::patterns, "patterns", false, false},
    {Family::outlier, "outlier", false, false},
    {Family::post_softmax, "post_softmax", true, false},
    {Family::mel, "mel", false, false},
    {Family::underflow, "underflow", false, false},
    {Family::vanishing, "vanishing", false, false},
};

// post_softmax last: signal_families() are the others.
constexpr Family products[] = {Family::integer,   Family::reveal,    Family::position,    Family::ones,      Family::sign,
                               Family::normal,    Family::uniform,   Family::heavy,       Family::wide,      Family::cancel,
                               Family::two_level, Family::nan_one,   Family::inf_one,     Family::subnormal, Family::outlier,
                               Family::mel,       Family::underflow, Family::post_softmax};

constexpr Family logits[] = {Family::normal,     Family::uniform, Family::heavy,   Family::two_level, Family::nan_one,
                             Family::inf_one,    Family::dyadic,  Family::one_hot, Family::constant,  Family::masked,
                             Family::all_masked, Family::extreme, Family::shifted, Family::vanishing};

constexpr Family activations[] = {Family::normal,  Family::uniform,  Family::heavy,    Family::two_level, Family::nan_one,
                                  Family::inf_one, Family::constant, Family::extreme,  Family::shifted,   Family::subnormal,
                                  Family::offset,  Family::balanced, Family::patterns, Family::outlier};

constexpr auto listed = [] {
  std::array<Family, std::size(rows)> families{};
  for (std::size_t i = 0; i < families.size(); ++i) families[i] = rows[i].family;
  return families;
}();

const FamilyRow& row(Family f) {
  return rows[static_cast<std::size_t>(f)];
}

/// One axis of the walk: its extent, and how far the target and the position move per step.
struct Axis {
  std::int64_t extent = 1;
  std::int64_t out = 0;
  Position step;
};

/// Axes of an operand in logical order, `out` still zero. Broadcast axes do not move the position: what is stored once has
/// one value.
std::vector<Axis> axes_of(const Operand& o, const FillRule& rule, bool addend) {
  std::vector<Axis> axes(o.dims.size());
  std::uint64_t index = 1, line = 1, contracted = 1;
  for (std::size_t a = axes.size(); a-- > 0;) {
    axes[a].extent = o.dims[a];
    if (o.strides[a] == 0) continue;
    const auto extent = static_cast<std::uint64_t>(o.dims[a]);
    const bool inner =
        !addend && static_cast<int>(a) >= rule.inner_axis && static_cast<int>(a) < rule.inner_axis + rule.inner_axes;
    const bool outer = static_cast<int>(a) == rule.outer_axis;
    axes[a].step.index = index;
    index *= extent;
    if (inner) axes[a].step.inner = contracted, contracted *= extent;
    if (addend ? outer : !inner) {
      axes[a].step.line = line;
      line *= extent;
    }
  }
  return axes;
}

Recipe recipe_of(const Operand& o, const FillRule& rule, std::uint64_t seed) {
  const auto rank = static_cast<int>(o.dims.size());
  if (o.dims.size() != o.strides.size() || rule.outer_axis < 0 || rule.outer_axis >= rank || rule.inner_axis < 0 ||
      rule.inner_axes < 1 || rule.inner_axis + rule.inner_axes > rank)
    throw std::invalid_argument("fill rule of operand " + o.role + " names axes " + std::to_string(rule.outer_axis) + " and " +
                                std::to_string(rule.inner_axis) + " of " + std::to_string(rank) +
                                " dims: give axes below the number of dims, and one stride per dim");
  if (rule.family == Family::integer && rule.limit < 1)
    throw std::invalid_argument("integer fill of operand " + o.role + " has limit " + std::to_string(rule.limit) +
                                ", expected at least 1: such a fill is all zeros and cannot fail");
  if (!holds(o.dtype, rule.family))
    throw std::invalid_argument("input family " + std::string(name(rule.family)) + " does not fit format " +
                                std::string(name(o.dtype)) + " of operand " + o.role +
                                ": use integer, reveal, ones, sign or patterns there (fp8 also normal, uniform)");
  Recipe r{.format = &format(o.dtype), .rule = rule, .seed = seed, .stream = o.stream};
  // C is read and written, or has no contracted axis of its own.
  r.addend = o.access != Access::in || rule.inner_axis == rule.outer_axis;
  const auto inner = static_cast<std::size_t>(rule.inner_axis), last = inner + static_cast<std::size_t>(rule.inner_axes) - 1;
  r.length = 1;
  for (std::size_t a = inner; a <= last; ++a) r.length *= static_cast<std::uint64_t>(o.dims[a]);
  r.inner_step = axes_of(o, rule, r.addend)[last].step.index;
  r.count = 1;
  for (std::size_t a = 0; a < o.dims.size(); ++a)
    if (o.strides[a] != 0) r.count *= static_cast<std::uint64_t>(o.dims[a]);
  return r;
}

template <class Word>
void store(const std::uint64_t* bits, std::int64_t count, std::int64_t stride, std::byte* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto word = static_cast<Word>(bits[i]);
    std::memcpy(out + i * stride * static_cast<std::int64_t>(sizeof word), &word, sizeof word);
  }
}

/// Draws every element and stores it, `size` bytes each, `out` elements from `origin`; the narrowest stride is innermost.
/// Elements are pure functions of their position, so chunks may be drawn in any order by any thread.
void walk(const Recipe& r, std::vector<Axis> axes, std::size_t size, std::byte* origin) {
  constexpr std::int64_t chunk = 512;
  constexpr std::int64_t parallel_from = 1 << 16;  // elements, about 1 ms
  std::stable_sort(axes.begin(), axes.end(), [](const Axis& x, const Axis& y) {
    return x.extent == 1 ? y.extent != 1 : y.extent != 1 && std::abs(x.out) > std::abs(y.out);
  });
  const Axis last = axes.back();
  std::int64_t lines = 1;
  for (std::size_t a = 0; a + 1 < axes.size(); ++a) lines *= axes[a].extent;
  const std::int64_t chunks = (last.extent + chunk - 1) / chunk;
#pragma omp parallel for schedule(static) if (lines * last.extent >= parallel_from)
  for (std::int64_t task = 0; task < lines * chunks; ++task) {
    const std::int64_t from = task % chunks * chunk, count = std::min(chunk, last.extent - from);
    std::int64_t out = from * last.out;
    Position p{.index = static_cast<std::uint64_t>(from) * last.step.index,
               .line = static_cast<std::uint64_t>(from) * last.step.line,
               .inner = static_cast<std::uint64_t>(from) * last.step.inner};
    std::int64_t rest = task / chunks;
    for (std::size_t a = axes.size() - 1; a-- > 0; rest /= axes[a].extent) {
      const std::int64_t i = rest % axes[a].extent;
      out += i * axes[a].out;
      p.index += static_cast<std::uint64_t>(i) * axes[a].step.index;
      p.line += static_cast<std::uint64_t>(i) * axes[a].step.line;
      p.inner += static_cast<std::uint64_t>(i) * axes[a].step.inner;
    }
    std::uint64_t bits[chunk];
    draw(r, p, last.step, count, bits);
    std::byte* const at = origin + out * static_cast<std::int64_t>(size);
    switch (size) {
      case 1:
        store<std::uint8_t>(bits, count, last.out, at);
        break;
      case 2:
        store<std::uint16_t>(bits, count, last.out, at);
        break;
      case 4:
        store<std::uint32_t>(bits, count, last.out, at);
        break;
      default:
        store<std::uint64_t>(bits, count, last.out, at);
        break;
    }
  }
}

/// The operand without the zeros at either end of its last axis.
Operand without_zeros(Operand o, FillRule& rule) {
  if (o.dims.empty() || rule.zeros_before < 0 || rule.zeros_after < 0 || rule.zeros_before + rule.zeros_after > o.dims.back())
    throw std::invalid_argument("fill rule of operand " + o.role + " puts " + std::to_string(rule.zeros_before) + " and " +
                                std::to_string(rule.zeros_after) + " zeros at the ends of an axis that is shorter");
  o.dims.back() -= rule.zeros_before + rule.zeros_after;
  o.offset += rule.zeros_before * o.strides.back();
  o.span = std::max<std::int64_t>(0, o.span - rule.zeros_before * o.strides.back());
  rule.zeros_before = rule.zeros_after = 0;
  return o;
}

}  // namespace

std::string_view name(Family f) {
  return row(f).name;
}

std::optional<Family> parse_family(std::string_view name) {
  for (const FamilyRow& r : rows)
    if (r.name == name) return r.family;
  return std::nullopt;
}

std::span<const Family> all_families() {
  return listed;
}

std::span<const Family> product_families() {
  return products;
}
std::span<const Family> signal_families() {
  return product_families().first(std::size(products) - 1);
}
std::span<const Family> activation_families() {
  return activations;
}
std::span<const Family> logit_families() {
  return logits;
}

bool exchangeable(Family f) {
  return row(f).exchangeable;
}
bool exact(Family f) {
  return row(f).exact;
}
bool underflows(Family f) {
  return f == Family::subnormal || f == Family::underflow || f == Family::vanishing;
}

std::vector<std::uint64_t> generate(const Operand& o, const FillRule& rule, std::uint64_t seed) {
  if (rule.zeros_before != 0 || rule.zeros_after != 0) {
    FillRule inside = rule;
    const Operand drawn = without_zeros(o, inside);
    const std::vector<std::uint64_t> bits = generate(drawn, inside, seed);
    std::vector<std::uint64_t> padded(static_cast<std::size_t>(element_count(o)));
    const auto length = static_cast<std::size_t>(drawn.dims.back()), row = static_cast<std::size_t>(o.dims.back());
    for (std::size_t from = 0, to = static_cast<std::size_t>(rule.zeros_before); from < bits.size(); from += length, to += row)
      std::copy_n(bits.begin() + static_cast<std::ptrdiff_t>(from), length, padded.begin() + static_cast<std::ptrdiff_t>(to));
    return padded;
  }
  const Recipe r = recipe_of(o, rule, seed);
  std::vector<std::uint64_t> bits(static_cast<std::size_t>(element_count(o)));
  if (bits.empty()) return bits;
  std::vector<Axis> axes = axes_of(o, rule, r.addend);
  std::int64_t logical = 1;
  for (std::size_t a = axes.size(); a-- > 0; logical *= axes[a].extent) axes[a].out = logical;
  walk(r, axes, sizeof(std::uint64_t), reinterpret_cast<std::byte*>(bits.data()));
  return bits;
}

void fill(const Operand& o, const FillRule& rule, std::uint64_t seed, std::span<std::byte> storage) {
  require_storage(o, storage);
  if (rule.zeros_before != 0 || rule.zeros_after != 0) {
    const std::size_t size = size_bytes(o.dtype);
    for (std::int64_t i = 0; i < element_count(o); ++i)
      std::memset(storage.data() + static_cast<std::size_t>(storage_index(o, i)) * size, 0, size);
    if (element_count(o) == 0) return;
    FillRule inside = rule;
    const Operand drawn = without_zeros(o, inside);
    return fill(drawn, inside, seed, storage);
  }
  const Recipe r = recipe_of(o, rule, seed);
  if (element_count(o) == 0) return;
  std::vector<Axis> axes = axes_of(o, rule, r.addend);
  for (std::size_t a = 0; a < axes.size(); ++a) {
    axes[a].out = o.strides[a];
    if (o.strides[a] == 0) axes[a].extent = 1;
  }
  walk(r, axes, size_bytes(o.dtype), storage.data() + o.offset * static_cast<std::int64_t>(size_bytes(o.dtype)));
}

bool holds(DType t, Family family) {
  if (stored_bits(t) > 8 && !is_integer(t)) return true;
  switch (family) {
    case Family::integer:
    case Family::reveal:
    case Family::ones:
    case Family::sign:
    case Family::patterns:
      return true;
    case Family::normal:
    case Family::uniform:
      return !is_integer(t);
    default:
      return false;
  }
}

std::int64_t integer_limit(std::int64_t k, int exact_bits, DType operand) {
  // 2^10 is enough for every product to tell in fp32; fp64 needs sums beyond 2^24, or a product computed in fp32 would be exact
  // too.
  // int8 ends one short of 2^7.
  const std::int64_t cap = (std::int64_t{1} << std::min(operand == DType::f64 ? 20 : 10, format(operand).precision)) -
                           (operand == DType::i8 ? 1 : 0);
  if (exact_bits < 0) return 0;
  if (k <= 0) return cap;
  const std::int64_t largest_square = ((std::int64_t{1} << std::min(exact_bits, 62)) - (is_integer(operand) ? 1 : 0)) /
                                      k;  // L*L <= floor(2^bits / k), and a sum of 2^31 is not an int32
  std::int64_t limit = 0;                 // integer square root, bit by bit
  for (int bit = 30; bit >= 0; --bit) {
    const std::int64_t more = limit | std::int64_t{1} << bit;
    if (more * more <= largest_square) limit = more;
  }
  return std::min(limit, cap);
}

}  // namespace assay
