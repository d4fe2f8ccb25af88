// SPDX-License-Identifier: Apache-2.0
// Traps of containers and new cards, from what libraries and driver say of themselves.
#include <doctest/doctest.h>

#include "probes/library/library_set.hpp"

using namespace assay;

namespace {

std::vector<std::string> said(const char* version, const char* sm, const char* driver, std::int64_t shared = 0) {
  report::LibraryIdentity l;
  l.path = "/opt/lib.so", l.version = version;
  report::Gpu gpu;
  gpu.name = "card", gpu.sm = sm, gpu.user_driver = driver;
  return warnings({l}, {gpu}, shared);
}

}  // namespace

TEST_CASE("a device newer than the library was built for is named, one that it knows is not") {
  CHECK(said("cuDNN 9.19.0 for CUDA 13.0, built for devices up to SM 12.1", "12.1", "CUDA 13.0").empty());
  const auto newer = said("cuDNN 9.5.0 for CUDA 12.6, built for devices up to SM 9.0", "12.0", "CUDA 13.0");
  REQUIRE(newer.size() == 1);
  CHECK(newer[0].find("up to SM 9.0, and card is SM 12.0") != std::string::npos);
  const auto older = said("cuBLAS 12.6.4 for CUDA 12.6", "12.0", "CUDA 13.0");
  REQUIRE(older.size() == 1);
  CHECK(older[0].find("known since CUDA 12.8") != std::string::npos);
  CHECK(said("cuBLAS 12.8.4 for CUDA 12.8", "12.0", "CUDA 13.0").empty());
  CHECK(said("cuBLAS 12.0.1 for CUDA 12.0", "8.6", "CUDA 13.0").empty());
  CHECK(said("NVML 1", "12.0", "CUDA 13.0").empty());
}

TEST_CASE("a driver of an older major than the library is named, an older minor is not") {
  CHECK(said("cuBLAS 13.1.0 for CUDA 13.0", "9.0", "CUDA 12.8").size() == 1);
  CHECK(said("cuBLAS 12.8.4 for CUDA 12.8", "9.0", "CUDA 12.4").empty());
  CHECK(said("driver for CUDA 13.0", "9.0", "CUDA 12.4").empty());
}

TEST_CASE("the shared memory of a container's default is named") {
  CHECK(said("", "", "", 64 << 20).size() == 1);
  CHECK(said("", "", "", 65 << 20).empty());
  CHECK(said("", "", "", 0).empty());
  CHECK(shared_memory_bytes() >= 0);
}
