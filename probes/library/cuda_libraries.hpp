// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, cuBLAS and cuDNN, as far as it takes to say which ones they are. Opened by path, in an order that leaves the
// loader no choice of its own.
#pragma once

#include <cstddef>
#include <map>
#include <string>

namespace assay::cuda {

// name, return type, arguments; the same in CUDA 12 and 13. libraryPropertyType: 0 major, 1 minor, 2 patch.
#define ASSAY_CUBLASLT_SYMBOLS(X)              \
  X(cublasLtGetVersion, std::size_t, ())       \
  X(cublasLtGetCudartVersion, std::size_t, ()) \
  X(cublasLtGetProperty, int, (int, int*))

#define ASSAY_CUBLAS_SYMBOLS(X)          \
  X(cublasGetProperty, int, (int, int*)) \
  X(cublasGetCudartVersion, std::size_t, ())

#define ASSAY_CUDNN_SYMBOLS(X)              \
  X(cudnnGetVersion, std::size_t, ())       \
  X(cudnnGetCudartVersion, std::size_t, ()) \
  X(cudnnGetProperty, int, (int, int*))

struct LibraryFunctions {
#define ASSAY_MEMBER(name, result, arguments) result(*name) arguments = nullptr;
  ASSAY_CUBLASLT_SYMBOLS(ASSAY_MEMBER)
  ASSAY_CUBLAS_SYMBOLS(ASSAY_MEMBER)
  ASSAY_CUDNN_SYMBOLS(ASSAY_MEMBER)
  ASSAY_MEMBER(cudnnGetMaxDeviceVersion, std::size_t, ())  // optional: since 9
#undef ASSAY_MEMBER
};

/// Opens those of `files` (absolute paths by role) that are here: cublasLt, then cublas, then cudnn. Gives what each says of
/// itself, by role: "cuBLASLt 13.1.0 for CUDA 13.0". Throws LibraryError: foreign, a function is missing, cuBLAS did not take
/// the cuBLASLt that was opened before it, or the two say different versions.
std::map<std::string, std::string> open_libraries(const std::map<std::string, std::string>& files);

}  // namespace assay::cuda
