// SPDX-License-Identifier: Apache-2.0
// The driver (libcuda), opened by path, and what its status codes mean.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "probes/library/cuda_symbols.hpp"
#include "probes/library/nvml.hpp"

namespace assay::cuda {

/// A call that the driver refused. what(): "launching ...: CUDA_ERROR_LAUNCH_FAILED (719), unspecified launch failure".
struct Error : std::runtime_error {
  Error(const std::string& what, CUresult code) : std::runtime_error(what), status(code) {}
  CUresult status;
  /// After these every call of the process fails: CUDA driver API, CUresult, "the process must be terminated and relaunched".
  bool sticky() const;
};

/// Data that changed on its way between host and device.
struct CopyError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Driver {
 public:
  /// Opens this file; stays open. Throws LibraryError: not there, foreign, a function is missing, or the stub that toolkits
  /// ship for linking.
  static const Driver& open(const std::string& path);

  const Functions& fn() const { return functions_; }
  int version() const { return version_; }  // 13000: CUDA 13.0
  std::string version_text() const;         // "CUDA 13.0"
  const std::string& path() const { return path_; }
  /// Throws Error unless the status is success; `doing` begins the sentence.
  void check(CUresult status, std::string_view doing) const;

 private:
  Driver() = default;
  std::string path_;
  Functions functions_;
  int version_ = 0;
};

/// A GPU as its driver describes it.
struct DeviceInfo {
  int ordinal = 0, sm = 0, multiprocessors = 0, ecc = 0, clock_mhz = 0, driver_version = 0;
  double memory_gib = 0;
  std::string name;
};
/// Starts the driver. 0 when it has no device.
int device_count(const Driver&);
/// Starts the driver. Empty when it has no device.
std::vector<DeviceInfo> describe_devices(const Driver&);

/// Everything that a record says of one device; `before` is its state now. Starts the driver. Throws Error, and LibraryError
/// when NVML (may be null) does not know the device.
report::Gpu describe_device(const Driver&, int ordinal, const nvml::Nvml*);
/// Clocks and the like now; empty where NVML is not there. Never throws for a dead device: it is asked after a run too.
report::GpuState device_state(const Driver&, int ordinal, const nvml::Nvml*);

}  // namespace assay::cuda
