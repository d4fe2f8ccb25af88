// SPDX-License-Identifier: Apache-2.0
// The variables that a GPU worker starts without.
#include "probes/run/device_worker.hpp"

#include <doctest/doctest.h>

#include <cstdlib>

using namespace assay;

TEST_CASE("a variable that changes numbers is taken out and listed where it is set, unless it is to be kept") {
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 1);
  ::unsetenv("NVIDIA_TF32_OVERRIDE");
  const auto cleared = device_environment(false);
  CHECK(cleared.at("CUBLAS_WORKSPACE_CONFIG").empty());
  CHECK_FALSE(cleared.contains("NVIDIA_TF32_OVERRIDE"));
  CHECK(cleared.at("CUDA_CACHE_DISABLE") == "1");
  CHECK(device_environment(true).empty());
  ::unsetenv("CUBLAS_WORKSPACE_CONFIG");
  CHECK_FALSE(device_environment(false).contains("CUBLAS_WORKSPACE_CONFIG"));
}
