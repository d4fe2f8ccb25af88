// SPDX-License-Identifier: Apache-2.0
// Target "onednn" of conv1d: oneDNN's convolution, opened by path, scratchpad ours and poisoned. As given: the direct
// algorithm on the caller's layout. layout=packed: layouts and algorithm are the library's choice.
#include "probes/ops/onednn_target.hpp"

#include <fmt/format.h>

#include "probes/ops/conv1d/conv1d.hpp"
#include "probes/ops/conv1d/targets.hpp"

namespace assay::conv1d {

namespace {

onednn::Convolution described(const Problem& p, bool packed) {
  const Call c = call_of(p);
  onednn::Convolution out{
      .source = {.dtype = c.in, .dims = {c.n, c.cin, c.l}, .strides = {c.x.n, c.x.channel, c.x.position}},
      .weights = {.dtype = c.in,
                  .dims = {c.groups, c.group_out(), c.group_in(), c.k},
                  .strides = {c.group_out() * c.w.output, c.w.output, c.w.input, c.w.tap}},
      .destination = {.dtype = c.out, .dims = {c.n, c.cout, c.lout}, .strides = {c.y.n, c.y.channel, c.y.position}},
      .bias = {},
      .stride = c.stride,
      .dilation = c.dilation,
      .padding_left = c.padl,
      .padding_right = c.padr,
      .direct = !packed};
  if (c.groups == 1) {
    out.weights.dims.erase(out.weights.dims.begin());
    out.weights.strides.erase(out.weights.strides.begin());
  }
  if (c.bias) out.bias = onednn::Tensor{.dtype = c.in, .dims = {c.cout}, .strides = {1}};
  out.source.packed = out.weights.packed = out.destination.packed = packed;
  return out;
}

class ConvolutionCall final : public onednn::TargetCall {
 public:
  ConvolutionCall(const Problem& problem, const onednn::Library& library, bool packed)
      : TargetCall(problem, library, packed),
        call_(call_of(problem)),
        primitive_(onednn::Primitive::convolution(library, described(problem, packed))) {}

  void execute() override {
    std::vector<onednn::Primitive::Data> data = {
        {onednn::source, at(0)}, {onednn::weights, at(1)}, {onednn::destination, at(call_.output())}};
    if (call_.bias) data.push_back({onednn::bias, at(2)});
    primitive_.run(data);
  }

  CallReport report() override {
    CallReport out = base_report(call_.in, call_.out, primitive_);
    // jit_avx512_core_f32_wino_conv_4x3 and its like: F(4,3). They take two spatial dims in all releases so far.
    if (out.algorithm.find("wino") != std::string::npos)
      out.arithmetic.transform = Transform::winograd_4;
    else
      out.contract.nan_confined = nan_confined();
    out.contract.keeps_subnormals = keeps_subnormals(call_.in);
    return out;
  }

 private:
  conv1d::Call call_;
  onednn::Primitive primitive_;
};

std::unique_ptr<assay::Call> prepare(const Problem& problem, const TargetSpec& spec) {
  return onednn::prepare(spec, [&](const onednn::Library& library, bool packed) {
    return std::make_unique<ConvolutionCall>(problem, library, packed);
  });
}

}  // namespace

Target onednn_target() {
  return {"onednn", fmt::format("oneDNN's convolution, opened by path; {}", onednn::variants),
          [](const Problem& p, const TargetSpec&) { return onednn::refuses_f64(call_of(p).in); }, prepare};
}

}  // namespace assay::conv1d
