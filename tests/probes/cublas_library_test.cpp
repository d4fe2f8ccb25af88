// SPDX-License-Identifier: Apache-2.0
// cuBLAS opened by path: what is refused and why, what its status codes are called, and the real one where it is.
#include <doctest/doctest.h>

#include <filesystem>

#include "fakes.hpp"
#include "probes/library/cublas.hpp"
#include "probes/library/device_files.hpp"

using namespace assay;

TEST_CASE("a foreign file is refused by name, and a status has name, number and meaning") {
  CHECK(contains(refusal([] { cuda::Cublas::open({{"cublas", fake("fake_foreign")}}); }), "has no cublasGetProperty"));
  CHECK(contains(refusal([] { cuda::Cublas::open({{"cublas", system_libm()}}); }), "it is no cuBLAS of CUDA 12 or 13"));
  CHECK(contains(refusal([] { cuda::Cublas::open({{"cublas", "/nonexistent/libcublas.so.13"}}); }), "/nonexistent"));
  CHECK(cuda::status_name(13) == "CUBLAS_STATUS_EXECUTION_FAILED (13), the GPU program failed to execute");
  CHECK(cuda::status_name(77) == "a status without a name (77)");
}

TEST_CASE("the real cuBLAS says what it is, and where it has no device says so in one sentence") {
  const auto files = find_library_files({});
  if (!files.contains("cublas")) {
    MESSAGE("not run: no cuBLAS here");
    return;
  }
  const cuda::Cublas& cublas = cuda::Cublas::open(files);
  INFO(cublas.path(), " ", cublas.version_text());
  CHECK(cublas.version() >= 120000);
  CHECK(contains(cublas.version_text(), "cuBLAS 1"));
  CHECK_NOTHROW(cublas.check(cuda::CUBLAS_STATUS_SUCCESS, "nothing"));
  CHECK_THROWS_WITH_AS(cublas.check(cuda::CUBLAS_STATUS_NOT_SUPPORTED, "cublasGemmEx"),
                       "cublasGemmEx: CUBLAS_STATUS_NOT_SUPPORTED (15), the functionality requested is not supported",
                       cuda::CublasError);
  const std::string why = refusal([&] { cuda::create_handle(cublas); });
  if (why.empty())
    MESSAGE("a GPU is here: it started");
  else
    CHECK(contains(why, "does not start here: cublasCreate gives CUBLAS_STATUS_NOT_INITIALIZED (1)"));
  // One cuBLAS works with the cuBLASLt that was opened before it: another file in its place is refused.
  if (files.contains("cublasLt"))
    CHECK(contains(refusal([&] { cuda::Cublas::open({{"cublas", files.at("cublasLt")}}); }), "has no cublasGetProperty"));
}
