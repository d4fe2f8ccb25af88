// SPDX-License-Identifier: Apache-2.0
// Target "kernel" of conv_transpose1d: kernels/conv_transpose1d.cu.
#include "probes/ops/kernel_target.hpp"

#include <fmt/format.h>

#include "kernels/conv_transpose1d.hpp"
#include "probes/ops/conv_transpose1d/conv_transpose1d.hpp"
#include "probes/ops/own_code.hpp"

namespace assay::conv_transpose1d {

namespace {

std::optional<std::string> refuses(const Problem& p, std::string_view) {
  const Call c = call_of(p);
  if (c.n * c.cout * c.lout > (std::int64_t{1} << 38)) return "more blocks than a grid has";
  return std::nullopt;
}

KernelWork work(const Problem& p, std::string_view version) {
  const Call c = call_of(p);
  const std::size_t out_operand = p.operand_index("Y"), bias = c.bias ? p.operand_index("B") : 0;
  const auto &x = p.operands[0].strides, &w = p.operands[1].strides, &y = p.operands[out_operand].strides;
  kernels::ConvTranspose1dArgs args{.x = nullptr,
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
                                    .x_n = x[0],
                                    .x_channel = x[1],
                                    .x_position = x[2],
                                    .w_input = w[0],
                                    .w_output = w[1],
                                    .w_tap = w[2],
                                    .y_n = y[0],
                                    .y_channel = y[1],
                                    .y_position = y[2],
                                    .y_is_f32 = c.in != DType::f32 && c.out == DType::f32};
  KernelWork out;
  out.arithmetic = plain_arithmetic(c.in, compute_format(c), c.out);
  out.contract = own_contract("kernels/conv_transpose1d.cu, and IEEE 754-2019, 6.2");
  const std::string entry = fmt::format("conv_transpose1d_{}_{}", version, kernel_format(c.in));
  out.steps = [=](const KernelMemory& at) -> std::vector<KernelStep> {
    if (c.n == 0 || c.lout == 0) return {};
    kernels::ConvTranspose1dArgs a = args;
    a.x = at.element0[0], a.w = at.element0[1], a.y = at.element0[out_operand];
    if (c.bias) a.bias = at.element0[bias];
    return {kernel_step(entry, kernels::conv_transpose1d_launch(a), a)};
  };
  return out;
}

}  // namespace

Target kernel_target() {
  return assay::kernel_target({"kernels/conv_transpose1d.cu", kernels::conv_transpose1d_versions, refuses, work});
}

}  // namespace assay::conv_transpose1d
