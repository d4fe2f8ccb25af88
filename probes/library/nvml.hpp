// SPDX-License-Identifier: Apache-2.0
// NVML, the driver's own account of a card, opened by path: firmware, error correction, clocks and what holds them back.
// Optional: where it is missing, a record says less.
#pragma once

#include <string>

#include "report/gpu.hpp"

namespace assay::nvml {

using nvmlDevice_t = struct nvmlDevice_st*;

inline constexpr int NVML_SUCCESS = 0, NVML_ERROR_NOT_SUPPORTED = 3;
inline constexpr int NVML_CLOCK_SM = 1, NVML_CLOCK_MEM = 2, NVML_TEMPERATURE_GPU = 0;
inline constexpr int NVML_MEMORY_ERROR_TYPE_CORRECTED = 0, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 1;
inline constexpr int NVML_VOLATILE_ECC = 0;  // counted since the driver was loaded

// name, arguments; every one returns nvmlReturn_t
#define ASSAY_NVML_SYMBOLS(X)                      \
  X(nvmlInit_v2, ())                               \
  X(nvmlSystemGetDriverVersion, (char*, unsigned)) \
  X(nvmlSystemGetNVMLVersion, (char*, unsigned))   \
  X(nvmlDeviceGetHandleByPciBusId_v2, (const char*, nvmlDevice_t*))

// Null where this NVML has not got it.
#define ASSAY_NVML_OPTIONAL(X)                                                  \
  X(nvmlDeviceGetVbiosVersion, (nvmlDevice_t, char*, unsigned))                 \
  X(nvmlDeviceGetEccMode, (nvmlDevice_t, int*, int*))                           \
  X(nvmlDeviceGetTotalEccErrors, (nvmlDevice_t, int, int, unsigned long long*)) \
  X(nvmlDeviceGetMigMode, (nvmlDevice_t, unsigned*, unsigned*))                 \
  X(nvmlDeviceGetPowerManagementLimit, (nvmlDevice_t, unsigned*))               \
  X(nvmlDeviceGetClockInfo, (nvmlDevice_t, int, unsigned*))                     \
  X(nvmlDeviceGetTemperature, (nvmlDevice_t, int, unsigned*))                   \
  X(nvmlDeviceGetCurrentClocksThrottleReasons, (nvmlDevice_t, unsigned long long*))

struct Functions {
#define ASSAY_MEMBER(name, arguments) int(*name) arguments = nullptr;
  ASSAY_NVML_SYMBOLS(ASSAY_MEMBER)
  ASSAY_NVML_OPTIONAL(ASSAY_MEMBER)
#undef ASSAY_MEMBER
  const char* (*nvmlErrorString)(int) = nullptr;
};

/// Bits of nvmlDeviceGetCurrentClocksThrottleReasons in words: "power cap, hot"; "no" for none.
std::string throttle_words(unsigned long long bits);

class Nvml {
 public:
  /// Opens and starts it; stays open. Throws LibraryError: not there, foreign, a function is missing, no driver behind it.
  static const Nvml& open(const std::string& path);

  const std::string& driver_version() const { return driver_version_; }  // of the kernel module: "570.124.06"
  const std::string& version() const { return version_; }
  /// Adds what NVML knows of the device at this PCI bus id; what a card does not support stays empty.
  void describe(const std::string& bus_id, report::Gpu&) const;
  report::GpuState state(const std::string& bus_id) const;

 private:
  Nvml() = default;
  nvmlDevice_t device(const std::string& bus_id) const;
  std::string path_, driver_version_, version_;
  Functions functions_;
};

}  // namespace assay::nvml
