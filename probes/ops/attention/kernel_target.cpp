// SPDX-License-Identifier: Apache-2.0
// Target "kernel" of attention: kernels/attention.cu.
#include "probes/ops/kernel_target.hpp"

#include <fmt/format.h>

#include "kernels/attention.hpp"
#include "probes/ops/attention/attention.hpp"
#include "probes/ops/own_code.hpp"

namespace assay::attention {

namespace {

using kernels::AttentionVersion;

AttentionVersion version_of(std::string_view name) {
  return name == kernels::attention_versions[1].name ? AttentionVersion::online : AttentionVersion::materialised;
}

std::optional<std::string> refuses(const Problem& p, std::string_view) {
  const Call c = call_of(p);
  if (c.part != Part::whole) return "kernels/attention.cu computes the whole of it";
  if (c.b * c.hq * c.sq * std::max(c.skv, c.dv) > (std::int64_t{1} << 38)) return "more blocks than a grid has";
  return std::nullopt;
}

kernels::AttentionArgs args_of(const Problem& p, const Call& c) {
  const auto stride = [&](std::size_t operand, std::size_t axis) { return p.operands[operand].strides[axis]; };
  kernels::AttentionArgs a{};
  a.b = c.b, a.hq = c.hq, a.hkv = c.hkv, a.sq = c.sq, a.skv = c.skv, a.d = c.d, a.dv = c.dv;
  const std::size_t o = p.operand_index("O");
  a.q_b = stride(0, 0), a.q_h = stride(0, 1), a.q_s = stride(0, 2);
  a.k_b = stride(1, 0), a.k_h = stride(1, 1), a.k_s = stride(1, 2);
  a.v_b = stride(2, 0), a.v_h = stride(2, 1), a.v_s = stride(2, 2);
  a.o_b = stride(o, 0), a.o_h = stride(o, 1), a.o_s = stride(o, 2);
  a.bias_h = c.bias_heads > 1 ? c.sq * c.skv : 0;
  a.scale = c.scale, a.window = c.window, a.causal = c.causal, a.bottom_right = c.bottom_right;
  a.o_is_f32 = c.in != DType::f32 && c.out == DType::f32;
  return a;
}

KernelWork work(const Problem& p, std::string_view version) {
  const Call c = call_of(p);
  const AttentionVersion v = version_of(version);
  const DType compute = compute_format(c);
  KernelWork out;
  out.arithmetic = plain_arithmetic(c.in, compute, c.out);
  out.arithmetic.scores = out.arithmetic.probabilities = compute;
  const char* const source = "kernels/attention.hpp, and IEEE 754-2019, 6.2";
  out.contract = own_contract(source);
  out.contract.masked_row_is_nan = {true, source};
  const kernels::AttentionArgs args = args_of(p, c);
  out.workspace_bytes =
      static_cast<std::size_t>(kernels::attention_workspace_bytes(args, v, static_cast<int>(size_bytes(compute))));
  std::vector<long long> lengths(c.length.begin(), c.length.end());
  const auto bytes = std::as_bytes(std::span(lengths));
  out.constants.assign(bytes.begin(), bytes.end());
  const std::string entry = fmt::format("attention_{}_{}", version, kernel_format(c.in));
  const std::size_t o = p.operand_index("O"), bias = c.bias_heads > 0 ? p.operand_index("bias") : 0,
                    l = c.lse ? p.operand_index("L") : 0;
  out.steps = [=](const KernelMemory& at) {
    std::vector<KernelStep> steps;
    kernels::AttentionArgs a = args;
    a.q = at.element0[0], a.k = at.element0[1], a.v = at.element0[2], a.o = at.element0[o];
    a.bias = c.bias_heads > 0 ? at.element0[bias] : nullptr, a.lse = c.lse ? at.element0[l] : nullptr;
    a.lengths = static_cast<const long long*>(at.constants), a.workspace = at.workspace;
    for (a.step = 0; a.step < kernels::attention_steps(v); ++a.step)
      if (const kernels::Launch launch = kernels::attention_launch(a, v); launch.grid_x > 0)
        steps.push_back(kernel_step(entry, launch, a));
    return steps;
  };
  return out;
}

}  // namespace

Target kernel_target() {
  return assay::kernel_target({"kernels/attention.cu", kernels::attention_versions, refuses, work});
}

}  // namespace assay::attention
