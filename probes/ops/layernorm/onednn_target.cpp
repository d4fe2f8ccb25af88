// SPDX-License-Identifier: Apache-2.0
// Target "onednn" of layernorm: oneDNN's layer normalization, opened by path; its statistics are mean and variance, from which
// this file makes 1 / sqrt(variance + eps).
#include "probes/ops/onednn_target.hpp"

#include <fmt/format.h>

#include <cmath>

#include "probes/ops/layernorm/layernorm.hpp"

namespace assay::layernorm {

namespace {

class LayerNormCall final : public onednn::TargetCall {
 public:
  LayerNormCall(const Problem& problem, const onednn::Library& library, bool packed)
      : TargetCall(problem, library, packed), call_(call_of(problem)), primitive_(primitive(problem, library, packed)) {}

  void execute() override {
    std::vector<onednn::Primitive::Data> data = {{onednn::source, at(call_.x)}, {onednn::destination, at(call_.y)}};
    if (call_.gamma) data.push_back({onednn::scale, at(call_.g)});
    if (call_.beta) data.push_back({onednn::shift, at(call_.b)});
    if (call_.stats && !call_.rms) data.push_back({onednn::mean, at(call_.m)});
    if (call_.stats) data.push_back({onednn::variance, at(call_.r)});
    primitive_.run(data);
    if (!call_.stats) return;
    auto* const variance = reinterpret_cast<float*>(at(call_.r));
    for (std::int64_t i = 0; i < call_.rows; ++i) variance[i] = 1 / std::sqrt(variance[i] + call_.eps);
  }

  CallReport report() override {
    CallReport out = base_report(call_.in, call_.out, primitive_);
    out.contract.nan_confined = nan_confined();
    out.contract.keeps_subnormals = keeps_subnormals(call_.in);
    return out;
  }

 private:
  static onednn::Primitive primitive(const Problem& p, const onednn::Library& library, bool packed) {
    const layernorm::Call c = call_of(p);
    if (packed) throw onednn::Refused("oneDNN chooses no layout for layer normalization of rows");
    onednn::Normalization n{.source = onednn::tensor_of(p.operands[c.x]),
                            .destination = onednn::tensor_of(p.operands[c.y]),
                            .statistics = {},
                            .scale = c.gamma,
                            .shift = c.beta,
                            .epsilon = c.eps,
                            .root_mean_square = c.rms};
    if (c.stats) n.statistics = onednn::Tensor{.dtype = DType::f32, .dims = {c.rows}, .strides = {1}};
    return onednn::Primitive::layer_normalization(library, n);
  }

  layernorm::Call call_;
  onednn::Primitive primitive_;
};

std::unique_ptr<assay::Call> prepare(const Problem& problem, const TargetSpec& spec) {
  return onednn::prepare(spec, [&](const onednn::Library& library, bool packed) {
    return std::make_unique<LayerNormCall>(problem, library, packed);
  });
}

}  // namespace

Target onednn_target() {
  return {"onednn", fmt::format("oneDNN's layer normalization, opened by path; {}", onednn::variants),
          [](const Problem& p, const TargetSpec&) { return onednn::refuses_f64(call_of(p).in); }, prepare};
}

}  // namespace assay::layernorm
