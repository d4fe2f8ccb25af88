// SPDX-License-Identifier: Apache-2.0
// layernorm as an op: grammar, problem, truth and bound.
#include "probes/ops/layernorm/layernorm.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "probes/library/cudnn_graph.hpp"
#include "probes/ops/embedded_cases.hpp"
#include "reference/ops/layernorm.hpp"

namespace assay::layernorm {

namespace {

constexpr double largest_dim = 1 << 24;
constexpr std::int64_t default_offset = 10;

/// Rows of activations without `patterns`: one NaN or one huge number is all that a row of random patterns shows.
constexpr Family families[] = {Family::normal,  Family::uniform,  Family::heavy,   Family::two_level, Family::nan_one,
                               Family::inf_one, Family::constant, Family::extreme, Family::shifted,   Family::subnormal,
                               Family::offset,  Family::balanced, Family::outlier};

std::vector<Parameter> grammar() {
  using enum ParameterKind;
  return {
      {"rows", integer, "", 0, largest_dim, {}, "rows, each on its own"},
      {"n", integer, "", 0, largest_dim, {}, "width of a row"},
      {"kind", word, "layer", 0, 0, {"layer", "rms"}, "layer: mean and variance; rms: mean square alone (RMSNorm)"},
      {"eps", word, "1e-5", 0, 0, {"1e-5", "0", "1e-12", "1e-6", "1e-3"}, "added to variance or mean square, as nearest fp32"},
      {"gamma", integer, "0", 0, 1, {}, "1: times a scale G per column"},
      {"beta", integer, "0", 0, 1, {}, "1: plus a shift B per column (kind=layer)"},
      {"stats", integer, "0", 0, 1, {}, "1: mean M (kind=layer) and 1 / sqrt(variance + eps) R of each row are outputs too"},
      {"in", word, "f32", 0, 0, {"f32", "f64", "bf16", "f16"}, "format of X; G, B, M and R are f32, or f64 with in=f64"},
      {"out", word, "same", 0, 0, {"same", "f32", "bf16", "f16"}, "format of Y; same: as X"},
      {"padx", integer, "0", 0, 4096, {}, "elements that the row stride of X exceeds n by"},
      {"pady", integer, "0", 0, 4096, {}, "the same for Y"},
      {"offset", integer, "10", 0, 20, {}, "fill=offset: the mean of a row is 2^offset of its deviations, either sign"},
      fill_parameter(families),
  };
}

Operand operand(std::string role, DType t, Access access, std::vector<std::int64_t> dims, std::int64_t pad, std::int64_t offset,
                std::uint32_t stream) {
  Operand o{.role = std::move(role), .dtype = t, .access = access, .dims = std::move(dims), .offset = offset, .stream = stream};
  const std::int64_t width = o.dims.back(), rows = element_count(o) == 0 ? 0 : element_count(o) / width;
  o.strides = {1};
  if (o.dims.size() == 2) o.strides = {width + pad, 1};
  o.span = rows == 0 ? 0 : (rows - 1) * (width + pad) + width;
  return o;
}

void require_possible(const CaseId& id, DType in, DType out, Family family) {
  const bool layer = id.word("kind") == "layer";
  const std::int64_t n = id.integer("n"), offset = id.integer("offset");
  if (in != out && (size_bytes(in) != 2 || out != DType::f32))
    throw CaseError(fmt::format(
        "layernorm has no form with X in {} and Y in {}; with in=bf16 or in=f16 use out=same or out=f32, else leave out= away",
        name(in), name(out)));
  if (!layer && id.integer("beta") != 0)
    throw CaseError("layernorm with kind=rms has no shift; leave beta=1 away or use kind=layer");
  if (n == 0 && id.integer("stats") != 0)
    throw CaseError("layernorm with n=0 has no mean and no deviation; leave stats=1 away or use n=1 or more");
  if (layer && id.word("eps") == "0" && (family == Family::constant || n == 1))
    throw CaseError(fmt::format("layernorm of rows without variance and with eps=0 is 0/0 everywhere; choose eps above 0, {}",
                                n == 1 ? "or n=2 or more" : "or another fill"));
  if (family != Family::offset && offset != default_offset)
    throw CaseError(fmt::format("offset={} belongs to fill=offset; leave it away with fill={}", offset, name(family)));
  if (family == Family::offset && in == DType::f16 && offset > 15)
    throw CaseError(
        fmt::format("offset={} is beyond the largest number of f16; use offset=15 or less, or another in=", offset));
}

Problem problem(const CaseId& id) {
  Problem p;
  p.id = id;
  const std::int64_t rows = id.integer("rows"), n = id.integer("n"), off = id.integer("off");
  const DType in = *parse_dtype(id.word("in"));
  const DType out = id.word("out") == "same" ? in : *parse_dtype(id.word("out"));
  const Family family = *parse_family(id.word("fill"));
  require_possible(id, in, out, family);
  const DType parameters = in == DType::f64 ? DType::f64 : DType::f32;
  const FillRule row{.family = family, .outer_axis = 0, .inner_axis = 1, .limit = id.integer("offset")};
  const FillRule column{.family = Family::normal};
  const auto add = [&](const FillRule& rule, auto... about) {
    p.operands.push_back(operand(about...));
    p.fills.push_back(rule);
  };
  using dims = std::vector<std::int64_t>;
  add(row, "X", in, Access::in, dims{rows, n}, id.integer("padx"), off, 1u);
  if (id.integer("gamma") != 0) add(column, "G", parameters, Access::in, dims{n}, 0, off, 2u);
  if (id.integer("beta") != 0) add(column, "B", parameters, Access::in, dims{n}, 0, off, 3u);
  add(row, "Y", out, Access::out, dims{rows, n}, id.integer("pady"), off, 4u);
  if (id.integer("stats") != 0) {
    if (id.word("kind") == "layer") add(row, "M", parameters, Access::out, dims{rows, 1}, 0, off, 5u);
    add(row, "R", parameters, Access::out, dims{rows, 1}, 0, off, 6u);
  }
  for (const Operand& o : p.operands)
    if (o.span > (std::int64_t{1} << 40))
      throw CaseError(
          fmt::format("operand {} of layernorm would have {} elements; the largest allowed is 2^40: choose smaller rows or n",
                      o.role, o.span));
  if (family == Family::nan_one || family == Family::inf_one) p.leans_on.push_back(Convention::nan_propagates);
  p.seed = static_cast<std::uint64_t>(id.integer("seed"));
  p.repeat = id.integer("repeat");
  p.callers = id.integer("callers");
  p.place_at_end = id.word("place") == "end";
  p.flops = 8.0 * static_cast<double>(rows) * static_cast<double>(n);
  p.formats = in == out ? std::string(name(in)) : fmt::format("{}>{}", name(in), name(out));
  return p;
}

std::vector<Expected> expect(const Problem& p, Storage inputs, std::vector<std::int64_t> rows) {
  const Call c = call_of(p);
  const auto values = [&](bool there, std::size_t i) {
    return there ? gather(p.operands[i], inputs[i]) : std::vector<double>{};
  };
  const std::vector<double> x = values(true, c.x), gamma = values(c.gamma, c.g), beta = values(c.beta, c.b);
  reference::LayerNormTruth truth = reference::layernorm({.rows = c.rows,
                                                          .n = c.n,
                                                          .rms = c.rms,
                                                          .eps = static_cast<double>(c.eps),
                                                          .compute = compute_format(c),
                                                          .x = x,
                                                          .gamma = gamma,
                                                          .beta = beta},
                                                         std::move(rows));
  std::vector<Expected> out;
  out.push_back(std::move(truth.y));
  if (c.stats && !c.rms) out.push_back(std::move(truth.mean));
  if (c.stats) out.push_back(std::move(truth.rstd));
  return out;
}

Bound bound(const Problem& p, std::size_t output, const Expected& expected, const Arithmetic& arithmetic) {
  const Call c = call_of(p);
  const auto eps = static_cast<double>(c.eps);
  if (output == 0) return reference::layernorm_bound(expected, arithmetic, c.out, c.rms, eps);
  if (output == 1 && !c.rms) return reference::norm_mean_bound(expected, arithmetic, c.parameters, c.n, eps);
  return reference::norm_rstd_bound(expected, arithmetic, c.parameters, c.n, c.rms, eps);
}

}  // namespace

Call call_of(const Problem& p) {
  Call c;
  c.rows = p.id.integer("rows"), c.n = p.id.integer("n");
  c.rms = p.id.word("kind") == "rms";
  c.eps = std::strtof(p.id.word("eps").c_str(), nullptr);
  c.gamma = p.id.integer("gamma") != 0, c.beta = p.id.integer("beta") != 0, c.stats = p.id.integer("stats") != 0;
  c.g = 1, c.b = c.g + c.gamma, c.y = c.b + c.beta, c.m = c.y + 1, c.r = c.m + !c.rms;
  c.in = p.operands[c.x].dtype, c.out = p.operands[c.y].dtype;
  c.parameters = c.in == DType::f64 ? DType::f64 : DType::f32;
  c.ldx = c.n + p.id.integer("padx"), c.ldy = c.n + p.id.integer("pady");
  return c;
}

Op make() {
  Op op;
  op.name = "layernorm";
  op.summary = "Y = rows of X normalised (LayerNorm; kind=rms: RMSNorm), times gamma, plus beta";
  op.grammar = grammar();
  op.problem = problem;
  op.expect = expect;
  op.bound = bound;
  op.cudnn_graph = cudnn_graph;
  op.cases = embedded_cases("layernorm");
  op.targets = {eigen_target(), model_target(), planted_target(), onednn_target(), kernel_target(), cudnn_target()};
  op.faults = planted_faults();
  op.selftest_clean = clean_cases();
  return op;
}

}  // namespace assay::layernorm
