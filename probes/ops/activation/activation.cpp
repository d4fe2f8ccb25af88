// SPDX-License-Identifier: Apache-2.0
// activation as an op: grammar, problem, truth and bound.
#include "probes/ops/activation/activation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "probes/ops/embedded_cases.hpp"

namespace assay::activation {

namespace {

constexpr double largest_dim = 1 << 24;

// Values of every size and class; what only rows as a whole can show (offset, balanced, constant) shows nothing here.
// masked: -Inf among normal values.
constexpr Family taken[] = {Family::normal,  Family::uniform,   Family::heavy,    Family::two_level,
                            Family::nan_one, Family::inf_one,   Family::masked,   Family::extreme,
                            Family::shifted, Family::subnormal, Family::patterns, Family::outlier};

constexpr std::pair<std::string_view, Kind> kinds[] = {
    {"gelu_erf", Kind::gelu_erf}, {"gelu_tanh", Kind::gelu_tanh}, {"silu", Kind::silu}, {"relu", Kind::relu}};

std::vector<Parameter> grammar() {
  using enum ParameterKind;
  return {
      {"rows", integer, "", 0, largest_dim, {}, "rows"},
      {"n", integer, "", 0, largest_dim, {}, "width of a row"},
      {"kind",
       word,
       "gelu_erf",
       0,
       0,
       {"gelu_erf", "gelu_tanh", "silu", "relu"},
       "GELU from erf, GELU from tanh, x / (1 + exp(-x)), max(0, x)"},
      {"bias", integer, "0", 0, 1, {}, "1: f(x + b), with one b per column"},
      {"in", word, "f32", 0, 0, {"f32", "f64", "bf16", "f16"}, "format of X and B"},
      {"out", word, "same", 0, 0, {"same", "f32", "bf16", "f16"}, "format of Y; same: as X"},
      {"padx", integer, "0", 0, 4096, {}, "elements that the row stride of X exceeds n by"},
      {"pady", integer, "0", 0, 4096, {}, "the same for Y"},
      {"sigma", word, "1", 0, 0, {"1", "2", "4", "8", "16", "32"}, "factor on a fill that has no scale of its own"},
      fill_parameter(taken),
  };
}

Operand matrix(std::string role, DType t, Access access, std::int64_t rows, std::int64_t n, std::int64_t pad,
               std::int64_t offset, std::uint32_t stream) {
  Operand o{.role = std::move(role),
            .dtype = t,
            .access = access,
            .dims = {rows, n},
            .strides = {n + pad, 1},
            .offset = offset,
            .stream = stream};
  o.span = rows == 0 || n == 0 ? 0 : (rows - 1) * (n + pad) + n;
  return o;
}

bool has_own_scale(Family f) {
  return f == Family::extreme || f == Family::shifted || f == Family::subnormal || f == Family::patterns;
}

Problem problem(const CaseId& id) {
  Problem p;
  p.id = id;
  const std::int64_t rows = id.integer("rows"), n = id.integer("n"), offset = id.integer("off");
  const DType in = *parse_dtype(id.word("in"));
  const DType out = id.word("out") == "same" ? in : *parse_dtype(id.word("out"));
  if (in != out && (size_bytes(in) != 2 || out != DType::f32))
    throw CaseError(fmt::format(
        "activation has no form with X in {} and Y in {}; with in=bf16 or in=f16 use out=same or out=f32, else leave out= away",
        name(in), name(out)));
  const Family family = *parse_family(id.word("fill"));
  const std::int64_t sigma = id.integer("sigma");
  if (sigma != 1 && has_own_scale(family))
    throw CaseError(fmt::format(
        "fill={} has a scale of its own; leave sigma={} away or use it with fill=normal, uniform, heavy or two_level",
        name(family), sigma));
  const bool bias = id.integer("bias") != 0, relu = id.word("kind") == "relu";
  p.operands.push_back(matrix("X", in, Access::in, rows, n, id.integer("padx"), offset, 1));
  if (bias)
    p.operands.push_back({.role = "B",
                          .dtype = in,
                          .access = Access::in,
                          .dims = {n},
                          .strides = {1},
                          .offset = offset,
                          .span = n,
                          .stream = 2});
  p.operands.push_back(matrix("Y", out, Access::out, rows, n, id.integer("pady"), offset, 3));
  for (const Operand& o : p.operands)
    if (o.span > (std::int64_t{1} << 40))
      throw CaseError(
          fmt::format("operand {} of activation would have {} elements; the largest allowed is 2^40: choose smaller rows or n",
                      o.role, o.span));
  const FillRule rule{
      .family = family, .outer_axis = 0, .inner_axis = 1, .exponent = std::countr_zero(static_cast<std::uint64_t>(sigma))};
  p.fills.assign(p.operands.size(), rule);
  if (bias) p.fills[1].inner_axis = 0;
  const bool patterns = family == Family::patterns;
  if (family == Family::nan_one || family == Family::inf_one || patterns) p.leans_on.push_back(Convention::nan_propagates);
  if (!relu && (family == Family::masked || patterns)) p.leans_on.push_back(Convention::infinite_argument);
  p.seed = static_cast<std::uint64_t>(id.integer("seed"));
  p.repeat = id.integer("repeat");
  p.callers = id.integer("callers");
  p.place_at_end = id.word("place") == "end";
  // An elementary function counts as ten operations.
  p.flops = (relu ? 2.0 : 16.0) * static_cast<double>(rows) * static_cast<double>(n);
  p.formats = in == out ? std::string(name(in)) : fmt::format("{}>{}", name(in), name(out));
  return p;
}

std::vector<Expected> expect(const Problem& p, Storage inputs, std::vector<std::int64_t> rows) {
  const Call c = call_of(p);
  const std::vector<double> x = gather(p.operands[0], inputs[0]);
  const std::vector<double> bias = c.bias ? gather(p.operands[1], inputs[1]) : std::vector<double>{};
  return {reference::activation({.rows = c.rows, .n = c.n, .kind = c.kind, .compute = compute_format(c), .x = x, .bias = bias},
                                std::move(rows))};
}

Bound bound(const Problem& p, std::size_t, const Expected& expected, const Arithmetic& arithmetic) {
  return reference::activation_bound(expected, arithmetic, call_of(p).kind);
}

}  // namespace

std::span<const Family> families() {
  return taken;
}

Call call_of(const Problem& p) {
  Call c;
  c.rows = p.id.integer("rows"), c.n = p.id.integer("n");
  c.in = p.operands.front().dtype, c.out = p.operands.back().dtype;
  c.bias = p.id.integer("bias") != 0;
  c.kind = std::ranges::find(kinds, std::string_view(p.id.word("kind")), &std::pair<std::string_view, Kind>::first)->second;
  c.ldx = c.n + p.id.integer("padx"), c.ldy = c.n + p.id.integer("pady");
  return c;
}

Op make() {
  Op op;
  op.name = "activation";
  op.summary = "Y = f(X) or f(X + b), f one of GELU (erf or tanh), SiLU, ReLU";
  op.grammar = grammar();
  op.problem = problem;
  op.expect = expect;
  op.bound = bound;
  op.cases = embedded_cases("activation");
  op.targets = {eigen_target(), model_target(), planted_target(), onednn_target()};
  op.faults = planted_faults();
  op.selftest_clean = clean_cases();
  return op;
}

}  // namespace assay::activation
