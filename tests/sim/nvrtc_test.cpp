// SPDX-License-Identifier: Apache-2.0
// With the real run-time compiler: every kernel of ours is compiled, loaded and found by the simulated device; softmax runs.
#include "probes/library/nvrtc.hpp"

#include <doctest/doctest.h>

#include <map>

#include "kernels/sources.hpp"
#include "probes/library/device_files.hpp"
#include "tests/sim/simulated.hpp"

using namespace assay::sim_test;

namespace {

const assay::nvrtc::Nvrtc* compiler() {
  const auto files = assay::find_device_files({});
  return files.contains("nvrtc") ? &assay::nvrtc::Nvrtc::open(files.at("nvrtc")) : nullptr;
}

/// Compiling costs half a second, so each image is made once.
const std::string& compile(const assay::nvrtc::Nvrtc& c, const std::string& file, const std::string& architecture) {
  static std::map<std::string, std::string> images;
  std::string& made = images[file + architecture];
  if (!made.empty()) return made;
  const std::vector<char> image =
      assay::nvrtc::compile(c, file, {"--gpu-architecture=" + architecture, "--std=c++20", "-fmad=false", "-default-device"})
          .image;
  return made = std::string(image.begin(), image.end());
}

}  // namespace

TEST_SUITE_BEGIN("nvrtc");

TEST_CASE("what NVRTC makes of softmax is loaded, agrees with the emulator on its parameters, and runs") {
  const assay::nvrtc::Nvrtc* const c = compiler();
  if (!c) {
    MESSAGE("not run: no NVRTC on this machine");
    return;
  }
  for (const std::string sm : {"80", "120"})
    for (const std::string kind : {"compute_", "sm_"}) {
      const std::string& image = compile(*c, "kernels/softmax.cu", kind + sm);
      const Device device({{"ASSAY_SIM_SM", sm}});
      for (const char* entry : {"softmax_online_f32", "softmax_two_pass_f32"}) {
        const Softmax softmax(device, 5, 123);
        CHECK(softmax.upload() == 0);
        const Handle f = device.function(image, entry);
        int registers = 0, shared = 0;
        CHECK(device.call("cuFuncGetAttribute", &registers, 4, f) == 0);
        CHECK(device.call("cuFuncGetAttribute", &shared, 1, f) == 0);
        CHECK((registers > 0) == (kind == "sm_"));
        CHECK(shared == (entry == std::string("softmax_online_f32") ? 64 : 1024));
        CHECK(softmax.launch(f) == 0);
        CHECK(softmax.wrong(softmax.result()) == 0);
      }
    }
}

TEST_CASE("an image of NVRTC runs where a device of its kind would run it") {
  const assay::nvrtc::Nvrtc* const c = compiler();
  if (!c) {
    MESSAGE("not run: no NVRTC on this machine");
    return;
  }
  const std::string machine_code = compile(*c, "kernels/softmax.cu", "sm_80"),
                    text = compile(*c, "kernels/softmax.cu", "compute_90");
  for (const auto& [sm, code_status, text_status] :
       {std::tuple{"80", 0, 218}, {"86", 0, 218}, {"90", 209, 0}, {"120", 209, 0}}) {
    const Device device({{"ASSAY_SIM_SM", sm}});
    CHECK(device.load(machine_code.data()) == code_status);
    CHECK(device.load(text.data()) == text_status);
  }
  const Device older({{"ASSAY_SIM_SM", "90"}, {"ASSAY_SIM_DRIVER", "11080"}});
  CHECK(older.load(text.data()) == 222);
}

TEST_CASE("drop_store follows the kind of image that NVRTC made") {
  const assay::nvrtc::Nvrtc* const c = compiler();
  if (!c) {
    MESSAGE("not run: no NVRTC on this machine");
    return;
  }
  const std::string machine_code = compile(*c, "kernels/softmax.cu", "sm_120"),
                    text = compile(*c, "kernels/softmax.cu", "compute_120");
  const Device device({{"ASSAY_SIM_FAULT", "drop_store:build=ptx"}});
  for (const std::string* image : {&machine_code, &text}) {
    const Softmax softmax(device, 5, 123);
    CHECK(softmax.upload() == 0);
    CHECK(softmax.launch(device.function(*image, "softmax_online_f32")) == 0);
    CHECK(softmax.wrong(softmax.result()) == (image == &text ? 1 : 0));
  }
}

TEST_SUITE_END();
TEST_SUITE_BEGIN("nvrtc of every kernel");

TEST_CASE("every kernel file compiles for the simulated device, and the emulator knows every entry") {
  const assay::nvrtc::Nvrtc* const c = compiler();
  if (!c) {
    MESSAGE("not run: no NVRTC on this machine");
    return;
  }
  // First of all: NVRTC keeps a libcuda that it finds mapped.
  std::vector<std::string> texts;
  for (const assay::kernels::Source& source : assay::kernels::sources())
    if (source.name.ends_with(".cu")) texts.push_back(compile(*c, std::string(source.name), "compute_120"));
  const Device device;
  int entries = 0;
  for (const std::string& text : texts) {
    Handle module = nullptr, f = nullptr;
    REQUIRE(device.load(text.data(), &module) == 0);
    constexpr std::string_view mark = ".entry ";
    for (std::size_t at = text.find(mark); at != text.npos; at = text.find(mark, at + 1)) {
      const std::size_t start = at + mark.size();
      const std::string name = text.substr(start, text.find('(', start) - start);
      CHECK_MESSAGE(device.call("cuModuleGetFunction", &f, module, name.c_str()) == 0, name);
      ++entries;
    }
  }
  CHECK(texts.size() >= 5);
  CHECK(entries >= 40);
}

TEST_SUITE_END();
