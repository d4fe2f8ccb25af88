// SPDX-License-Identifier: Apache-2.0
// Target "onednn" of activation: oneDNN's elementwise functions, opened by path; with a bias, its binary addition with the
// function as a post-op.
#include "probes/ops/onednn_target.hpp"

#include <fmt/format.h>

#include "probes/ops/activation/activation.hpp"

namespace assay::activation {

namespace {

onednn::Function function(Kind k) {
  switch (k) {
    case Kind::gelu_erf:
      return onednn::Function::gelu_erf;
    case Kind::gelu_tanh:
      return onednn::Function::gelu_tanh;
    case Kind::silu:
      return onednn::Function::silu;
    case Kind::relu:
      break;
  }
  return onednn::Function::relu;
}

onednn::PostOp::Kind post_op(Kind k) {
  switch (k) {
    case Kind::gelu_erf:
      return onednn::PostOp::gelu_erf;
    case Kind::gelu_tanh:
      return onednn::PostOp::gelu_tanh;
    case Kind::silu:
      return onednn::PostOp::silu;
    case Kind::relu:
      break;
  }
  return onednn::PostOp::relu;
}

class ActivationCall final : public onednn::TargetCall {
 public:
  ActivationCall(const Problem& problem, const onednn::Library& library, bool packed)
      : TargetCall(problem, library, packed), call_(call_of(problem)), primitive_(primitive(problem, library, packed)) {}

  void execute() override {
    const onednn::Primitive::Data data[] = {
        {onednn::source, at(0)}, {onednn::source_1, at(1)}, {onednn::destination, at(call_.y_index())}};
    primitive_.run(data);
  }

  CallReport report() override {
    CallReport out = base_report(call_.in, call_.out, primitive_);
    if (!out.algorithm.starts_with("ref")) {
      out.arithmetic.function_ulps = onednn::exp_ulps;
      out.arithmetic.function_ulps_per_x = onednn::exp_ulps_per_x(library());
    }
    // Not made: NaN (ReLU is a maximum that drops it), infinities (GELU of +Inf is NaN in major 3), subnormals.
    out.contract.nan_confined = nan_confined();
    return out;
  }

 private:
  static onednn::Primitive primitive(const Problem& p, const onednn::Library& library, bool packed) {
    const activation::Call c = call_of(p);
    if (packed) throw onednn::Refused("oneDNN chooses no layout for elementwise functions");
    const onednn::Tensor x = onednn::tensor_of(p.operands[0]), y = onednn::tensor_of(p.operands[c.y_index()]);
    if (!c.bias) return onednn::Primitive::eltwise(library, function(c.kind), x, y);
    onednn::Tensor b = onednn::tensor_of(p.operands[1]);
    b.dims = {1, c.n}, b.strides = {c.n, 1};
    const onednn::PostOp after{post_op(c.kind)};
    return onednn::Primitive::sum(library, x, b, y, {&after, 1});
  }

  activation::Call call_;
  onednn::Primitive primitive_;
};

std::unique_ptr<assay::Call> prepare(const Problem& problem, const TargetSpec& spec) {
  return onednn::prepare(spec, [&](const onednn::Library& library, bool packed) {
    return std::make_unique<ActivationCall>(problem, library, packed);
  });
}

}  // namespace

Target onednn_target() {
  return {"onednn", fmt::format("oneDNN's elementwise functions, opened by path; {}", onednn::variants),
          [](const Problem& p, const TargetSpec&) { return onednn::refuses_f64(call_of(p).in); }, prepare};
}

}  // namespace assay::activation
