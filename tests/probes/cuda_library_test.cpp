// SPDX-License-Identifier: Apache-2.0
// Driver, NVML and NVRTC opened by path: what is taken, what is refused and why, and what they say.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "fakes.hpp"
#include "probes/library/cuda.hpp"
#include "probes/library/cuda_libraries.hpp"
#include "probes/library/device_files.hpp"
#include "probes/library/nvrtc.hpp"

using namespace assay;

TEST_CASE("the driver's errors carry doing, name, number and text, and only those that end a process are sticky") {
  const cuda::Driver& driver = cuda::Driver::open(fake("fake_driver"));
  CHECK(driver.version() == 12080);
  CHECK(driver.version_text() == "CUDA 12.8");
  CHECK_NOTHROW(driver.check(cuda::CUDA_SUCCESS, "nothing"));
  try {
    driver.check(700, "launching softmax");
    FAIL("700 was taken for success");
  } catch (const cuda::Error& e) {
    CHECK(std::string(e.what()) ==
          "launching softmax: CUDA_ERROR_ILLEGAL_ADDRESS (700), an illegal memory access was encountered");
    CHECK(e.status == 700);
    CHECK(e.sticky());
  }
  CHECK_THROWS_WITH(driver.check(5555, "x"), "x: an error without a name (5555)");
  CHECK_FALSE(cuda::Error("", cuda::CUDA_ERROR_OUT_OF_MEMORY).sticky());
  CHECK_FALSE(cuda::Error("", 701).sticky());  // launch out of resources
}

TEST_CASE("a stub, a foreign file and a driver that lacks a function are refused by name") {
  CHECK(contains(refusal([] { cuda::Driver::open(fake("fake_stub_driver")); }), "is the stub that toolkits ship"));
  CHECK(contains(refusal([] { cuda::Driver::open(fake("fake_foreign")); }), "has no cuInit"));
  CHECK(contains(refusal([] { nvrtc::Nvrtc::open(fake("fake_driver")); }), "has no nvrtcVersion"));
  CHECK(contains(refusal([] { nvml::Nvml::open(fake("fake_driver")); }), "has no nvmlInit_v2"));
  CHECK(contains(refusal([] { cuda::open_libraries({{"cublasLt", fake("fake_driver")}}); }), "has no cublasLtGetVersion"));
  CHECK(contains(refusal([] { nvml::Nvml::open(fake("fake_nvml_without_driver")); }), "Driver Not Loaded (9)"));
  const char* const stub = "/usr/local/cuda/lib64/stubs/libcuda.so";
  if (std::filesystem::exists(stub))
    CHECK(contains(refusal([&] { cuda::Driver::open(stub); }), "is the stub that toolkits ship"));
  else
    MESSAGE("not run: no stub of a toolkit here");
}

TEST_CASE("a device is described by its driver, and by NVML where that is there") {
  const cuda::Driver& driver = cuda::Driver::open(fake("fake_driver"));
  const report::Gpu plain = cuda::describe_device(driver, 0, nullptr);
  CHECK(plain.name == "Fake GPU 90");
  CHECK(plain.sm == "9.0");
  CHECK(plain.multiprocessors == 132);
  CHECK(plain.memory_mib == 141 * 1024);
  CHECK(plain.largest_clock_mhz == 1980);
  CHECK(plain.user_driver == "CUDA 12.8");
  CHECK(plain.kernel_driver.empty());
  CHECK(plain.before.throttled.empty());
  CHECK_THROWS_AS(cuda::describe_device(driver, 1, nullptr), cuda::Error);

  const nvml::Nvml& nvml = nvml::Nvml::open(fake("fake_nvml"));
  const report::Gpu full = cuda::describe_device(driver, 0, &nvml);
  CHECK(full.kernel_driver == "570.124.06");
  CHECK(full.vbios == "96.00.A5.00.01");
  CHECK(full.ecc == "on");  // what it is, not what it will be after a reboot
  CHECK(full.mig.empty());  // not supported is neither on nor off
  CHECK(full.power_limit_w == 700);
  CHECK(full.before.sm_clock_mhz == 1755);
  CHECK(full.before.memory_clock_mhz == 3201);
  CHECK(full.before.temperature_c == 0);  // this NVML has no such function
  CHECK(full.before.throttled == "power cap, hot");
  CHECK(full.before.ecc_corrected == "3");
  CHECK(full.before.ecc_uncorrected == "0");
  CHECK(cuda::device_state(driver, 0, &nvml).sm_clock_mhz == 1755);
  CHECK(cuda::device_state(driver, 7, &nvml).sm_clock_mhz == 0);
}

TEST_CASE("reasons that hold clocks back are words, and an unknown one is not lost") {
  CHECK(nvml::throttle_words(0) == "no");
  CHECK(nvml::throttle_words(1) == "idle");
  CHECK(nvml::throttle_words(0x1004) == "power cap, unknown reason 0x1000");
}

namespace {

/// NVRTC files of this machine: the toolkit's and the one of the other major that --wheels fetches.
std::vector<std::string> compilers() {
  std::vector<std::string> out;
  if (const auto files = find_device_files({}); files.contains("nvrtc")) out.push_back(files.at("nvrtc"));
  const char *cache = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  const std::string fetched = (cache != nullptr ? std::string(cache) : std::string(home == nullptr ? "" : home) + "/.cache") +
                              "/assay/wheels/nvidia-cuda-nvrtc-cu12-12.8.93/lib/libnvrtc.so.12";
  if (std::filesystem::exists(fetched)) out.push_back(fetched);
  return out;
}

/// The architecture in the header of a cubin: bits 8..15 of e_flags in the layout of CUDA 13, bits 0..7 before it.
bool is_cubin_for(const std::vector<char>& image, unsigned sm) {
  if (image.size() < 52 || std::memcmp(image.data(),
                                       "\x7f"
                                       "ELF",
                                       4) != 0)
    return false;
  std::uint32_t flags = 0;
  std::memcpy(&flags, image.data() + 48, sizeof flags);
  return ((flags >> 8) & 0xff) == sm || (flags & 0xff) == sm;
}

}  // namespace

// AddressSanitizer opens libraries in its own name, so NVRTC does not find the file beside it that it needs; and what its
// compiler leaves behind is no leak of ours.
#ifdef __SANITIZE_ADDRESS__
constexpr bool nvrtc_runs = false;
#else
constexpr bool nvrtc_runs = true;
#endif

TEST_CASE("NVRTC of every major at hand compiles softmax, to the image that was asked for" * doctest::skip(!nvrtc_runs)) {
  const std::vector<std::string> files = compilers();
  if (files.size() < 2) MESSAGE("not run for both majors: ", files.size(), " NVRTC here (./assay test --wheels fetches 12.8)");
  std::vector<std::string> options = {"--std=c++20", "--fmad=false", "--device-as-default-execution-space", ""};
  for (const std::string& path : files) {
    const nvrtc::Nvrtc& nvrtc = nvrtc::Nvrtc::open(path);
    INFO(path, " ", nvrtc.version_text());
    for (const unsigned sm : {80u, 120u}) {
      options.back() = "--gpu-architecture=sm_" + std::to_string(sm);
      CHECK_MESSAGE(is_cubin_for(nvrtc::compile(nvrtc, "kernels/softmax.cu", options).image, sm), "sm_", sm);
    }
    options.back() = "--gpu-architecture=compute_90";
    const nvrtc::Result ptx = nvrtc::compile(nvrtc, "kernels/softmax.cu", options);
    const std::string text(ptx.image.begin(), ptx.image.end());
    CHECK(contains(text, ".target sm_90"));
    CHECK(contains(text, ".entry softmax_"));
    options.back() = "--gpu-architecture=sm_1";
    CHECK(contains(refusal([&] { nvrtc::compile(nvrtc, "kernels/softmax.cu", options); }), "refuses kernels/softmax.cu"));
    CHECK(contains(refusal([&] { nvrtc::compile(nvrtc, "kernels/none.cu", options); }), "no kernel file kernels/none.cu"));
  }
}
