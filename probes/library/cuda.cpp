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
#define ASSAY_RESOLVE(name, arguments) \
  driver->functions_.name = reinterpret_cast<decltype(Functions::name)>(::dlsym(handle, #name));
  ASSAY_CUDA_OPTIONAL(ASSAY_RESOLVE)
#undef ASSAY_RESOLVE
  if (const CUresult status = driver->functions_.cuDriverGetVersion(&driver->version_); status == CUDA_ERROR_STUB_LIBRARY)
    throw LibraryError(fmt::format(
        "{} is the stub that toolkits ship for linking; name the driver's own libcuda.so.1 with --libraries cuda=PATH", path));
  else
    driver->check(status, "reading the driver's version");
  note_version(path, "driver for " + driver->version_text());
  return *(opened[path] = std::move(driver));
}

std::string Driver::version_text() const {
  return fmt::format("CUDA {}.{}", version_ / 1000, version_ % 1000 / 10);
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

int device_count(const Driver& driver) {
  const Functions& cu = driver.fn();
  if (const CUresult status = cu.cuInit(0); status == CUDA_ERROR_NO_DEVICE)
    return 0;
  else
    driver.check(status, "starting the driver");
  int count = 0;
  driver.check(cu.cuDeviceGetCount(&count), "counting devices");
  return count;
}

std::vector<DeviceInfo> describe_devices(const Driver& driver) {
  const Functions& cu = driver.fn();
  const int count = device_count(driver);
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

namespace {

/// Where NVML finds the device; "" when the driver does not say.
std::string bus_id(const Driver& driver, CUdevice device) {
  std::array<char, 32> id{};
  const auto get = driver.fn().cuDeviceGetPCIBusId;
  return get != nullptr && get(id.data(), static_cast<int>(id.size()) - 1, device) == CUDA_SUCCESS ? id.data() : "";
}

}  // namespace

report::Gpu describe_device(const Driver& driver, int ordinal, const nvml::Nvml* nvml) {
  const Functions& cu = driver.fn();
  driver.check(cu.cuInit(0), "starting the driver");
  CUdevice device = 0;
  driver.check(cu.cuDeviceGet(&device, ordinal), fmt::format("opening device {}", ordinal));
  // Not every driver knows every attribute; what it does not know stays 0.
  const auto attribute = [&](int which) {
    int value = 0;
    return cu.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
  };
  report::Gpu gpu;
  gpu.ordinal = ordinal;
  std::array<char, 256> name{};
  driver.check(cu.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device), "reading a device's name");
  gpu.name = name.data();
  gpu.sm = fmt::format("{}.{}", attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                       attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  gpu.multiprocessors = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  gpu.largest_clock_mhz = attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / 1000;
  gpu.l2_kib = attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE) / 1024;
  gpu.shared_kib_per_block = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) / 1024;
  gpu.ecc = attribute(CU_DEVICE_ATTRIBUTE_ECC_ENABLED) != 0 ? "on" : "off";
  std::size_t bytes = 0;
  driver.check(cu.cuDeviceTotalMem_v2(&bytes, device), "reading a device's memory");
  gpu.memory_mib = static_cast<int>(bytes >> 20);
  gpu.user_driver = driver.version_text();
  if (const std::string id = bus_id(driver, device); nvml != nullptr && !id.empty()) {
    nvml->describe(id, gpu);
    gpu.before = nvml->state(id);
  }
  return gpu;
}

report::GpuState device_state(const Driver& driver, int ordinal, const nvml::Nvml* nvml) {
  CUdevice device = 0;
  if (nvml == nullptr || driver.fn().cuDeviceGet(&device, ordinal) != CUDA_SUCCESS) return {};
  const std::string id = bus_id(driver, device);
  return id.empty() ? report::GpuState{} : nvml->state(id);
}

}  // namespace assay::cuda
