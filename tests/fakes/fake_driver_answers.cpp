// SPDX-License-Identifier: Apache-2.0
// What the fake driver does answer: device 0, "Fake GPU 90".
#include <cstdio>

#include "probes/library/cuda_symbols.hpp"

using namespace assay::cuda;

extern "C" {
CUresult cuInit(unsigned) {
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int* version) {
  *version = 12080;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  *device = 0;
  return ordinal == 0 ? CUDA_SUCCESS : 101;
}
CUresult cuDeviceGetName(char* name, int size, CUdevice) {
  std::snprintf(name, static_cast<std::size_t>(size), "Fake GPU 90");
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetPCIBusId(char* id, int size, CUdevice) {
  std::snprintf(id, static_cast<std::size_t>(size), "0000:0F:00.0");
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem_v2(std::size_t* bytes, CUdevice) {
  *bytes = std::size_t{141} << 30;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 9;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *value = 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 132;
      return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
      *value = 1980000;
      return CUDA_SUCCESS;
    default:
      return 1;
  }
}
CUresult cuGetErrorName(CUresult status, const char** name) {
  *name = status == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : nullptr;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult status, const char** text) {
  *text = status == 700 ? "an illegal memory access was encountered" : nullptr;
  return CUDA_SUCCESS;
}
}
