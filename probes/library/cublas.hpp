// SPDX-License-Identifier: Apache-2.0
// cuBLAS, opened by path after the cuBLASLt that belongs to it, and what its status codes mean.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "probes/library/cublas_types.hpp"

namespace assay::cuda {

// name, arguments; exported names, the same in CUDA 12 and 13; every one returns cublasStatus_t and is required.
#define ASSAY_CUBLAS_FUNCTIONS(X)                                                                                    \
  X(cublasCreate_v2, (cublasHandle_t*))                                                                              \
  X(cublasDestroy_v2, (cublasHandle_t))                                                                              \
  X(cublasSetStream_v2, (cublasHandle_t, void* stream))                                                              \
  X(cublasSetWorkspace_v2, (cublasHandle_t, void*, std::size_t))                                                     \
  X(cublasSetPointerMode_v2, (cublasHandle_t, int))                                                                  \
  X(cublasSetMathMode, (cublasHandle_t, cublasMath_t))                                                               \
  X(cublasSetAtomicsMode, (cublasHandle_t, int))                                                                     \
  X(cublasSgemv_v2, (cublasHandle_t, cublasOperation_t, int m, int n, const float* alpha, const float* a, int lda,   \
                     const float* x, int incx, const float* beta, float* y, int incy))                               \
  X(cublasDgemv_v2, (cublasHandle_t, cublasOperation_t, int m, int n, const double* alpha, const double* a, int lda, \
                     const double* x, int incx, const double* beta, double* y, int incy))

// The headers overload these names for older callers.
#define ASSAY_CUBLAS_GEMMS(X)                                                                                               \
  X(cublasGemmEx, (cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const void* alpha,            \
                   const void* a, cudaDataType, int lda, const void* b, cudaDataType, int ldb, const void* beta, void* c,   \
                   cudaDataType, int ldc, cublasComputeType_t, cublasGemmAlgo_t))                                           \
  X(cublasGemmStridedBatchedEx,                                                                                             \
    (cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const void* alpha, const void* a,           \
     cudaDataType, int lda, long long stride_a, const void* b, cudaDataType, int ldb, long long stride_b, const void* beta, \
     void* c, cudaDataType, int ldc, long long stride_c, int batch, cublasComputeType_t, cublasGemmAlgo_t))                 \
  X(cublasGemmBatchedEx,                                                                                                    \
    (cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k, const void* alpha, const void* const a[],   \
     cudaDataType, int lda, const void* const b[], cudaDataType, int ldb, const void* beta, void* const c[], cudaDataType,  \
     int ldc, int batch, cublasComputeType_t, cublasGemmAlgo_t))

// Null where the version has not got them. Emulation of fp32 came with 12.9, of fp64 with 13.1.
#define ASSAY_CUBLAS_EMULATION_129_FUNCTIONS(X) X(cublasSetEmulationStrategy, (cublasHandle_t, int))
#define ASSAY_CUBLAS_EMULATION_131_FUNCTIONS(X)                         \
  X(cublasSetFixedPointEmulationMantissaControl, (cublasHandle_t, int)) \
  X(cublasSetFixedPointEmulationMantissaBitCountPointer, (cublasHandle_t, int*))

struct CublasFunctions {
#define ASSAY_MEMBER(name, arguments) cublasStatus_t(*name) arguments = nullptr;
  ASSAY_CUBLAS_FUNCTIONS(ASSAY_MEMBER)
  ASSAY_CUBLAS_GEMMS(ASSAY_MEMBER)
  ASSAY_CUBLAS_EMULATION_129_FUNCTIONS(ASSAY_MEMBER)
  ASSAY_CUBLAS_EMULATION_131_FUNCTIONS(ASSAY_MEMBER)
#undef ASSAY_MEMBER
};

/// A call that cuBLAS refused. what(): "cublasGemmEx: CUBLAS_STATUS_EXECUTION_FAILED (13), the GPU program failed to execute".
struct CublasError : std::runtime_error {
  CublasError(const std::string& what, cublasStatus_t code) : std::runtime_error(what), status(code) {}
  cublasStatus_t status;
};

class Cublas {
 public:
  /// Opens the files of roles "cublasLt" (where there is one) and "cublas", in this order; they stay open. Throws LibraryError:
  /// not there, foreign, older than 12, or two files of different releases.
  static const Cublas& open(const std::map<std::string, std::string>& files);

  const CublasFunctions& fn() const { return functions_; }
  int version() const { return version_; }                   // 130100: 13.1.0
  const std::string& version_text() const { return said_; }  // "cuBLAS 13.1.0 for CUDA 13.0"
  const std::string& path() const { return path_; }
  /// Throws CublasError unless the status is success; `doing` begins the sentence.
  void check(cublasStatus_t, std::string_view doing) const;

 private:
  Cublas() = default;
  std::string path_, said_;
  CublasFunctions functions_;
  int version_ = 0;
};

/// A handle on the current context. Throws LibraryError when the library does not start here: no device, or one that it or its
/// driver does not know.
std::shared_ptr<cublasContext> create_handle(const Cublas&);

}  // namespace assay::cuda
