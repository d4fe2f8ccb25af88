// SPDX-License-Identifier: Apache-2.0
// Which files a GPU would be reached through, and what is said of a file that cannot be one.
#include "probes/library/device_files.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "fakes.hpp"
#include "probes/library/library.hpp"

using namespace assay;
namespace fs = std::filesystem;

TEST_CASE("a device file that is named wins, with links resolved, and names no other role") {
  const fs::path folder = fs::path(ASSAY_BINARY_DIR) / "device_files";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const fs::path real = fs::canonical(fake("fake_foreign"));
  fs::create_symlink(real, folder / "libcuda.so.1");
  const auto found = find_device_files({"cuda=" + (folder / "libcuda.so.1").string()});
  REQUIRE(found.contains("cuda"));
  CHECK(found.at("cuda") == real.string());
  for (const auto& [role, path] : find_device_files({"nvrtc=" + real.string()})) {
    CHECK_MESSAGE((path == real.string()) == (role == "nvrtc"), role);
    CHECK_MESSAGE(fs::path(path).is_absolute(), path);
  }
  fs::remove_all(folder);
}

TEST_CASE("of two device files for one role the last one named is taken") {
  const std::string one = fs::canonical(fake("fake_foreign")), other = fs::canonical(fake("fake_lp64"));
  CHECK(find_device_files({"cuda=" + one, "cuda=" + other}).at("cuda") == other);
}

TEST_CASE("a CPU library that is named changes no device file") {
  CHECK(find_device_files({"openblas=" + fake("fake_lp64")}) == find_device_files({}));
}

TEST_CASE("a device file that is not there, or is no library, is refused with its path") {
  const auto said = [](const std::string& choice) { return refusal([&] { find_device_files({choice}); }); };
  CHECK(said("cuda=/nonexistent/libcuda.so.1").find("/nonexistent/libcuda.so.1") != std::string::npos);
  CHECK(said("nvrtc=" ASSAY_SOURCE_DIR "/README.md").find("README.md") != std::string::npos);
  CHECK(said("nvcc=/nonexistent/nvcc").find("/nonexistent/nvcc") != std::string::npos);
}
