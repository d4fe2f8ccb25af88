// SPDX-License-Identifier: Apache-2.0
// The double's handles, descriptors and what it says of itself.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <set>

#include "tests/sim/cublaslt/double.hpp"
#include "tests/sim/library_faults.hpp"

namespace assay::sim::lt {

namespace {

// Sizes as a real cuBLASLt 13.1 gives them when asked with 0 bytes; a test compares the two.
constexpr AttributeSize of_description[] = {{0, 4},  {1, 4},  {2, 4},  {3, 4},  {4, 4},  {5, 4},  {6, 4},  {7, 4},  {8, 8},
                                            {10, 8}, {11, 8}, {12, 8}, {13, 8}, {14, 8}, {15, 4}, {16, 4}, {17, 8}, {18, 8},
                                            {19, 8}, {20, 8}, {21, 8}, {22, 4}, {23, 8}, {24, 8}, {25, 1}, {26, 4}, {31, 4},
                                            {32, 4}, {33, 4}, {34, 4}, {35, 4}, {36, 8}, {37, 4}, {38, 8}};
constexpr AttributeSize of_layout[] = {{0, 4}, {1, 4}, {2, 8}, {3, 8}, {4, 8}, {5, 4}, {6, 8}, {7, 8}, {8, 4}};
constexpr AttributeSize of_preference[] = {{0, 4}, {1, 8}, {3, 4}, {5, 4}, {6, 4}, {7, 4}, {8, 4}, {9, 4}, {12, 8}};

constexpr const char* fault_names[] = {"k_tail",   "tf32",     "lost_slice", "narrow_slice", "read_c", "no_bias",
                                       "no_scale", "edge_row", "overrun",    "greedy",       "refuse"};
constexpr const char* fault_keys[] = {"id", "tile", "stages", "splitk", "reduction", "swizzle", "custom", "version", "sm",
                                      "m",  "n",    "k",      "batch",  "order",     "opa",     "opb",    "epilogue"};

/// Descriptors of one kind that exist.
class Kind {
 public:
  template <std::size_t N>
  explicit Kind(const AttributeSize (&sizes)[N]) : begin_(sizes), end_(sizes + N) {}
  Attributes* add() {
    const std::lock_guard lock(mutex_);
    auto made = std::make_unique<Attributes>(begin_, end_);
    Attributes* const at = made.get();
    all_[at] = std::move(made);
    return at;
  }
  Attributes* find(const void* at) {
    const std::lock_guard lock(mutex_);
    const auto found = all_.find(at);
    return found == all_.end() ? nullptr : found->second.get();
  }
  cublasStatus_t remove(const void* at) {
    const std::lock_guard lock(mutex_);
    return all_.erase(at) == 1 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
  }

 private:
  const AttributeSize *begin_, *end_;
  std::mutex mutex_;
  std::map<const void*, std::unique_ptr<Attributes>> all_;
};
Kind descriptions(of_description), layouts(of_layout), preferences(of_preference);

cublasStatus_t set(Kind& kind, const void* at, int attribute, const void* value, std::size_t bytes) {
  Attributes* const a = kind.find(at);
  return a == nullptr ? CUBLAS_STATUS_INVALID_VALUE : a->set(attribute, value, bytes);
}
cublasStatus_t get(Kind& kind, const void* at, int attribute, void* value, std::size_t bytes, std::size_t* written) {
  const Attributes* const a = kind.find(at);
  return a == nullptr ? CUBLAS_STATUS_INVALID_VALUE : a->get(attribute, value, bytes, written);
}

}  // namespace

Attributes::Attributes(const AttributeSize* begin, const AttributeSize* end) {
  for (const AttributeSize* a = begin; a != end; ++a) values_[a->attribute].resize(a->bytes);
}

cublasStatus_t Attributes::set(int attribute, const void* value, std::size_t bytes) {
  const auto found = values_.find(attribute);
  if (found == values_.end() || value == nullptr || bytes != found->second.size()) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(found->second.data(), value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t Attributes::get(int attribute, void* value, std::size_t bytes, std::size_t* written) const {
  const auto found = values_.find(attribute);
  if (found == values_.end() || (bytes == 0 && written == nullptr)) return CUBLAS_STATUS_INVALID_VALUE;
  if (written != nullptr) *written = found->second.size();
  if (bytes == 0) return CUBLAS_STATUS_SUCCESS;
  if (value == nullptr || bytes != found->second.size()) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, found->second.data(), bytes);
  return CUBLAS_STATUS_SUCCESS;
}

const Attributes* description(const void* at) {
  return descriptions.find(at);
}
const Attributes* layout(const void* at) {
  return layouts.find(at);
}
const Attributes* preference(const void* at) {
  return preferences.find(at);
}

int version() {
  static const int said = [] {
    const char* const text = std::getenv("ASSAY_SIM_CUBLASLT_VERSION");
    const int v = text == nullptr ? 130100 : std::atoi(text);
    if (v < 120000 || v >= 140000) {
      announce("ASSAY_SIM_CUBLASLT_VERSION must be a version of CUDA 12 or 13, such as 130100");
      std::abort();
    }
    return v;
  }();
  return said;
}

void announce(const std::string& text) {
  std::fprintf(stderr, "simulated cuBLASLt: %s\n", text.c_str());
}

bool planted(std::string_view fault, const std::map<std::string, std::string>& facts) {
  static const LibraryFaults all("ASSAY_SIM_CUBLASLT_FAULT", fault_names, fault_keys);
  return all.planted(fault, facts);
}

}  // namespace assay::sim::lt

using namespace assay::sim::lt;

extern "C" {
__attribute__((visibility("default"))) std::size_t cublasLtGetVersion() {
  return static_cast<std::size_t>(version());
}
__attribute__((visibility("default"))) std::size_t cublasLtGetCudartVersion() {
  return static_cast<std::size_t>(version() / 10000 * 1000);
}
__attribute__((visibility("default"))) int cublasLtGetProperty(int which, int* value) {
  const int parts[] = {version() / 10000, version() / 100 % 100, version() % 100};
  if (which < 0 || which > 2 || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *value = parts[which];
  return CUBLAS_STATUS_SUCCESS;
}
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static char one;
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const assay::sim::SimulatedDevice* const device = assay::sim::SimulatedDevice::find();
  if (device == nullptr || device->context() != 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = reinterpret_cast<cublasLtHandle_t>(&one);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return handle == nullptr ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}

// No value is checked here: a real cuBLASLt 13.1 makes descriptors of compute type 9999, of 0 rows, of negative strides.
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* made, cublasComputeType_t compute, cudaDataType scale) {
  if (made == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  Attributes* const a = descriptions.add();
  a->put(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, compute), a->put(CUBLASLT_MATMUL_DESC_SCALE_TYPE, scale);
  a->put(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{CUBLASLT_EPILOGUE_DEFAULT});
  a->put(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, std::int32_t{-1});
  *made = reinterpret_cast<cublasLtMatmulDesc_t>(a);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t at) {
  return descriptions.remove(at);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t at, int which, const void* value, std::size_t bytes) {
  return set(descriptions, at, which, value, bytes);
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t at, int which, void* value, std::size_t bytes,
                                              std::size_t* written) {
  return get(descriptions, at, which, value, bytes, written);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* made, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t ld) {
  if (made == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  Attributes* const a = layouts.add();
  a->put(CUBLASLT_MATRIX_LAYOUT_TYPE, type), a->put(CUBLASLT_MATRIX_LAYOUT_ROWS, rows);
  a->put(CUBLASLT_MATRIX_LAYOUT_COLS, columns), a->put(CUBLASLT_MATRIX_LAYOUT_LD, ld);
  a->put(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, std::int32_t{1});
  *made = reinterpret_cast<cublasLtMatrixLayout_t>(a);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t at) {
  return layouts.remove(at);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t at, int which, const void* value, std::size_t bytes) {
  return set(layouts, at, which, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t at, int which, void* value, std::size_t bytes,
                                                std::size_t* written) {
  return get(layouts, at, which, value, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* made) {
  if (made == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  Attributes* const a = preferences.add();
  a->put(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, std::uint32_t{CUBLASLT_REDUCTION_SCHEME_MASK});
  for (const int which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    a->put(which, std::uint32_t{256});
  a->put(CUBLASLT_MATMUL_PREF_IMPL_MASK, ~std::uint64_t{0});
  *made = reinterpret_cast<cublasLtMatmulPreference_t>(a);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t at) {
  return preferences.remove(at);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t at, int which, const void* value,
                                                    std::size_t bytes) {
  return set(preferences, at, which, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t at, int which, void* value, std::size_t bytes,
                                                    std::size_t* written) {
  return get(preferences, at, which, value, bytes, written);
}
