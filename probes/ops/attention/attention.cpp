// SPDX-License-Identifier: Apache-2.0
// attention as an op: grammar, problem, truth and bound.
#include "probes/ops/attention/attention.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "probes/library/cudnn_graph.hpp"
#include "probes/ops/embedded_cases.hpp"
#include "reference/ops/gemm.hpp"
#include "reference/ops/softmax.hpp"
#include "reference/rows.hpp"

namespace assay::attention {

namespace {

constexpr double largest_dim = 1 << 22;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

constexpr Family families[] = {Family::normal,   Family::uniform, Family::heavy,        Family::two_level,
                               Family::integer,  Family::nan_one, Family::inf_one,      Family::one_hot,
                               Family::constant, Family::masked,  Family::all_masked,   Family::extreme,
                               Family::shifted,  Family::outlier, Family::post_softmax, Family::subnormal};

std::vector<Parameter> grammar() {
  using enum ParameterKind;
  return {
      {"b", integer, "1", 0, largest_dim, {}, "batch entries"},
      {"hq", integer, "1", 1, 4096, {}, "query heads"},
      {"hkv", integer, "0", 0, 4096, {}, "key and value heads, a divisor of hq; 0: as many as hq"},
      {"sq", integer, "", 0, largest_dim, {}, "queries"},
      {"skv", integer, "0", 0, largest_dim, {}, "keys; 0: as many as queries"},
      {"d", integer, "64", 1, 65536, {}, "width of queries and keys"},
      {"dv", integer, "0", 0, 65536, {}, "width of values; 0: as d"},
      {"scale", real, "0", -1024, 1024, {}, "factor on Q K^T, rounded to the format of the scores; 0: 1/sqrt(d)"},
      {"part",
       word,
       "whole",
       0,
       0,
       {"whole", "scores", "probabilities", "context"},
       "all of it, or one step from reference inputs: scale Q K^T + bias, its softmax, P V"},
      {"mask", word, "none", 0, 0, {"none", "causal", "causal_br"}, "causal from the top left or bottom right corner"},
      {"window", integer, "0", 0, largest_dim, {}, "keys that a query sees up to its diagonal, itself included; 0: all"},
      {"lens",
       word,
       "full",
       0,
       0,
       {"full", "varied", "empty"},
       "keys per batch entry: all; a variety from 1 to skv; that, and none in the last entry"},
      {"bias", word, "none", 0, 0, {"none", "shared", "head"}, "an addend of the scores, one for all heads or one each"},
      {"lse", integer, "0", 0, 1, {}, "1: also the log-sum-exp of each row of scores"},
      {"layout", word, "bhsd", 0, 0, {"bhsd", "bshd"}, "order of Q, K, V and O in memory"},
      {"pad", integer, "0", 0, 4096, {}, "elements between one head's vector and the next in Q, K, V and O"},
      {"in", word, "f32", 0, 0, {"f32", "f64", "bf16", "f16"}, "format of the inputs"},
      {"out", word, "same", 0, 0, {"same", "f32"}, "format of the output; f32 also for 16-bit inputs"},
      {"sigma",
       word,
       "1",
       0,
       0,
       {"1", "2", "4", "8", "16", "32"},
       "factor on the scores of a fill that has no scale of its own"},
      fill_parameter(families),
  };
}

std::int64_t or_default(std::int64_t value, std::int64_t fallback) {
  return value != 0 ? value : fallback;
}

/// (b, heads, s, width) in the order of `bshd`, vectors `pad` elements apart.
Operand heads(std::string role, DType t, Access access, const Call& c, std::int64_t n, std::int64_t s, std::int64_t width,
              std::int64_t pad, std::int64_t offset, std::uint32_t stream) {
  const std::int64_t step = width + pad;
  Operand o{
      .role = std::move(role), .dtype = t, .access = access, .dims = {c.b, n, s, width}, .offset = offset, .stream = stream};
  o.strides = c.bshd ? std::vector<std::int64_t>{s * n * step, step, n * step, 1}
                     : std::vector<std::int64_t>{n * s * step, s * step, step, 1};
  o.span = element_count(o) == 0 ? 0 : (c.b * n * s - 1) * step + width;
  return o;
}

Operand packed(std::string role, DType t, Access access, std::vector<std::int64_t> dims, std::int64_t offset,
               std::uint32_t stream) {
  Operand o{.role = std::move(role), .dtype = t, .access = access, .dims = std::move(dims), .offset = offset, .stream = stream};
  std::int64_t stride = 1;
  o.strides.resize(o.dims.size());
  for (std::size_t a = o.dims.size(); a-- > 0; stride *= o.dims[a]) o.strides[a] = stride;
  o.span = element_count(o);
  return o;
}

/// What each input holds under a fill of this op.
struct Fills {
  FillRule q{.outer_axis = 2, .inner_axis = 3}, k{.outer_axis = 2, .inner_axis = 3, .left = false},
      v{.outer_axis = 3, .inner_axis = 2, .left = false}, bias{.outer_axis = 1, .inner_axis = 2},
      logits{.outer_axis = 2, .inner_axis = 3}, weights{.outer_axis = 2, .inner_axis = 3};
};

/// Exponents of Q and K whose powers of two multiply to 2^e.
void share_exponent(Fills& f, int e) {
  f.k.exponent = e / 2, f.q.exponent = e - e / 2;
}

Fills fills_of(const Call& c, Family family, int sigma_exponent) {
  Fills f;
  f.logits.family = family, f.logits.exponent = sigma_exponent;
  share_exponent(f, sigma_exponent);
  const std::int64_t whole_sum = std::max<std::int64_t>(1, (std::int64_t{1} << 24) / std::max<std::int64_t>(1, c.skv));
  switch (family) {
    case Family::one_hot:
    case Family::constant: {
      // Scores are single products of powers of two: equal ones are equal in any arithmetic, unequal ones lie so far apart that
      // the smaller exponential is zero. V holds integers, so means over 2^m keys are exact.
      f.q.family = Family::position, f.k.family = family == Family::one_hot ? Family::position : Family::ones;
      f.k.left = family == Family::one_hot;
      share_exponent(
          f, c.scale == 0 ? 0 : static_cast<int>(std::ceil(std::log2((c.in == DType::f64 ? 1024 : 128) / std::fabs(c.scale)))));
      f.v.family = Family::integer;
      f.v.limit = std::min({whole_sum, std::int64_t{1} << format(c.in).precision, std::int64_t{1023}});
      break;
    }
    case Family::extreme:
      if (c.bias_heads > 0) {
        f.bias.family = Family::extreme;
      } else {
        // Whole rows near -2^7 sqrt(d)/2 or +2^7 sqrt(d)/2 under the default scale, +-512 at d = 64, peaked by the way.
        f.q.family = Family::offset, f.q.limit = 4, f.q.exponent = 0;
        f.k.family = Family::uniform, f.k.exponent = 3;
      }
      break;
    case Family::masked:
    case Family::all_masked:
    case Family::shifted:
      f.bias.family = family;
      break;
    case Family::nan_one:
    case Family::inf_one:
      (c.bias_heads > 0 ? f.bias : f.q).family = family;
      if (family == Family::inf_one && c.bias_heads == 0) f.k.family = family;
      f.weights.family = f.v.family = family;
      if (c.part == Part::whole) f.v.family = Family::normal;
      break;
    case Family::outlier:
      // Channels of K; Q and V are normal.
      f.k.family = family, f.k.left = true;
      break;
    case Family::post_softmax:
      f.weights.family = family;
      break;
    case Family::subnormal:
      // Values, and so their means: below the smallest normal number.
      f.v.exponent = format(c.in).emin - 3;
      break;
    case Family::integer:
      f.q.family = f.k.family = f.v.family = f.weights.family = f.bias.family = family;
      f.q.limit = f.k.limit = integer_limit(c.d, c.in == DType::f64 ? 51 : 22, c.in);
      f.v.limit = f.weights.limit = integer_limit(c.skv, c.in == DType::f64 ? 53 : 24, c.in);
      f.bias.limit = 8;
      break;
    default:
      f.q.family = f.k.family = f.v.family = f.bias.family = family;
      // Heavy scores leave one key with all the weight, and no power: of the whole only the values are heavy.
      if (family == Family::heavy && c.part == Part::whole) f.q.family = f.k.family = f.bias.family = Family::normal;
      break;
  }
  const bool own_weights =
      family == Family::integer || family == Family::nan_one || family == Family::inf_one || family == Family::post_softmax;
  if (!own_weights) f.weights.family = Family::uniform;
  return f;
}

void require_possible(const Call& c, Family family, std::int64_t sigma) {
  const auto refuse = [](const std::string& why) { throw CaseError(why); };
  if (c.hq % c.hkv != 0)
    refuse(fmt::format("hkv={} does not divide hq={}; every key head serves hq/hkv query heads", c.hkv, c.hq));
  if (c.part != Part::whole && c.lse) refuse("lse=1 belongs to part=whole; leave it away from one step of attention");
  if (family == Family::post_softmax && c.part != Part::context)
    refuse("fill=post_softmax is a fill of the weights; use it with part=context");
  const bool values = c.part == Part::whole || c.part == Part::context;
  if (family == Family::subnormal && !values)
    refuse("fill=subnormal is a fill of the values; use it with part=whole or part=context");
  if (family == Family::outlier && c.part != Part::whole && c.part != Part::scores)
    refuse("fill=outlier is a fill of the keys; use it with part=whole or part=scores");
  if (c.bias_heads > 0 && c.part != Part::whole && c.part != Part::scores)
    refuse("bias is an addend of the scores; use it with part=whole or part=scores");
  if (c.masks() && c.part == Part::context) refuse("part=context multiplies all of P; leave mask, window and lens away");
  if ((family == Family::integer) != (family == Family::integer && (c.part == Part::scores || c.part == Part::context)))
    refuse("fill=integer is exact only in products; use it with part=scores or part=context");
  const bool of_bias = family == Family::masked || family == Family::all_masked || family == Family::shifted;
  if (of_bias && c.bias_heads == 0 && c.part != Part::probabilities)
    refuse(fmt::format("fill={} is a fill of the bias; add bias=shared or bias=head", name(family)));
  const bool special = family == Family::nan_one || family == Family::inf_one;
  if (special && c.bias_heads > 0 && c.masks())
    refuse(fmt::format("fill={} with a bias may lie under the mask, where conventions differ; leave mask, window and lens away",
                       name(family)));
  const bool structured = family == Family::one_hot || family == Family::constant;
  if (structured && c.bias_heads > 0) refuse(fmt::format("fill={} needs exact scores; leave bias away", name(family)));
  const bool own_scale =
      structured || of_bias || family == Family::extreme || family == Family::integer || family == Family::post_softmax;
  if (sigma != 1 && own_scale) refuse(fmt::format("fill={} has a scale of its own; leave sigma={} away", name(family), sigma));
}

double pairs_of(const Call& c) {
  double pairs = 0;
  for (std::int64_t e = 0; e < c.b; ++e) {
    for (std::int64_t i = 0; i < c.sq; ++i) {
      const Keys k = visible(c, e, i);
      pairs += static_cast<double>(std::max<std::int64_t>(0, k.last - k.first));
    }
    if (!c.masks()) return pairs * static_cast<double>(c.b * c.hq);
  }
  return pairs * static_cast<double>(c.hq);
}

/// What the id says, before there are operands.
Call call_of_id(const CaseId& id) {
  Call c;
  const std::string& part = id.word("part");
  c.part = part == "scores"          ? Part::scores
           : part == "probabilities" ? Part::probabilities
           : part == "context"       ? Part::context
                                     : Part::whole;
  c.b = id.integer("b"), c.hq = id.integer("hq"), c.hkv = or_default(id.integer("hkv"), c.hq);
  c.sq = id.integer("sq"), c.skv = or_default(id.integer("skv"), c.sq);
  c.d = id.integer("d"), c.dv = or_default(id.integer("dv"), c.d);
  c.in = *parse_dtype(id.word("in"));
  c.out = id.word("out") == "same" ? c.in : *parse_dtype(id.word("out"));
  c.scale = id.real("scale");
  if (c.scale == 0) c.scale = 1 / std::sqrt(static_cast<double>(c.d));
  c.scale = round_to(compute_format(c), c.scale);
  c.bshd = id.word("layout") == "bshd";
  c.causal = id.word("mask") != "none", c.bottom_right = id.word("mask") == "causal_br";
  c.window = id.integer("window");
  c.bias_heads = id.word("bias") == "none" ? 0 : id.word("bias") == "shared" ? 1 : c.hq;
  c.lse = id.integer("lse") != 0;
  c.length.assign(static_cast<std::size_t>(c.b), c.skv);
  if (id.word("lens") != "full") {
    const std::int64_t variety[] = {c.skv / 2 + 1, c.skv - 1, 1, c.skv, c.skv - c.skv / 4};
    for (std::size_t e = 0; e < c.length.size(); ++e)
      c.length[e] = std::clamp<std::int64_t>(variety[e % 5], std::min<std::int64_t>(1, c.skv), c.skv);
    if (id.word("lens") == "empty" && c.b > 0) c.length.back() = 0;
  }
  return c;
}

Problem problem(const CaseId& id) {
  Problem p;
  p.id = id;
  const Call c = call_of_id(id);
  const Family family = *parse_family(id.word("fill"));
  const std::int64_t sigma = id.integer("sigma"), pad = id.integer("pad"), off = id.integer("off");
  if (c.in != c.out && size_bytes(c.in) != 2)
    throw CaseError(
        fmt::format("attention has no form with inputs in {} and output in {}; leave out= away", name(c.in), name(c.out)));
  require_possible(c, family, sigma);
  const Fills f = fills_of(c, family, std::countr_zero(static_cast<std::uint64_t>(sigma)));
  const auto add = [&](Operand o, const FillRule& rule) {
    if (o.span > (std::int64_t{1} << 40))
      throw CaseError(
          fmt::format("operand {} of attention would have {} elements; the largest allowed is 2^40: choose smaller "
                      "sizes",
                      o.role, o.span));
    p.operands.push_back(std::move(o));
    p.fills.push_back(rule);
  };
  const auto square = [&](std::string role, Access access, std::uint32_t stream) {
    return packed(std::move(role), access == Access::in ? c.in : c.out, access, {c.b, c.hq, c.sq, c.skv}, off, stream);
  };
  const bool products = c.part == Part::whole || c.part == Part::scores;
  if (products) {
    add(heads("Q", c.in, Access::in, c, c.hq, c.sq, c.d, pad, off, 1), f.q);
    add(heads("K", c.in, Access::in, c, c.hkv, c.skv, c.d, pad, off, 2), f.k);
  }
  if (c.part == Part::probabilities) add(square("S", Access::in, 5), f.logits);
  if (c.part == Part::context) add(square("P", Access::in, 6), f.weights);
  if (c.part == Part::whole || c.part == Part::context)
    add(heads("V", c.in, Access::in, c, c.hkv, c.skv, c.dv, pad, off, 3), f.v);
  if (c.bias_heads > 0) add(packed("bias", c.in, Access::in, {c.bias_heads, c.sq, c.skv}, off, 4), f.bias);
  if (c.part == Part::scores) add(square("S", Access::out, 5), {});
  if (c.part == Part::probabilities) add(square("P", Access::out, 6), {});
  if (c.part == Part::whole || c.part == Part::context)
    add(heads("O", c.out, Access::out, c, c.hq, c.sq, c.dv, pad, off, 7), {});
  if (c.lse) add(packed("L", compute_format(c), Access::out, {c.b, c.hq, c.sq, 1}, off, 8), {});
  if (family == Family::nan_one || family == Family::inf_one) p.leans_on.push_back(Convention::nan_propagates);
  if (underflows(family)) p.leans_on.push_back(Convention::keeps_subnormals);
  if (c.masks() || family == Family::all_masked) p.leans_on.push_back(Convention::masked_row);
  p.seed = static_cast<std::uint64_t>(id.integer("seed"));
  p.repeat = id.integer("repeat");
  p.callers = id.integer("callers");
  p.place_at_end = id.word("place") == "end";
  // An exponential counts as ten operations.
  const double per_pair =
      2 * static_cast<double>((products ? c.d : 0) + (c.part == Part::scores || c.part == Part::probabilities ? 0 : c.dv)) +
      (c.part == Part::whole || c.part == Part::probabilities ? 14 : 0);
  p.flops = per_pair * pairs_of(c);
  p.formats = c.in == c.out ? std::string(name(c.in)) : fmt::format("{}>{}", name(c.in), name(c.out));
  return p;
}

bool is_exchangeable(Family f) {
  return exchangeable(f) || f == Family::extreme || f == Family::shifted || f == Family::masked || f == Family::all_masked;
}

Family family_of(const Problem& p) {
  return *parse_family(p.id.word("fill"));
}

/// Of every query of every batch entry.
std::vector<reference::KeyRange> ranges_of(const Call& c) {
  std::vector<reference::KeyRange> ranges;
  for (std::int64_t e = 0; e < c.b; ++e)
    for (std::int64_t i = 0; i < c.sq; ++i) {
      const Keys k = visible(c, e, i);
      ranges.push_back({k.first, k.last});
    }
  return ranges;
}

/// -Inf, judged by class, where a key is hidden.
void hide(const Call& c, Expected& e) {
  for (std::size_t at = 0; at < e.value.size(); at += static_cast<std::size_t>(c.skv)) {
    const std::int64_t local = static_cast<std::int64_t>(at) / c.skv,
                       row = e.rows.empty() ? local : e.rows[static_cast<std::size_t>(local)];
    const Keys seen = visible(c, row / (c.hq * c.sq), row % c.sq);
    for (std::int64_t j = 0; j < c.skv; ++j) {
      if (j >= seen.first && j < seen.last) continue;
      const std::size_t i = at + static_cast<std::size_t>(j);
      e.value[i] = -infinity, e.sum_abs[i] = nan;
      if (!e.value_lo.empty()) e.value_lo[i] = 0;
    }
  }
}

/// The heads that share K and V are rows of one product: (b hkv) entries of (hq/hkv) sq rows.
reference::Gemm product_of(const Call& c, std::int64_t n, std::int64_t k) {
  return {.batch = c.b * c.hkv, .m = c.hq / c.hkv * c.sq, .n = n, .k = k};
}

Expected expect_scores(const Call& c, const std::vector<double>& q, const std::vector<double>& k,
                       const std::vector<double>& bias, std::vector<std::int64_t> rows) {
  std::vector<double> transposed(k.size()), addend;
  for (std::int64_t h = 0; h < c.b * c.hkv; ++h)
    for (std::int64_t j = 0; j < c.skv; ++j)
      for (std::int64_t l = 0; l < c.d; ++l)
        transposed[static_cast<std::size_t>((h * c.d + l) * c.skv + j)] =
            k[static_cast<std::size_t>((h * c.skv + j) * c.d + l)];
  reference::Gemm g = product_of(c, c.skv, c.d);
  g.alpha = c.scale, g.a = q, g.b = transposed;
  if (c.bias_heads > 0) {
    for (std::int64_t e = 0; e < c.b; ++e)
      for (std::int64_t h = 0; h < c.hq; ++h) {
        const auto from = bias.begin() + (c.bias_heads > 1 ? h : 0) * c.sq * c.skv;
        addend.insert(addend.end(), from, from + c.sq * c.skv);
      }
    g.beta = 1, g.c = addend;
  }
  Expected e = reference::gemm(g, c.in == DType::f64, true, std::move(rows));
  for (std::size_t i = 0; i < e.addend.size(); ++i)
    if (!std::isfinite(e.addend[i])) e.sum_abs[i] = nan;
  hide(c, e);
  return e;
}

Expected expect_probabilities(const Call& c, std::vector<double> s, std::vector<std::int64_t> rows) {
  for (std::int64_t row = 0; row < c.b * c.hq * c.sq; ++row) {
    const Keys seen = visible(c, row / (c.hq * c.sq), row % c.sq);
    for (std::int64_t j = 0; j < c.skv; ++j)
      if (j < seen.first || j >= seen.last) s[static_cast<std::size_t>(row * c.skv + j)] = -infinity;
  }
  return reference::softmax({.rows = c.b * c.hq * c.sq, .n = c.skv, .compute = compute_format(c), .x = s}, std::move(rows));
}

std::vector<Expected> expect(const Problem& p, Storage inputs, std::vector<std::int64_t> rows) {
  const Call c = call_of(p);
  const auto read = [&](std::size_t i) { return gather(p.operands[i], inputs[i]); };
  if (c.part == Part::probabilities) return {expect_probabilities(c, read(0), std::move(rows))};
  const std::vector<double> first = read(0), second = read(1);
  if (c.part == Part::context) {
    reference::Gemm g = product_of(c, c.dv, c.skv);
    g.a = first, g.b = second;
    return {reference::gemm(g, c.in == DType::f64, true, std::move(rows))};
  }
  const std::vector<double> bias = c.bias_heads > 0 ? read(c.part == Part::whole ? 3 : 2) : std::vector<double>{};
  if (c.part == Part::scores) return {expect_scores(c, first, second, bias, std::move(rows))};
  const std::vector<double> v = read(2);
  const std::vector<reference::KeyRange> ranges = ranges_of(c);
  const Family family = family_of(p);
  std::vector<Expected> both = reference::attention({.batch = c.b,
                                                     .hq = c.hq,
                                                     .hkv = c.hkv,
                                                     .sq = c.sq,
                                                     .skv = c.skv,
                                                     .d = c.d,
                                                     .dv = c.dv,
                                                     .scale = c.scale,
                                                     .compute = compute_format(c),
                                                     .exchangeable = is_exchangeable(family),
                                                     .exact_scores = family == Family::one_hot || family == Family::constant,
                                                     .bias_heads = c.bias_heads,
                                                     .q = first,
                                                     .k = second,
                                                     .v = v,
                                                     .bias = bias,
                                                     .visible = ranges},
                                                    std::move(rows));
  if (!c.lse) both.pop_back();
  return both;
}

Bound bound(const Problem& p, std::size_t output, const Expected& expected, const Arithmetic& arithmetic) {
  const Call c = call_of(p);
  const Family family = family_of(p);
  switch (c.part) {
    case Part::whole:
      return output == 0 ? reference::attention_bound(expected, arithmetic, c.d, is_exchangeable(family))
                         : reference::log_sum_exp_bound(expected, arithmetic, c.d, is_exchangeable(family));
    case Part::probabilities:
      return reference::softmax_bound(expected, arithmetic, false, false);
    case Part::scores: {
      // An integer product times a power of two is exact.
      int exponent = 0;
      const bool exact = family == Family::integer && std::fabs(std::frexp(c.scale, &exponent)) == 0.5;
      return product_sum_bound(expected, arithmetic, exchangeable(family), exact);
    }
    case Part::context:
      break;
  }
  return product_sum_bound(expected, arithmetic, exchangeable(family), family == Family::integer);
}

constexpr double judged_whole = 0x1p32;  // flops; a longer problem is judged on some of its queries
constexpr std::int64_t sampled_queries = 512;

std::vector<std::int64_t> sampled_rows(const Problem& p) {
  const Operand& out = p.operands[p.outputs().front()];
  if (p.flops <= judged_whole || element_count(out) == 0) return {};
  return sample_rows(element_count(out) / out.dims.back(), sampled_queries, p.seed);
}

/// An output is a mean of values: no larger than the largest of them, and a number where every query sees a key. Out of line:
/// queries with another output.
std::vector<std::int64_t> suspicious(const Problem& p, Storage inputs, std::span<const std::byte> output) {
  const Call c = call_of(p);
  if (c.part != Part::whole || !p.leans_on.empty()) return {};
  const std::size_t v = p.operand_index("V");
  double largest = 0;
  for (const double x : gather(p.operands[v], inputs[v])) largest = std::max(largest, std::fabs(x));
  largest += 2 * unit_roundoff(DType::bf16) * largest;
  const std::vector<double> o = gather(p.operands[p.outputs().front()], output);
  std::vector<std::int64_t> rows;
  for (std::int64_t e = 0; e < std::ssize(o); ++e)
    if (!(std::fabs(o[static_cast<std::size_t>(e)]) <= largest) && (rows.empty() || rows.back() != e / c.dv))
      rows.push_back(e / c.dv);
  return rows;
}

}  // namespace

bool Call::masks() const {
  return causal || window > 0 || std::any_of(length.begin(), length.end(), [this](std::int64_t n) { return n < skv; });
}

Call call_of(const Problem& p) {
  return call_of_id(p.id);
}

Keys visible(const Call& c, std::int64_t e, std::int64_t i) {
  const std::int64_t length = c.length[static_cast<std::size_t>(e)], diagonal = i + (c.bottom_right ? length - c.sq : 0);
  Keys k{0, length};
  if (c.causal) k.last = std::min(k.last, diagonal + 1);
  if (c.window > 0) k.first = std::max<std::int64_t>(0, diagonal - c.window + 1);
  return k;
}

Op make() {
  Op op;
  op.name = "attention";
  op.summary = "O = softmax(scale Q K^T + bias) V per head, with masks and grouped heads, whole or step by step";
  op.grammar = grammar();
  op.problem = problem;
  op.expect = expect;
  op.bound = bound;
  op.sampled_rows = sampled_rows;
  op.suspicious = suspicious;
  op.looked_at_by = "range";
  op.cudnn_graph = cudnn_graph;
  op.cases = embedded_cases("attention");
  op.targets = {eigen_target(),
                cblas_target("openblas", "OpenBLAS's gemm and gemv around a softmax of ours; variants core=NAME, threads=N"),
                cblas_target("blis", "the same with BLIS; variant threads=N"),
                cblas_target("mkl", "the same with Intel MKL; variant threads=N"),
                cblas_target("refblas", "the same with the reference BLAS"),
                cblas_target("cblas", "the same with any other CBLAS"),
                model_target(),
                planted_target(),
                onednn_target(),
                kernel_target(),
                cudnn_target()};
  op.faults = planted_faults();
  op.selftest_clean = clean_cases();
  return op;
}

}  // namespace assay::attention
