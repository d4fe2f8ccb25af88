// SPDX-License-Identifier: Apache-2.0
#include "probes/ops/gemm/cublaslt_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "probes/ops/gemm/cuda_declared.hpp"
#include "probes/ops/own_code.hpp"

namespace assay::gemm {

namespace {

using namespace cuda;
using Compute = LtMode::Compute;

constexpr int last_rank = 7, last_algorithm = 63;

struct Named {
  std::string_view name;
  LtMode mode;
  bool deep = false;
};
constexpr Named modes[] = {
    {"heuristic", {}},
    {"order=row", {.row_order = true}},
    {"workspace=0", {.workspace_bytes = 0}},
    {"reduction=none", {.any_reduction = false}},
    {"pedantic", {.compute = Compute::pedantic}},
    {"tf32", {.compute = Compute::tf32}},
    {"f16acc", {.compute = Compute::f16acc}},
    {"scales", {.scales = true}},
    {"fast_accum", {.fast_accumulation = true}, true},
    {"fast16bf", {.compute = Compute::fast16bf}, true},
    {"workspace=1MiB", {.workspace_bytes = std::size_t{1} << 20}, true},
    {"workspace=4MiB", {.workspace_bytes = std::size_t{4} << 20}, true},
    {"workspace=256MiB", {.workspace_bytes = std::size_t{256} << 20}, true},
};

/// N of "rank=N", from `first` to `last`.
std::optional<int> number(std::string_view variant, std::string_view start, int first, int last) {
  if (!variant.starts_with(start)) return std::nullopt;
  variant.remove_prefix(start.size());
  int n = -1;
  const auto [end, error] = std::from_chars(variant.data(), variant.data() + variant.size(), n);
  const bool whole = error == std::errc() && end == variant.data() + variant.size();
  return whole && n >= first && n <= last ? std::optional(n) : std::nullopt;
}

cublasComputeType_t compute_type(Compute compute, DType in) {
  if (in == DType::f64) return compute == Compute::pedantic ? CUBLAS_COMPUTE_64F_PEDANTIC : CUBLAS_COMPUTE_64F;
  if (in == DType::i8) return compute == Compute::pedantic ? CUBLAS_COMPUTE_32I_PEDANTIC : CUBLAS_COMPUTE_32I;
  switch (compute) {
    case Compute::pedantic:
      return CUBLAS_COMPUTE_32F_PEDANTIC;
    case Compute::tf32:
      return CUBLAS_COMPUTE_32F_FAST_TF32;
    case Compute::f16acc:
      return CUBLAS_COMPUTE_16F;
    case Compute::fast16bf:
      return CUBLAS_COMPUTE_32F_FAST_16BF;
    case Compute::standard:
      break;
  }
  return CUBLAS_COMPUTE_32F;
}

bool is_fp8(DType t) {
  return t == DType::e4m3 || t == DType::e5m2;
}

std::uint32_t epilogue(const Call& c) {
  const int bias = c.bias ? CUBLASLT_EPILOGUE_BIAS : 0;
  const int function = c.activation == Activation::relu        ? CUBLASLT_EPILOGUE_RELU
                       : c.activation == Activation::gelu_tanh ? CUBLASLT_EPILOGUE_GELU
                                                               : 0;
  const int both = bias | function;
  return static_cast<std::uint32_t>(both == 0 ? CUBLASLT_EPILOGUE_DEFAULT : both);
}

/// A logical (rows, columns) matrix. `by_rows`: the elements of a row are neighbours in memory.
LtMatrix matrix(std::size_t operand, DType t, std::int64_t rows, std::int64_t columns, bool by_rows, std::int64_t ld,
                std::int64_t batch_stride, int order) {
  const bool as_stored = by_rows == (order == CUBLASLT_ORDER_ROW);
  if (!as_stored) std::swap(rows, columns);
  return {.operand = operand,
          .type = cuda_data_type(t),
          .rows = static_cast<std::uint64_t>(rows),
          .columns = static_cast<std::uint64_t>(columns),
          .ld = ld,
          .batch_stride = batch_stride,
          .op = as_stored ? CUBLAS_OP_N : CUBLAS_OP_T};
}

int order_of(const Call& c, const LtMode& mode) {
  if (c.bias) return c.row_major ? CUBLASLT_ORDER_COL : CUBLASLT_ORDER_ROW;
  return mode.row_order ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
}

/// cublasLt.h, cublasLtReductionScheme_t: INPLACE reduces in "the output buffer (and output data type)", OUTPUT_TYPE stores
/// intermediate results "in output type", COMPUTE_TYPE in compute type.
void declare_splits(Arithmetic& a, const Call& c, const lt::Configuration& algorithm) {
  if (algorithm.splits == 1 || algorithm.splits == 0) return;
  // A negative number is none of slices (stream-K): at most one per 32 products, the least tile along k.
  a.splits = algorithm.splits > 1 ? algorithm.splits : static_cast<int>(std::max<std::int64_t>(2, (c.k + 31) / 32));
  const bool in_output =
      algorithm.reduction == CUBLASLT_REDUCTION_SCHEME_INPLACE || algorithm.reduction == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  a.split_format = in_output ? c.out : a.accumulator;
}

}  // namespace

std::vector<std::string> lt_variants() {
  std::vector<std::string> out;
  for (const Named& m : modes)
    if (!m.deep) out.emplace_back(m.name);
  return out;
}

std::vector<std::string> lt_deep_variants() {
  std::vector<std::string> out;
  for (const Named& m : modes)
    if (m.deep) out.emplace_back(m.name);
  for (int n = 1; n <= last_rank; ++n) out.push_back(fmt::format("rank={}", n));
  for (int n = 0; n <= last_algorithm; ++n) out.push_back(fmt::format("algorithm={}", n));
  return out;
}

std::optional<LtMode> parse_lt_mode(std::string_view variant) {
  if (variant.empty()) return LtMode{};
  for (const Named& m : modes)
    if (m.name == variant) return m.mode;
  if (const auto n = number(variant, "rank=", 1, last_rank)) return LtMode{.rank = *n};
  if (const auto n = number(variant, "algorithm=", 0, last_algorithm)) return LtMode{.algorithm = *n};
  return std::nullopt;
}

std::optional<std::string> lt_refuses(const Problem& p, const LtMode& mode) {
  const Call c = call_of(p);
  const std::string& fill = p.id.word("fill");
  if (c.m == 0 || c.n == 0 || c.k == 0 || c.batch == 0)
    return "cuBLASLt's documentation gives matrices without elements no meaning";
  if (c.activation == Activation::gelu_erf) return "cuBLASLt's GELU is the tanh form; use act=gelu_tanh";
  if (c.bias && c.pointer_array)
    return "cuBLASLt's bias has a stride between batch entries, which pointers in another order do not have";
  if (c.bias && mode.row_order && c.row_major)
    return "cuBLASLt adds one number per row of D, which for this C is a layout in column order";
  // cuBLAS documentation, cublasLtMatmul, the table of fp8 kernels.
  if (c.in == DType::e5m2) return "cuBLASLt multiplies E5M2 with E4M3, not with E5M2";
  if (is_fp8(c.in) && c.bias && c.out == DType::f32)
    return "with fp8 operands and an fp32 result cuBLASLt takes its bias in bf16";
  if ((mode.scales || mode.fast_accumulation) && !is_fp8(c.in)) return "this mode is for fp8 operands";
  switch (mode.compute) {
    case Compute::tf32:
    case Compute::fast16bf:
      if (c.in != DType::f32) return "this compute type is for f32 operands";
      if (fill == "cancel" || fill == "subnormal" || fill == "underflow")
        return "the operands keep 11 bits or fewer, too few for what such a case leaves";
      return std::nullopt;
    case Compute::f16acc:
      if (c.in != DType::f16 || c.out != DType::f16) return "CUBLAS_COMPUTE_16F takes f16 into f16";
      if (round_to(DType::f16, c.alpha) != c.alpha || round_to(DType::f16, c.beta) != c.beta)
        return fmt::format("alpha={} and beta={} are passed in fp16, which does not hold both", c.alpha, c.beta);
      if (c.k > (exact(p.fills[0].family) ? 256 : 16))
        return "a sum of many numbers in fp16 may lose every figure where they cancel; short sums of exact fills show it";
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

LtArguments lt_arguments(const Problem& p, const LtMode& mode) {
  const Call c = call_of(p);
  LtArguments out;
  out.order = order_of(c, mode);
  out.batch = static_cast<std::int32_t>(c.batch), out.pointer_array = c.pointer_array;
  out.compute = compute_type(mode.compute, c.in);
  out.alpha = c.alpha, out.beta = c.beta;
  if (mode.scales) out.scale_a = 2, out.scale_b = 0.25, out.alpha = 2 * c.alpha;
  out.scalar = c.in == DType::f64                ? DType::f64
               : c.in == DType::i8               ? DType::i32
               : mode.compute == Compute::f16acc ? DType::f16
                                                 : DType::f32;
  out.scale = cuda_data_type(out.scalar);
  out.epilogue = epilogue(c), out.bias_stride = c.bias ? p.operands[3].strides[0] : 0;
  const bool a_by_rows = c.row_major != c.transpose_a, b_by_rows = c.row_major != c.transpose_b;
  const bool transposed = c.row_major != (out.order == CUBLASLT_ORDER_ROW);  // D = C'
  if (transposed) {
    out.a = matrix(1, c.in, c.n, c.k, !b_by_rows, c.ldb, c.stride_b, out.order);
    out.b = matrix(0, c.in, c.k, c.m, !a_by_rows, c.lda, c.stride_a, out.order);
    out.c = matrix(2, c.out, c.n, c.m, !c.row_major, c.ldc, c.stride_c, out.order);
  } else {
    out.a = matrix(0, c.in, c.m, c.k, a_by_rows, c.lda, c.stride_a, out.order);
    out.b = matrix(1, c.in, c.k, c.n, b_by_rows, c.ldb, c.stride_b, out.order);
    out.c = matrix(2, c.out, c.m, c.n, c.row_major, c.ldc, c.stride_c, out.order);
  }
  return out;
}

Arithmetic lt_arithmetic(const Call& c, const LtMode& mode, const lt::Choice& choice, int sm) {
  // cublasComputeType_t in cublas_api.h: CUBLAS_COMPUTE_32F "float - default", _64F "double - default": operands as they are,
  // sums of that format in any order. fp64 tensor cores round as IEEE 754 does.
  // _32I "signed 32-bit int": exact, in slices or not.
  if (c.in == DType::i8) return plain_arithmetic(c.in, DType::i32, c.out);
  Arithmetic a = plain_arithmetic(c.in, c.in == DType::f64 ? DType::f64 : DType::f32, c.out);
  const bool fma_only =
      (choice.numerical_flags & lt_flags::FMA) != 0 && (choice.numerical_flags & lt_flags::TENSOR_OP_MASK) == 0;
  switch (mode.compute) {
    case Compute::f16acc:
      // "half - default". A tensor-core step with an fp16 accumulator rounds once per block.
      a.accumulator = DType::f16;
      break;
    case Compute::tf32:
    case Compute::fast16bf:
      // "float - allows down-converting inputs to TF32", "to bfloat16 or TF32"; how they are rounded is not said, and
      // truncation errs most.
      a.operand = mode.compute == Compute::tf32 ? DType::tf32 : DType::bf16;
      a.operand_rounding = Rounding::toward_zero;
      allow_tensor_cores(a, sm, true);
      break;
    default:
      // What an algorithm says of itself narrows what is allowed; it never widens it: TF32 under CUBLAS_COMPUTE_32F is wrong.
      if ((c.in == DType::f16 || c.in == DType::bf16) && !fma_only) allow_tensor_cores(a, sm, false);
  }
  // docs/numerics.md 2.1, h100_fp8: sums of 13 fraction bits. Without fast accumulation they are promoted "periodically"
  // (cublasLt.h), how often is not said. Newer devices keep more.
  if (is_fp8(c.in)) a.accumulation = Accumulation::tensor_core, a.block = 16, a.fraction_bits = 13;
  a.split_format = a.accumulator;
  declare_splits(a, c, choice.configuration);
  // The epilogue's tanh is not documented; the unit's own, tanh.approx.f32, has a relative error of 2^-11 (PTX ISA), 2^13 units
  // of 2^-24.
  if (c.activation == Activation::gelu_tanh) a.function_ulps = 0x1p13;
  return a;
}

Contract lt_contract(const LtMode& mode) {
  Contract out;
  out.beta_zero_ignores_c = {
      true,
      "cuBLAS documentation, cublasGemmEx, beta: \"If beta==0, C does not have to be a valid input\"; cublasLtMatmul "
      "computes the same with a descriptor"};
  out.repeatable = {true,
                    "cuBLAS documentation, Results reproducibility: the same bits at every run on the same GPU; here with the "
                    "algorithm fixed and a workspace of the caller's"};
  if (mode.compute == Compute::pedantic) promise_standard_arithmetic(out);
  return out;
}

std::uint32_t lt_alignment(std::uint64_t address) {
  constexpr std::uint64_t most = 256;  // the preference's own default
  return static_cast<std::uint32_t>(address == 0 ? most : std::min(most, address & (~address + 1)));
}

}  // namespace assay::gemm
