// SPDX-License-Identifier: Apache-2.0
#include "probes/ops/cudnn_target.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "probes/library/opened.hpp"
#include "probes/ops/cudnn_graphs.hpp"
#include "probes/ops/cudnn_plans.hpp"
#include "probes/ops/device_call.hpp"
#include "probes/ops/op.hpp"
#include "probes/ops/own_code.hpp"

namespace assay {

namespace {

const char* const documentation = "cuDNN backend API, cudnnBackendNumericalNote_t";

bool has(const std::vector<std::string>& notes, std::string_view note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

/// The same case with another size, so that its plan leaves other sizes, workspace and constants behind in the handle.
Problem other_shape(const Problem& p) {
  const Op& op = find_op(p.id.op);
  for (const std::string_view key : {"m", "l", "sq", "rows"}) {
    const auto found = std::ranges::find(p.id.values, key, &std::pair<std::string, std::string>::first);
    if (found == p.id.values.end()) continue;
    const std::int64_t size = p.id.integer(key);
    for (const std::int64_t other : {2 * size + 1, size / 2}) try {
        CaseId id = p.id;
        id.set(key, fmt::format("{}", other));
        Problem made = make_problem(to_string(id, op.grammar));
        static_cast<void>(op.cudnn_graph(made));
        return made;
      } catch (const CaseError&) {
      } catch (const Unsupported&) {
      }
  }
  throw Unsupported("no other size of this case has a graph");
}

class GraphCall final : public DeviceCall {
 public:
  GraphCall(const Problem& problem, const TargetSpec& spec, const CudnnFamily& family)
      : DeviceCall(problem, spec), family_(family), choice_(*parse_cudnn_variant(spec.variant)), library_(open(spec)) {
    using State = CudnnChoice::State;
    Memory operands;
    for (std::size_t i = 0; i < problem.operands.size(); ++i) operands[cudnn_id(i)] = element0(i);
    if (choice_.state == State::other_shape) {
      const Problem other = other_shape(problem);
      Memory theirs;
      for (std::size_t i = 0; i < other.operands.size(); ++i) {
        const Operand& o = other.operands[i];
        const std::size_t element = size_bytes(o.dtype);
        const auto at =
            scratch(static_cast<std::size_t>(storage_elements(o)) * element, "an operand of the other shape").address();
        theirs[cudnn_id(i)] = device::device_pointer(at + static_cast<std::size_t>(o.offset) * element);
      }
      before_ = prepare(other, std::move(theirs));
      before_is_ = to_string(other.id, find_op(other.id.op).grammar);
    } else if (choice_.state == State::twice) {
      before_ = prepare(problem, operands);
      before_is_ = fmt::format("the same problem: {}, workspace {}", cudnn_plan_names(before_->plans),
                               cudnn_merged(before_->plans).workspace);
    }
    own_ = prepare(problem, std::move(operands));
  }

 private:
  using Memory = std::map<std::int64_t, void*>;
  struct Prepared {
    std::vector<CudnnPlan> plans;
    std::vector<void*> workspaces;
    Memory memory;
  };

  static const cudnn::Library& open(const TargetSpec& spec) {
    // cuDNN looks for these by name; a library that is mapped answers to its soname.
    for (const char* role : {"nvrtc", "cublasLt"})
      if (const auto file = spec.set.find(role); file != spec.set.end()) open_exactly(file->second);
    return cudnn::Library::open(spec.library, spec.driver());
  }

  Prepared prepare(const Problem& p, Memory memory) {
    context().make_current();
    const cudnn::Description description = family_.graph(p);
    Prepared out;
    try {
      out.plans = cudnn_plans(description, choice_, [this](const cudnn::Description& d) {
        return cudnn::Graph(library_, d, context().sm(), choice_.guards);
      });
    } catch (const cudnn::Refused& e) {
      throw Unsupported(e.what());
    }
    out.memory = std::move(memory);
    for (const CudnnPlan& plan : out.plans)
      out.workspaces.push_back(device::device_pointer(
          scratch(static_cast<std::size_t>(std::max<std::int64_t>(0, plan.candidate().workspace)), "the workspace").address()));
    for (const auto& [id, bytes] : description.between)
      out.memory[id] = device::device_pointer(scratch(bytes, fmt::format("memory {} between graphs", id)).address());
    for (const cudnn::Description* d : description.chain())
      for (const auto& [id, bytes] : d->memory)
        out.memory[id] = device::device_pointer(constant(bytes, fmt::format("constant {}", id)).address());
    return out;
  }

  static void queue(const Prepared& what, const device::Stream& stream) {
    for (std::size_t i = 0; i < what.plans.size(); ++i)
      what.plans[i].graph.execute(what.plans[i].index, stream.get(), what.memory, what.workspaces[i]);
  }

  void queue_on(const device::Stream& stream) override {
    if (before_) queue(*before_, stream);
    queue(*own_, stream);
  }

  void fill(CallReport& out) override {
    const cudnn::Candidate c = cudnn_merged(own_->plans);
    out.arithmetic = family_.arithmetic(problem(), c, context().sm());
    // An engine without this note gives equal bits for equal calls.
    if (!has(c.numerical, "nondeterministic")) out.contract.repeatable = {true, documentation};
    if (has(c.numerical, "strict NaN propagation")) out.contract.nan_propagates = {true, documentation};
    out.algorithm = cudnn_plan_names(own_->plans);
    out.plan = cudnn_plan_json(own_->plans);
    std::vector<std::int64_t> engines;
    for (const CudnnPlan& p : own_->plans) {
      engines.push_back(p.candidate().engine);
      if (!p.passed_over.empty()) out.facts["passed over"] = p.passed_over;
      if (!p.graph.passed_guard().empty()) out.facts["guard passed over"] = p.graph.passed_guard();
    }
    out.facts["version"] = fmt::format("cuDNN {}, {}", library_.version_text(), out.facts["version"]);
    out.facts["front end"] = cudnn::front_end_version();
    out.facts["engine"] = fmt::format("{}", fmt::join(engines, ", "));
    out.facts["numerical notes"] = fmt::format("{}", fmt::join(c.numerical, ", "));
    out.facts["behaviour notes"] = fmt::format("{}", fmt::join(c.behaviour, ", "));
    out.facts["workspace"] = fmt::format("{}", c.workspace);
    if (before_) out.facts["executed before"] = before_is_;
  }

  CudnnFamily family_;
  CudnnChoice choice_;
  const cudnn::Library& library_;
  std::optional<Prepared> before_, own_;
  std::string before_is_;
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

cudnn::Candidate cudnn_without_products(cudnn::Candidate c) {
  std::erase(c.numerical, "tensor core");
  return c;
}

Target cudnn_target(const CudnnFamily& family) {
  const auto refuses = [family](const Problem& p, const TargetSpec& spec) -> std::optional<std::string> {
    if (!parse_cudnn_variant(spec.variant))
      return fmt::format(
          "variants are mode=A, mode=B, mode=fallback and engine=N, then +guards=off, +state=other_shape or "
          "+state=twice, not \"{}\"",
          spec.variant);
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
           .summary = family.summary + "; variants mode=A, mode=B, mode=fallback, engine=N; then +guards=off, +state=...",
           .refuses = refuses,
           .prepare = prepare,
           .variants = cudnn_variants(),
           .on_device = true,
           .library_role = "cudnn",
           .deep_variants = cudnn_deep_variants(family.engines)};
  return t;
}

}  // namespace assay
