// SPDX-License-Identifier: Apache-2.0
// conv_transpose1d as an op: grammar, problem, truth and bound.
#include "probes/ops/conv_transpose1d/conv_transpose1d.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "probes/library/cudnn_graph.hpp"
#include "probes/ops/embedded_cases.hpp"
#include "reference/ops/conv_transpose1d.hpp"

namespace assay::conv_transpose1d {

namespace {

constexpr double largest_dim = 1 << 24, largest_step = 1 << 20;

std::vector<Parameter> grammar() {
  using enum ParameterKind;
  return {
      {"n", integer, "1", 0, largest_dim, {}, "batch entries"},
      {"cin", integer, "", 1, largest_dim, {}, "channels of X"},
      {"cout", integer, "", 1, largest_dim, {}, "channels of Y"},
      {"l", integer, "", 1, largest_dim, {}, "frames of X"},
      {"k", integer, "", 1, largest_step, {}, "taps"},
      {"stride", integer, "1", 1, largest_step, {}, "frames of Y from one frame of X to the next"},
      {"dilation", integer, "1", 1, largest_step, {}, "frames of Y from tap to tap"},
      {"padl", integer, "0", 0, largest_step, {}, "frames cropped from the left of the full output"},
      {"padr", integer, "0", 0, largest_step, {}, "frames cropped from its right"},
      {"outpad", integer, "0", 0, largest_step, {}, "frames added on the right; less than the larger of stride and dilation"},
      {"groups", integer, "1", 1, largest_dim, {}, "groups of channels"},
      {"bias", integer, "0", 0, 1, {}, "1: B is added"},
      {"layout", word, "ncl", 0, 0, {"ncl", "nlc"}, "channels first, or last"},
      {"in", word, "f32", 0, 0, {"f32", "f64", "bf16", "f16"}, "format of X, W and B"},
      {"out", word, "same", 0, 0, {"same", "f32", "bf16", "f16"}, "format of Y; same: as X"},
      {"gapx", integer, "0", 0, 4096, {}, "elements between the rows of X in memory"},
      {"gapy", integer, "0", 0, 4096, {}, "the same for Y"},
      fill_parameter(signal_families()),
  };
}

void check_size(std::string_view role, double elements) {
  if (!(elements <= 0x1p40))
    throw CaseError(
        fmt::format("operand {} of conv_transpose1d would have {:.3g} elements; the largest allowed is 2^40: choose smaller n, "
                    "channels, l, k or stride",
                    role, elements));
}

/// (n, channels, frames), also W as (cin, cout/groups, k): in memory by layout, `gap` elements between innermost rows.
Operand signal(std::string role, DType t, Access access, std::int64_t n, std::int64_t channels, std::int64_t frames,
               bool channels_last, std::int64_t gap, std::uint32_t stream) {
  const std::int64_t length = channels_last ? channels : frames, rows = channels_last ? frames : channels;
  check_size(role, static_cast<double>(n) * static_cast<double>(rows) * static_cast<double>(length + gap));
  Operand o{.role = std::move(role), .dtype = t, .access = access, .dims = {n, channels, frames}, .stream = stream};
  const std::int64_t row = length + gap;
  o.strides = {rows * row, channels_last ? 1 : row, channels_last ? row : 1};
  o.span = n == 0 ? 0 : (n * rows - 1) * row + length;
  return o;
}

/// What the case says, the formats resolved; throws CaseError on what cannot be.
Call read(const CaseId& id) {
  Call c;
  c.n = id.integer("n"), c.cin = id.integer("cin"), c.cout = id.integer("cout"), c.l = id.integer("l"), c.k = id.integer("k");
  c.stride = id.integer("stride"), c.dilation = id.integer("dilation");
  c.padl = id.integer("padl"), c.padr = id.integer("padr"), c.outpad = id.integer("outpad");
  c.groups = id.integer("groups");
  c.bias = id.integer("bias") == 1, c.channels_last = id.word("layout") == "nlc";
  c.in = *parse_dtype(id.word("in"));
  c.out = id.word("out") == "same" ? c.in : *parse_dtype(id.word("out"));
  if (c.in != c.out && (size_bytes(c.in) != 2 || c.out != DType::f32))
    throw CaseError(
        fmt::format("conv_transpose1d has no form with X in {} and Y in {}; with in=bf16 or in=f16 use out=same or out=f32, "
                    "else leave out= "
                    "away",
                    name(c.in), name(c.out)));
  if (c.cin % c.groups != 0 || c.cout % c.groups != 0)
    throw CaseError(
        fmt::format("cin={} and cout={} of conv_transpose1d must both be multiples of groups={}", c.cin, c.cout, c.groups));
  if (c.outpad >= std::max(c.stride, c.dilation))
    throw CaseError(fmt::format("outpad={} of conv_transpose1d must be less than the larger of stride={} and dilation={}",
                                c.outpad, c.stride, c.dilation));
  c.lout = (c.l - 1) * c.stride - c.padl - c.padr + c.dilation * (c.k - 1) + 1 + c.outpad;
  if (c.lout < 1)
    throw CaseError(
        fmt::format("padl={} and padr={} crop the whole output of conv_transpose1d (lout would be {}); choose them "
                    "smaller, or l, k, stride or dilation larger",
                    c.padl, c.padr, c.lout));
  c.x_row = (c.channels_last ? c.cin : c.l) + id.integer("gapx");
  c.y_row = (c.channels_last ? c.cout : c.lout) + id.integer("gapy");
  return c;
}

reference::ConvTranspose1d shape_of(const Call& c) {
  return {.n = c.n,
          .cin = c.cin,
          .cout = c.cout,
          .l = c.l,
          .k = c.k,
          .stride = c.stride,
          .dilation = c.dilation,
          .padl = c.padl,
          .padr = c.padr,
          .outpad = c.outpad,
          .groups = c.groups};
}

constexpr std::int64_t largest_bias = 64;

Family bias_family(Family f) {
  if (exact(f)) return Family::integer;
  return f == Family::subnormal || f == Family::underflow ? f : Family::normal;
}

Problem problem(const CaseId& id) {
  const Call c = read(id);
  Problem p;
  p.id = id;
  const std::int64_t gapx = id.integer("gapx"), gapy = id.integer("gapy");
  p.operands.push_back(signal("X", c.in, Access::in, c.n, c.cin, c.l, c.channels_last, gapx, 1));
  p.operands.push_back(signal("W", c.in, Access::in, c.cin, c.cout / c.groups, c.k, c.channels_last, 0, 2));
  if (c.bias) p.operands.push_back({.role = "B", .dtype = c.in, .dims = {c.cout}, .strides = {1}, .span = c.cout, .stream = 3});
  p.operands.push_back(signal("Y", c.out, Access::out, c.n, c.cout, c.lout, c.channels_last, gapy, 4));
  for (Operand& o : p.operands) o.offset = id.integer("off");
  const Family family = *parse_family(id.word("fill"));
  // A line of X is a frame, a line of W one tap of one output channel; the contraction runs along input channels.
  FillRule x{.family = family, .outer_axis = 2, .inner_axis = 1, .left = true};
  FillRule w{.family = family, .outer_axis = 1, .inner_axis = 0, .left = false};
  if (family == Family::integer) {
    // 2^24 for an fp32 accumulator; fp16 results must also stay below 65504. Half of it where a bias is added.
    const int p_sum = c.out == DType::f64 ? 53 : c.out == DType::f16 ? 15 : 24;
    const std::int64_t terms = c.cin / c.groups * shape_of(c).most_taps();
    x.limit = w.limit = std::max<std::int64_t>(1, integer_limit(terms, p_sum - (c.bias ? 1 : 0), c.in));
  }
  p.fills = {x, w};
  if (c.bias) p.fills.push_back({.family = bias_family(family), .limit = largest_bias});
  p.fills.push_back(x);
  if (family == Family::nan_one || family == Family::inf_one) p.leans_on.push_back(Convention::nan_propagates);
  if (underflows(family)) p.leans_on.push_back(Convention::keeps_subnormals);
  p.seed = static_cast<std::uint64_t>(id.integer("seed"));
  p.repeat = id.integer("repeat");
  p.callers = id.integer("callers");
  p.place_at_end = id.word("place") == "end";
  p.flops = 2.0 * static_cast<double>(c.n) * static_cast<double>(c.cin) * static_cast<double>(c.l) *
            static_cast<double>(c.cout / c.groups) * static_cast<double>(c.k);
  p.formats = c.in == c.out ? std::string(name(c.in)) : fmt::format("{}>{}", name(c.in), name(c.out));
  return p;
}

std::vector<Expected> expect(const Problem& p, Storage inputs, std::vector<std::int64_t> rows) {
  const Call c = call_of(p);
  const std::vector<double> x = gather(p.operands[0], inputs[0]), w = gather(p.operands[1], inputs[1]);
  std::vector<double> bias;
  if (c.bias) bias = gather(p.operands[2], inputs[2]);
  reference::ConvTranspose1d conv = shape_of(c);
  conv.x = x, conv.w = w, conv.bias = bias;
  return {reference::conv_transpose1d(conv, c.out == DType::f64, std::move(rows))};
}

/// Largest |sum| of an exact family: every partial sum in any order is an integer no larger.
double largest_integer(const Problem& p, const Call& c) {
  const FillRule& rule = p.fills[0];
  const auto taps = static_cast<double>(shape_of(c).most_taps()), terms = taps * static_cast<double>(c.cin / c.groups);
  const double bias = c.bias ? static_cast<double>(largest_bias) : 0;
  switch (rule.family) {
    case Family::integer:
      return terms * static_cast<double>(rule.limit) * static_cast<double>(rule.limit) + bias;
    case Family::reveal:
      return terms * std::ldexp(1.0, reveal_bits(c.in)) + bias;
    case Family::position:  // one product per frame
      return taps * std::min(std::ldexp(1.0, format(c.in).precision), static_cast<double>(element_count(p.operands[1]))) + bias;
    default:
      return terms + bias;
  }
}

bool exact_under(const Problem& p, const Call& c, const Arithmetic& arithmetic) {
  if (!exact(p.fills[0].family) || arithmetic.transform != Transform::none) return false;
  if (arithmetic.operand != c.in && format(arithmetic.operand).precision < format(c.in).precision) return false;
  return largest_integer(p, c) <= std::ldexp(1.0, format(arithmetic.accumulator).precision);
}

Bound bound(const Problem& p, std::size_t, const Expected& expected, const Arithmetic& arithmetic) {
  // A power of two per frame and per tap (wide) makes terms of one sum that are no draws of one law.
  const Family family = p.fills[0].family;
  Bound b = product_sum_bound(expected, arithmetic, exchangeable(family) && family != Family::wide,
                              exact_under(p, call_of(p), arithmetic), p.operands[0].dtype);
  // Where every product is zero, or no tap falls, nothing is rounded: the result is the bias, which Y can hold.
  for (std::size_t i = 0; i < expected.addend.size(); ++i)
    if (expected.sum_abs[i] == 0) {
      b.hard[i] = 0;
      if (!b.iid.empty()) b.iid[i] = 0;
      if (!b.statistic.empty()) b.statistic[i] = 0;
    }
  return b;
}

}  // namespace

Call call_of(const Problem& p) {
  return read(p.id);
}

Op make() {
  Op op;
  op.name = "conv_transpose1d";
  op.summary = "Y = transposed 1-d convolution of X with W, plus bias (ConvTranspose1d)";
  op.grammar = grammar();
  op.problem = problem;
  op.expect = expect;
  op.bound = bound;
  op.cudnn_graph = cudnn_graph;
  op.cases = embedded_cases("conv_transpose1d");
  op.targets = {eigen_target(),  cblas_target(),  model_target(), planted_target(),
                onednn_target(), kernel_target(), cudnn_target()};
  op.faults = planted_faults();
  op.selftest_clean = clean_cases();
  return op;
}

}  // namespace assay::conv_transpose1d
