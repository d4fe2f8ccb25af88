// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "probes/library/cuda_symbols.hpp"
#include "tests/sim/simulated.hpp"

using namespace assay::sim_test;

namespace {

int attribute_of(const Library& l, int number) {
  int value = -1;
  REQUIRE(l.call("cuDeviceGetAttribute", &value, number, 0) == 0);
  return value;
}

constexpr int major = 75, minor = 76, shared_optin = 97;

}  // namespace

TEST_CASE("the simulated device names itself") {
  const Device device;
  char name[64];
  CHECK(device.call("cuDeviceGetName", static_cast<char*>(name), 64, 0) == 0);
  CHECK(std::string(name) == "Assay simulated device");
  CHECK(device.call("cuDeviceGetName", static_cast<char*>(name), 6, 0) == 0);
  CHECK(std::string(name) == "Assay");
}

TEST_CASE("the simulated device has the limits of the architecture asked for") {
  struct Row {
    const char* sm;
    int major, minor, optin_kib;
  };
  for (const Row& row : {Row{"80", 8, 0, 163}, {"86", 8, 6, 99}, {"90", 9, 0, 227}, {"100", 10, 0, 227}, {"120", 12, 0, 99}}) {
    const Device device({{"ASSAY_SIM_SM", row.sm}});
    CHECK(attribute_of(device, major) == row.major);
    CHECK(attribute_of(device, minor) == row.minor);
    CHECK(attribute_of(device, shared_optin) == row.optin_kib * 1024);
  }
  const Device device;
  CHECK(attribute_of(device, major) == 12);
  int value = 0;
  CHECK(device.call("cuDeviceGetAttribute", &value, 9999, 0) == 1);
}

TEST_CASE("calls before cuInit, on another device, or without a context give the driver's codes") {
  const Library library;
  int value = -1;
  Handle context = nullptr;
  Address at = 0;
  CHECK(library.call("cuDriverGetVersion", &value) == 0);
  CHECK(value == 13000);
  CHECK(library.call("cuDeviceGetCount", &value) == 3);
  CHECK(library.call("cuInit", 1u) == 1);
  CHECK(library.call("cuInit", 0u) == 0);
  CHECK(library.call("cuDeviceGetCount", &value) == 0);
  CHECK(value == 1);
  CHECK(library.call("cuDeviceGet", &value, 1) == 101);
  CHECK(library.call("cuDevicePrimaryCtxRetain", &context, 1) == 101);
  CHECK(library.call("cuMemAlloc_v2", &at, std::size_t{16}) == 201);
  CHECK(library.call("cuDevicePrimaryCtxRetain", &context, 0) == 0);
  CHECK(library.call("cuMemAlloc_v2", &at, std::size_t{16}) == 201);
  CHECK(library.call("cuCtxSetCurrent", static_cast<Handle>(&value)) == 201);
  CHECK(library.call("cuCtxSetCurrent", context) == 0);
  CHECK(library.call("cuMemAlloc_v2", &at, std::size_t{16}) == 0);
  CHECK(library.call("cuDevicePrimaryCtxRelease_v2", 0) == 0);
  CHECK(library.call("cuMemFree_v2", at) == 201);
}

TEST_CASE("codes have the driver's names") {
  const Library library;
  const char* text = nullptr;
  CHECK(library.call("cuGetErrorName", 700, &text) == 0);
  CHECK(std::string(text) == "CUDA_ERROR_ILLEGAL_ADDRESS");
  CHECK(library.call("cuGetErrorString", 700, &text) == 0);
  CHECK(std::string(text) == "an illegal memory access was encountered");
  CHECK(library.call("cuGetErrorName", 12345, &text) == 1);
}

TEST_CASE("everything that the product calls is there") {
  const Library library;
#define ASSAY_SIM_EXPORTED(name, arguments) CHECK(library.find(#name));
  ASSAY_CUDA_SYMBOLS(ASSAY_SIM_EXPORTED)
#undef ASSAY_SIM_EXPORTED
}

TEST_CASE("an obsolete entry says no and its name") {
  const Device device({{"ASSAY_SIM_LOG", ASSAY_SIM_SCRATCH "/refused.log"}});
  for (const char* name : {"cuMemAlloc", "cuMemcpyHtoDAsync", "cuCtxCreate_v2", "cuEventQuery", "cuGetProcAddress_v2"})
    CHECK(device.call(name) == 801);
  CHECK(!device.find("cuNoSuchEntry"));
}

TEST_CASE("device memory starts as NaN and keeps what is copied to it") {
  const Device device;
  const Address at = device.allocate(1000);
  CHECK(at % 256 == 0);
  std::vector<unsigned char> out(1000), in(1000, 7);
  CHECK(device.download(out.data(), at, 1000) == 0);
  CHECK(device.synchronize() == 0);
  CHECK(out == std::vector<unsigned char>(1000, 0xFF));
  CHECK(device.upload(at, in.data(), 999) == 0);
  CHECK(device.call("cuMemsetD8Async", at + 10, static_cast<unsigned char>(9), std::size_t{5}, Handle()) == 0);
  CHECK(device.download(out.data(), at, 1000) == 0);
  CHECK(device.synchronize() == 0);
  CHECK(out[9] == 7);
  CHECK(out[10] == 9);
  CHECK(out[14] == 9);
  CHECK(out[15] == 7);
  CHECK(out[998] == 7);
  CHECK(out[999] == 0xFF);
}

TEST_CASE("device memory has an end, and what is freed comes back") {
  const Device device({{"ASSAY_SIM_MEMORY", "1000000"}});
  std::size_t free_bytes = 0, total = 0;
  const Address at = device.allocate(600000);
  Address second = 0;
  CHECK(device.call("cuMemAlloc_v2", &second, std::size_t{500000}) == 2);
  CHECK(device.call("cuMemAlloc_v2", &second, std::size_t{0}) == 1);
  CHECK(device.call("cuMemGetInfo_v2", &free_bytes, &total) == 0);
  CHECK(free_bytes == 400000);
  CHECK(total == 1000000);
  CHECK(device.call("cuMemFree_v2", at + 1) == 1);
  CHECK(device.call("cuMemFree_v2", at) == 0);
  CHECK(device.call("cuMemFree_v2", at) == 1);
  CHECK(device.call("cuMemFree_v2", Address{0}) == 0);
  CHECK(device.allocate(1000000) != at);
}

TEST_CASE("copies must lie inside one allocation") {
  const Device device;
  const Address at = device.allocate(100), next = device.allocate(100);
  char host[300] = {};
  CHECK(device.upload(at + 1, host, 100) == 1);
  CHECK(device.upload(at - 1, host, 2) == 1);
  CHECK(device.upload(0, host, 1) == 1);
  CHECK(device.download(host, next, 101) == 1);
  CHECK(device.download(nullptr, next, 100) == 1);
  CHECK(device.call("cuMemsetD8Async", at, static_cast<unsigned char>(0), std::size_t{101}, Handle()) == 1);
  CHECK(device.upload(at, host, 100) == 0);
  CHECK(device.call("cuMemFree_v2", next) == 0);
  CHECK(device.download(host, next, 1) == 1);
}

TEST_CASE("the host cannot follow a device address") {
  const int status = status_in_child([] {
    const Device device;
    std::memset(reinterpret_cast<void*>(device.allocate(16)), 0, 16);
  });
  CHECK(WIFSIGNALED(status));
}

TEST_CASE("an environment that is not understood ends the process") {
  const auto aborts = [](const char* name, const char* value) {
    setenv(name, value, 1);
    const int status = status_in_child([] { const Device device; });
    unsetenv(name);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  };
  CHECK(aborts("ASSAY_SIM_SM", "81"));
  CHECK(aborts("ASSAY_SIM_SM", "sm_90"));
  CHECK(aborts("ASSAY_SIM_DRIVER", "1"));
  CHECK(aborts("ASSAY_SIM_FAULT", "drop_stores"));
  CHECK(aborts("ASSAY_SIM_FAULT", "drop_store:after=3"));
  CHECK(aborts("ASSAY_SIM_FAULT", "drop_store:build=fatbin"));
  CHECK(aborts("ASSAY_SIM_FAULT", "hang,"));
  CHECK(aborts("ASSAY_SIM_LOG", "/no/such/folder/log"));
  CHECK(!aborts("ASSAY_SIM_FAULT", "drop_store:build=ptx:sm=90,hang:kernel=x*"));
}

TEST_CASE("every call leaves a line in the log") {
  const std::string path = ASSAY_SIM_SCRATCH "/calls.log";
  std::ofstream(path, std::ios::trunc).close();
  {
    const Device device({{"ASSAY_SIM_LOG", path}});
    const Address at = device.allocate(64);
    device.call("cuMemFree_v2", at + 1);
  }
  std::stringstream log;
  log << std::ifstream(path).rdbuf();
  CHECK(log.str().find("cuInit: Assay simulated device, sm_120 -> 0\n") != std::string::npos);
  CHECK(log.str().find("cuMemAlloc_v2: 64 bytes at 0xde71") != std::string::npos);
  CHECK(log.str().find("is not the start of an allocation -> 1\n") != std::string::npos);
}
