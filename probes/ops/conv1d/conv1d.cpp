// SPDX-License-Identifier: Apache-2.0
// conv1d as an op: grammar, problem, truth and bound.
#include "probes/ops/conv1d/conv1d.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "probes/library/cudnn_graph.hpp"
#include "probes/ops/conv1d/targets.hpp"
#include "probes/ops/embedded_cases.hpp"
#include "reference/ops/conv1d.hpp"
#include "reference/philox.hpp"
#include "reference/rows.hpp"

namespace assay::conv1d {

namespace {

constexpr double largest_dim = 1 << 24;

/// Those of signals, and one_hot: one 1 per output channel, so that channels of X are copied, shifted.
std::vector<Family> families() {
  std::vector<Family> all(signal_families().begin(), signal_families().end());
  all.push_back(Family::one_hot);
  return all;
}

std::vector<Parameter> grammar() {
  using enum ParameterKind;
  return {
      {"n", integer, "1", 0, largest_dim, {}, "batch"},
      {"cin", integer, "", 1, largest_dim, {}, "input channels"},
      {"cout", integer, "", 1, largest_dim, {}, "output channels"},
      {"l", integer, "", 0, largest_dim, {}, "length of the input"},
      {"k", integer, "", 1, 1 << 20, {}, "taps of the kernel"},
      {"stride", integer, "1", 1, 1 << 20, {}, "input positions from output to output"},
      {"dilation", integer, "1", 1, 1 << 20, {}, "input positions from tap to tap"},
      {"padl", integer, "0", 0, 1 << 20, {}, "zeros before the input; causal: (k-1)*dilation"},
      {"padr", integer, "0", 0, 1 << 20, {}, "zeros behind it"},
      {"groups", integer, "1", 1, largest_dim, {}, "groups of channels; cin for depthwise"},
      {"bias", integer, "0", 0, 1, {}, "1: B is added"},
      {"layout", word, "ncl", 0, 0, {"ncl", "nlc"}, "channels first, or last"},
      {"zeros", word, "implied", 0, 0, {"implied", "explicit"}, "padding by argument, or as zeros that are part of X"},
      {"in", word, "f32", 0, 0, {"f32", "f64", "bf16", "f16"}, "format of X, W and B"},
      {"out", word, "same", 0, 0, {"same", "f32", "bf16", "f16"}, "format of Y; same: as X"},
      {"gapx", integer, "0", 0, 4096, {}, "elements between the rows of X in memory"},
      {"gapy", integer, "0", 0, 4096, {}, "the same for Y"},
      fill_parameter(families()),
  };
}

/// (batch, channels, positions) in memory by layout, `gap` elements behind each innermost row.
Operand signal(std::string role, DType t, Access access, std::int64_t batch, std::int64_t channels, std::int64_t positions,
               bool channels_last, std::int64_t gap, std::uint32_t stream) {
  const std::int64_t inner = channels_last ? channels : positions, outer = channels_last ? positions : channels;
  const std::int64_t row = inner + gap;
  Operand o{.role = std::move(role), .dtype = t, .access = access, .dims = {batch, channels, positions}, .stream = stream};
  o.strides = {row * outer, channels_last ? 1 : row, channels_last ? row : 1};
  o.span = batch == 0 || inner == 0 || outer == 0 ? 0 : (batch * outer - 1) * row + inner;
  return o;
}

/// Before any product of sizes is formed: a case id can name more than 64 bits can count.
void require_countable(std::string_view role, double a, double b, double c) {
  if (!(a * b * c <= 0x1p40))
    throw CaseError(fmt::format(
        "operand {} of conv1d would have {:.3g} elements; the largest allowed is 2^40: choose a smaller n, cin, cout, l or k",
        role, a * b * c));
}

/// Channels, groups and lengths that fit each other; the length of the output.
std::int64_t output_length(const CaseId& id) {
  const std::int64_t cin = id.integer("cin"), cout = id.integer("cout"), groups = id.integer("groups"), k = id.integer("k");
  const std::int64_t dilation = id.integer("dilation"), padl = id.integer("padl"), padr = id.integer("padr");
  if (cin % groups != 0 || cout % groups != 0)
    throw CaseError(fmt::format("conv1d cannot divide cin={} and cout={} into {} groups; choose groups that divides both", cin,
                                cout, groups));
  const std::int64_t given = id.integer("l") + padl + padr, needed = dilation * (k - 1) + 1;
  if (given < needed)
    throw CaseError(
        fmt::format("conv1d with k={} and dilation={} spans {} positions, and l={} with padl={} and padr={} has "
                    "only {}; choose a longer l, more padding, or a smaller k or dilation",
                    k, dilation, needed, id.integer("l"), padl, padr, given));
  return (given - needed) / id.integer("stride") + 1;
}

constexpr double bias_limit = 64;

Family bias_family(Family f) {
  if (exact(f)) return Family::integer;
  return f == Family::subnormal || f == Family::underflow ? f : Family::normal;
}

/// Largest sum of an integer-valued family, bias included: every partial sum in any order is an integer no larger.
double largest_integer(const Call& c, const FillRule& x, double signal_elements) {
  const double terms = static_cast<double>(c.group_in()) * static_cast<double>(c.k), bias = c.bias ? bias_limit : 0;
  switch (x.family) {
    case Family::integer:
      return terms * static_cast<double>(x.limit) * static_cast<double>(x.limit) + bias;
    case Family::reveal:
      return terms * std::ldexp(1.0, reveal_bits(c.in)) + bias;
    case Family::position:  // one tap of one channel for each output channel
      return std::min(signal_elements, std::ldexp(1.0, format(c.in).precision)) + bias;
    default:
      return terms + bias;
  }
}

/// X and W of one family. Most treat channels as the contracted axis, so that those which match their operands along it
/// (cancel, inf_one, subnormal) do so whatever the number of taps. Delta kernels want channels and taps together, so that an
/// output channel has a single one; a power of two per line and runs of equal terms want the whole of a sum in one line.
std::pair<FillRule, FillRule> fills(const Call& c, Family family) {
  FillRule x{.family = family, .outer_axis = 0, .inner_axis = 1, .left = true};
  FillRule w{.family = family, .outer_axis = 0, .inner_axis = 1, .left = false};
  const bool deltas = family == Family::position || family == Family::one_hot;
  if (deltas || family == Family::wide || family == Family::two_level) x.inner_axes = w.inner_axes = 2;
  if (deltas) x.left = false, w.left = true;
  if (family == Family::one_hot) x.family = Family::normal, w.family = Family::position;
  if (family == Family::integer) {
    // 2^24 for an fp32 accumulator; fp16 results must also stay below 65504.
    const int p_sum = c.out == DType::f64 ? 53 : c.out == DType::f16 ? 15 : 24;
    x.limit = w.limit = std::max<std::int64_t>(1, integer_limit(c.group_in() * c.k, p_sum - (c.bias ? 1 : 0), c.in));
  }
  return {x, w};
}

Problem problem(const CaseId& id) {
  Problem p;
  p.id = id;
  Call c;
  c.n = id.integer("n"), c.cin = id.integer("cin"), c.cout = id.integer("cout"), c.k = id.integer("k");
  c.groups = id.integer("groups"), c.lout = output_length(id);
  const bool materialised = id.word("zeros") == "explicit", channels_last = id.word("layout") == "nlc";
  const std::int64_t padl = materialised ? id.integer("padl") : 0, padr = materialised ? id.integer("padr") : 0;
  c.l = id.integer("l") + padl + padr;
  c.bias = id.integer("bias") == 1;
  c.in = *parse_dtype(id.word("in"));
  c.out = id.word("out") == "same" ? c.in : *parse_dtype(id.word("out"));
  if (c.in != c.out && (size_bytes(c.in) != 2 || c.out != DType::f32))
    throw CaseError(fmt::format(
        "conv1d has no form with X in {} and Y in {}; with in=bf16 or in=f16 use out=same or out=f32, else leave out= away",
        name(c.in), name(c.out)));
  const std::int64_t gapx = id.integer("gapx"), gapy = id.integer("gapy"), off = id.integer("off");
  const auto real = [](std::int64_t v) { return static_cast<double>(v); };
  require_countable("X", real(c.n), real(c.cin + gapx), real(c.l + gapx));
  require_countable("W", real(c.cout), real(c.group_in()), real(c.k));
  require_countable("Y", real(c.n), real(c.cout + gapy), real(c.lout + gapy));
  p.operands.push_back(signal("X", c.in, Access::in, c.n, c.cin, c.l, channels_last, gapx, 1));
  p.operands.push_back(signal("W", c.in, Access::in, c.cout, c.group_in(), c.k, channels_last, 0, 2));
  if (c.bias)
    p.operands.push_back(
        {.role = "B", .dtype = c.in, .access = Access::in, .dims = {c.cout}, .strides = {1}, .span = c.cout, .stream = 3});
  p.operands.push_back(signal("Y", c.out, Access::out, c.n, c.cout, c.lout, channels_last, gapy, 4));
  for (Operand& o : p.operands) o.offset = off;
  const Family family = *parse_family(id.word("fill"));
  auto [x, w] = fills(c, family);
  x.zeros_before = padl, x.zeros_after = padr;
  p.fills = {x, w};
  // No contracted axis: an addend.
  if (c.bias)
    p.fills.push_back(
        {.family = bias_family(family), .outer_axis = 0, .inner_axis = 0, .limit = static_cast<std::int64_t>(bias_limit)});
  p.fills.push_back(x);
  if (family == Family::nan_one || family == Family::inf_one) p.leans_on.push_back(Convention::nan_propagates);
  if (underflows(family)) p.leans_on.push_back(Convention::keeps_subnormals);
  p.seed = static_cast<std::uint64_t>(id.integer("seed"));
  p.repeat = id.integer("repeat");
  p.callers = id.integer("callers");
  p.place_at_end = id.word("place") == "end";
  p.flops = 2 * real(c.n) * real(c.cout) * real(c.lout) * real(c.group_in()) * real(c.k);
  p.formats = c.in == c.out ? std::string(name(c.in)) : fmt::format("{}>{}", name(c.in), name(c.out));
  return p;
}

reference::Conv1d sizes(const Call& c) {
  return {.n = c.n,
          .cin = c.cin,
          .cout = c.cout,
          .l = c.l,
          .k = c.k,
          .stride = c.stride,
          .dilation = c.dilation,
          .padl = c.padl,
          .padr = c.padr,
          .groups = c.groups};
}

std::vector<Expected> expect(const Problem& p, Storage inputs, std::vector<std::int64_t> rows) {
  const Call c = call_of(p);
  const std::vector<double> x = gather(p.operands[0], inputs[0]), w = gather(p.operands[1], inputs[1]);
  const std::vector<double> bias = c.bias ? gather(p.operands[2], inputs[2]) : std::vector<double>{};
  reference::Conv1d problem = sizes(c);
  problem.x = x, problem.w = w, problem.bias = bias;
  return {reference::conv1d(problem, c.out == DType::f64, std::move(rows))};
}

// Above it the truth of a whole output costs seconds.
constexpr double whole_flops = 2e9;
constexpr std::int64_t judged_rows = 64;

std::vector<std::int64_t> sampled_rows(const Problem& p) {
  const Call c = call_of(p);
  return p.flops > whole_flops && p.leans_on.empty() ? sample_rows(c.n * c.cout, judged_rows, p.seed)
                                                     : std::vector<std::int64_t>{};
}

/// Convolution is linear in W: with signs r the sum of r_o y_o over the channels of a group is one convolution with the sum of
/// r_o w_o, at 1/(cout/groups) of the cost. Whole numbers must agree; else within eight deviations of what rounding leaves.
/// Out of line: the channels of a group and batch entry of which a position is. `draw`: which signs, 0 or 1.
std::vector<std::int64_t> out_of_line(const Problem& p, const Call& c, const std::vector<double>& x,
                                      const std::vector<double>& w, const std::vector<double>& bias,
                                      const std::vector<double>& y, std::size_t draw) {
  const std::int64_t terms = c.group_in() * c.k;
  const auto sign = [&](std::int64_t o) {
    return (philox_element(p.seed, 97, static_cast<std::uint64_t>(o))[draw] & 1) != 0 ? 1.0 : -1.0;
  };
  std::vector<double> combined(static_cast<std::size_t>(c.groups * terms)), combined_bias(c.bias ? combined.size() / terms : 0);
  for (std::int64_t o = 0; o < c.cout; ++o) {
    const std::int64_t g = o / c.group_out();
    for (std::int64_t i = 0; i < terms; ++i)
      combined[static_cast<std::size_t>(g * terms + i)] += sign(o) * w[static_cast<std::size_t>(o * terms + i)];
    if (c.bias) combined_bias[static_cast<std::size_t>(g)] += sign(o) * bias[static_cast<std::size_t>(o)];
  }
  reference::Conv1d sum = sizes(c);
  sum.cout = c.groups, sum.x = x, sum.w = combined, sum.bias = combined_bias;
  const Expected truth = reference::conv1d(sum, true);
  const double u_out = unit_roundoff(c.out), u = unit_roundoff(compute_format(c));
  const bool whole_numbers = exact(p.fills[0].family) && c.out == compute_format(c);
  const double deviation = whole_numbers ? 0 : 8 * (u_out + u * std::sqrt(static_cast<double>(terms)) / 2);
  std::vector<std::int64_t> rows;
  const auto take = [&](std::int64_t line) {
    for (std::int64_t i = 0; i < c.group_out(); ++i) rows.push_back(line * c.group_out() + i);
  };
  for (std::int64_t line = 0; line < c.n * c.groups; ++line)
    for (std::int64_t j = 0; j < c.lout; ++j) {
      double got = 0, squares = 0;
      for (std::int64_t i = 0; i < c.group_out(); ++i) {
        const double v = y[static_cast<std::size_t>((line * c.group_out() + i) * c.lout + j)];
        got += sign(line % c.groups * c.group_out() + i) * v, squares += v * v;
      }
      if (!(std::fabs(got - truth.value[static_cast<std::size_t>(line * c.lout + j)]) <= deviation * std::sqrt(squares))) {
        take(line);
        break;
      }
    }
  return rows;
}

/// Two draws: two equal errors at one position cancel in one of them with probability 1/2.
std::vector<std::int64_t> suspicious(const Problem& p, Storage inputs, std::span<const std::byte> output) {
  const Call c = call_of(p);
  const std::vector<double> x = gather(p.operands[0], inputs[0]), w = gather(p.operands[1], inputs[1]);
  const std::vector<double> bias = c.bias ? gather(p.operands[2], inputs[2]) : std::vector<double>{};
  const std::vector<double> y = gather(p.operands[c.output()], output);
  std::vector<std::int64_t> rows;
  std::ranges::set_union(out_of_line(p, c, x, w, bias, y, 0), out_of_line(p, c, x, w, bias, y, 1), std::back_inserter(rows));
  return rows;
}

/// Whether every partial sum is representable in the declared arithmetic, so that the bound is zero.
bool exact_under(const Problem& p, const Arithmetic& a) {
  const FillRule& x = p.fills[0];
  const Call c = call_of(p);
  const bool copies = !exact(x.family) && exact(p.fills[1].family);  // one product x * 1, and zeros
  if ((!copies && !exact(x.family)) || (a.operand != c.in && format(a.operand).precision < format(c.in).precision))
    return false;
  if (copies) return !c.bias && a.transform == Transform::none;
  const double largest = largest_integer(c, x, static_cast<double>(element_count(p.operands[0])));
  return largest <= std::ldexp(1.0, format(a.accumulator).precision);
}

Bound bound(const Problem& p, std::size_t, const Expected& expected, const Arithmetic& arithmetic) {
  // A sum with a single term is no draw of several.
  const bool draws = exchangeable(p.fills[0].family) && exchangeable(p.fills[1].family);
  return reference::conv1d_bound(sizes(call_of(p)), expected, arithmetic, draws, exact_under(p, arithmetic),
                                 p.operands[0].dtype);
}

}  // namespace

Call call_of(const Problem& p) {
  const CaseId& id = p.id;
  const bool materialised = id.word("zeros") == "explicit";
  Call c;
  c.n = id.integer("n"), c.cin = id.integer("cin"), c.cout = id.integer("cout"), c.k = id.integer("k");
  c.stride = id.integer("stride"), c.dilation = id.integer("dilation"), c.groups = id.integer("groups");
  c.padl = materialised ? 0 : id.integer("padl"), c.padr = materialised ? 0 : id.integer("padr");
  c.bias = id.integer("bias") == 1, c.channels_last = id.word("layout") == "nlc";
  const Operand &x = p.operands[0], &w = p.operands[1], &y = p.operands[c.output()];
  c.l = x.dims[2], c.lout = y.dims[2];
  c.in = x.dtype, c.out = y.dtype;
  c.x = {x.strides[0], x.strides[1], x.strides[2]};
  c.w = {w.strides[0], w.strides[1], w.strides[2]};
  c.y = {y.strides[0], y.strides[1], y.strides[2]};
  return c;
}

Op make() {
  Op op;
  op.name = "conv1d";
  op.summary = "Y = W * X + B, cross-correlation along one axis, grouped, strided, dilated";
  op.grammar = grammar();
  op.problem = problem;
  op.expect = expect;
  op.bound = bound;
  op.sampled_rows = sampled_rows;
  op.suspicious = suspicious;
  op.looked_at_by = "combination";
  op.cudnn_graph = cudnn_graph;
  op.cases = embedded_cases("conv1d");
  op.targets = {eigen_target(),
                cblas_target("openblas", "unrolled signal and OpenBLAS's gemm, opened by path; variants core=NAME, threads=N"),
                cblas_target("blis", "unrolled signal and BLIS's gemm, opened by path; variant threads=N"),
                cblas_target("mkl", "unrolled signal and Intel MKL's gemm, opened by path; variant threads=N"),
                cblas_target("refblas", "unrolled signal and the reference BLAS's gemm, opened by path"),
                cblas_target("cblas", "unrolled signal and the gemm of any other CBLAS, opened by path"),
                model_target(),
                planted_target(),
                onednn_target(),
                kernel_target(),
                cudnn_target()};
  op.faults = planted_faults();
  op.selftest_clean = clean_cases();
  return op;
}

}  // namespace assay::conv1d
