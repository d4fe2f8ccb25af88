// SPDX-License-Identifier: Apache-2.0
#include "probes/library/cuda.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "probes/library/opened.hpp"

namespace assay::cuda {

bool Error::sticky() const {
  // Illegal address, stack, instruction, misaligned address, address space, program counter, launch failure; assertion;
  // launch timeout; uncorrectable ECC; NVLink; trap.
  constexpr std::array codes = {214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719};
  for (const int code : codes)
    if (status == code) return true;
  return false;
}

const Driver& Driver::open(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Driver>> opened;
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(path); found != opened.end()) return *found->second;
  void* const handle = open_exactly(path);
  std::unique_ptr<Driver> driver(new Driver);
  driver->path_ = path;
#define ASSAY_RESOLVE(name, arguments)                                             \
  if (void* const symbol = ::dlsym(handle, #name); symbol != nullptr)              \
    driver->functions_.name = reinterpret_cast<decltype(Functions::name)>(symbol); \
  else                                                                             \
    throw LibraryError(fmt::format("{} has no {}: it is no CUDA driver, or older than 12.0; name a libcuda.so.1", path, #name));
  ASSAY_CUDA_SYMBOLS(ASSAY_RESOLVE)
#undef ASSAY_RESOLVE
  if (const CUresult status = driver->functions_.cuDriverGetVersion(&driver->version_); status == CUDA_ERROR_STUB_LIBRARY)
    throw LibraryError(fmt::format(
        "{} is the stub that toolkits ship for linking; name the driver's own libcuda.so.1 with --libraries cuda=PATH", path));
  else
    driver->check(status, "reading the driver's version");
  return *(opened[path] = std::move(driver));
}

void Driver::check(CUresult status, std::string_view doing) const {
  if (status == CUDA_SUCCESS) return;
  const char *name = nullptr, *text = nullptr;
  functions_.cuGetErrorName(status, &name);
  functions_.cuGetErrorString(status, &text);
  throw Error(fmt::format("{}: {} ({}){}", doing, name ? name : "an error without a name", status,
                          text ? fmt::format(", {}", text) : ""),
              status);
}

std::vector<DeviceInfo> describe_devices(const Driver& driver) {
  const Functions& cu = driver.fn();
  if (const CUresult status = cu.cuInit(0); status == CUDA_ERROR_NO_DEVICE)
    return {};
  else
    driver.check(status, "starting the driver");
  int count = 0;
  driver.check(cu.cuDeviceGetCount(&count), "counting devices");
  std::vector<DeviceInfo> out;
  for (int i = 0; i < count; ++i) {
    DeviceInfo d{.ordinal = i, .driver_version = driver.version(), .name = {}};
    CUdevice device = 0;
    driver.check(cu.cuDeviceGet(&device, i), fmt::format("opening device {}", i));
    std::array<char, 256> name{};
    driver.check(cu.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device), "reading a device's name");
    d.name = name.data();
    const auto attribute = [&](int which) {
      int value = 0;
      driver.check(cu.cuDeviceGetAttribute(&value, which, device), fmt::format("reading attribute {} of device {}", which, i));
      return value;
    };
    d.sm =
        10 * attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) + attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    d.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    d.ecc = attribute(CU_DEVICE_ATTRIBUTE_ECC_ENABLED);
    d.clock_mhz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / 1000;
    std::size_t bytes = 0;
    driver.check(cu.cuDeviceTotalMem_v2(&bytes, device), "reading a device's memory");
    d.memory_gib = static_cast<double>(bytes) / 1073741824.0;
    out.push_back(std::move(d));
  }
  return out;
}

}  // namespace assay::cuda
