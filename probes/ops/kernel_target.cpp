// SPDX-License-Identifier: Apache-2.0
#include "probes/ops/kernel_target.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "probes/device/loaded.hpp"
#include "probes/ops/device_call.hpp"
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

class KernelCall final : public DeviceCall {
 public:
  KernelCall(const Problem& problem, const TargetSpec& spec, const KernelFamily& family, KernelWork work)
      : DeviceCall(problem, spec),
        work_(std::move(work)),
        build_(build_of(spec)),
        loaded_(device::load_once(context(), build_, family.file, spec.set)) {
    KernelMemory memory;
    for (std::size_t i = 0; i < problem.operands.size(); ++i) memory.element0.push_back(element0(i));
    memory.workspace = device_pointer(scratch(work_.workspace_bytes, "the workspace").address());
    memory.constants = device_pointer(constant(work_.constants, "the constants").address());
    steps_ = work_.steps(memory);
    for (const KernelStep& s : steps_) functions_.push_back(loaded_.module.function(s.entry));
  }

 private:
  void queue_on(const device::Stream& stream) override {
    for (std::size_t i = 0; i < steps_.size(); ++i)
      device::launch(context(), functions_[i], steps_[i].launch, steps_[i].args, stream);
  }

  void fill(CallReport& r) override {
    r.arithmetic = work_.arithmetic_on ? work_.arithmetic_on(context().sm()) : work_.arithmetic;
    r.contract = work_.contract;
    for (const KernelStep& s : steps_) r.algorithm += (r.algorithm.empty() ? "" : " + ") + s.entry;
    if (build_.fast) {
      // CUDA C++ programming guide, --use_fast_math: subnormals are flushed, division within 2 ulp, square root within 3.
      r.contract.keeps_subnormals = {};
      r.arithmetic.function_ulps += 3;
    }
    r.facts["compiler"] = loaded_.image.compiler;
    r.facts["build"] = name(build_);
    r.facts["image"] =
        fmt::format("{} for sm_{}, {}", loaded_.image.ptx ? "PTX" : "cubin", loaded_.image.sm, loaded_.image.digest);
    if (!loaded_.image.ptx_digest.empty()) r.facts["ptx"] = loaded_.image.ptx_digest;
  }

  KernelWork work_;
  Build build_;
  const device::Loaded& loaded_;
  std::vector<KernelStep> steps_;
  std::vector<cuda::CUfunction> functions_;
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
    return std::make_unique<KernelCall>(p, spec, family, family.work(p, version_of(spec)));
  };
  Target t{"kernel", fmt::format("our own kernels, {}, on a GPU; variants VERSION@BUILD", family.file), refuses, prepare,
           versions};
  t.on_device = true, t.library_role = "cuda";
  return t;
}

}  // namespace assay
