// SPDX-License-Identifier: Apache-2.0
// Names of kernel builds: read, written, refused; and which files each needs.
#include <doctest/doctest.h>

#include <set>

#include "fakes.hpp"
#include "probes/device/build.hpp"

using namespace assay;
using device::Build;
using device::Maker;

namespace {

std::string refused(const std::string& text) {
  try {
    device::parse_build(text);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

std::set<std::string> names(const std::map<std::string, std::string>& set) {
  std::set<std::string> out;
  for (const Build& b : device::all_builds(set)) CHECK_MESSAGE(out.insert(name(b)).second, name(b) << " is there twice");
  return out;
}

}  // namespace

TEST_CASE("every kernel build reads back from its name") {
  std::set<std::string> seen;
  for (const Maker maker : {Maker::nvrtc_cubin, Maker::nvrtc_ptx, Maker::nvrtc_ptxas, Maker::nvcc_cubin})
    for (int level = 0; level <= 3; ++level)
      for (const bool fast : {false, true})
        for (const bool lower : {false, true}) {
          const Build b{.maker = maker, .level = level, .fast = fast, .lower = lower};
          const Build back = device::parse_build(name(b));
          CHECK(seen.insert(name(b)).second);
          CHECK_MESSAGE((back.maker == maker && back.level == level && back.fast == fast && back.lower == lower), name(b));
        }
  CHECK(seen.size() == 64);
}

TEST_CASE("words of a kernel build come in any order, and the default level is not written") {
  CHECK(name(device::parse_build("nvrtc-cubin")) == "nvrtc-cubin");
  CHECK(name(device::parse_build("nvrtc-ptx-O3")) == "nvrtc-ptx");
  CHECK(name(device::parse_build("nvrtc-ptxas-lower-fast-O0")) == "nvrtc-ptxas-O0-fast-lower");
}

TEST_CASE("a kernel build that is none is refused with what it says and what is expected") {
  for (const char* text : {"", "nvcc", "nvrtc", "-O0", "O0", "nvrtc-cubinfast", "NVRTC-cubin", " nvrtc-cubin", "nvrtc_cubin"}) {
    CHECK_MESSAGE(
        refused(text).find(std::string("\"") + text + "\": it names no compiler; expected nvrtc-cubin") != std::string::npos,
        "'" << text << "': " << refused(text));
  }
  for (const auto& [text, word] : std::map<std::string, std::string>{{"nvrtc-cubin-", ""},
                                                                     {"nvrtc-cubin--fast", ""},
                                                                     {"nvrtc-cubin-O4", "O4"},
                                                                     {"nvrtc-cubin-O", "O"},
                                                                     {"nvrtc-cubin-O10", "O10"},
                                                                     {"nvrtc-ptx-slow", "slow"},
                                                                     {"nvcc-cubin-fast ", "fast "}})
    CHECK_MESSAGE(refused(text).find("\"" + word + "\" is not known; expected") != std::string::npos, refused(text));
}

TEST_CASE("all kernel builds are those that the files at hand allow") {
  CHECK(names({}).empty());
  CHECK(names({{"cuda", "x"}, {"ptxas", "x"}}).empty());
  const auto with_nvrtc = names({{"nvrtc", "x"}}), with_nvcc = names({{"nvcc", "x"}});
  const auto with_ptxas = names({{"nvrtc", "x"}, {"ptxas", "x"}}),
             with_all = names({{"nvrtc", "x"}, {"ptxas", "x"}, {"nvcc", "x"}});
  CHECK(with_nvrtc.contains("nvrtc-cubin"));
  CHECK(with_nvrtc.contains("nvrtc-ptx-fast"));
  CHECK_FALSE(with_nvrtc.contains("nvrtc-ptxas"));
  CHECK(with_ptxas.contains("nvrtc-ptxas-lower"));
  CHECK(with_nvcc.contains("nvcc-cubin-O0"));
  CHECK(with_all.size() == with_ptxas.size() + with_nvcc.size());
  for (const std::string& each : with_all) {
    std::map<std::string, std::string> set;
    for (const std::string_view role : roles(device::parse_build(each))) set.emplace(role, "x");
    CHECK_MESSAGE(names(set).contains(each), each << " needs more than its roles say");
  }
}

TEST_CASE("a build whose compiler is missing says which file to name") {
  try {
    device::make_image(device::parse_build("nvrtc-ptxas"), "kernels/softmax.cu", 120, {{"nvrtc", "x"}});
    FAIL("made without a ptxas");
  } catch (const std::exception& e) {
    CHECK(std::string(e.what()).find("--libraries ptxas=PATH") != std::string::npos);
  }
}
