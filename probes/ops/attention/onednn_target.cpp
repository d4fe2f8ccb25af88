// SPDX-License-Identifier: Apache-2.0
// Target "onednn" of attention: oneDNN's matmul (scale and bias as post-ops), softmax and matmul, opened by path. Scores and
// probabilities lie in memory of ours between the parts, in fp32; masks are written there as -Inf by this file, and for 16-bit
// inputs the library's reorder rounds the probabilities for the second product.
#include "probes/ops/onednn_target.hpp"

#include <fmt/format.h>

#include <limits>

#include "probes/ops/attention/attention.hpp"

namespace assay::attention {

namespace {

using onednn::Primitive;
using onednn::Tensor;

/// Heads that share keys get a dim of their own, which is 1 for keys and values: oneDNN broadcasts it.
Tensor with_groups(const Call& c, Tensor t, bool shared) {
  const std::int64_t group = c.hq / c.hkv;
  if (group == 1) return t;
  const bool all_alike = t.dims[1] == 1 && c.hq > 1;  // a bias for all heads
  const std::int64_t of_group = shared || all_alike ? 1 : group;
  t.dims[1] = all_alike ? 1 : c.hkv;
  t.dims.insert(t.dims.begin() + 2, of_group);
  t.strides.insert(t.strides.begin() + 2, t.strides[1]);
  t.strides[1] *= of_group;
  return t;
}

Tensor transposed(Tensor t) {
  std::swap(t.dims.end()[-1], t.dims.end()[-2]);
  std::swap(t.strides.end()[-1], t.strides.end()[-2]);
  return t;
}

/// (b, hq, sq, skv), tight.
Tensor square(const Call& c, DType t) {
  return {.dtype = t, .dims = {c.b, c.hq, c.sq, c.skv}, .strides = {c.hq * c.sq * c.skv, c.sq * c.skv, c.skv, 1}};
}
/// The same as rows.
Tensor rows(const Call& c, DType t) {
  return {.dtype = t, .dims = {c.b * c.hq * c.sq, c.skv}, .strides = {c.skv, 1}};
}

Primitive scores_primitive(const onednn::Library& library, const Problem& p, const Call& c, DType to, bool packed) {
  Tensor keys = with_groups(c, transposed(onednn::tensor_of(p.operand("K"))), true);
  keys.packed = packed;
  std::vector<onednn::PostOp> after = {{onednn::PostOp::linear, static_cast<float>(c.scale)}};
  if (c.bias_heads > 0) {
    Tensor bias = onednn::tensor_of(p.operand("bias"));
    bias.dims.insert(bias.dims.begin(), 1);
    bias.strides.insert(bias.strides.begin(), c.bias_heads * c.sq * c.skv);
    after.push_back({onednn::PostOp::add, 1, with_groups(c, bias, false)});
  }
  return Primitive::matmul(library, with_groups(c, onednn::tensor_of(p.operand("Q")), false), keys, {},
                           with_groups(c, square(c, to), false), after);
}

Primitive context_primitive(const onednn::Library& library, const Problem& p, const Call& c, bool packed) {
  Tensor values = with_groups(c, onednn::tensor_of(p.operand("V")), true);
  values.packed = packed;
  return Primitive::matmul(library, with_groups(c, square(c, c.in), false), values, {},
                           with_groups(c, onednn::tensor_of(p.operand("O")), false), {});
}

class AttentionCall final : public onednn::TargetCall {
 public:
  AttentionCall(const Problem& problem, const onednn::Library& library, bool packed)
      : TargetCall(problem, library, packed),
        call_(call_of(problem)),
        whole_(call_.part == Part::whole),
        narrow_(call_.in != DType::f32) {
    const auto pairs = static_cast<std::size_t>(call_.b * call_.hq * call_.sq * call_.skv);
    if (whole_ || call_.part == Part::scores)
      scores_ = scores_primitive(library, problem, call_, whole_ ? DType::f32 : call_.out, packed);
    if (whole_) softmax_ = Primitive::softmax(library, rows(call_, DType::f32), rows(call_, DType::f32), false);
    if (call_.part == Part::probabilities)
      softmax_ = Primitive::softmax(library, rows(call_, call_.in), rows(call_, call_.out), false);
    if (whole_ && narrow_) round_ = Primitive::reorder(library, rows(call_, DType::f32), rows(call_, call_.in));
    if (whole_ || call_.part == Part::context) context_ = context_primitive(library, problem, call_, packed);
    if (whole_ || (call_.part == Part::probabilities && call_.masks())) score_room_.emplace(pairs * sizeof(float));
    if (whole_) probability_room_.emplace(pairs * sizeof(float));
    if (round_) rounded_room_.emplace(pairs * size_bytes(call_.in));
  }

  void execute() override {
    for (auto* room : {&score_room_, &probability_room_, &rounded_room_})
      if (*room) (*room)->poison();
    if (call_.part == Part::scores) {
      multiply_scores(of("S"));
      hide(call_.out, of("S"));
    } else if (call_.part == Part::probabilities) {
      std::byte* from = of("S");
      if (score_room_) {
        const auto bytes = static_cast<std::size_t>(call_.b * call_.hq * call_.sq * call_.skv) * size_bytes(call_.in);
        from = std::copy_n(from, bytes, score_room_->data()) - bytes;
        hide(call_.in, from);
      }
      run(*softmax_, from, of("P"));
    } else if (call_.part == Part::context) {
      multiply_context(of("P"));
    } else {
      multiply_scores(score_room_->data());
      hide(DType::f32, score_room_->data());
      run(*softmax_, score_room_->data(), probability_room_->data());
      if (round_) run(*round_, probability_room_->data(), rounded_room_->data());
      multiply_context(round_ ? rounded_room_->data() : probability_room_->data());
      for (const auto* room : {&score_room_, &probability_room_, &rounded_room_})
        if (*room) (*room)->check("scores and probabilities");
    }
  }

  CallReport report() override {
    const Primitive& first = scores_ ? *scores_ : softmax_ ? *softmax_ : *context_;
    CallReport out = base_report(call_.in, call_.out, first);
    out.algorithm.clear();
    for (const auto* part : {&scores_, &softmax_, &context_})
      if (*part) out.algorithm += fmt::format("{}{}", out.algorithm.empty() ? "" : ", ", (*part)->implementation());
    if (whole_ && narrow_) out.arithmetic.probabilities = call_.in;
    if (softmax_ && !softmax_->implementation().starts_with("ref")) {
      out.arithmetic.function_ulps = onednn::exp_ulps;
      out.arithmetic.function_ulps_per_x = onednn::exp_ulps_per_x(library());
    }
    out.contract.nan_confined = nan_confined();
    if (call_.masks()) out.facts["masks"] = "written as -Inf between the parts";
    return out;
  }

 private:
  std::byte* of(std::string_view role) const { return at(problem().operand_index(role)); }

  static void run(Primitive& p, std::byte* from, std::byte* to) {
    const Primitive::Data data[] = {{onednn::source, from}, {onednn::destination, to}};
    p.run(data);
  }
  void multiply_scores(std::byte* to) {
    std::vector<Primitive::Data> data = {{onednn::source, of("Q")}, {onednn::weights, of("K")}, {onednn::destination, to}};
    if (call_.bias_heads > 0) data.push_back({onednn::added, of("bias")});
    scores_->run(data);
  }
  void multiply_context(std::byte* from) {
    const Primitive::Data data[] = {{onednn::source, from}, {onednn::weights, of("V")}, {onednn::destination, of("O")}};
    context_->run(data);
  }

  /// Scores of hidden keys become -Inf.
  void hide(DType t, std::byte* scores) const {
    if (!call_.masks()) return;
    const auto width = static_cast<std::int64_t>(size_bytes(t));
    const std::uint64_t hidden = encode(t, -std::numeric_limits<double>::infinity());
    for (std::int64_t row = 0; row < call_.b * call_.hq * call_.sq; ++row) {
      const Keys seen = visible(call_, row / (call_.hq * call_.sq), row % call_.sq);
      for (std::int64_t j = 0; j < call_.skv; ++j)
        if (j < seen.first || j >= seen.last) store_bits(t, scores + (row * call_.skv + j) * width, hidden);
    }
  }

  attention::Call call_;
  bool whole_, narrow_;
  std::optional<Primitive> scores_, softmax_, round_, context_;
  std::optional<onednn::Room> score_room_, probability_room_, rounded_room_;
};

std::unique_ptr<assay::Call> prepare(const Problem& problem, const TargetSpec& spec) {
  return onednn::prepare(spec, [&](const onednn::Library& library, bool packed) {
    auto call = std::make_unique<AttentionCall>(problem, library, packed);
    if (const Call c = call_of(problem); c.skv == 0 && c.part != Part::scores)  // afterwards: creating must not end the process
      throw Unsupported("oneDNN does not define sums of no terms, so nothing can be attended to");
    return call;
  });
}

std::optional<std::string> refuses(const Problem& p, const TargetSpec&) {
  const Call c = call_of(p);
  if (c.lse) return "oneDNN's softmax gives no log-sum-exp";
  return onednn::refuses_f64(c.in);
}

}  // namespace

Target onednn_target() {
  return {"onednn", fmt::format("oneDNN's matmul, softmax and matmul, opened by path; {}", onednn::variants), refuses, prepare};
}

}  // namespace assay::attention
