// SPDX-License-Identifier: Apache-2.0
// Launches: results, limits, and what a kernel that goes wrong does to its process.
#include <doctest/doctest.h>

#include <cstring>

#include "tests/sim/simulated.hpp"

using namespace assay::sim_test;
using assay::kernels::Launch;

TEST_CASE("a launch computes what the kernel computes") {
  for (const char* kernel : {"softmax_online_f32", "softmax_two_pass_f32"}) {
    const Device device;
    const Softmax softmax(device, 7, 301);
    CHECK(softmax.upload() == 0);
    CHECK(softmax.launch(device.function(softmax_image(), kernel)) == 0);
    CHECK(softmax.wrong(softmax.result()) == 0);
    std::vector<float> in(softmax.in.size());
    CHECK(device.download(in.data(), softmax.x, in.size() * 4) == 0);
    CHECK(device.synchronize() == 0);
    CHECK(in == softmax.in);
  }
}

TEST_CASE("without a launch the output stays as it was") {
  const Device device;
  const Softmax softmax(device, 7, 301);
  CHECK(softmax.upload() == 0);
  CHECK(softmax.wrong(softmax.result()) == 7 * 301);
}

TEST_CASE("parameters may come as one buffer") {
  const Device device;
  const Softmax softmax(device, 2, 64);
  CHECK(softmax.upload() == 0);
  auto args = softmax.args();
  std::size_t bytes = sizeof args;
  void* extra[] = {reinterpret_cast<void*>(1), &args, reinterpret_cast<void*>(2), &bytes, nullptr};
  const auto launch = [&] {
    return device.call("cuLaunchKernel", device.function(softmax_image(), "softmax_online_f32"), 2u, 1u, 1u, 256u, 1u, 1u, 0u,
                       Handle(), static_cast<void**>(nullptr), static_cast<void**>(extra));
  };
  CHECK(launch() == 0);
  CHECK(softmax.wrong(softmax.result()) == 0);
  bytes -= 8;
  CHECK(launch() == 1);
}

TEST_CASE("launch limits give the driver's codes and cost nothing else") {
  const Device device;
  const Softmax softmax(device, 2, 64);
  CHECK(softmax.upload() == 0);
  const Handle f = device.function(softmax_image(), "softmax_online_f32");
  const auto code = [&](const Launch& l) { return device.launch(f, l, softmax.args()); };
  CHECK(code({.grid_x = 2, .block_x = 1025}) == 1);
  CHECK(code({.grid_x = 2, .block_x = 512, .block_y = 4}) == 1);
  CHECK(code({.grid_x = 2, .block_x = 1, .block_z = 65}) == 1);
  CHECK(code({.grid_x = 2, .block_x = 0}) == 1);
  CHECK(code({.grid_x = 0, .block_x = 256}) == 1);
  CHECK(code({.grid_x = 2, .grid_y = 65536, .block_x = 256}) == 1);
  CHECK(code({.grid_x = 0x80000000u, .block_x = 256}) == 1);
  CHECK(device.call("cuLaunchKernel", f, 2u, 1u, 1u, 256u, 1u, 1u, 0u, Handle(), static_cast<void**>(nullptr),
                    static_cast<void**>(nullptr)) == 1);
  CHECK(device.call("cuLaunchKernel", Handle(), 2u, 1u, 1u, 256u, 1u, 1u, 0u, Handle(), static_cast<void**>(nullptr),
                    static_cast<void**>(nullptr)) == 400);
  CHECK(code({.grid_x = 2, .block_x = 256}) == 0);
  CHECK(softmax.wrong(softmax.result()) == 0);
}

TEST_CASE("a block beyond what the kernel was compiled for is out of resources") {
  const Device device;
  const Softmax softmax(device, 2, 64);
  const Handle f =
      device.function(ptx("8.0", "sm_80", {"softmax_online_f32"}, sizeof(assay::kernels::SoftmaxArgs), ".maxntid 128, 1, 1\n"),
                      "softmax_online_f32");
  CHECK(device.launch(f, {.grid_x = 2, .block_x = 256}, softmax.args()) == 701);
  CHECK(device.launch(f, {.grid_x = 2, .block_x = 129}, softmax.args()) == 701);
  CHECK(device.synchronize() == 0);
}

TEST_CASE("a block may have 65536 registers") {
  for (const auto& [registers, code] : {std::pair{64u, 0}, {65u, 701}, {255u, 701}}) {
    const Device device;
    const Softmax softmax(device, 2, 64);
    CHECK(softmax.upload() == 0);
    const Handle f = device.function(cubin(0x06007802u, 8, {"softmax_online_f32"}, 190, registers), "softmax_online_f32");
    int known = 0;
    CHECK(device.call("cuFuncGetAttribute", &known, 4, f) == 0);
    CHECK(known == static_cast<int>(registers));
    CHECK(device.launch(f, {.grid_x = 2, .block_x = 256}, softmax.args()) == 0);
    CHECK(device.synchronize() == 0);
    CHECK(device.launch(f, {.grid_x = 2, .block_x = 993}, softmax.args()) == code);  // nobody waits for it
  }
}

TEST_CASE("shared memory beyond 48 KiB must be asked for, up to the architecture's limit") {
  for (const auto& [sm, most] : {std::pair{"90", 227 * 1024}, {"120", 99 * 1024}}) {
    const Device device({{"ASSAY_SIM_SM", sm}});
    const Softmax softmax(device, 2, 64);
    CHECK(softmax.upload() == 0);
    const Handle f = device.function(softmax_image(), "softmax_online_f32");
    const auto launch = [&](int bytes) {
      return device.launch(f, {.grid_x = 2, .block_x = 256, .shared_bytes = static_cast<unsigned>(bytes)}, softmax.args());
    };
    const auto ask = [&](int bytes) { return device.call("cuFuncSetAttribute", f, 8, bytes); };
    CHECK(launch(49153) == 1);
    CHECK(ask(most + 1) == 1);
    CHECK(ask(-1) == 1);
    CHECK(launch(49153) == 1);
    CHECK(ask(most) == 0);
    CHECK(launch(most + 1) == 1);
    // The emulator counts the kernel's static arrays, which this image made by hand does not declare.
    CHECK(launch(most - 64) == 0);
    CHECK(softmax.wrong(softmax.result()) == 0);
    CHECK(device.call("cuFuncSetAttribute", f, 3, 1) == 1);
  }
}

TEST_CASE("an illegal address shows at the next synchronise, and every later call fails with it") {
  const Device device;
  const Softmax softmax(device, 3, 64);
  CHECK(softmax.upload() == 0);
  const Handle f = device.function(softmax_image(), "softmax_online_f32"), stream = device.stream(), event = device.event();
  auto args = softmax.args();
  args.ldy = 1 << 20;
  CHECK(device.launch(f, {.grid_x = 3, .block_x = 256}, args) == 0);
  CHECK(softmax.launch(f) == 0);
  CHECK(device.synchronize() == 700);
  CHECK(device.synchronize() == 700);
  CHECK(softmax.launch(f) == 700);
  float value = 0;
  Address at = 0;
  Handle handle = nullptr;
  CHECK(device.download(&value, softmax.y, 4) == 700);
  CHECK(device.upload(softmax.x, &value, 4) == 700);
  CHECK(device.call("cuMemAlloc_v2", &at, std::size_t{16}) == 700);
  CHECK(device.call("cuMemFree_v2", softmax.x) == 700);
  CHECK(device.call("cuStreamSynchronize", stream) == 700);
  CHECK(device.call("cuStreamCreate", &handle, 1u) == 700);
  CHECK(device.call("cuEventRecord", event, stream) == 700);
  CHECK(device.call("cuModuleLoadDataEx", &handle, "", 0u, static_cast<int*>(nullptr), static_cast<void**>(nullptr)) == 700);
  CHECK(device.call("cuDevicePrimaryCtxRetain", &handle, 0) == 700);
  const char* name = nullptr;
  CHECK(device.call("cuGetErrorName", 700, &name) == 0);
}

TEST_CASE("a null pointer, freed memory and a host address are illegal addresses") {
#ifdef __SANITIZE_ADDRESS__
  const std::vector<int> cases = {1, 2};  // UndefinedBehaviorSanitizer ends the process at the null pointer
#else
  const std::vector<int> cases = {0, 1, 2};
#endif
  for (const int which : cases) {
    const Device device;
    const Softmax softmax(device, 3, 64);
    auto args = softmax.args();
    if (which == 0) args.x = nullptr;
    if (which == 1) CHECK(device.call("cuMemFree_v2", softmax.x) == 0);
    if (which == 2) args.x = reinterpret_cast<const void*>(0xdeadbeef00ull);
    CHECK(device.launch(device.function(softmax_image(), "softmax_online_f32"), {.grid_x = 3, .block_x = 256}, args) == 0);
    CHECK(device.synchronize() == 700);
  }
}

TEST_CASE("one element past the end of an allocation is found by the checked device" * doctest::skip(!ASSAY_SIM_CHECKED)) {
  const Device device;
  const Softmax softmax(device, 3, 64);
  CHECK(softmax.upload() == 0);
  auto args = softmax.args();
  args.y = static_cast<float*>(args.y) + 1;
  CHECK(device.launch(device.function(softmax_image(), "softmax_online_f32"), {.grid_x = 3, .block_x = 256}, args) == 0);
  CHECK(device.synchronize() == 700);
}

TEST_CASE("memory that nobody has written is found by the checked device" * doctest::skip(!ASSAY_SIM_CHECKED)) {
  const Device device;
  const Softmax softmax(device, 3, 64);
  CHECK(device.upload(softmax.x, softmax.in.data(), softmax.in.size() * 4 - 4) == 0);
  CHECK(softmax.launch(device.function(softmax_image(), "softmax_online_f32")) == 0);
  CHECK(device.synchronize() == 719);
}
