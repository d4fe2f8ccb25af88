// SPDX-License-Identifier: Apache-2.0
#include "probes/library/cublas.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <mutex>

#include "probes/library/cuda_libraries.hpp"
#include "probes/library/opened.hpp"

namespace assay::cuda {

const Cublas& Cublas::open(const std::map<std::string, std::string>& files) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Cublas>> opened;
  const std::lock_guard lock(mutex);
  const std::string& path = files.at("cublas");
  if (const auto found = opened.find(path); found != opened.end()) return *found->second;
  std::map<std::string, std::string> wanted = {{"cublas", path}};
  if (const auto lt = files.find("cublasLt"); lt != files.end()) wanted.insert(*lt);
  std::unique_ptr<Cublas> out(new Cublas);
  out->path_ = path;
  out->said_ = open_libraries(wanted).at("cublas");
  void* const handle = open_exactly(path);
#define ASSAY_RESOLVE(name, arguments) \
  out->functions_.name = reinterpret_cast<decltype(CublasFunctions::name)>(::dlsym(handle, #name));
#define ASSAY_NEED(name, arguments)    \
  ASSAY_RESOLVE(name, arguments)       \
  if (out->functions_.name == nullptr) \
    throw LibraryError(                \
        fmt::format("{} has no {}: it is no cuBLAS of CUDA 12 or 13; name a libcublas.so.12 or .13", path, #name));
  ASSAY_CUBLAS_FUNCTIONS(ASSAY_NEED)
  ASSAY_CUBLAS_GEMMS(ASSAY_NEED)
  ASSAY_CUBLAS_EMULATION_129_FUNCTIONS(ASSAY_RESOLVE)
  ASSAY_CUBLAS_EMULATION_131_FUNCTIONS(ASSAY_RESOLVE)
#undef ASSAY_NEED
#undef ASSAY_RESOLVE
  const auto property = reinterpret_cast<int (*)(int, int*)>(::dlsym(handle, "cublasGetProperty"));
  for (int part = 0, scale = 10000; part < 3; ++part, scale /= 100) {
    int value = 0;
    property(part, &value);
    out->version_ += scale * value;
  }
  return *(opened[path] = std::move(out));
}

void Cublas::check(cublasStatus_t status, std::string_view doing) const {
  if (status != CUBLAS_STATUS_SUCCESS) throw CublasError(fmt::format("{}: {}", doing, status_name(status)), status);
}

std::shared_ptr<cublasContext> create_handle(const Cublas& cublas) {
  cublasHandle_t handle = nullptr;
  if (const cublasStatus_t status = cublas.fn().cublasCreate_v2(&handle); status != CUBLAS_STATUS_SUCCESS)
    throw LibraryError(
        fmt::format("{} ({}) does not start here: cublasCreate gives {}; it needs a GPU that it supports and a "
                    "driver for its CUDA version",
                    cublas.version_text(), cublas.path(), status_name(status)));
  return {handle, [&cublas](cublasHandle_t h) { cublas.fn().cublasDestroy_v2(h); }};
}

}  // namespace assay::cuda
