// SPDX-License-Identifier: Apache-2.0
// Target "kernel" of layernorm: kernels/layernorm.cu.
#include "probes/ops/kernel_target.hpp"

#include <fmt/format.h>

#include "kernels/layernorm.hpp"
#include "probes/ops/layernorm/layernorm.hpp"
#include "probes/ops/own_code.hpp"

namespace assay::layernorm {

namespace {

std::optional<std::string> refuses(const Problem& p, std::string_view) {
  if (call_of(p).rows > 2147483647) return "one block per row, and a grid has at most 2^31 - 1";
  return std::nullopt;
}

KernelWork work(const Problem& p, std::string_view version) {
  const Call c = call_of(p);
  KernelWork out;
  out.arithmetic = plain_arithmetic(c.in, compute_format(c), c.out);
  out.contract = own_contract("kernels/layernorm.cu, and IEEE 754-2019, 6.2");
  const std::string entry = fmt::format("layernorm_{}_{}", version, kernel_format(c.in));
  out.steps = [c, entry](const KernelMemory& at) -> std::vector<KernelStep> {
    if (c.rows == 0 || c.n == 0) return {};
    const auto where = [&](bool there, std::size_t operand) { return there ? at.element0[operand] : nullptr; };
    const kernels::LayernormArgs args{.x = at.element0[c.x],
                                      .gamma = where(c.gamma, c.g),
                                      .beta = where(c.beta, c.b),
                                      .y = at.element0[c.y],
                                      .mean = where(c.stats && !c.rms, c.m),
                                      .rstd = where(c.stats, c.r),
                                      .rows = c.rows,
                                      .n = c.n,
                                      .ldx = c.ldx,
                                      .ldy = c.ldy,
                                      .eps = c.eps,
                                      .rms = c.rms,
                                      .y_is_f32 = c.in != DType::f32 && c.out == DType::f32};
    return {kernel_step(entry, kernels::layernorm_launch(args), args)};
  };
  return out;
}

}  // namespace

Target kernel_target() {
  return assay::kernel_target({"kernels/layernorm.cu", kernels::layernorm_versions, refuses, work});
}

}  // namespace assay::layernorm
