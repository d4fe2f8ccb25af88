// SPDX-License-Identifier: Apache-2.0
// What the simulated device loads, and what it refuses with which code.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/sim/simulated.hpp"

using namespace assay::sim_test;

namespace {

int load(const Device& device, const std::string& image) {
  return device.load(image.data());
}

/// e_flags as NVRTC 12.8 (ABI version 7) and 13.0 (8) write them.
std::string cubin_7(unsigned sm, bool only_this = false) {
  return cubin(sm << 16 | 0x0500u | (only_this ? 0x800u : 0u) | sm, 7, {"softmax_online_f32"});
}
std::string cubin_8(unsigned sm, bool only_this = false) {
  return cubin(0x06000002u | sm << 8 | (only_this ? 0x8u : 0u), 8, {"softmax_online_f32"});
}

int get(const Device& device, const std::string& image, const char* name) {
  Handle module = nullptr, function = nullptr;
  REQUIRE(device.load(image.data(), &module) == 0);
  return device.call("cuModuleGetFunction", &function, module, name);
}

}  // namespace

TEST_CASE("PTX is loaded when driver and device are new enough for it") {
  const Device device({{"ASSAY_SIM_SM", "90"}, {"ASSAY_SIM_DRIVER", "12080"}});
  CHECK(load(device, ptx("8.7", "sm_90", {"softmax_online_f32"})) == 0);
  CHECK(load(device, ptx("6.3", "sm_75", {"softmax_online_f32"})) == 0);
  CHECK(load(device, ptx("8.7", "sm_90a", {"softmax_online_f32"})) == 0);
  CHECK(load(device, ptx("8.8", "sm_90", {"softmax_online_f32"})) == 222);
  CHECK(load(device, ptx("9.0", "sm_75", {"softmax_online_f32"})) == 222);
  CHECK(load(device, ptx("8.7", "sm_100", {"softmax_online_f32"})) == 218);
  CHECK(load(device, ptx("8.7", "sm_80a", {"softmax_online_f32"})) == 218);
  CHECK(load(device, "int main() { return 0; }") == 218);
  CHECK(load(device, "") == 218);
  CHECK(load(device, ".version 8.0\n.address_size 64\n") == 218);
  CHECK(load(device, ".version 8.0\n.target sm_80\n.entry cut_off(") == 218);
  CHECK(device.load(nullptr) == 1);
}

TEST_CASE("PTX of a family runs on its later members only") {
  const Device device({{"ASSAY_SIM_SM", "103"}});
  CHECK(load(device, ptx("9.0", "sm_100f", {"softmax_online_f32"})) == 0);
  CHECK(load(device, ptx("9.0", "sm_100a", {"softmax_online_f32"})) == 218);
  CHECK(load(device, ptx("9.0", "sm_90", {"softmax_online_f32"})) == 0);
}

TEST_CASE("a cubin is loaded on its own major architecture, from its minor one on") {
  struct Row {
    const char* device;
    std::string image;
    int code;
  };
  for (const Row& row : {Row{"86", cubin_7(80), 0},
                         {"80", cubin_7(86), 209},
                         {"90", cubin_7(80), 209},
                         {"90", cubin_7(90), 0},
                         {"90", cubin_7(90, true), 0},
                         {"80", cubin_7(90), 209},
                         {"120", cubin_8(120), 0},
                         {"121", cubin_8(120), 0},
                         {"120", cubin_8(121), 209},
                         {"121", cubin_8(120, true), 209},
                         {"120", cubin_8(120, true), 0},
                         {"90", cubin_8(90), 0},
                         {"100", cubin_8(90), 209},
                         {"89", cubin_8(80), 0}}) {
    const Device device({{"ASSAY_SIM_SM", row.device}});
    CHECK(load(device, row.image) == row.code);
  }
}

TEST_CASE("files that are no module are refused") {
  const Device device;
  CHECK(load(device, cubin(0x06007802u, 8, {"softmax_online_f32"}, 62)) == 200);
  CHECK(load(device, std::string("\x50\xED\x55\xBA", 4) + std::string(60, '\0')) == 801);
}

TEST_CASE("an entry must be in the image and in the emulator") {
  const Device device;
  CHECK(get(device, ptx("8.0", "sm_80", {"softmax_online_f32"}), "softmax_online_f32") == 0);
  CHECK(get(device, ptx("8.0", "sm_80", {"softmax_online_f32"}), "softmax_two_pass_f32") == 500);
  CHECK(get(device, ptx("8.0", "sm_80", {"no_such_kernel"}), "no_such_kernel") == 500);
  CHECK(get(device, "// .entry softmax_online_f32\n" + ptx("8.0", "sm_80", {}), "softmax_online_f32") == 500);
  CHECK(get(device, cubin_8(120), "softmax_online_f32") == 0);
  CHECK(get(device, cubin_8(120), "softmax_online") == 500);
  CHECK(get(device, softmax_image(), "") == 1);
  Handle function = nullptr;
  CHECK(device.call("cuModuleGetFunction", &function, static_cast<Handle>(&function), "softmax_online_f32") == 400);
}

TEST_CASE("a module whose parameters differ from the emulator's is refused") {
  const Device device;
  constexpr std::size_t right = sizeof(assay::kernels::SoftmaxArgs);
  CHECK(get(device, ptx("8.0", "sm_80", {"softmax_online_f32"}, right), "softmax_online_f32") == 0);
  CHECK(get(device, ptx("8.0", "sm_80", {"softmax_online_f32"}, right + 8), "softmax_online_f32") == 200);
}

TEST_CASE("the compiler's message reaches the caller's buffer, cut to its size") {
  const Device device({{"ASSAY_SIM_DRIVER", "12000"}});
  for (const std::size_t room : {std::size_t{200}, std::size_t{13}}) {
    char message[200] = "untouched";
    int options[] = {5, 6};
    void* values[] = {message, reinterpret_cast<void*>(room)};
    Handle module = nullptr;
    const std::string image = ptx("9.0", "sm_80", {"softmax_online_f32"});
    CHECK(device.call("cuModuleLoadDataEx", &module, image.data(), 2u, static_cast<int*>(options),
                      static_cast<void**>(values)) == 222);
    const std::string whole = "ptxas fatal   : Unsupported .version 9.0; current version is '8.0'";
    CHECK(std::string(message) == whole.substr(0, room - 1));
    CHECK(reinterpret_cast<std::uintptr_t>(values[1]) == std::min(room, whole.size() + 1));
  }
}

TEST_CASE("function attributes come from the image") {
  const Device device;
  const Handle f =
      device.function(ptx("8.0", "sm_80", {"softmax_online_f32"}, sizeof(assay::kernels::SoftmaxArgs), ".maxntid 128, 2, 1\n",
                          " .shared .align 4 .b8 a[1200];\n .shared .align 8 .f64 b[2];\n"),
                      "softmax_online_f32");
  const auto attribute = [&](int number) {
    int value = -1;
    CHECK(device.call("cuFuncGetAttribute", &value, number, f) == 0);
    return value;
  };
  CHECK(attribute(0) == 256);
  CHECK(attribute(1) == 1216);
  CHECK(attribute(8) == 49152 - 1216);
  int value = 0;
  CHECK(device.call("cuFuncGetAttribute", &value, 77, f) == 1);
}

TEST_CASE("functions of an unloaded module and destroyed handles are refused") {
  const Device device;
  Handle module = nullptr;
  const std::string image = softmax_image();
  REQUIRE(device.load(image.data(), &module) == 0);
  CHECK(device.call("cuModuleUnload", module) == 0);
  Handle function = nullptr;
  CHECK(device.call("cuModuleGetFunction", &function, module, "softmax_online_f32") == 400);
  CHECK(device.call("cuModuleUnload", module) == 400);
  const Handle stream = device.stream(), event = device.event();
  CHECK(device.call("cuStreamDestroy_v2", stream) == 0);
  CHECK(device.call("cuStreamSynchronize", stream) == 400);
  CHECK(device.call("cuEventDestroy_v2", event) == 0);
  CHECK(device.call("cuEventRecord", event, Handle()) == 400);
}
