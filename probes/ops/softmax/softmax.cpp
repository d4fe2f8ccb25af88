// SPDX-License-Identifier: Apache-2.0
// softmax as an op: grammar, problem, truth and bound.
#include "probes/ops/softmax/softmax.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "probes/library/cudnn_graph.hpp"
#include "probes/ops/embedded_cases.hpp"
#include "reference/ops/softmax.hpp"

namespace assay::softmax {

namespace {

constexpr double largest_dim = 1 << 24;

std::vector<Parameter> grammar() {
  using enum ParameterKind;
  return {
      {"rows", integer, "", 0, largest_dim, {}, "rows, each on its own"},
      {"n", integer, "", 0, largest_dim, {}, "width of a row"},
      {"kind", word, "softmax", 0, 0, {"softmax", "log"}, "softmax, or its logarithm"},
      {"in", word, "f32", 0, 0, {"f32", "f64", "bf16", "f16"}, "format of X"},
      {"out", word, "same", 0, 0, {"same", "f32", "bf16", "f16"}, "format of Y; same: as X"},
      {"padx", integer, "0", 0, 4096, {}, "elements that the row stride of X exceeds n by"},
      {"pady", integer, "0", 0, 4096, {}, "the same for Y"},
      {"sigma",
       word,
       "1",
       0,
       0,
       {"1", "2", "4", "8", "16", "32"},
       "factor on the logits of a fill that has no scale of its own"},
      fill_parameter(logit_families()),
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
  return f == Family::dyadic || f == Family::one_hot || f == Family::constant || f == Family::extreme || f == Family::shifted ||
         f == Family::vanishing;
}

Problem problem(const CaseId& id) {
  Problem p;
  p.id = id;
  const std::int64_t rows = id.integer("rows"), n = id.integer("n");
  const DType in = *parse_dtype(id.word("in"));
  const DType out = id.word("out") == "same" ? in : *parse_dtype(id.word("out"));
  if (in != out && (size_bytes(in) != 2 || out != DType::f32))
    throw CaseError(fmt::format(
        "softmax has no form with X in {} and Y in {}; with in=bf16 or in=f16 use out=same or out=f32, else leave out= away",
        name(in), name(out)));
  const Family family = *parse_family(id.word("fill"));
  const std::int64_t sigma = id.integer("sigma");
  if (sigma != 1 && has_own_scale(family))
    throw CaseError(fmt::format(
        "fill={} has a scale of its own; leave sigma={} away or use it with fill=normal, uniform, heavy, two_level or masked",
        name(family), sigma));
  p.operands.push_back(matrix("X", in, Access::in, rows, n, id.integer("padx"), id.integer("off"), 1));
  p.operands.push_back(matrix("Y", out, Access::out, rows, n, id.integer("pady"), id.integer("off"), 2));
  for (const Operand& o : p.operands)
    if (o.span > (std::int64_t{1} << 40))
      throw CaseError(
          fmt::format("operand {} of softmax would have {} elements; the largest allowed is 2^40: choose smaller rows or n",
                      o.role, o.span));
  const FillRule logits{
      .family = family, .outer_axis = 0, .inner_axis = 1, .exponent = std::countr_zero(static_cast<std::uint64_t>(sigma))};
  p.fills = {logits, logits};
  if (family == Family::nan_one || family == Family::inf_one) p.leans_on.push_back(Convention::nan_propagates);
  if (underflows(family)) p.leans_on.push_back(Convention::keeps_subnormals);
  if (family == Family::all_masked) p.leans_on.push_back(Convention::masked_row);
  p.seed = static_cast<std::uint64_t>(id.integer("seed"));
  p.repeat = id.integer("repeat");
  p.callers = id.integer("callers");
  p.place_at_end = id.word("place") == "end";
  // An exponential counts as ten operations.
  p.flops = 14.0 * static_cast<double>(rows) * static_cast<double>(n);
  p.formats = in == out ? std::string(name(in)) : fmt::format("{}>{}", name(in), name(out));
  return p;
}

std::vector<Expected> expect(const Problem& p, Storage inputs, std::vector<std::int64_t> rows) {
  const Call c = call_of(p);
  const std::vector<double> x = gather(p.operands[0], inputs[0]);
  return {reference::softmax({.rows = c.rows, .n = c.n, .log = c.log, .compute = compute_format(c), .x = x}, std::move(rows))};
}

Bound bound(const Problem& p, std::size_t, const Expected& expected, const Arithmetic& arithmetic) {
  return reference::softmax_bound(expected, arithmetic, call_of(p).log, p.fills[0].family == Family::dyadic);
}

}  // namespace

Call call_of(const Problem& p) {
  Call c;
  c.rows = p.id.integer("rows"), c.n = p.id.integer("n");
  c.in = p.operands[0].dtype, c.out = p.operands[1].dtype;
  c.log = p.id.word("kind") == "log";
  c.ldx = c.n + p.id.integer("padx"), c.ldy = c.n + p.id.integer("pady");
  return c;
}

Op make() {
  Op op;
  op.name = "softmax";
  op.summary = "Y = softmax(X) or log-softmax(X) along rows";
  op.grammar = grammar();
  op.problem = problem;
  op.expect = expect;
  op.bound = bound;
  op.cudnn_graph = cudnn_graph;
  op.cases = embedded_cases("softmax");
  op.targets = {eigen_target(), model_target(), planted_target(), onednn_target(), kernel_target(), cudnn_target()};
  op.faults = planted_faults();
  op.selftest_clean = clean_cases();
  return op;
}

}  // namespace assay::softmax
