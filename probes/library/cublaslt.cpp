// SPDX-License-Identifier: Apache-2.0
#include "probes/library/cublaslt.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <map>
#include <mutex>

#include "probes/library/cuda_libraries.hpp"
#include "probes/library/opened.hpp"

namespace assay::cuda {

const CublasLt& CublasLt::open(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<CublasLt>> opened;
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(path); found != opened.end()) return *found->second;
  std::unique_ptr<CublasLt> out(new CublasLt);
  out->path_ = path;
  out->version_text_ = open_libraries({{"cublasLt", path}}).at("cublasLt");
  void* const handle = open_exactly(path);
#define ASSAY_RESOLVE(name, arguments)                                            \
  if (void* const symbol = ::dlsym(handle, #name); symbol != nullptr)             \
    out->functions_.name = reinterpret_cast<decltype(LtFunctions::name)>(symbol); \
  else                                                                            \
    throw LibraryError(fmt::format("{} has no {}: it is no cuBLASLt of CUDA 12 or 13; name another file", path, #name));
  ASSAY_CUBLASLT_FUNCTIONS(ASSAY_RESOLVE)
#undef ASSAY_RESOLVE
  return *(opened[path] = std::move(out));
}

void CublasLt::check(cublasStatus_t status, std::string_view doing) const {
  if (status != CUBLAS_STATUS_SUCCESS) throw LtError(fmt::format("{}: {}", doing, status_name(status)), status);
}

cublasLtHandle_t CublasLt::handle() const {
  static std::mutex mutex;
  static std::map<const CublasLt*, cublasLtHandle_t> made;  // one device per process; left to the end of the process
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = made[this];
  if (handle == nullptr) check(functions_.cublasLtCreate(&handle), "starting cuBLASLt");
  return handle;
}

namespace lt {

Description make_description(const CublasLt& library, cublasComputeType_t compute, cudaDataType scale) {
  cublasLtMatmulDesc_t made = nullptr;
  library.check(library.fn().cublasLtMatmulDescCreate(&made, compute, scale), "making an operation descriptor");
  return {library, made, library.fn().cublasLtMatmulDescDestroy, library.fn().cublasLtMatmulDescSetAttribute};
}

Layout make_layout(const CublasLt& library, cudaDataType type, std::uint64_t rows, std::uint64_t columns, std::int64_t ld) {
  cublasLtMatrixLayout_t made = nullptr;
  library.check(library.fn().cublasLtMatrixLayoutCreate(&made, type, rows, columns, ld), "making a matrix layout");
  return {library, made, library.fn().cublasLtMatrixLayoutDestroy, library.fn().cublasLtMatrixLayoutSetAttribute};
}

Preference make_preference(const CublasLt& library) {
  cublasLtMatmulPreference_t made = nullptr;
  library.check(library.fn().cublasLtMatmulPreferenceCreate(&made), "making a search preference");
  return {library, made, library.fn().cublasLtMatmulPreferenceDestroy, library.fn().cublasLtMatmulPreferenceSetAttribute};
}

std::string describe_flags(std::uint64_t flags) {
  static constexpr std::pair<std::uint64_t, const char*> names[] = {
      {lt_flags::FMA, "FMA"},
      {lt_flags::HMMA, "HMMA"},
      {lt_flags::IMMA, "IMMA"},
      {lt_flags::DMMA, "DMMA"},
      {lt_flags::ACCUMULATOR_16F, "fp16 accumulator"},
      {lt_flags::ACCUMULATOR_32F, "fp32 accumulator"},
      {lt_flags::ACCUMULATOR_64F, "fp64 accumulator"},
      {lt_flags::ACCUMULATOR_32I, "int32 accumulator"},
      {lt_flags::INPUT_16F, "fp16 input"},
      {lt_flags::INPUT_16BF, "bf16 input"},
      {lt_flags::INPUT_TF32, "tf32 input"},
      {lt_flags::INPUT_32F, "fp32 input"},
      {lt_flags::INPUT_64F, "fp64 input"},
      {lt_flags::INPUT_8I, "int8 input"},
      {lt_flags::INPUT_8F_E4M3, "e4m3 input"},
      {lt_flags::INPUT_8F_E5M2, "e5m2 input"},
  };
  std::string out;
  for (const auto& [bit, name] : names) {
    if ((flags & bit) == 0) continue;
    out += (out.empty() ? "" : ", ") + std::string(name);
    flags &= ~bit;
  }
  return flags == 0 ? out : fmt::format("{}{}flags {:#x}", out, out.empty() ? "" : ", ", flags);
}

std::vector<Choice> heuristic(const CublasLt& library, const Operation& o, const Preference& preference, int most) {
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int count = 0;
  library.check(
      library.fn().cublasLtMatmulAlgoGetHeuristic(library.handle(), o.description.get(), o.a.get(), o.b.get(), o.c.get(),
                                                  o.c.get(), preference.get(), most, results.data(), &count),
      "asking the heuristic for an algorithm");
  std::vector<Choice> out;
  for (const cublasLtMatmulHeuristicResult_t& r : results) {
    if (out.size() == static_cast<std::size_t>(count)) break;
    if (r.state != CUBLAS_STATUS_SUCCESS) {
      --count;
      continue;
    }
    out.push_back({.algo = r.algo,
                   .configuration = configuration_of(library, r.algo),
                   .numerical_flags = capabilities_of(library, r.algo).numerical_flags,
                   .workspace_bytes = r.workspaceSize,
                   .waves = r.wavesCount});
  }
  return out;
}

}  // namespace lt
}  // namespace assay::cuda
