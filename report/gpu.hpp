// SPDX-License-Identifier: Apache-2.0
// A GPU as a record describes it. No serial number, UUID or bus address has a field here.
#pragma once

#include <string>

namespace assay::report {

/// What changes while a run goes on. Empty text and 0: the card, or its driver, does not say.
struct GpuState {
  int sm_clock_mhz = 0, memory_clock_mhz = 0, temperature_c = 0;
  std::string throttled;                       // "no", "idle", "power cap, hot"
  std::string ecc_corrected, ecc_uncorrected;  // errors since the driver was loaded
};

struct Gpu {
  int ordinal = 0;
  std::string name, sm;  // "NVIDIA H200", "9.0"
  int multiprocessors = 0, memory_mib = 0, l2_kib = 0, shared_kib_per_block = 0, largest_clock_mhz = 0, power_limit_w = 0;
  std::string ecc, mig;  // "on", "off", "" not supported
  std::string vbios;
  std::string user_driver;    // what libcuda says: "CUDA 13.0"
  std::string kernel_driver;  // what NVML says of the kernel module: "580.65.06"
  GpuState before, after;
};

}  // namespace assay::report
