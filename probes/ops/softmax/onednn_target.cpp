// SPDX-License-Identifier: Apache-2.0
// Target "onednn" of softmax: oneDNN's softmax and log-softmax, opened by path, scratchpad ours and poisoned.
#include "probes/ops/onednn_target.hpp"

#include <fmt/format.h>

#include "probes/ops/softmax/softmax.hpp"

namespace assay::softmax {

namespace {

class SoftmaxCall final : public onednn::TargetCall {
 public:
  SoftmaxCall(const Problem& problem, const onednn::Library& library, bool packed)
      : TargetCall(problem, library, packed), call_(call_of(problem)), primitive_(primitive(problem, library, packed)) {}

  void execute() override {
    const onednn::Primitive::Data data[] = {{onednn::source, at(0)}, {onednn::destination, at(1)}};
    primitive_.run(data);
  }

  CallReport report() override {
    CallReport out = base_report(call_.in, call_.out, primitive_);
    if (!out.algorithm.starts_with("ref")) {
      // Generated kernels have functions of their own (jit_uni_eltwise_injector.cpp); docs/numerics.md section 4.10 has the
      // errors that were measured of them.
      out.arithmetic.function_ulps = call_.log ? onednn::log_ulps : onednn::exp_ulps;
      out.arithmetic.function_ulps_per_x = onednn::exp_ulps_per_x(library());
    }
    // Not made: NaN (the kernels' maximum drops it), fully masked rows, subnormals (exponentials below 2^-125.5 are zero).
    out.contract.nan_confined = nan_confined();
    return out;
  }

 private:
  static onednn::Primitive primitive(const Problem& p, const onednn::Library& library, bool packed) {
    if (packed) throw onednn::Refused("oneDNN takes the layout of softmax from its source and chooses none");
    return onednn::Primitive::softmax(library, onednn::tensor_of(p.operands[0]), onednn::tensor_of(p.operands[1]),
                                      call_of(p).log);
  }

  softmax::Call call_;
  onednn::Primitive primitive_;
};

std::unique_ptr<assay::Call> prepare(const Problem& problem, const TargetSpec& spec) {
  return onednn::prepare(spec, [&](const onednn::Library& library, bool packed) {
    return std::make_unique<SoftmaxCall>(problem, library, packed);
  });
}

}  // namespace

Target onednn_target() {
  return {"onednn", fmt::format("oneDNN's softmax, opened by path; {}", onednn::variants),
          [](const Problem& p, const TargetSpec&) { return onednn::refuses_f64(call_of(p).in); }, prepare};
}

}  // namespace assay::softmax
