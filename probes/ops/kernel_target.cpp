// SPDX-License-Identifier: Apache-2.0
#include "probes/ops/kernel_target.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "kernels/neighbour.hpp"
#include "probes/device/build.hpp"
#include "probes/device/context.hpp"
#include "probes/ops/own_code.hpp"

namespace assay {

namespace {

using device::Build;
using device::device_pointer;

/// "online" of "online@nvrtc-cubin".
std::string_view version_of(const TargetSpec& spec) {
  return std::string_view(spec.variant).substr(0, spec.variant.find('@'));
}

Build build_of(const TargetSpec& spec) {
  const std::size_t at = spec.variant.find('@');
  return at == std::string::npos ? Build{} : device::parse_build(std::string_view(spec.variant).substr(at + 1));
}

const kernels::Version* find_version(const KernelFamily& family, std::string_view name) {
  for (const kernels::Version& v : family.versions)
    if (v.name == name) return &v;
  return nullptr;
}

bool has_format(const kernels::Version& v, std::string_view format) {
  const std::string all = fmt::format(" {} ", v.formats);
  return all.find(fmt::format(" {} ", format)) != std::string::npos;
}

/// An image and its module, made once per process: a worker has one build, but an op may be asked for many problems.
struct Loaded {
  device::Image image;
  device::Module module;
};

const Loaded& load_once(const device::Context& context, const Build& build, const std::string& file,
                        const std::map<std::string, std::string>& set) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Loaded>> all;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Loaded>& slot = all[file + "@" + name(build)];
  if (!slot) {
    device::Image image = device::make_image(build, file, context.sm(), set);
    device::Module module(context, image.bytes, image.ptx ? build.level : -1);
    slot = std::make_unique<Loaded>(Loaded{std::move(image), std::move(module)});
  }
  return *slot;
}

class KernelCall final : public Call {
 public:
  KernelCall(const Problem& problem, const TargetSpec& spec, const KernelFamily& family, KernelWork work)
      : problem_(problem),
        spec_(spec),
        work_(std::move(work)),
        context_(device::Context::get(spec.library, std::max(0, spec.device))),
        build_(build_of(spec)),
        loaded_(load_once(context_, build_, family.file, spec.set)),
        stream_(context_),
        workspace_(context_, work_.workspace_bytes),
        constants_(context_, work_.constants.size()) {
    for (const Operand& o : problem.operands)
      buffers_.emplace_back(context_, static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype));
    KernelMemory memory{
        .element0 = {}, .workspace = device_pointer(workspace_.address()), .constants = device_pointer(constants_.address())};
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      memory.element0.push_back(device_pointer(buffers_[i].address() + static_cast<std::size_t>(problem.operands[i].offset) *
                                                                           size_bytes(problem.operands[i].dtype)));
    constants_.upload(stream_, work_.constants);
    steps_ = work_.steps(memory);
    for (const KernelStep& s : steps_) functions_.push_back(loaded_.module.function(s.entry));
  }

  void load(Images images) override {
    context_.make_current();
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].upload(stream_, {images[i].storage, images[i].bytes});
    workspace_.poison(stream_);
    stream_.synchronize("copying the operands to the device");
  }

  void execute() override {
    context_.make_current();
    if (steps_.empty()) return;
    const std::string& queue = problem_.queue;
    if (queue == "graph") {
      if (!graph_) graph_.emplace(context_, stream_, [&] { launch_on(stream_); });
      graph_->launch(stream_);
    } else if (queue == "second") {
      // Nothing else is queued there, so only the events order the operation after its copies and before the next ones.
      if (!other_) other_.emplace(context_), ready_.emplace(context_), done_.emplace(context_);
      ready_->record(stream_), ready_->wait(*other_);
      launch_on(*other_);
      done_->record(*other_), done_->wait(stream_);
    } else {
      if (queue == "busy") start_neighbour();
      launch_on(stream_);
    }
  }

  void store(Images images) override {
    context_.make_current();
    guard_bytes_ = 0, guard_place_.clear();
    const auto note = [&](std::pair<std::size_t, std::size_t> disturbed, const std::string& role) {
      if (disturbed.first + disturbed.second == 0) return;
      if (guard_bytes_ == 0)
        guard_place_ = fmt::format("{} {}, on the device", disturbed.first ? "before the start of" : "after the end of", role);
      guard_bytes_ += static_cast<std::int64_t>(disturbed.first + disturbed.second);
    };
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      buffers_[i].download(stream_, {images[i].storage, images[i].bytes});
      note(buffers_[i].disturbed(stream_), problem_.operands[i].role);
    }
    note(workspace_.disturbed(stream_), "the workspace");
    note(constants_.disturbed(stream_), "the constants");
  }

  CallReport report() override {
    CallReport r;
    r.arithmetic = work_.arithmetic_on ? work_.arithmetic_on(context_.sm()) : work_.arithmetic;
    r.contract = work_.contract;
    r.bytes_outside = guard_bytes_, r.outside = guard_place_;
    for (const KernelStep& s : steps_) r.algorithm += (r.algorithm.empty() ? "" : " + ") + s.entry;
    if (build_.fast) {
      // CUDA C++ programming guide, --use_fast_math: subnormals are flushed, division within 2 ulp, square root within 3.
      r.contract.keeps_subnormals = {};
      r.arithmetic.function_ulps += 3;
    }
    r.facts["core"] = context_.name();
    r.facts["version"] =
        fmt::format("CUDA driver {}.{}", context_.driver().version() / 1000, context_.driver().version() % 1000 / 10);
    r.facts["compiler"] = loaded_.image.compiler;
    r.facts["sm"] = fmt::format("{}", context_.sm());
    r.facts["build"] = name(build_);
    std::size_t bytes = workspace_.bytes() + constants_.bytes();
    for (const device::Buffer& b : buffers_) bytes += b.bytes();
    r.facts["device MiB"] = fmt::format("{:.3f}", static_cast<double>(bytes) / 1048576);
    r.facts["image"] =
        fmt::format("{} for sm_{}, {}", loaded_.image.ptx ? "PTX" : "cubin", loaded_.image.sm, loaded_.image.digest);
    if (!loaded_.image.ptx_digest.empty()) r.facts["ptx"] = loaded_.image.ptx_digest;
    return r;
  }

 private:
  /// Something else for the device to do meanwhile, on a stream and on memory of its own.
  void start_neighbour() {
    if (!other_) other_.emplace(context_), scratch_.emplace(context_, kernels::neighbour_bytes);
    const Loaded& neighbour = load_once(context_, build_, "kernels/neighbour.cu", spec_.set);
    const kernels::NeighbourArgs args{static_cast<float*>(device_pointer(scratch_->address())), neighbour_rounds};
    const KernelStep step = kernel_step("neighbour_busy", kernels::neighbour_launch(), args);
    device::launch(context_, neighbour.module.function(step.entry), step.launch, step.args, *other_);
  }

  void launch_on(const device::Stream& stream) {
    for (std::size_t i = 0; i < steps_.size(); ++i)
      device::launch(context_, functions_[i], steps_[i].launch, steps_[i].args, stream);
  }

  static constexpr int neighbour_rounds = 2000;

  Problem problem_;
  TargetSpec spec_;
  KernelWork work_;
  device::Context& context_;
  Build build_;
  const Loaded& loaded_;
  device::Stream stream_;
  std::optional<device::Stream> other_;
  std::optional<device::Event> ready_, done_;
  std::optional<device::Graph> graph_;
  std::optional<device::Buffer> scratch_;
  device::Buffer workspace_, constants_;
  std::vector<device::Buffer> buffers_;
  std::vector<KernelStep> steps_;
  std::vector<cuda::CUfunction> functions_;
  std::int64_t guard_bytes_ = 0;
  std::string guard_place_;
};

}  // namespace

std::string_view kernel_format(DType t) {
  switch (t) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::bf16:
      return "bf16";
    case DType::f16:
      return "f16";
    default:
      return name(t);  // no kernel has it: named in the refusal
  }
}

Target kernel_target(const KernelFamily& family) {
  std::vector<std::string> versions;
  for (const kernels::Version& v : family.versions) versions.emplace_back(v.name);
  const auto refuses = [family](const Problem& p, const TargetSpec& spec) -> std::optional<std::string> {
    const kernels::Version* version = find_version(family, version_of(spec));
    if (!version) return fmt::format("{} has no version \"{}\"", family.file, version_of(spec));
    const std::string_view format = kernel_format(p.operands.front().dtype);
    if (!has_format(*version, format)) return fmt::format("version {} has no {}", version->name, format);
    return family.refuses ? family.refuses(p, version->name) : std::nullopt;
  };
  const auto prepare = [family](const Problem& p, const TargetSpec& spec) -> std::unique_ptr<Call> {
    if (spec.library.empty())
      throw Unavailable("no GPU driver (libcuda.so.1) was found; install one, or name its file with --libraries cuda=PATH");
    return std::make_unique<KernelCall>(p, spec, family, family.work(p, version_of(spec)));
  };
  Target t{"kernel", fmt::format("our own kernels, {}, on a GPU; variants VERSION@BUILD", family.file), refuses, prepare,
           versions};
  t.on_device = true;
  return t;
}

}  // namespace assay
