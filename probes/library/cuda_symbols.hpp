// SPDX-License-Identifier: Apache-2.0
// The driver API functions that assay calls, declared here and nowhere else: exported names and C signatures, the same in
// CUDA 12 and 13. A header's plain name may be another, obsolete function (cuMemAlloc is not cuMemAlloc_v2).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace assay::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;

inline constexpr CUresult CUDA_SUCCESS = 0, CUDA_ERROR_OUT_OF_MEMORY = 2, CUDA_ERROR_STUB_LIBRARY = 34,
                          CUDA_ERROR_NO_DEVICE = 100;
inline constexpr int CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16, CU_DEVICE_ATTRIBUTE_ECC_ENABLED = 32,
                     CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
                     CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
                     CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97;
inline constexpr int CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6, CU_JIT_OPTIMIZATION_LEVEL = 7;
inline constexpr int CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8;
inline constexpr unsigned CU_STREAM_NON_BLOCKING = 1, CU_EVENT_DISABLE_TIMING = 2;
inline constexpr int CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1;

// name, arguments; every one returns CUresult and is required
#define ASSAY_CUDA_SYMBOLS(X)                                                                                     \
  X(cuInit, (unsigned))                                                                                           \
  X(cuDriverGetVersion, (int*))                                                                                   \
  X(cuDeviceGetCount, (int*))                                                                                     \
  X(cuDeviceGet, (CUdevice*, int))                                                                                \
  X(cuDeviceGetName, (char*, int, CUdevice))                                                                      \
  X(cuDeviceGetAttribute, (int*, int, CUdevice))                                                                  \
  X(cuDeviceTotalMem_v2, (std::size_t*, CUdevice))                                                                \
  X(cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice))                                                             \
  X(cuDevicePrimaryCtxRelease_v2, (CUdevice))                                                                     \
  X(cuCtxSetCurrent, (CUcontext))                                                                                 \
  X(cuCtxSynchronize, ())                                                                                         \
  X(cuMemAlloc_v2, (CUdeviceptr*, std::size_t))                                                                   \
  X(cuMemFree_v2, (CUdeviceptr))                                                                                  \
  X(cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void*, std::size_t, CUstream))                                      \
  X(cuMemcpyDtoHAsync_v2, (void*, CUdeviceptr, std::size_t, CUstream))                                            \
  X(cuMemsetD8Async, (CUdeviceptr, unsigned char, std::size_t, CUstream))                                         \
  X(cuMemGetInfo_v2, (std::size_t*, std::size_t*))                                                                \
  X(cuModuleLoadDataEx, (CUmodule*, const void*, unsigned, int*, void**))                                         \
  X(cuModuleUnload, (CUmodule))                                                                                   \
  X(cuModuleGetFunction, (CUfunction*, CUmodule, const char*))                                                    \
  X(cuFuncGetAttribute, (int*, int, CUfunction))                                                                  \
  X(cuFuncSetAttribute, (CUfunction, int, int))                                                                   \
  X(cuLaunchKernel,                                                                                               \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**)) \
  X(cuStreamCreate, (CUstream*, unsigned))                                                                        \
  X(cuStreamDestroy_v2, (CUstream))                                                                               \
  X(cuStreamSynchronize, (CUstream))                                                                              \
  X(cuStreamWaitEvent, (CUstream, CUevent, unsigned))                                                             \
  X(cuStreamBeginCapture_v2, (CUstream, int))                                                                     \
  X(cuStreamEndCapture, (CUstream, CUgraph*))                                                                     \
  X(cuGraphInstantiateWithFlags, (CUgraphExec*, CUgraph, unsigned long long))                                     \
  X(cuGraphLaunch, (CUgraphExec, CUstream))                                                                       \
  X(cuGraphExecDestroy, (CUgraphExec))                                                                            \
  X(cuGraphDestroy, (CUgraph))                                                                                    \
  X(cuEventCreate, (CUevent*, unsigned))                                                                          \
  X(cuEventRecord, (CUevent, CUstream))                                                                           \
  X(cuEventSynchronize, (CUevent))                                                                                \
  X(cuEventElapsedTime, (float*, CUevent, CUevent))                                                               \
  X(cuEventDestroy_v2, (CUevent))                                                                                 \
  X(cuGetErrorName, (CUresult, const char**))                                                                     \
  X(cuGetErrorString, (CUresult, const char**))

// Null where the driver has not got it. The bus id only leads to the same device in NVML; it is never recorded.
#define ASSAY_CUDA_OPTIONAL(X) X(cuDeviceGetPCIBusId, (char*, int, CUdevice))

struct Functions {
#define ASSAY_MEMBER(name, arguments) CUresult(*name) arguments = nullptr;
  ASSAY_CUDA_SYMBOLS(ASSAY_MEMBER)
  ASSAY_CUDA_OPTIONAL(ASSAY_MEMBER)
#undef ASSAY_MEMBER
};

}  // namespace assay::cuda
