// SPDX-License-Identifier: Apache-2.0
// An NVML that knows the fake driver's device and no other. FAKE_NO_DRIVER: one that cannot start.
#include <cstdio>
#include <cstring>

#include "probes/library/nvml.hpp"

using namespace assay::nvml;

namespace {
int write(char* to, unsigned size, const char* text) {
  std::snprintf(to, size, "%s", text);
  return NVML_SUCCESS;
}
int device_storage;
}  // namespace

extern "C" {
int nvmlInit_v2() {
#ifdef FAKE_NO_DRIVER
  return 9;
#else
  return NVML_SUCCESS;
#endif
}
const char* nvmlErrorString(int status) {
  return status == 9 ? "Driver Not Loaded" : status == 6 ? "Not Found" : "?";
}
int nvmlSystemGetDriverVersion(char* to, unsigned size) {
  return write(to, size, "570.124.06");
}
int nvmlSystemGetNVMLVersion(char* to, unsigned size) {
  return write(to, size, "12.570.124.06");
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* device) {
  *device = reinterpret_cast<nvmlDevice_t>(&device_storage);
  return std::strcmp(id, "0000:0F:00.0") == 0 ? NVML_SUCCESS : 6;
}
int nvmlDeviceGetVbiosVersion(nvmlDevice_t, char* to, unsigned size) {
  return write(to, size, "96.00.A5.00.01");
}
int nvmlDeviceGetEccMode(nvmlDevice_t, int* now, int* next) {
  *now = 1, *next = 0;
  return NVML_SUCCESS;
}
int nvmlDeviceGetMigMode(nvmlDevice_t, unsigned*, unsigned*) {
  return NVML_ERROR_NOT_SUPPORTED;
}
int nvmlDeviceGetPowerManagementLimit(nvmlDevice_t, unsigned* milliwatts) {
  *milliwatts = 700000;
  return NVML_SUCCESS;
}
int nvmlDeviceGetClockInfo(nvmlDevice_t, int type, unsigned* mhz) {
  *mhz = type == NVML_CLOCK_SM ? 1755 : type == NVML_CLOCK_MEM ? 3201 : 0;
  return NVML_SUCCESS;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t, unsigned long long* bits) {
  *bits = 0x44;
  return NVML_SUCCESS;
}
int nvmlDeviceGetTotalEccErrors(nvmlDevice_t, int kind, int, unsigned long long* count) {
  *count = kind == NVML_MEMORY_ERROR_TYPE_CORRECTED ? 3 : 0;
  return NVML_SUCCESS;
}
}
