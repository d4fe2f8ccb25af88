// SPDX-License-Identifier: Apache-2.0
#include "probes/run/random_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>
#include <span>
#include <stdexcept>

#include "probes/run/arena.hpp"
#include "reference/philox.hpp"

namespace assay {

namespace {

constexpr std::uint32_t stream = 0x5A3D0;  // Philox stream, far from those of operands (1, 2, 3, ...)
constexpr int attempts = 2000;
constexpr double usual_flops = 5e7, rare_flops = 1e9;
constexpr std::size_t most_bytes = std::size_t{256} << 20;

/// A size is drawn up to `most`; a key that has a default keeps it, but for one case in `one_in`.
struct Size {
  std::string_view op, key;
  std::int64_t most;
  std::uint32_t one_in = 4;
};
constexpr Size sizes[] = {
    {"gemm", "m", 700},
    {"gemm", "n", 700},
    {"gemm", "k", 2100},
    {"gemm", "batch", 9},
    {"softmax", "rows", 300},
    {"softmax", "n", 33000},
    {"activation", "rows", 300},
    {"activation", "n", 33000},
    {"layernorm", "rows", 300},
    {"layernorm", "n", 33000},
    {"layernorm", "offset", 20},
    {"conv1d", "n", 5},
    {"conv1d", "cin", 130},
    {"conv1d", "cout", 130},
    {"conv1d", "l", 1100},
    {"conv1d", "k", 31},
    {"conv1d", "stride", 4},
    {"conv1d", "dilation", 5},
    {"conv1d", "padl", 40, 2},
    {"conv1d", "padr", 40, 2},
    {"conv_transpose1d", "n", 5},
    {"conv_transpose1d", "cin", 130},
    {"conv_transpose1d", "cout", 130},
    {"conv_transpose1d", "l", 500},
    {"conv_transpose1d", "k", 31},
    {"conv_transpose1d", "stride", 9, 2},
    {"conv_transpose1d", "dilation", 4},
    {"conv_transpose1d", "padl", 20},
    {"conv_transpose1d", "padr", 20},
    {"conv_transpose1d", "outpad", 4},
    {"attention", "b", 4},
    {"attention", "hq", 8, 2},
    {"attention", "sq", 300},
    {"attention", "skv", 600, 2},
    {"attention", "d", 256, 2},
    {"attention", "dv", 256},
    {"attention", "window", 200},
};
/// Keys that must divide others.
struct Divisor {
  std::string_view op, key, a, b;
};
constexpr Divisor divisors[] = {
    {"conv1d", "groups", "cin", "cout"}, {"conv_transpose1d", "groups", "cin", "cout"}, {"attention", "hkv", "hq", "hq"}};
/// Numbers worth a try beside the default; no other value is drawn.
struct Values {
  std::string_view key;
  std::array<std::string_view, 6> values;
};
constexpr Values values[] = {{"alpha", {"0", "2", "-1", "0.5", "0.3", "1e-3"}},
                             {"beta", {"1", "2", "-1", "0.5", "0.3", "-0.7"}},
                             {"scale", {"1", "0.125", "-0.5", "0.1", "2", "0.03"}}};
/// Tile widths of libraries and kernels, and lengths at which some change their path.
constexpr std::int64_t edges[] = {6,   12,  24,  48,  80,  96,   112,  160,  192,  240,
                                  320, 384, 448, 640, 768, 1280, 1500, 1536, 3000, 10000};

class Draw {
 public:
  Draw(std::uint64_t seed, std::uint64_t k, std::uint32_t attempt) : seed_(seed), k_(k), attempt_(attempt) {}

  std::uint32_t below(std::uint64_t n) { return static_cast<std::uint32_t>(word() * n >> 32); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }
  template <class T>
  T of(std::span<const T> all) {
    return all[below(all.size())];
  }

  /// 1 (one case in 40: 0) to most: small, a power of two, or an edge, each give or take one or its multiples; or anything.
  std::int64_t size(std::int64_t most) {
    if (one_in(40)) return 0;
    std::int64_t x = 0;
    const int bits = std::bit_width(static_cast<std::uint64_t>(most));
    switch (below(5)) {
      case 0:
        x = 1 + below(20);
        break;
      case 1:
        x = (std::int64_t{1} << below(static_cast<std::uint64_t>(bits))) + below(3) - 1;
        break;
      case 2:
        x = of(std::span<const std::int64_t>(edges)) + below(3) - 1;
        break;
      case 3:
        x = (std::int64_t{8} << below(5)) * (1 + below(8)) + below(3) - 1;
        break;
      default:  // evenly by magnitude
        x = (std::int64_t{1} << below(static_cast<std::uint64_t>(bits)));
        x += below(static_cast<std::uint64_t>(x));
    }
    return std::clamp<std::int64_t>(x, 1, most);
  }

 private:
  std::uint64_t word() {
    if (at_ % 4 == 0) block_ = philox_element(seed_, stream + attempt_, k_, static_cast<std::uint32_t>(at_ / 4));
    return block_[at_++ % 4];
  }

  std::uint64_t seed_, k_;
  std::uint32_t attempt_;
  std::size_t at_ = 0;
  PhiloxCounter block_{};
};

std::string draw_integer(Draw& d, std::string_view op, const Parameter& p, const CaseId& id) {
  for (const Divisor& rule : divisors)
    if (rule.op == op && rule.key == p.name) {
      const std::int64_t all = std::gcd(id.integer(rule.a), id.integer(rule.b));
      if (!d.one_in(3) || all == 0) return std::string(p.fallback);
      std::vector<std::int64_t> fit;
      for (std::int64_t g = 1; g <= all; ++g)
        if (all % g == 0) fit.push_back(g);
      return std::to_string(d.of(std::span<const std::int64_t>(fit)));
    }
  for (const Size& s : sizes)
    if (s.op == op && s.key == p.name) {
      if (!p.fallback.empty() && !d.one_in(s.one_in)) return std::string(p.fallback);
      return std::to_string(std::max<std::int64_t>(d.size(s.most), static_cast<std::int64_t>(p.least)));
    }
  if (p.name == "seed") return std::to_string(1 + d.below(0xFFFFFFFF));
  if (p.name == "repeat") return d.one_in(8) ? "3" : std::string(p.fallback);
  if (p.name == "callers") return d.one_in(16) ? std::to_string(2 + d.below(2)) : std::string(p.fallback);
  if (p.most == 1) return std::to_string(d.below(2));  // a switch
  // Paddings, gaps and misalignments.
  return d.one_in(5) ? std::to_string(1 + d.below(p.most < 64 ? static_cast<std::uint64_t>(p.most) : 17))
                     : std::string(p.fallback);
}

std::string draw_value(Draw& d, std::string_view op, const Parameter& p, const CaseId& id) {
  if (p.kind == ParameterKind::integer) return draw_integer(d, op, p, id);
  if (p.name == "queue") return std::string(p.fallback);  // of devices; a library on a CPU has none
  if (p.kind == ParameterKind::word)
    return std::string(d.one_in(3) && p.name != "fill" ? p.fallback : d.of(std::span<const std::string_view>(p.choices)));
  for (const Values& v : values)
    if (v.key == p.name && d.one_in(3)) return std::string(d.of(std::span<const std::string_view>(v.values)));
  return std::string(p.fallback);
}

}  // namespace

RandomCases::RandomCases(std::uint64_t seed, const std::vector<std::string>& ops) : seed_(seed) {
  for (const std::string& op : ops) ops_.push_back(&find_op(op));
  if (ops_.empty())
    for (const Op& op : all_ops()) ops_.push_back(&op);
}

std::string RandomCases::draw(std::uint64_t k) {
  for (std::uint32_t attempt = 0; attempt < attempts; ++attempt) {
    Draw d(seed_, k, attempt);
    // The same operation at every attempt: one whose combinations are often refused would be drawn too seldom.
    const Op& op = *ops_[Draw(seed_, k, attempts).below(ops_.size())];
    const double most_flops = d.one_in(50) ? rare_flops : usual_flops;
    CaseId id{std::string(op.name), {}};
    for (const Parameter& p : op.grammar) id.values.emplace_back(p.name, draw_value(d, op.name, p, id));
    try {
      const std::string text = to_string(id, op.grammar);
      const Problem problem = make_problem(text);
      if (problem.flops <= most_flops && lay_out(problem).total_bytes <= most_bytes) return canonical(text);
    } catch (const CaseError&) {
    }
    ++redrawn_;
  }
  throw std::logic_error(fmt::format("no case was drawn for number {} of seed {} in {} attempts", k, seed_, attempts));
}

}  // namespace assay
