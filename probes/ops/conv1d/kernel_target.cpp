// SPDX-License-Identifier: Apache-2.0
// Target "kernel" of conv1d: kernels/conv1d.cu.
#include "probes/ops/kernel_target.hpp"

#include <fmt/format.h>

#include "kernels/conv1d.hpp"
#include "probes/ops/conv1d/conv1d.hpp"
#include "probes/ops/conv1d/targets.hpp"
#include "probes/ops/own_code.hpp"

namespace assay::conv1d {

namespace {

kernels::Conv1dVersion version_of(std::string_view name) {
  int place = 0;
  while (kernels::conv1d_versions[place].name != name) ++place;
  return static_cast<kernels::Conv1dVersion>(place);
}

kernels::Conv1dArgs args_of(const Call& c) {
  return {.x = nullptr,
          .w = nullptr,
          .bias = nullptr,
          .y = nullptr,
          .n = c.n,
          .cin = c.cin,
          .cout = c.cout,
          .l = c.l,
          .k = c.k,
          .lout = c.lout,
          .stride = c.stride,
          .dilation = c.dilation,
          .padl = c.padl,
          .groups = c.groups,
          .x_n = c.x.n,
          .x_channel = c.x.channel,
          .x_position = c.x.position,
          .w_output = c.w.output,
          .w_input = c.w.input,
          .w_tap = c.w.tap,
          .y_n = c.y.n,
          .y_channel = c.y.channel,
          .y_position = c.y.position,
          .y_is_f32 = c.in != DType::f32 && c.out == DType::f32};
}

std::optional<std::string> refuses(const Problem& p, std::string_view version) {
  const Call c = call_of(p);
  if (!kernels::conv1d_takes(args_of(c), version_of(version))) return "version depthwise takes one input channel a group";
  if (c.n * c.cout * c.lout > 2147483647) return "a grid of kernels/conv1d.cu has at most 2^31 - 1 blocks";
  return std::nullopt;
}

KernelWork work(const Problem& p, std::string_view version) {
  const Call c = call_of(p);
  KernelWork out;
  out.arithmetic = plain_arithmetic(c.in, compute_format(c), c.out);
  out.contract = own_contract("kernels/conv1d.cu, and IEEE 754-2019, 6.2");
  const std::string entry = fmt::format("conv1d_{}_{}", version, kernel_format(c.in));
  out.steps = [c, entry, v = version_of(version)](const KernelMemory& at) -> std::vector<KernelStep> {
    kernels::Conv1dArgs args = args_of(c);
    if (c.n == 0 || c.lout == 0) return {};
    args.x = at.element0[0], args.w = at.element0[1], args.y = at.element0[c.output()];
    if (c.bias) args.bias = at.element0[2];
    return {kernel_step(entry, kernels::conv1d_launch(args, v), args)};
  };
  return out;
}

}  // namespace

Target kernel_target() {
  return assay::kernel_target({"kernels/conv1d.cu", kernels::conv1d_versions, refuses, work});
}

}  // namespace assay::conv1d
