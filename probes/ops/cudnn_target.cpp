// SPDX-License-Identifier: Apache-2.0
#include "probes/ops/cudnn_target.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "probes/library/opened.hpp"
#include "probes/ops/device_call.hpp"
#include "probes/ops/own_code.hpp"

namespace assay {

namespace {

const char* const documentation = "cuDNN backend API, cudnnBackendNumericalNote_t";

/// "mode=A", "mode=B", "mode=fallback": the first proposal that becomes a plan; "engine=28": that engine with its own knobs.
struct Choice {
  std::optional<cudnn::Mode> mode;
  std::int64_t engine = -1;
};

std::optional<Choice> parse(std::string_view variant) {
  if (variant == "mode=A") return Choice{.mode = cudnn::Mode::a};
  if (variant == "mode=B") return Choice{.mode = cudnn::Mode::b};
  if (variant == "mode=fallback") return Choice{.mode = cudnn::Mode::fallback};
  if (!variant.starts_with("engine=")) return std::nullopt;
  Choice c;
  const char* const end = variant.data() + variant.size();
  const auto [stop, error] = std::from_chars(variant.data() + 7, end, c.engine);
  return error == std::errc{} && stop == end && c.engine >= 0 ? std::optional(c) : std::nullopt;
}

bool has(const std::vector<std::string>& notes, std::string_view note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

class GraphCall final : public DeviceCall {
 public:
  GraphCall(const Problem& problem, const TargetSpec& spec, const CudnnFamily& family)
      : DeviceCall(problem, spec), family_(family), description_(family.graph(problem)), library_(open(spec)), graph_(make()) {
    try {
      index_ = choose(*parse(spec.variant));
    } catch (const cudnn::Refused& e) {
      throw Unsupported(e.what());
    }
    workspace_ = scratch(static_cast<std::size_t>(std::max<std::int64_t>(0, candidate().workspace)), "the workspace").address();
    for (std::size_t i = 0; i < problem.operands.size(); ++i) memory_[static_cast<std::int64_t>(i) + 1] = element0(i);
    for (const auto& [id, bytes] : description_.memory)
      memory_[id] = device::device_pointer(constant(bytes, fmt::format("constant {}", id)).address());
  }

 private:
  const cudnn::Candidate& candidate() const { return graph_.candidates()[static_cast<std::size_t>(index_)]; }

  static const cudnn::Library& open(const TargetSpec& spec) {
    // cuDNN looks for these by name; a library that is mapped answers to its soname.
    for (const char* role : {"nvrtc", "cublasLt"})
      if (const auto file = spec.set.find(role); file != spec.set.end()) open_exactly(file->second);
    return cudnn::Library::open(spec.library, spec.driver());
  }

  cudnn::Graph make() const {
    context().make_current();
    try {
      return {library_, description_, context().sm()};
    } catch (const cudnn::Refused& e) {
      throw Unsupported(e.what());
    }
  }

  int choose(const Choice& choice) {
    if (!choice.mode) {
      const int index = graph_.propose_engine(choice.engine);
      graph_.finalise(index);
      return index;
    }
    const std::vector<int> proposed = graph_.propose(*choice.mode);
    std::string why = "the heuristic proposes nothing";
    for (const int index : proposed) try {
        graph_.finalise(index);
        passed_over_ = index == proposed.front() ? "" : why;
        return index;
      } catch (const cudnn::Refused& e) {
        why = e.what();
      } catch (const cudnn::Error& e) {
        why = e.what();
      }
    throw cudnn::Refused(fmt::format("none of {} proposals became a plan; the last: {}", proposed.size(), why));
  }

  void queue_on(const device::Stream& stream) override {
    graph_.execute(index_, stream.get(), memory_, device::device_pointer(workspace_));
  }

  void fill(CallReport& out) override {
    const cudnn::Candidate& c = candidate();
    out.arithmetic = family_.arithmetic(problem(), c, context().sm());
    // An engine without this note gives equal bits for equal calls.
    if (!has(c.numerical, "nondeterministic")) out.contract.repeatable = {true, documentation};
    if (has(c.numerical, "strict NaN propagation")) out.contract.nan_propagates = {true, documentation};
    out.algorithm = c.name();
    out.plan = graph_.plan_json(index_);
    out.facts["version"] = fmt::format("cuDNN {}, {}", library_.version_text(), out.facts["version"]);
    out.facts["front end"] = cudnn::front_end_version();
    out.facts["engine"] = fmt::format("{}", c.engine);
    out.facts["numerical notes"] = fmt::format("{}", fmt::join(c.numerical, ", "));
    out.facts["behaviour notes"] = fmt::format("{}", fmt::join(c.behaviour, ", "));
    out.facts["workspace"] = fmt::format("{}", c.workspace);
    if (!passed_over_.empty()) out.facts["passed over"] = passed_over_;
  }

  CudnnFamily family_;
  cudnn::Description description_;
  const cudnn::Library& library_;
  cudnn::Graph graph_;
  int index_ = -1;
  std::string passed_over_;
  cuda::CUdeviceptr workspace_ = 0;
  std::map<std::int64_t, void*> memory_;
};

}  // namespace

Arithmetic cudnn_arithmetic(const cudnn::Candidate& c, DType in, DType out, std::int64_t terms, int sm) {
  Arithmetic a = plain_arithmetic(in, DType::f32, out);
  const bool tensor_core = has(c.numerical, "tensor core"), down = has(c.numerical, "down-converted inputs");
  if (tensor_core) {
    // Models of docs/numerics.md 2.1. Which instruction runs is not said, so a step must also allow as many fused
    // multiply-adds in fp32: with F = 24 it does, and allows what F = 25 does.
    a.accumulation = Accumulation::tensor_core;
    a.fraction_bits = 24;
    a.block = (sm < 90 ? 8 : 16) / (in == DType::f32 ? 2 : 1);
  }
  // fp32 on tensor cores is TF32, or less where the notes say that inputs are converted; truncation errs most.
  if (in == DType::f32 && (tensor_core || down)) {
    a.operand = down && !tensor_core ? DType::bf16 : DType::tf32;
    a.operand_rounding = Rounding::toward_zero;
  }
  // k9: CUDNN_KNOB_TYPE_SPLIT_K_SLC. Engines that do not say how often they split may do so for every 32 products.
  const auto slices = c.knobs.find("k9");
  const std::int64_t most = std::max<std::int64_t>(1, (terms + 31) / 32);
  if (slices != c.knobs.end() && slices->second > 1) a.splits = static_cast<int>(std::min(slices->second, most));
  if (has(c.numerical, "reduced-precision reduction")) {
    if (in == DType::f16)
      a.accumulator = a.split_format = DType::f16;
    else
      a.splits = static_cast<int>(most), a.split_format = out;
  }
  if (has(c.numerical, "FFT")) a.transform = Transform::fft;
  // Input tiles of 4 and 6: F(2,3) and F(4,3).
  if (has(c.numerical, "Winograd 13x13"))
    throw Unsupported("there is no error bound here for Winograd's F(9,5), which this engine uses");
  if (has(c.numerical, "Winograd 6x6"))
    a.transform = Transform::winograd_4;
  else if (has(c.numerical, "Winograd 4x4"))
    a.transform = Transform::winograd_2;
  else if (has(c.numerical, "Winograd"))
    a.transform = Transform::winograd_6;
  return a;
}

Target cudnn_target(const CudnnFamily& family) {
  const auto refuses = [family](const Problem& p, const TargetSpec& spec) -> std::optional<std::string> {
    if (!parse(spec.variant))
      return fmt::format("variants are mode=A, mode=B, mode=fallback and engine=N, not \"{}\"", spec.variant);
    try {
      family.graph(p);
    } catch (const Unsupported& e) {
      return e.what();
    }
    return std::nullopt;
  };
  const auto prepare = [family](const Problem& p, const TargetSpec& spec) -> std::unique_ptr<Call> {
    if (const std::string why = cudnn::absent(); !why.empty()) throw Unavailable(why);
    return std::make_unique<GraphCall>(p, spec, family);
  };
  Target t{.name = "cudnn",
           .summary = family.summary + "; variants mode=A, mode=B, mode=fallback, engine=N",
           .refuses = refuses,
           .prepare = prepare,
           .variants = {"mode=A", "mode=B", "mode=fallback"},
           .on_device = true,
           .library_role = "cudnn"};
  return t;
}

}  // namespace assay
