// SPDX-License-Identifier: Apache-2.0
// NVRTC, the run-time compiler, opened by path: a kernel file of ours to PTX or machine code, no toolkit header needed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace assay::nvrtc {

// name, arguments; every one returns nvrtcResult (0: success) but the last, which returns text. The same in 12 and 13.
#define ASSAY_NVRTC_SYMBOLS(X)                                                                           \
  X(nvrtcVersion, (int*, int*))                                                                          \
  X(nvrtcCreateProgram, (void**, const char*, const char*, int, const char* const*, const char* const*)) \
  X(nvrtcDestroyProgram, (void**))                                                                       \
  X(nvrtcCompileProgram, (void*, int, const char* const*))                                               \
  X(nvrtcGetPTXSize, (void*, std::size_t*))                                                              \
  X(nvrtcGetPTX, (void*, char*))                                                                         \
  X(nvrtcGetCUBINSize, (void*, std::size_t*))                                                            \
  X(nvrtcGetCUBIN, (void*, char*))                                                                       \
  X(nvrtcGetProgramLogSize, (void*, std::size_t*))                                                       \
  X(nvrtcGetProgramLog, (void*, char*))                                                                  \
  X(nvrtcGetNumSupportedArchs, (int*))                                                                   \
  X(nvrtcGetSupportedArchs, (int*))

struct Functions {
#define ASSAY_MEMBER(name, arguments) int(*name) arguments = nullptr;
  ASSAY_NVRTC_SYMBOLS(ASSAY_MEMBER)
#undef ASSAY_MEMBER
  const char* (*nvrtcGetErrorString)(int) = nullptr;
};

class Nvrtc {
 public:
  /// Opens this file; stays open. Throws LibraryError.
  static const Nvrtc& open(const std::string& path);

  const Functions& fn() const { return functions_; }
  std::string version_text() const;               // "13.0"
  const std::vector<int>& architectures() const;  // 75, 80, ...
  const std::string& path() const { return path_; }

 private:
  Nvrtc() = default;
  std::string path_;
  Functions functions_;
  int major_ = 0, minor_ = 0;
  std::vector<int> architectures_;
};

struct Result {
  std::vector<char> image;  // PTX text with its final zero, or a cubin
  std::string log;          // warnings
};

/// Compiles kernels/NAME.cu of kernels::sources(). "--gpu-architecture=sm_90" among the options gives a cubin, "compute_90"
/// PTX. Throws LibraryError with the compiler's own words when it refuses.
Result compile(const Nvrtc&, const std::string& file, const std::vector<std::string>& options);

}  // namespace assay::nvrtc
