// SPDX-License-Identifier: Apache-2.0
// Target "kernel" of softmax: kernels/softmax.cu.
#include "probes/ops/kernel_target.hpp"

#include <fmt/format.h>

#include "kernels/softmax.hpp"
#include "probes/ops/own_code.hpp"
#include "probes/ops/softmax/row_memory.hpp"

namespace assay::softmax {

namespace {

std::optional<std::string> refuses(const Problem& p, std::string_view) {
  if (call_of(p).rows > 2147483647) return "one block per row, and a grid has at most 2^31 - 1";
  return std::nullopt;
}

KernelWork work(const Problem& p, std::string_view version) {
  const Call c = call_of(p);
  KernelWork out;
  out.arithmetic = plain_arithmetic(c.in, compute_format(c), c.out);
  out.contract = contract_of("kernels/softmax.cu, and IEEE 754-2019, 6.2");
  const std::string entry = fmt::format("softmax_{}_{}", version, kernel_format(c.in));
  out.steps = [c, entry](const KernelMemory& at) -> std::vector<KernelStep> {
    if (c.rows == 0 || c.n == 0) return {};
    const kernels::SoftmaxArgs args{.x = at.element0[0],
                                    .y = at.element0[1],
                                    .rows = c.rows,
                                    .n = c.n,
                                    .ldx = c.ldx,
                                    .ldy = c.ldy,
                                    .log = c.log,
                                    .y_is_f32 = c.in != DType::f32 && c.out == DType::f32};
    return {kernel_step(entry, kernels::softmax_launch(args), args)};
  };
  return out;
}

}  // namespace

Target kernel_target() {
  return assay::kernel_target({"kernels/softmax.cu", kernels::softmax_versions, refuses, work});
}

}  // namespace assay::softmax
