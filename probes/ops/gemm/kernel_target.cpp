// SPDX-License-Identifier: Apache-2.0
// Target "kernel" of gemm: kernels/gemm.cu.
#include "probes/ops/kernel_target.hpp"

#include <fmt/format.h>

#include "kernels/gemm.hpp"
#include "probes/ops/gemm/blas.hpp"
#include "probes/ops/own_code.hpp"

namespace assay::gemm {

namespace {

using kernels::GemmVersion;

GemmVersion version_of(std::string_view name) {
  int place = 0;
  while (kernels::gemm_versions[place].name != name) ++place;
  return static_cast<GemmVersion>(place);
}

std::optional<std::string> refuses(const Problem& p, std::string_view version) {
  const Call c = call_of(p);
  if (c.has_epilogue()) return "kernels/gemm.cu has no epilogue";
  if (c.pointer_array) return "kernels/gemm.cu takes batches by stride";
  if (c.in != DType::f64 && c.out == DType::f64) return "kernels/gemm.cu adds in fp32 and stores no fp64";
  if (version_of(version) == GemmVersion::mma_tf32 && underflows(*parse_family(p.id.word("fill"))))
    return "TF32 keeps 11 bits of an operand, too few for what subnormal products leave";
  return std::nullopt;
}

kernels::GemmArgs args_of(const Call& c) {
  // Offsets are in the addresses.
  const Layout a = layout(c.row_major, c.transpose_a, c.lda, c.stride_a, 0),
               b = layout(c.row_major, c.transpose_b, c.ldb, c.stride_b, 0),
               to = layout(c.row_major, false, c.ldc, c.stride_c, 0);
  kernels::GemmArgs g{};
  g.batch = c.batch, g.m = c.m, g.n = c.n, g.k = c.k;
  g.a_batch = a.entry, g.a_row = a.row, g.a_column = a.column;
  g.b_batch = b.entry, g.b_row = b.row, g.b_column = b.column;
  g.c_batch = to.entry, g.c_row = to.row, g.c_column = to.column;
  g.alpha = c.alpha, g.beta = c.beta;
  g.c_is_f32 = c.in != DType::f32 && c.in != DType::f64 && c.out == DType::f32;
  return g;
}

/// Published models of mma.sync: docs/numerics.md section 2.1.
Arithmetic arithmetic_on(Arithmetic a, GemmVersion v, int sm) {
  if (v == GemmVersion::split_k) a.splits = static_cast<int>(kernels::gemm_slices);
  if (v != GemmVersion::mma && v != GemmVersion::mma_tf32) return a;
  a.accumulation = Accumulation::tensor_core;
  a.fraction_bits = sm >= 90 ? 25 : 24;
  a.block = (v == GemmVersion::mma ? 16 : 8) / (sm >= 90 ? 1 : 2);
  if (v == GemmVersion::mma_tf32) a.operand = DType::tf32, a.operand_rounding = Rounding::nearest_away;
  return a;
}

KernelWork work(const Problem& p, std::string_view version) {
  const Call c = call_of(p);
  const GemmVersion v = version_of(version);
  const DType compute = c.in == DType::f64 ? DType::f64 : DType::f32;
  KernelWork out;
  const Arithmetic plain = plain_arithmetic(c.in, compute, c.out);
  out.arithmetic_on = [plain, v](int sm) { return arithmetic_on(plain, v, sm); };
  const char* const source = "kernels/gemm.hpp";
  out.contract = own_contract(source);
  out.contract.beta_zero_ignores_c = out.contract.alpha_zero_ignores_ab = {true, source};
  const kernels::GemmArgs args = args_of(c);
  out.workspace_bytes = static_cast<std::size_t>(kernels::gemm_workspace_bytes(args, v, static_cast<int>(size_bytes(compute))));
  const std::string entry = fmt::format("gemm_{}_{}", version, kernel_format(c.in));
  out.steps = [=](const KernelMemory& at) {
    std::vector<KernelStep> steps;
    kernels::GemmArgs g = args;
    g.a = at.element0[0], g.b = at.element0[1], g.c = at.element0[2], g.workspace = at.workspace;
    for (g.step = 0; g.step < kernels::gemm_steps(v); ++g.step)
      if (const kernels::Launch launch = kernels::gemm_launch(g, v); launch.grid_x > 0)
        steps.push_back(kernel_step(entry, launch, g));
    return steps;
  };
  return out;
}

}  // namespace

Target kernel_target() {
  return assay::kernel_target({"kernels/gemm.cu", kernels::gemm_versions, refuses, work});
}

}  // namespace assay::gemm
