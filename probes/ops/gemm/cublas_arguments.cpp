// SPDX-License-Identifier: Apache-2.0
#include "probes/ops/gemm/cublas_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "probes/ops/gemm/blas.hpp"
#include "probes/ops/gemm/cuda_declared.hpp"
#include "probes/ops/own_code.hpp"

namespace assay::gemm {

namespace {

using enum CublasMode;

constexpr CublasModeRow modes[] = {
    {"default", standard, 0, false},
    {"pedantic", pedantic, 0, false},
    {"no_reduced", no_reduced, 0, false},
    {"device_scalars", device_scalars, 0, false},
    {"workspace=0", no_workspace, 0, false},
    {"gemv", gemv, 0, false},
    {"tf32", tf32, 0, false},
    {"f16acc", f16acc, 0, false},
    {"bf16x9", bf16x9, 120900, false},
    {"fixed_point", fixed_point, 130100, false},
    {"fast16f", fast16f, 0, true},
    {"fast16bf", fast16bf, 0, true},
};

cuda::cublasComputeType_t compute_type(CublasMode mode, DType in) {
  if (in == DType::f64)
    return mode == pedantic      ? cuda::CUBLAS_COMPUTE_64F_PEDANTIC
           : mode == fixed_point ? cuda::CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT
                                 : cuda::CUBLAS_COMPUTE_64F;
  if (in == DType::i8) return mode == pedantic ? cuda::CUBLAS_COMPUTE_32I_PEDANTIC : cuda::CUBLAS_COMPUTE_32I;
  switch (mode) {
    case pedantic:
      return cuda::CUBLAS_COMPUTE_32F_PEDANTIC;
    case tf32:
      return cuda::CUBLAS_COMPUTE_32F_FAST_TF32;
    case f16acc:
      return cuda::CUBLAS_COMPUTE_16F;
    case bf16x9:
      return cuda::CUBLAS_COMPUTE_32F_EMULATED_16BFX9;
    case fast16f:
      return cuda::CUBLAS_COMPUTE_32F_FAST_16F;
    case fast16bf:
      return cuda::CUBLAS_COMPUTE_32F_FAST_16BF;
    default:
      return cuda::CUBLAS_COMPUTE_32F;
  }
}

cuda::cublasMath_t math_mode(CublasMode mode) {
  return mode == pedantic     ? cuda::CUBLAS_PEDANTIC_MATH
         : mode == no_reduced ? cuda::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION
                              : cuda::CUBLAS_DEFAULT_MATH;
}

/// Rows of op(X) lie apart in memory, its columns are neighbours.
bool rows_apart(bool row_major, bool transposed) {
  return row_major != transposed;
}

/// y = M x: C is one column and M is A, or C is one row and M is op(B) transposed.
void as_gemv(const Call& c, const Problem& p, CublasArguments& g) {
  const bool column = c.n == 1;
  const std::int64_t rows = column ? c.m : c.n, columns = c.k;
  const bool apart = column ? rows_apart(c.row_major, c.transpose_a) : !rows_apart(c.row_major, c.transpose_b);
  g.routine = CublasRoutine::gemv;
  g.a = column ? 0 : 1, g.b = column ? 1 : 0;
  // Stored column by column it is M itself, row by row it is M transposed.
  g.op_a = apart ? cuda::CUBLAS_OP_T : cuda::CUBLAS_OP_N;
  g.m = static_cast<int>(apart ? columns : rows), g.n = static_cast<int>(apart ? rows : columns);
  g.lda = static_cast<int>(column ? c.lda : c.ldb);
  g.ldb = static_cast<int>(column ? layout_b(c, p).row : layout_a(c, p).column);
  g.ldc = static_cast<int>(column ? layout_c(c, p).row : layout_c(c, p).column);
}

/// cuBLAS documentation, cublasGemmBatchedEx: pointers "must be properly aligned to avoid misaligned memory access errors", by
/// 16 bytes where k is a multiple of 8 and by 4 where it is even, in the modes that use tensor cores.
bool misaligned_pointers(const Problem& p, const Call& c, CublasMode mode) {
  if (!c.pointer_array || c.in == DType::i8 || mode == pedantic || c.in == DType::f64) return false;
  if (c.in == DType::f32 && mode != tf32 && mode != fast16f && mode != fast16bf && mode != bf16x9) return false;
  const std::int64_t bytes = c.k % 8 == 0 ? 16 : c.k % 2 == 0 ? 4 : 1;
  const std::int64_t strides[] = {c.stride_a, c.stride_b, c.stride_c};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto size = static_cast<std::int64_t>(size_bytes(p.operands[i].dtype));
    if (p.operands[i].offset * size % bytes != 0 || (c.batch > 1 && strides[i] * size % bytes != 0)) return true;
  }
  return false;
}

/// cuBLAS documentation, CUBLAS_COMPUTE_32I: only with A and B aligned to 4 bytes, lda and ldb multiples of 4.
bool misaligned_int8(const Problem& p, const Call& c) {
  return c.in == DType::i8 && (c.lda % 4 != 0 || c.ldb % 4 != 0 || p.operands[0].offset % 4 != 0 ||
                               (c.batch > 1 && (c.stride_a % 4 != 0 || c.stride_b % 4 != 0)));
}

}  // namespace

std::span<const CublasModeRow> cublas_modes() {
  return modes;
}

const CublasModeRow* find_cublas_mode(std::string_view variant) {
  for (const CublasModeRow& row : modes)
    if (row.name == variant || (variant.empty() && row.mode == standard)) return &row;
  return nullptr;
}

std::optional<std::string> refuses(const Problem& p, CublasMode mode) {
  const Call c = call_of(p);
  const std::string& fill = p.id.word("fill");
  const auto is = [&](auto... fills) { return ((fill == fills) || ...); };
  if (c.has_epilogue()) return "cuBLAS adds no bias and applies no function; cuBLASLt does";
  if (c.in == DType::e4m3 || c.in == DType::e5m2) return "cuBLAS takes no fp8; cuBLASLt does";
  if (misaligned_int8(p, c)) return "CUBLAS_COMPUTE_32I asks for A and B aligned to 4 bytes, lda and ldb multiples of 4";
  if (misaligned_pointers(p, c, mode))
    return "cublasGemmBatchedEx asks for pointers aligned to 16 bytes where k is a multiple of 8, and to 4 where it is even";
  switch (mode) {
    case no_reduced:
      if (c.in == c.out && (c.in == DType::f16 || c.in == DType::bf16)) return std::nullopt;
      return "partial sums have no narrower format to be stored in than that of this result";
    case gemv:
      if (c.in != c.out || (c.in != DType::f32 && c.in != DType::f64)) return "cublasSgemv and cublasDgemv take f32 and f64";
      if (c.batch != 1 || c.pointer_array) return "cublasSgemv and cublasDgemv take no batch";
      if (c.n != 1 && c.m != 1) return "C is neither a row nor a column";
      if (c.k == 0)
        return "gemv of a matrix without columns leaves y alone, as in the reference BLAS: it is no gemm with k = 0";
      return std::nullopt;
    case f16acc: {
      if (c.in != DType::f16 || c.out != DType::f16) return "CUBLAS_COMPUTE_16F takes f16 into f16";
      if (round_to(DType::f16, c.alpha) != c.alpha || round_to(DType::f16, c.beta) != c.beta)
        return fmt::format("alpha={} and beta={} are passed in fp16, which does not hold both", c.alpha, c.beta);
      return std::nullopt;
    }
    case fixed_point:
      return c.in == DType::f64 ? std::nullopt : std::optional<std::string>("fixed-point emulation is of f64");
    case tf32:
    case fast16f:
    case fast16bf:
    case bf16x9:
      if (c.in != DType::f32) return "this compute type is for f32 operands";
      if (mode == bf16x9 && is("subnormal", "underflow")) return "three bf16 do not hold all bits of an fp32 below 2^-110";
      if (mode != bf16x9 && is("cancel", "subnormal", "underflow"))
        return "the operands keep 11 bits or fewer, too few for what such a case leaves";
      if (mode == fast16f && is("wide", "heavy", "two_level"))
        return "the operands may become fp16, whose range such a case leaves";
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::string_view name(CublasRoutine routine, DType in) {
  switch (routine) {
    case CublasRoutine::gemm:
      return "cublasGemmEx";
    case CublasRoutine::strided:
      return "cublasGemmStridedBatchedEx";
    case CublasRoutine::pointers:
      return "cublasGemmBatchedEx";
    case CublasRoutine::gemv:
      break;
  }
  return in == DType::f64 ? "cublasDgemv" : "cublasSgemv";
}

CublasArguments cublas_arguments(const Problem& p, CublasMode mode) {
  const Call c = call_of(p);
  CublasArguments g;
  g.compute = compute_type(mode, c.in), g.math = math_mode(mode);
  g.scalar = c.in == DType::f64 ? DType::f64 : c.in == DType::i8 ? DType::i32 : mode == f16acc ? DType::f16 : DType::f32;
  g.type_a = g.type_b = cuda_data_type(c.in), g.type_c = cuda_data_type(c.out);
  g.batch = static_cast<int>(c.batch);
  if (mode == gemv) {
    as_gemv(c, p, g);
    return g;
  }
  g.routine = c.pointer_array ? CublasRoutine::pointers : c.batch == 1 ? CublasRoutine::gemm : CublasRoutine::strided;
  const auto op = [](bool transposed) { return transposed ? cuda::CUBLAS_OP_T : cuda::CUBLAS_OP_N; };
  g.op_a = op(c.transpose_a), g.op_b = op(c.transpose_b);
  g.m = static_cast<int>(c.m), g.n = static_cast<int>(c.n), g.k = static_cast<int>(c.k);
  g.lda = static_cast<int>(c.lda), g.ldb = static_cast<int>(c.ldb), g.ldc = static_cast<int>(c.ldc);
  g.stride_a = c.stride_a, g.stride_b = c.stride_b, g.stride_c = c.stride_c;
  if (c.row_major) {
    std::swap(g.a, g.b), std::swap(g.op_a, g.op_b), std::swap(g.m, g.n);
    std::swap(g.lda, g.ldb), std::swap(g.stride_a, g.stride_b);
  }
  return g;
}

std::vector<std::byte> cublas_scalars(const Call& c, DType scalar) {
  const std::size_t size = size_bytes(scalar);
  std::vector<std::byte> out(2 * size);
  store_bits(scalar, out.data(), encode(scalar, c.alpha));
  store_bits(scalar, out.data() + size, encode(scalar, c.beta));
  return out;
}

Arithmetic cublas_arithmetic(const Call& c, CublasMode mode, int sm) {
  // CUBLAS_COMPUTE_64F and _32F: sums of at least that format in any order. fp64 tensor cores round as IEEE 754 does.
  const DType compute = c.in == DType::f64 ? DType::f64 : c.in == DType::i8 ? DType::i32 : DType::f32;
  Arithmetic a = plain_arithmetic(c.in, compute, c.out);
  switch (mode) {
    case f16acc:
      // CUBLAS_COMPUTE_16F: "half precision" sums. A tensor-core step with an fp16 accumulator rounds once per block.
      a.accumulator = a.split_format = DType::f16;
      return a;
    case tf32:
    case fast16f:
    case fast16bf:
      // "Allows down-converting inputs to half or TF32", "to bfloat16 or TF32", "to TF32" (cublas_api.h); how they are rounded
      // is not said, and truncation errs most.
      a.operand = mode == tf32 ? DType::tf32 : mode == fast16f ? DType::f16 : DType::bf16;
      a.operand_rounding = Rounding::toward_zero;
      allow_tensor_cores(a, sm, true);
      return a;
    case bf16x9:
      // Three bf16 hold an fp32 exactly; nine products each, in fp32, from small to large. Henry, Tang & Heinecke, arXiv
      // 1904.06376. Nine chains of tensor-core steps err by 9 (17 2^-25 + 2u)/16 = 7u per product at most; this allows 8u.
      a.accumulation = Accumulation::tensor_core;
      a.block = 2, a.fraction_bits = 22;
      return a;
    case fixed_point:
      // Dynamic mantissa control: as many slices as give fp64's own accuracy, else fp64. cuBLAS documentation, "Floating Point
      // Emulation"; arXiv 2511.13778.
    case pedantic:
      // "Uses 32-bit single precision arithmetic for all phases of calculations": cuBLAS documentation, cublasComputeType_t.
      return a;
    default:
      break;
  }
  if (c.in != DType::f16 && c.in != DType::bf16) return a;
  allow_tensor_cores(a, sm, false);
  // CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION: without it partial sums of split-K may be stored in the format of C. How
  // many there are is not said; a slice is at least the 32 products that a thread block's tile has along k.
  if (mode != no_reduced && c.out == c.in)
    a.splits = static_cast<int>(std::max<std::int64_t>(1, (c.k + 31) / 32)), a.split_format = c.out;
  return a;
}

Contract cublas_contract(CublasMode mode) {
  Contract out;
  out.beta_zero_ignores_c = {true,
                             "cuBLAS documentation, cublasGemmEx and cublas<t>gemv, beta: \"If beta==0, C does not have to "
                             "be a valid input\""};
  out.repeatable = {
      true,
      "cuBLAS documentation, Results reproducibility: the same bits at every run on the same GPU, with a workspace "
      "of the caller's for each stream"};
  if (mode == pedantic) promise_standard_arithmetic(out);
  return out;
}

std::size_t cublas_workspace_bytes(CublasMode mode, int sm) {
  if (mode == no_workspace) return 0;
  const std::size_t mib = sm >= 90 && sm < 110 ? 32 : sm >= 120 ? 12 : 4;
  return mib << 20;
}

}  // namespace assay::gemm
