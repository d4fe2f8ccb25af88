// SPDX-License-Identifier: Apache-2.0
// A libcuda for planning with the real cuDNN and no device: images load, and nothing else works. Loading means success with a
// handle that no other entry takes; every other entry answers 34 (CUDA_ERROR_STUB_LIBRARY), as the stub of a toolkit does.
// Nothing can be computed through it.

#define LOADS(name)                      \
  extern "C" int name(void** made) {     \
    static int image;                    \
    if (made != nullptr) *made = &image; \
    return 0;                            \
  }
LOADS(cuLibraryLoadData)
LOADS(cuLibraryGetKernel)
LOADS(cuKernelGetFunction)
LOADS(cuModuleLoadData)
LOADS(cuModuleLoadDataEx)
LOADS(cuModuleLoadFatBinary)
LOADS(cuModuleGetFunction)

#define SUCCEEDS(name)    \
  extern "C" int name() { \
    return 0;             \
  }
SUCCEEDS(cuLibraryUnload)
SUCCEEDS(cuModuleUnload)
SUCCEEDS(cuKernelSetAttribute)
SUCCEEDS(cuFuncSetAttribute)

#define REFUSES(name)     \
  extern "C" int name() { \
    return 34;            \
  }
// What cuDNN 9 looks for before it agrees to use a driver.
// clang-format off
#define EACH(X) \
  X(cuInit) X(cuDriverGetVersion) X(cuGetErrorString) X(cuGetErrorName) X(cuDeviceGet) X(cuDeviceGetCount) \
  X(cuDeviceGetAttribute) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxReset) \
  X(cuCtxGetLimit) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxGetDevice) X(cuCtxGetCurrent) X(cuStreamSynchronize) \
  X(cuStreamGetCtx) X(cuModuleGetGlobal_v2) X(cuMemcpyDtoH_v2) X(cuLaunchKernel) X(cuLaunchKernelEx) \
  X(cuLaunchCooperativeKernel) X(cuFuncGetAttribute) X(cuKernelGetAttribute) X(cuTensorMapEncodeTiled) \
  X(cuOccupancyMaxPotentialClusterSize) X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuLinkCreate) X(cuLinkCreate_v2) \
  X(cuLinkAddFile_v2) X(cuLinkAddData) X(cuLinkAddData_v2) X(cuLinkComplete) X(cuLinkDestroy) X(cuLibraryLoadFromFile) \
  X(cuGetProcAddress_v2) X(cuTensorMapEncodeIm2col)
// clang-format on
EACH(REFUSES)
