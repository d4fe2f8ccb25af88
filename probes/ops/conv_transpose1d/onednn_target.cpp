// SPDX-License-Identifier: Apache-2.0
// Target "onednn" of conv_transpose1d: oneDNN's deconvolution, opened by path, scratchpad ours and poisoned.
#include "probes/ops/onednn_target.hpp"

#include <fmt/format.h>

#include "probes/ops/conv_transpose1d/conv_transpose1d.hpp"

namespace assay::conv_transpose1d {

namespace {

onednn::Convolution described(const Problem& p, bool packed) {
  const Call c = call_of(p);
  const Operand& w = p.operands[1];
  onednn::Convolution out{.source = onednn::tensor_of(p.operands[0]),
                          .weights = onednn::tensor_of(w),
                          .destination = onednn::tensor_of(p.operands.back()),
                          .bias = {},
                          .stride = c.stride,
                          .dilation = c.dilation,
                          .padding_left = c.padl,
                          .padding_right = c.padr};
  // Ours is (cin, cout/groups, k); the library wants (groups, outputs, inputs, k), without the first when there is one group.
  const std::int64_t inputs = c.cin / c.groups, outputs = c.cout / c.groups;
  out.weights.dims = {c.groups, outputs, inputs, c.k};
  out.weights.strides = {inputs * w.strides[0], w.strides[1], w.strides[0], w.strides[2]};
  if (c.groups == 1) {
    out.weights.dims.erase(out.weights.dims.begin());
    out.weights.strides.erase(out.weights.strides.begin());
  }
  if (c.bias) out.bias = onednn::tensor_of(p.operands[2]);
  out.source.packed = out.weights.packed = out.destination.packed = packed;
  // The library takes floor((lout - span + padl + padr) / stride) + 1 for the length of X.
  if (c.outpad >= c.stride) out.padding_right -= c.outpad;
  return out;
}

class DeconvolutionCall final : public onednn::TargetCall {
 public:
  DeconvolutionCall(const Problem& problem, const onednn::Library& library, bool packed)
      : TargetCall(problem, library, packed),
        call_(call_of(problem)),
        primitive_(onednn::Primitive::deconvolution(library, described(problem, packed))) {}

  void execute() override {
    std::vector<onednn::Primitive::Data> data = {
        {onednn::source, at(0)}, {onednn::weights, at(1)}, {onednn::destination, at(call_.bias ? 3 : 2)}};
    if (call_.bias) data.push_back({onednn::bias, at(2)});
    primitive_.run(data);
  }

  CallReport report() override {
    CallReport out = base_report(call_.in, call_.out, primitive_);
    out.contract.nan_confined = nan_confined();
    out.contract.keeps_subnormals = keeps_subnormals(call_.in);
    return out;
  }

 private:
  conv_transpose1d::Call call_;
  onednn::Primitive primitive_;
};

std::unique_ptr<assay::Call> prepare(const Problem& problem, const TargetSpec& spec) {
  return onednn::prepare(spec, [&](const onednn::Library& library, bool packed) {
    return std::make_unique<DeconvolutionCall>(problem, library, packed);
  });
}

}  // namespace

Target onednn_target() {
  return {"onednn", fmt::format("oneDNN's deconvolution, opened by path; {}", onednn::variants),
          [](const Problem& p, const TargetSpec&) { return onednn::refuses_f64(call_of(p).in); }, prepare};
}

}  // namespace assay::conv_transpose1d
