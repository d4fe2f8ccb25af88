// SPDX-License-Identifier: Apache-2.0
// Types and numbers that cuBLAS and cuBLASLt share, declared here and nowhere else: the same in CUDA 12 and 13. Every
// enumeration is an int to the C ABI.
#pragma once

#include <string>

namespace assay::cuda {

using cublasHandle_t = struct cublasContext*;
using cublasStatus_t = int;
using cublasOperation_t = int;
using cublasComputeType_t = int;
using cublasMath_t = int;
using cublasGemmAlgo_t = int;
using cudaDataType = int;

// name, value, what cuBLAS's documentation says of it
#define ASSAY_CUBLAS_STATUSES(X)                                                                         \
  X(CUBLAS_STATUS_SUCCESS, 0, "the operation completed successfully")                                    \
  X(CUBLAS_STATUS_NOT_INITIALIZED, 1, "the library was not initialised, or the CUDA runtime has failed") \
  X(CUBLAS_STATUS_ALLOC_FAILED, 3, "resource allocation failed inside the library")                      \
  X(CUBLAS_STATUS_INVALID_VALUE, 7, "an unsupported value or parameter was passed")                      \
  X(CUBLAS_STATUS_ARCH_MISMATCH, 8, "the device lacks a feature that the function needs")                \
  X(CUBLAS_STATUS_MAPPING_ERROR, 11, "an access to GPU memory space failed")                             \
  X(CUBLAS_STATUS_EXECUTION_FAILED, 13, "the GPU program failed to execute")                             \
  X(CUBLAS_STATUS_INTERNAL_ERROR, 14, "an internal operation failed")                                    \
  X(CUBLAS_STATUS_NOT_SUPPORTED, 15, "the functionality requested is not supported")                     \
  X(CUBLAS_STATUS_LICENSE_ERROR, 16, "the licence could not be checked")

#define ASSAY_CUBLAS_OPERATIONS(X) \
  X(CUBLAS_OP_N, 0)                \
  X(CUBLAS_OP_T, 1)

#define ASSAY_CUDA_DATA_TYPES(X) \
  X(CUDA_R_32F, 0)               \
  X(CUDA_R_64F, 1)               \
  X(CUDA_R_16F, 2)               \
  X(CUDA_R_8I, 3)                \
  X(CUDA_R_32I, 10)              \
  X(CUDA_R_16BF, 14)             \
  X(CUDA_R_8F_E4M3, 28)          \
  X(CUDA_R_8F_E5M2, 29)

#define ASSAY_CUBLAS_COMPUTE_TYPES(X) \
  X(CUBLAS_COMPUTE_16F, 64)           \
  X(CUBLAS_COMPUTE_16F_PEDANTIC, 65)  \
  X(CUBLAS_COMPUTE_32F, 68)           \
  X(CUBLAS_COMPUTE_32F_PEDANTIC, 69)  \
  X(CUBLAS_COMPUTE_64F, 70)           \
  X(CUBLAS_COMPUTE_64F_PEDANTIC, 71)  \
  X(CUBLAS_COMPUTE_32I, 72)           \
  X(CUBLAS_COMPUTE_32I_PEDANTIC, 73)  \
  X(CUBLAS_COMPUTE_32F_FAST_16F, 74)  \
  X(CUBLAS_COMPUTE_32F_FAST_16BF, 75) \
  X(CUBLAS_COMPUTE_32F_FAST_TF32, 77)
// Emulated compute types by the cuBLAS that brought them: 12.9, and 13.1 (CUDA 13.0 Update 2); release notes.
#define ASSAY_CUBLAS_COMPUTE_TYPES_129(X) X(CUBLAS_COMPUTE_32F_EMULATED_16BFX9, 78)
#define ASSAY_CUBLAS_COMPUTE_TYPES_131(X) X(CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT, 79)

#define ASSAY_CUBLAS_MATH_MODES(X) \
  X(CUBLAS_DEFAULT_MATH, 0)        \
  X(CUBLAS_PEDANTIC_MATH, 2)       \
  X(CUBLAS_TF32_TENSOR_OP_MATH, 3) \
  X(CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION, 16)
#define ASSAY_CUBLAS_MATH_MODES_129(X) X(CUBLAS_FP32_EMULATED_BF16X9_MATH, 4)
#define ASSAY_CUBLAS_MATH_MODES_131(X) X(CUBLAS_FP64_EMULATED_FIXEDPOINT_MATH, 8)

#define ASSAY_CUBLAS_MODES(X)      \
  X(CUBLAS_POINTER_MODE_HOST, 0)   \
  X(CUBLAS_POINTER_MODE_DEVICE, 1) \
  X(CUBLAS_ATOMICS_NOT_ALLOWED, 0) \
  X(CUBLAS_ATOMICS_ALLOWED, 1)     \
  X(CUBLAS_GEMM_DEFAULT, -1)
#define ASSAY_CUBLAS_EMULATION_129(X)        \
  X(CUBLAS_EMULATION_STRATEGY_DEFAULT, 0)    \
  X(CUBLAS_EMULATION_STRATEGY_PERFORMANT, 1) \
  X(CUBLAS_EMULATION_STRATEGY_EAGER, 2)
#define ASSAY_CUDA_EMULATION_131(X)                    \
  X(CUDA_EMULATION_MANTISSA_CONTROL_DYNAMIC, 0)        \
  X(CUDA_EMULATION_MANTISSA_CONTROL_FIXED, 1)          \
  X(CUDA_EMULATION_SPECIAL_VALUES_SUPPORT_NONE, 0)     \
  X(CUDA_EMULATION_SPECIAL_VALUES_SUPPORT_INFINITY, 1) \
  X(CUDA_EMULATION_SPECIAL_VALUES_SUPPORT_NAN, 2)

#define ASSAY_CONSTANT(name, value, ...) inline constexpr int name = value;
ASSAY_CUBLAS_STATUSES(ASSAY_CONSTANT)
ASSAY_CUBLAS_OPERATIONS(ASSAY_CONSTANT)
ASSAY_CUDA_DATA_TYPES(ASSAY_CONSTANT)
ASSAY_CUBLAS_COMPUTE_TYPES(ASSAY_CONSTANT)
ASSAY_CUBLAS_COMPUTE_TYPES_129(ASSAY_CONSTANT)
ASSAY_CUBLAS_COMPUTE_TYPES_131(ASSAY_CONSTANT)
ASSAY_CUBLAS_MATH_MODES(ASSAY_CONSTANT)
ASSAY_CUBLAS_MATH_MODES_129(ASSAY_CONSTANT)
ASSAY_CUBLAS_MATH_MODES_131(ASSAY_CONSTANT)
ASSAY_CUBLAS_MODES(ASSAY_CONSTANT)
ASSAY_CUBLAS_EMULATION_129(ASSAY_CONSTANT)
ASSAY_CUDA_EMULATION_131(ASSAY_CONSTANT)
#undef ASSAY_CONSTANT

/// "CUBLAS_STATUS_NOT_SUPPORTED (15), the functionality requested is not supported".
inline std::string status_name(cublasStatus_t status) {
#define ASSAY_NAME(name, value, text) \
  if (status == value) return #name " (" #value "), " text;
  ASSAY_CUBLAS_STATUSES(ASSAY_NAME)
#undef ASSAY_NAME
  return "a status without a name (" + std::to_string(status) + ")";
}

}  // namespace assay::cuda
