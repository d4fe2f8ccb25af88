// SPDX-License-Identifier: Apache-2.0
// gemm as an op: grammar, problem, truth and bound.
#include "probes/ops/gemm/gemm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "probes/library/cudnn_graph.hpp"
#include "probes/ops/embedded_cases.hpp"
#include "probes/ops/gemm/epilogue.hpp"
#include "probes/ops/gemm/verify.hpp"
#include "reference/ops/gemm.hpp"

namespace assay::gemm {

namespace {

constexpr double largest_dim = 1 << 24;

/// Those of products, and one_hot: one 1 per row of A and normal numbers in B, so that rows of B are copied.
std::vector<Family> families() {
  std::vector<Family> all(product_families().begin(), product_families().end());
  all.push_back(Family::one_hot);
  return all;
}

std::vector<Parameter> grammar() {
  using enum ParameterKind;
  const std::vector<std::string_view> no_yes = {"n", "t"};
  return {
      {"m", integer, "", 0, largest_dim, {}, "rows of C"},
      {"n", integer, "", 0, largest_dim, {}, "columns of C"},
      {"k", integer, "", 0, largest_dim, {}, "length of each sum"},
      {"batch", integer, "1", 0, 1 << 20, {}, "independent products"},
      {"mode", word, "strided", 0, 0, {"strided", "pointers"}, "batch by stride, or by pointers in shuffled order"},
      {"share", word, "none", 0, 0, {"none", "a", "b"}, "operand shared by the whole batch (batch stride 0)"},
      {"in", word, "f32", 0, 0, {"f32", "f64", "bf16", "f16", "e4m3", "e5m2", "i8"}, "format of A and B"},
      {"out", word, "same", 0, 0, {"same", "f32", "bf16", "f16", "i32"}, "format of C; same: as A and B"},
      {"order", word, "col", 0, 0, {"col", "row"}, "storage order of all three"},
      {"ta", word, "n", 0, 0, no_yes, "op(A): n as stored, t transposed"},
      {"tb", word, "n", 0, 0, no_yes, "op(B)"},
      {"pada", integer, "0", 0, 4096, {}, "elements that lda exceeds the tight leading dimension by"},
      {"padb", integer, "0", 0, 4096, {}, "the same for ldb"},
      {"padc", integer, "0", 0, 4096, {}, "the same for ldc"},
      {"gap", integer, "0", 0, 4096, {}, "elements between batch entries, all operands"},
      {"alpha", real, "1", -1e30, 1e30, {}, "scalar on A*B; 0: A and B must not be read"},
      {"beta", real, "0", -1e30, 1e30, {}, "scalar on C; 0: C must not be read"},
      {"bias", integer, "0", 0, 1, {}, "1: a bias per column of C is added"},
      {"act", word, "none", 0, 0, {"none", "relu", "gelu_erf", "gelu_tanh"}, "function of the sum that is stored"},
      fill_parameter(families()),
  };
}

/// A (batch, rows, cols) matrix stored by `order`, its leading dimension `pad` over the tight one.
Operand matrix(std::string role, DType t, Access access, std::int64_t batch, std::int64_t rows, std::int64_t cols,
               bool contiguous_cols, std::int64_t pad, std::int64_t gap, bool shared, std::uint32_t stream) {
  Operand o{.role = std::move(role), .dtype = t, .access = access, .stream = stream};
  const std::int64_t inner = contiguous_cols ? cols : rows, outer = contiguous_cols ? rows : cols;
  const std::int64_t ld = std::max<std::int64_t>(1, inner) + pad;
  // Before any product of sizes is formed: a case id can name more than 64 bits can count.
  const double elements =
      static_cast<double>(batch) * (static_cast<double>(ld) * static_cast<double>(outer) + static_cast<double>(gap));
  if (!(elements <= 0x1p40))
    throw CaseError(fmt::format(
        "operand {} of gemm would have {:.3g} elements; the largest allowed is 2^40: choose smaller m, n, k or batch", o.role,
        elements));
  const std::int64_t one = inner == 0 || outer == 0 ? 0 : (outer - 1) * ld + inner;
  const std::int64_t batch_stride = shared ? 0 : ld * outer + gap;
  o.dims = {batch, rows, cols};
  o.strides = {batch_stride, contiguous_cols ? ld : 1, contiguous_cols ? 1 : ld};
  o.span = one == 0 || batch == 0 ? 0 : (batch - 1) * batch_stride + one;
  return o;
}

/// x = integer * 2^e with the smallest |integer|; used to see whether a scalar keeps integer sums exact.
struct Dyadic {
  double integer = 0;
  int exponent = 0;
};
Dyadic dyadic(double x) {
  if (x == 0) return {};
  int e = 0;
  double significand = std::ldexp(std::frexp(x, &e), 53);
  e -= 53;
  while (std::fmod(significand, 2.0) == 0) {
    significand /= 2;
    ++e;
  }
  return {std::abs(significand), e};
}

constexpr double addend_limit = 64;

/// Exponent of the power of two that all results of an integer-valued family are multiples of.
int unit_exponent(const Call& c) {
  const Dyadic a = dyadic(c.alpha), b = dyadic(c.beta);
  const int unit = c.beta == 0 ? a.exponent : c.alpha == 0 ? b.exponent : std::min(a.exponent, b.exponent);
  return c.bias ? std::min(unit, 0) : unit;
}

/// Largest |alpha*A*B| + |beta*C| + |bias| of an integer-valued family, in units of the common power of two.
/// Every partial sum in any order, with alpha applied early or late, is a multiple of that unit and no larger.
double largest_integer(const Call& c, Family family, double product, double addend, double bias) {
  const Dyadic a = dyadic(c.alpha), b = dyadic(c.beta);
  const int unit = unit_exponent(c);
  const double terms = family == Family::position ? 1 : static_cast<double>(c.k);
  return std::ldexp(a.integer, a.exponent - unit) * terms * product + std::ldexp(b.integer, b.exponent - unit) * addend +
         (c.bias ? std::ldexp(bias, -unit) : 0);
}

double largest_product(const Call& c, const FillRule& rule) {
  switch (rule.family) {
    case Family::integer:
      return static_cast<double>(rule.limit) * static_cast<double>(rule.limit);
    case Family::reveal:
      return std::ldexp(1.0, reveal_bits(c.in));
    case Family::position:
      return std::ldexp(1.0, std::min(24, format(c.in).precision));
    default:
      return 1;
  }
}

Activation activation_of(const CaseId& id) {
  const std::string& act = id.word("act");
  return act == "relu"        ? Activation::relu
         : act == "gelu_erf"  ? Activation::gelu_erf
         : act == "gelu_tanh" ? Activation::gelu_tanh
                              : Activation::none;
}

Family addend_family(Family f) {
  if (exact(f)) return Family::integer;
  return f == Family::subnormal || f == Family::underflow ? f : Family::normal;
}

/// Which formats go together. What an 8-bit sum becomes beyond its format nobody declares, so C is wider.
bool has_form(DType in, DType out) {
  if (in == DType::i8) return out == DType::i32;
  if (size_bytes(in) == 1) return out == DType::f32 || out == DType::bf16 || out == DType::f16;
  return in == out || (size_bytes(in) == 2 && out == DType::f32);
}

/// 8-bit formats hold few families; int8 goes with int32 sums and scalars: no fraction, no function.
void check_narrow_case(const CaseId& id, const Call& c, Family family) {
  const auto whole = [](double x) { return x == std::trunc(x); };
  if (!holds(c.in, family))
    throw CaseError(fmt::format("{} cannot hold fill={}; use integer, reveal, ones or sign{}", name(c.in), name(family),
                                is_integer(c.in) ? "" : ", normal or uniform"));
  if (is_integer(c.in) && (c.has_epilogue() || !whole(c.alpha) || !whole(c.beta)))
    throw CaseError(fmt::format("gemm in=i8 has whole alpha and beta, no bias and no act, but alpha={} beta={} bias={} act={}",
                                c.alpha, c.beta, id.integer("bias"), id.word("act")));
}

Problem problem(const CaseId& id) {
  Problem p;
  p.id = id;
  Call c;
  c.m = id.integer("m"), c.n = id.integer("n"), c.k = id.integer("k"), c.batch = id.integer("batch");
  c.in = *parse_dtype(id.word("in"));
  c.out = id.word("out") == "same" ? c.in : *parse_dtype(id.word("out"));
  if (!has_form(c.in, c.out))
    throw CaseError(
        fmt::format("gemm has no form with A, B in {} and C in {}; with in=bf16 or in=f16 use out=same or out=f32, "
                    "with in=e4m3 or in=e5m2 out=f32, out=bf16 or out=f16, with in=i8 out=i32, else leave out= away",
                    name(c.in), name(c.out)));
  c.row_major = id.word("order") == "row";
  c.transpose_a = id.word("ta") == "t", c.transpose_b = id.word("tb") == "t";
  c.alpha = id.real("alpha"), c.beta = id.real("beta");
  c.bias = id.integer("bias") == 1, c.activation = activation_of(id);
  const std::string& share = id.word("share");
  const std::int64_t gap = id.integer("gap");
  // Contiguous along columns of the logical matrix: row-major as stored, or column-major of the transpose.
  p.operands.push_back(
      matrix("A", c.in, Access::in, c.batch, c.m, c.k, c.row_major != c.transpose_a, id.integer("pada"), gap, share == "a", 1));
  p.operands.push_back(
      matrix("B", c.in, Access::in, c.batch, c.k, c.n, c.row_major != c.transpose_b, id.integer("padb"), gap, share == "b", 2));
  p.operands.push_back(matrix("C", c.out, c.beta == 0 ? Access::out : Access::inout, c.batch, c.m, c.n, c.row_major,
                              id.integer("padc"), gap, false, 3));
  for (Operand& o : p.operands) o.offset = id.integer("off");
  const Family family = *parse_family(id.word("fill"));
  check_narrow_case(id, c, family);
  const bool gelu = c.activation == Activation::gelu_erf || c.activation == Activation::gelu_tanh;
  if (gelu && (family == Family::inf_one || underflows(family)))
    throw CaseError(fmt::format(
        "gemm with act={} takes no fill={}: a GELU of such values is the activation operation's own subject; use act=none or "
        "act=relu",
        id.word("act"), name(family)));
  FillRule a{.family = family, .outer_axis = 1, .inner_axis = 2, .left = true};
  FillRule b{.family = family, .outer_axis = 2, .inner_axis = 1, .left = false};
  FillRule addend{.family = addend_family(family),
                  .outer_axis = 1,
                  .inner_axis = 2,
                  .left = true,
                  .limit = static_cast<std::int64_t>(addend_limit)};
  if (family == Family::integer) {
    // 2^24 for an fp32 accumulator, 2^13 for those of fp8 tensor cores, 2^31 for int32; fp16 results must also stay below
    // 65504.
    const bool fp8 = size_bytes(c.in) == 1 && c.in != DType::i8;
    const int p_sum = c.out == DType::f64 ? 53 : c.out == DType::i32 ? 31 : fp8 ? 13 : c.out == DType::f16 ? 15 : 24;
    const double scale = std::max(1.0, largest_integer(c, Family::position, 1, 0, 0));
    const int scalar_bits = static_cast<int>(std::ceil(std::log2(scale))) + (c.beta == 0 ? 0 : 1) + (c.bias ? 1 : 0);
    a.limit = b.limit = std::max<std::int64_t>(1, integer_limit(c.k, p_sum - scalar_bits, c.in));
  }
  if (family == Family::one_hot) a.family = Family::position, b.family = Family::normal;
  p.fills = {a, b, addend};
  if (c.bias) {
    p.operands.push_back({.role = "bias",
                          .dtype = c.out,
                          .dims = {c.batch, c.n},
                          .strides = {c.n, 1},
                          .offset = id.integer("off"),
                          .span = c.batch * c.n,
                          .stream = 4});
    // Real fills: large enough that an output without its bias is beyond any bound.
    p.fills.push_back({.family = addend.family,
                       .outer_axis = 1,
                       .inner_axis = 1,
                       .limit = addend.limit,
                       .exponent = addend.family == Family::normal ? 2 : 0});
  }
  if (c.beta == 0) p.leans_on.push_back(Convention::beta_zero_ignores_c);
  if (c.alpha == 0) p.leans_on.push_back(Convention::alpha_zero_ignores_ab);
  // With alpha = 0 nothing of A or B may show, so there is nothing to propagate.
  if (c.alpha != 0 && (family == Family::nan_one || family == Family::inf_one))
    p.leans_on.push_back(Convention::nan_propagates);
  if (underflows(family)) p.leans_on.push_back(Convention::keeps_subnormals);
  p.seed = static_cast<std::uint64_t>(id.integer("seed"));
  p.repeat = id.integer("repeat");
  p.callers = id.integer("callers");
  p.place_at_end = id.word("place") == "end";
  p.flops = 2.0 * static_cast<double>(c.m) * static_cast<double>(c.n) * static_cast<double>(c.k) * static_cast<double>(c.batch);
  p.formats = c.in == c.out ? std::string(name(c.in)) : fmt::format("{}>{}", name(c.in), name(c.out));
  return p;
}

std::vector<Expected> expect(const Problem& p, Storage inputs, std::vector<std::int64_t> rows) {
  const Call c = call_of(p);
  std::vector<double> a, b, addend;
  if (c.alpha != 0 && c.k > 0) {
    a = gather(p.operands[0], inputs[0]);
    b = gather(p.operands[1], inputs[1]);
  }
  if (c.beta != 0) addend = gather(p.operands[2], inputs[2]);
  // A scalar is passed to the library in the format it computes in, so that is the scalar the truth uses.
  const DType scalar = c.out == DType::f64 ? DType::f64 : DType::f32;
  const reference::Gemm g{.batch = c.batch,
                          .m = c.m,
                          .n = c.n,
                          .k = c.k,
                          .alpha = round_to(scalar, c.alpha),
                          .beta = round_to(scalar, c.beta),
                          .a = a,
                          .b = b,
                          .c = addend};
  Expected z = reference::gemm(g, c.out == DType::f64, true, std::move(rows));
  if (!c.has_epilogue()) return {std::move(z)};
  return {with_epilogue(c, std::move(z), c.bias ? gather(p.operands[3], inputs[3]) : std::vector<double>{})};
}

/// Whether every partial sum is representable in the declared arithmetic, so that the bound is zero.
bool exact_under(const Problem& p, const Arithmetic& arithmetic) {
  const FillRule& rule = p.fills[0];
  if (!exact(rule.family)) return false;
  const Call c = call_of(p);
  if (arithmetic.operand != c.in && format(arithmetic.operand).precision < format(c.in).precision) return false;
  // A copy: one product b * 1, zeros, and a sign.
  if (p.fills[1].family == Family::normal) return std::fabs(c.alpha) == 1 && c.beta == 0 && !c.bias;
  const double largest = largest_integer(c, rule.family, largest_product(c, rule), addend_limit, addend_limit);
  // A unit that keeps F < 23 fraction bits drops what lies below 2^-F of the largest term.
  const bool few_bits = arithmetic.accumulation == Accumulation::tensor_core && arithmetic.fraction_bits < 23;
  return largest <= std::ldexp(1.0, few_bits ? arithmetic.fraction_bits : format(arithmetic.accumulator).precision);
}

Bound bound(const Problem& p, std::size_t, const Expected& expected, const Arithmetic& arithmetic) {
  return epilogue_bound(call_of(p), expected, arithmetic, exchangeable(p.fills[0].family), exact_under(p, arithmetic));
}

}  // namespace

Call call_of(const Problem& p) {
  const CaseId& id = p.id;
  Call c;
  c.m = id.integer("m"), c.n = id.integer("n"), c.k = id.integer("k"), c.batch = id.integer("batch");
  c.in = p.operands[0].dtype, c.out = p.operands[2].dtype;
  c.transpose_a = id.word("ta") == "t", c.transpose_b = id.word("tb") == "t";
  c.row_major = id.word("order") == "row";
  const auto leading = [](const Operand& o) { return std::max(o.strides[1], o.strides[2]); };
  c.lda = leading(p.operands[0]), c.ldb = leading(p.operands[1]), c.ldc = leading(p.operands[2]);
  c.stride_a = p.operands[0].strides[0], c.stride_b = p.operands[1].strides[0], c.stride_c = p.operands[2].strides[0];
  c.alpha = id.real("alpha"), c.beta = id.real("beta");
  c.pointer_array = id.word("mode") == "pointers";
  c.bias = id.integer("bias") == 1, c.activation = activation_of(id);
  return c;
}

std::int64_t pointer_order(std::int64_t i, std::int64_t batch) {
  // An odd step coprime to batch visits every entry once; starting from the end makes entry 0 not the first.
  std::int64_t step = 7;
  while (std::gcd(step, std::max<std::int64_t>(batch, 1)) != 1) step += 2;
  return (batch - 1 + i * step) % batch;
}

Op make() {
  Op op;
  op.name = "gemm";
  op.summary = "C = f(alpha*op(A)*op(B) + beta*C + bias), batched";
  op.grammar = grammar();
  op.problem = problem;
  op.expect = expect;
  op.bound = bound;
  op.cudnn_graph = cudnn_graph;
  op.sampled_rows = sampled_rows;
  op.verify = [](const Problem& p, Storage inputs, const FinishedCall& call) {
    return verify(p, inputs, call, exact_under(p, call.arithmetic), std::ldexp(1.0, unit_exponent(call_of(p))));
  };
  op.cases = embedded_cases("gemm");
  op.targets = cpu_targets();
  op.targets.push_back(model_target());
  op.targets.push_back(planted_target());
  op.targets.push_back(simulated_target());
  op.targets.push_back(cublaslt_target());
  op.targets.push_back(kernel_target());
  op.targets.push_back(cublas_target());
  op.targets.push_back(cudnn_target());
  op.faults = planted_faults();
  op.selftest_clean = clean_cases();
  return op;
}

}  // namespace assay::gemm
