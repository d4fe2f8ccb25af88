// SPDX-License-Identifier: Apache-2.0
// Entries of the real driver that a caller may reach by mistake or in passing: above all the obsolete ones that a header's
// plain name resolves to. None of them pretends to work.
#include <cstdio>

#include "tests/sim/driver.hpp"

namespace {

int refuse(const char* name) {
  assay::sim::announce(fmt::format("{} was called, which the simulated device does not have", name));
  assay::sim::log_call(name, "refused", assay::sim::ERROR_NOT_SUPPORTED);
  return assay::sim::ERROR_NOT_SUPPORTED;
}

}  // namespace

#define ASSAY_SIM_REFUSED(name) \
  ASSAY_SIM_ENTRY name() {      \
    return refuse(#name);       \
  }

// NVRTC asks for private tables of a driver that it finds mapped, and does without.
ASSAY_SIM_ENTRY cuGetExportTable(const void** table, const void*) {
  *table = nullptr;
  assay::sim::log_call("cuGetExportTable", "", assay::sim::ERROR_NOT_FOUND);
  return assay::sim::ERROR_NOT_FOUND;
}

// Obsolete: 32-bit addresses, other structures, the legacy stream by another name.
ASSAY_SIM_REFUSED(cuDeviceTotalMem)
ASSAY_SIM_REFUSED(cuDevicePrimaryCtxRelease)
ASSAY_SIM_REFUSED(cuDevicePrimaryCtxReset)
ASSAY_SIM_REFUSED(cuCtxCreate)
ASSAY_SIM_REFUSED(cuCtxDestroy)
ASSAY_SIM_REFUSED(cuMemAlloc)
ASSAY_SIM_REFUSED(cuMemFree)
ASSAY_SIM_REFUSED(cuMemGetInfo)
ASSAY_SIM_REFUSED(cuMemcpyHtoD)
ASSAY_SIM_REFUSED(cuMemcpyDtoH)
ASSAY_SIM_REFUSED(cuMemcpyHtoDAsync)
ASSAY_SIM_REFUSED(cuMemcpyDtoHAsync)
ASSAY_SIM_REFUSED(cuMemsetD8)
ASSAY_SIM_REFUSED(cuStreamDestroy)
ASSAY_SIM_REFUSED(cuStreamBeginCapture)
ASSAY_SIM_REFUSED(cuEventDestroy)
ASSAY_SIM_REFUSED(cuGraphInstantiate)

// Current, but not part of what the product uses.
ASSAY_SIM_REFUSED(cuCtxCreate_v2)
ASSAY_SIM_REFUSED(cuCtxCreate_v3)
ASSAY_SIM_REFUSED(cuCtxCreate_v4)
ASSAY_SIM_REFUSED(cuCtxDestroy_v2)
ASSAY_SIM_REFUSED(cuCtxGetCurrent)
ASSAY_SIM_REFUSED(cuCtxPushCurrent_v2)
ASSAY_SIM_REFUSED(cuCtxPopCurrent_v2)
ASSAY_SIM_REFUSED(cuDevicePrimaryCtxReset_v2)
ASSAY_SIM_REFUSED(cuDeviceGetUuid)
ASSAY_SIM_REFUSED(cuDeviceGetUuid_v2)
ASSAY_SIM_REFUSED(cuDeviceGetPCIBusId)
ASSAY_SIM_REFUSED(cuGetProcAddress)
ASSAY_SIM_REFUSED(cuGetProcAddress_v2)
ASSAY_SIM_REFUSED(cuMemAllocAsync)
ASSAY_SIM_REFUSED(cuMemAllocHost_v2)
ASSAY_SIM_REFUSED(cuMemAllocManaged)
ASSAY_SIM_REFUSED(cuMemHostAlloc)
ASSAY_SIM_REFUSED(cuMemHostRegister_v2)
ASSAY_SIM_REFUSED(cuMemFreeAsync)
ASSAY_SIM_REFUSED(cuMemFreeHost)
ASSAY_SIM_REFUSED(cuMemcpy)
ASSAY_SIM_REFUSED(cuMemcpyAsync)
ASSAY_SIM_REFUSED(cuMemcpyDtoDAsync_v2)
ASSAY_SIM_REFUSED(cuMemcpyHtoD_v2)
ASSAY_SIM_REFUSED(cuMemcpyDtoH_v2)
ASSAY_SIM_REFUSED(cuMemsetD8_v2)
ASSAY_SIM_REFUSED(cuMemsetD16Async)
ASSAY_SIM_REFUSED(cuMemsetD32Async)
ASSAY_SIM_REFUSED(cuModuleLoad)
ASSAY_SIM_REFUSED(cuModuleLoadData)
ASSAY_SIM_REFUSED(cuModuleLoadFatBinary)
ASSAY_SIM_REFUSED(cuModuleGetGlobal_v2)
ASSAY_SIM_REFUSED(cuLibraryLoadData)
ASSAY_SIM_REFUSED(cuLinkCreate_v2)
ASSAY_SIM_REFUSED(cuLaunch)
ASSAY_SIM_REFUSED(cuLaunchGrid)
ASSAY_SIM_REFUSED(cuLaunchKernelEx)
ASSAY_SIM_REFUSED(cuLaunchCooperativeKernel)
ASSAY_SIM_REFUSED(cuLaunchHostFunc)
ASSAY_SIM_REFUSED(cuStreamQuery)
ASSAY_SIM_REFUSED(cuStreamCreateWithPriority)
ASSAY_SIM_REFUSED(cuStreamAddCallback)
ASSAY_SIM_REFUSED(cuEventQuery)
ASSAY_SIM_REFUSED(cuEventElapsedTime_v2)
ASSAY_SIM_REFUSED(cuGraphCreate)
ASSAY_SIM_REFUSED(cuGraphAddKernelNode_v2)
