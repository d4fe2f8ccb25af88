// SPDX-License-Identifier: Apache-2.0
// Target "onednn" of gemm: oneDNN's matmul, opened by path; alpha, beta and epilogues as post-ops, scratchpad ours
// and poisoned.
#include "probes/ops/onednn_target.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "probes/ops/gemm/blas.hpp"
#include "probes/ops/gemm/cpu_targets.hpp"

namespace assay::gemm {

namespace {

using onednn::PostOp;
using onednn::Tensor;

/// op(A), op(B) and C as oneDNN sees them. Its matmul is made for a destination whose rows are contiguous, so a column-major
/// call becomes C' = B' A' on the same memory, which is what callers of oneDNN with column-major data do.
struct Operands {
  Tensor source, weights, destination;
  std::size_t source_operand = 0, weights_operand = 1;  // index into Problem::operands
};

Tensor tensor(DType t, const Layout& at, std::int64_t batch, std::int64_t rows, std::int64_t columns, bool transposed,
              bool batched) {
  Tensor out{.dtype = t, .dims = {rows, columns}, .strides = {at.row, at.column}};
  if (transposed) {
    std::swap(out.dims[0], out.dims[1]);
    std::swap(out.strides[0], out.strides[1]);
  }
  if (!batched) return out;
  // One matrix for the whole batch is a batch of 1, which oneDNN broadcasts.
  const bool shared = at.entry == 0 && batch > 1;
  out.dims.insert(out.dims.begin(), shared ? 1 : batch);
  out.strides.insert(out.strides.begin(), shared ? std::max(rows * at.row, columns * at.column) : at.entry);
  return out;
}

Operands operands(const Call& c, const Problem& p, bool packed) {
  const bool batched = c.batch != 1 && !c.pointer_array, swapped = !c.row_major;
  Tensor a = tensor(c.in, layout_a(c, p), c.batch, c.m, c.k, swapped, batched);
  Tensor b = tensor(c.in, layout_b(c, p), c.batch, c.k, c.n, swapped, batched);
  Operands out{.source = swapped ? b : a, .weights = swapped ? a : b, .destination = {}};
  out.destination = tensor(c.out, layout_c(c, p), c.batch, c.m, c.n, swapped, batched);
  if (swapped) std::swap(out.source_operand, out.weights_operand);
  out.weights.packed = packed;
  return out;
}

/// One number per column of C: of its rows as oneDNN sees them, or of its columns where those are swapped.
Tensor bias_tensor(const Call& c) {
  const bool batched = c.batch != 1 && !c.pointer_array;
  Tensor out{.dtype = c.out, .dims = {1, c.n}, .strides = {c.n, 1}};
  if (!c.row_major) out.dims = {c.n, 1}, out.strides = {1, 1};
  if (batched) {
    out.dims.insert(out.dims.begin(), c.batch);
    out.strides.insert(out.strides.begin(), c.n);
  }
  return out;
}

/// oneDNN's own bias is added before the post-ops and has one number per column of what it writes.
bool has_own_bias(const Call& c) {
  return c.bias && c.row_major && c.alpha == 1 && c.beta == 0 && (c.batch == 1 || c.pointer_array);
}

std::vector<PostOp> post_ops(const Call& c) {
  std::vector<PostOp> out;
  if (c.alpha != 1) out.push_back({PostOp::linear, static_cast<float>(c.alpha)});
  if (c.beta != 0) out.push_back({PostOp::sum, static_cast<float>(c.beta)});
  if (c.bias && !has_own_bias(c)) out.push_back({PostOp::add, 1, bias_tensor(c)});
  switch (c.activation) {
    case Activation::relu:
      out.push_back({PostOp::relu});
      break;
    case Activation::gelu_erf:
      out.push_back({PostOp::gelu_erf});
      break;
    case Activation::gelu_tanh:
      out.push_back({PostOp::gelu_tanh});
      break;
    case Activation::none:
      break;
  }
  return out;
}

onednn::Primitive primitive(const onednn::Library& library, const Operands& o, const Call& c) {
  return onednn::Primitive::matmul(library, o.source, o.weights, has_own_bias(c) ? std::optional(bias_tensor(c)) : std::nullopt,
                                   o.destination, post_ops(c));
}

class MatmulCall final : public onednn::TargetCall {
 public:
  MatmulCall(const Problem& problem, const onednn::Library& library, bool packed)
      : TargetCall(problem, library, packed),
        call_(call_of(problem)),
        operands_(operands(call_, problem, packed)),
        primitive_(primitive(library, operands_, call_)) {}

  void execute() override {
    if (!call_.pointer_array) return multiply(0);
    for (std::int64_t i = 0; i < call_.batch; ++i) multiply(pointer_order(i, call_.batch));
  }

  CallReport report() override {
    CallReport out = base_report(call_.in, call_.out, primitive_);
    out.contract.beta_zero_ignores_c = {
        true, "oneDNN developer guide, Post-ops: dst is read only by a sum post-op, and beta = 0 appends none"};
    // Not made. alpha = 0: alpha is an eltwise_linear post-op, alpha*x, and 0*NaN is NaN. NaN in, NaN out: the guide does not
    // say so. Repeatable: "deterministic" is false by default, which "permits the library to use non-deterministic constructs".
    out.contract.nan_confined = nan_confined();
    out.contract.keeps_subnormals = keeps_subnormals(call_.in);
    if (call_.has_epilogue() && !out.algorithm.starts_with("ref")) {
      out.arithmetic.function_ulps = onednn::exp_ulps;
      out.arithmetic.function_ulps_per_x = onednn::exp_ulps_per_x(library());
    }
    if (call_.bias) out.facts["bias"] = has_own_bias(call_) ? "as the library's own" : "as a post-op";
    out.facts["batched"] = call_.pointer_array ? "loop" : "one call";
    return out;
  }

 private:
  void multiply(std::int64_t entry) {
    std::byte* const ab[] = {at(0, entry * call_.stride_a), at(1, entry * call_.stride_b)};
    std::vector<onednn::Primitive::Data> data = {{onednn::source, ab[operands_.source_operand]},
                                                 {onednn::weights, ab[operands_.weights_operand]},
                                                 {onednn::destination, at(2, entry * call_.stride_c)}};
    if (call_.bias) data.push_back({has_own_bias(call_) ? onednn::bias : onednn::added, at(3, entry * call_.n)});
    primitive_.run(data);
  }

  gemm::Call call_;
  Operands operands_;
  onednn::Primitive primitive_;
};

/// C = alpha*A*B over no terms: oneDNN answers "success" and leaves C as it was, which its documentation allows.
void check_defined(const gemm::Call& c) {
  if (c.k == 0 && c.m > 0 && c.n > 0 && c.batch > 0)
    throw Unsupported(
        "oneDNN does not define sums of no terms: with zero-volume operands \"the primitive typically does not perform any "
        "computations\" (dnnl.hpp, Memory), so C would keep what it held");
}

std::unique_ptr<assay::Call> prepare(const Problem& problem, const TargetSpec& spec) {
  return onednn::prepare(spec, [&](const onednn::Library& library, bool packed) {
    auto call = std::make_unique<MatmulCall>(problem, library, packed);
    check_defined(call_of(problem));  // afterwards: creating a primitive must not end the process, whatever its sizes
    return call;
  });
}

}  // namespace

Target onednn_target() {
  return {"onednn", fmt::format("oneDNN's matmul, opened by path; {}", onednn::variants),
          [](const Problem& p, const TargetSpec&) -> std::optional<std::string> {
            // Its int8 sums saturate in pairs below VNNI (developer guide, Nuances of int8 computations), its fp8 needs 3.4.
            if (const DType in = call_of(p).in; size_bytes(in) == 1)
              return fmt::format("matmul with {} operands is not probed on oneDNN", name(in));
            return onednn::refuses_f64(call_of(p).in);
          },
          prepare};
}

}  // namespace assay::gemm
