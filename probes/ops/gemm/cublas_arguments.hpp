// SPDX-License-Identifier: Apache-2.0
// A gemm Problem as arguments of cuBLAS, and the arithmetic that cuBLAS documents for each mode. Pure: no library is touched.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "probes/library/cublas_types.hpp"
#include "probes/ops/gemm/gemm.hpp"

namespace assay::gemm {

/// Variants of the target "cublas".
enum class CublasMode : std::uint8_t {
  standard,        // default math, workspace of the default size
  pedantic,        // the _PEDANTIC compute types
  no_reduced,      // partial sums of split-K stay in the compute format
  device_scalars,  // alpha and beta in device memory
  no_workspace,    // a workspace of 0 bytes
  gemv,            // cublas?gemv where C is one row or column
  tf32,            // CUBLAS_COMPUTE_32F_FAST_TF32
  f16acc,          // CUBLAS_COMPUTE_16F
  bf16x9,          // fp32 as three bf16
  fixed_point,     // fp64 as fixed-point slices
  fast16f,         // CUBLAS_COMPUTE_32F_FAST_16F
  fast16bf,        // CUBLAS_COMPUTE_32F_FAST_16BF
};

struct CublasModeRow {
  std::string_view name;
  CublasMode mode;
  int least_version;  // 120900: cuBLAS 12.9; 0: every version of CUDA 12 and 13
  bool deep;          // only in deep runs
};
std::span<const CublasModeRow> cublas_modes();
/// nullptr when there is none; "" is "default".
const CublasModeRow* find_cublas_mode(std::string_view variant);

/// Why this mode is not for this problem.
std::optional<std::string> refuses(const Problem&, CublasMode);

enum class CublasRoutine : std::uint8_t { gemm, strided, pointers, gemv };
std::string_view name(CublasRoutine, DType in);

/// What one call is given. cuBLAS is column-major: a row-major product is computed as C' = op(B)' op(A)', on the same memory.
struct CublasArguments {
  CublasRoutine routine = CublasRoutine::gemm;
  cuda::cublasOperation_t op_a = 0, op_b = 0;
  int m = 0, n = 0, k = 0, batch = 1;
  std::size_t a = 0, b = 1;                               // operand of the Problem that is cuBLAS's A and B; gemv: matrix and x
  int lda = 1, ldb = 1, ldc = 1;                          // gemv: lda, incx, incy
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // between batch entries
  cuda::cudaDataType type_a = 0, type_b = 0, type_c = 0;
  cuda::cublasComputeType_t compute = 0;
  cuda::cublasMath_t math = 0;
  DType scalar = DType::f32;  // format of alpha and beta
};
CublasArguments cublas_arguments(const Problem&, CublasMode);

/// alpha, then beta, in the format they are passed in.
std::vector<std::byte> cublas_scalars(const Call&, DType scalar);

/// As documented for a device of this compute capability (90: 9.0). Every implementation that follows the documentation stays
/// inside.
Arithmetic cublas_arithmetic(const Call&, CublasMode, int sm);
Contract cublas_contract(CublasMode);

/// cuBLAS documentation, cublasSetWorkspace: 32 MiB on sm_90 and sm_10x, 12 MiB on sm_12x, 4 MiB elsewhere.
std::size_t cublas_workspace_bytes(CublasMode, int sm);

}  // namespace assay::gemm
