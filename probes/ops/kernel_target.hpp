// SPDX-License-Identifier: Apache-2.0
// Targets "kernel": our own kernels on a GPU, one variant per version and build: "kernel:online@nvrtc-cubin". The control
// group: simple code of known order, so that a library that disagrees with it and with the reference stands alone.
#pragma once

#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kernels/launch.hpp"
#include "probes/ops/target.hpp"

namespace assay {

/// One launch: its entry, and its parameter by value.
struct KernelStep {
  std::string entry;
  kernels::Launch launch;
  std::vector<std::byte> args;
};

/// Device addresses of one call.
struct KernelMemory {
  std::vector<void*> element0;  // of every operand
  void *workspace = nullptr, *constants = nullptr;
};

/// What a version does for one problem.
struct KernelWork {
  std::size_t workspace_bytes = 0;
  std::vector<std::byte> constants{};  // of the host, copied to the device once
  Arithmetic arithmetic;
  std::function<Arithmetic(int sm)> arithmetic_on{};  // where it depends on the device: set instead
  Contract contract;
  /// No step: there is nothing to compute.
  std::function<std::vector<KernelStep>(const KernelMemory&)> steps;
};

struct KernelFamily {
  std::string file;  // "kernels/softmax.cu"
  std::span<const kernels::Version> versions;
  /// Why this version is not for this problem, beyond its formats.
  std::function<std::optional<std::string>(const Problem&, std::string_view version)> refuses;
  std::function<KernelWork(const Problem&, std::string_view version)> work;
};

Target kernel_target(const KernelFamily&);

/// "f32": as entries of kernels name formats.
std::string_view kernel_format(DType);
template <class Args>
KernelStep kernel_step(std::string entry, const kernels::Launch& launch, const Args& args) {
  KernelStep s{std::move(entry), launch, std::vector<std::byte>(sizeof(Args))};
  std::memcpy(s.args.data(), &args, sizeof(Args));
  return s;
}

}  // namespace assay
