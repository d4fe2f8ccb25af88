// SPDX-License-Identifier: Apache-2.0
#include "probes/library/nvml.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "probes/library/opened.hpp"

namespace assay::nvml {

namespace {

struct Reason {
  unsigned long long bit;
  std::string_view words;
};
// nvml.h, nvmlClocksThrottleReason*
constexpr Reason reasons[] = {
    {0x001, "idle"},
    {0x002, "clocks set by the administrator"},
    {0x004, "power cap"},
    {0x008, "hardware slowdown"},
    {0x010, "kept equal to other cards"},
    {0x020, "warm"},
    {0x040, "hot"},
    {0x080, "power brake"},
    {0x100, "display clocks"},
};

/// Text that a function writes; "" when it is not there or refuses.
template <class Function, class... Leading>
std::string text(Function function, Leading... leading) {
  std::array<char, 96> buffer{};
  if (function == nullptr || function(leading..., buffer.data(), static_cast<unsigned>(buffer.size() - 1)) != NVML_SUCCESS)
    return {};
  return buffer.data();
}

/// A number that a function writes; 0 when it is not there or refuses.
template <class Function, class... Leading>
int number(Function function, Leading... leading) {
  unsigned value = 0;
  return function != nullptr && function(leading..., &value) == NVML_SUCCESS ? static_cast<int>(value) : 0;
}

}  // namespace

std::string throttle_words(unsigned long long bits) {
  if (bits == 0) return "no";
  std::string out;
  for (const Reason& r : reasons)
    if ((bits & r.bit) != 0) out += (out.empty() ? "" : ", ") + std::string(r.words), bits &= ~r.bit;
  if (bits != 0) out += fmt::format("{}unknown reason {:#x}", out.empty() ? "" : ", ", bits);
  return out;
}

const Nvml& Nvml::open(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Nvml>> opened;
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(path); found != opened.end()) return *found->second;
  void* const handle = open_exactly(path);
  std::unique_ptr<Nvml> out(new Nvml);
  out->path_ = path;
  const auto need = [&](const char* name) {
    void* const symbol = ::dlsym(handle, name);
    if (symbol == nullptr)
      throw LibraryError(
          fmt::format("{} has no {}: it is no NVML; name a libnvidia-ml.so.1 with --libraries nvml=PATH", path, name));
    return symbol;
  };
  Functions& fn = out->functions_;
#define ASSAY_RESOLVE(name, arguments) fn.name = reinterpret_cast<decltype(Functions::name)>(need(#name));
  ASSAY_NVML_SYMBOLS(ASSAY_RESOLVE)
#undef ASSAY_RESOLVE
#define ASSAY_RESOLVE(name, arguments) fn.name = reinterpret_cast<decltype(Functions::name)>(::dlsym(handle, #name));
  ASSAY_NVML_OPTIONAL(ASSAY_RESOLVE)
#undef ASSAY_RESOLVE
  fn.nvmlErrorString = reinterpret_cast<decltype(Functions::nvmlErrorString)>(need("nvmlErrorString"));
  if (const int status = fn.nvmlInit_v2(); status != NVML_SUCCESS)
    throw LibraryError(fmt::format("{} cannot start: {} ({}); the driver it belongs to is not loaded, or is another version",
                                   path, fn.nvmlErrorString(status), status));
  out->driver_version_ = text(fn.nvmlSystemGetDriverVersion);
  out->version_ = text(fn.nvmlSystemGetNVMLVersion);
  note_version(path, "NVML " + out->version_);
  return *(opened[path] = std::move(out));
}

nvmlDevice_t Nvml::device(const std::string& bus_id) const {
  nvmlDevice_t out = nullptr;
  if (const int status = functions_.nvmlDeviceGetHandleByPciBusId_v2(bus_id.c_str(), &out); status != NVML_SUCCESS)
    throw LibraryError(fmt::format("{} does not know the device that the driver runs on: {} ({})", path_,
                                   functions_.nvmlErrorString(status), status));
  return out;
}

void Nvml::describe(const std::string& bus_id, report::Gpu& gpu) const {
  const nvmlDevice_t d = device(bus_id);
  const Functions& fn = functions_;
  gpu.kernel_driver = driver_version_;
  gpu.vbios = text(fn.nvmlDeviceGetVbiosVersion, d);
  gpu.power_limit_w = number(fn.nvmlDeviceGetPowerManagementLimit, d) / 1000;
  int ecc = 0, ecc_after_reboot = 0;
  if (fn.nvmlDeviceGetEccMode != nullptr && fn.nvmlDeviceGetEccMode(d, &ecc, &ecc_after_reboot) == NVML_SUCCESS)
    gpu.ecc = ecc != 0 ? "on" : "off";
  unsigned mig = 0, mig_after_reset = 0;
  if (fn.nvmlDeviceGetMigMode != nullptr && fn.nvmlDeviceGetMigMode(d, &mig, &mig_after_reset) == NVML_SUCCESS)
    gpu.mig = mig != 0 ? "on" : "off";
}

report::GpuState Nvml::state(const std::string& bus_id) const {
  const nvmlDevice_t d = device(bus_id);
  const Functions& fn = functions_;
  report::GpuState s;
  s.sm_clock_mhz = number(fn.nvmlDeviceGetClockInfo, d, NVML_CLOCK_SM);
  s.memory_clock_mhz = number(fn.nvmlDeviceGetClockInfo, d, NVML_CLOCK_MEM);
  s.temperature_c = number(fn.nvmlDeviceGetTemperature, d, NVML_TEMPERATURE_GPU);
  unsigned long long bits = 0;
  if (fn.nvmlDeviceGetCurrentClocksThrottleReasons != nullptr &&
      fn.nvmlDeviceGetCurrentClocksThrottleReasons(d, &bits) == NVML_SUCCESS)
    s.throttled = throttle_words(bits);
  const auto errors = [&](int kind) -> std::string {
    unsigned long long count = 0;
    if (fn.nvmlDeviceGetTotalEccErrors == nullptr ||
        fn.nvmlDeviceGetTotalEccErrors(d, kind, NVML_VOLATILE_ECC, &count) != NVML_SUCCESS)
      return {};
    return std::to_string(count);
  };
  s.ecc_corrected = errors(NVML_MEMORY_ERROR_TYPE_CORRECTED);
  s.ecc_uncorrected = errors(NVML_MEMORY_ERROR_TYPE_UNCORRECTED);
  return s;
}

}  // namespace assay::nvml
