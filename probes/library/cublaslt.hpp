// SPDX-License-Identifier: Apache-2.0
// cuBLASLt, opened by path, its descriptors as owning handles, and algorithms as the numbers that configure them.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "probes/library/cublaslt_symbols.hpp"

namespace assay::cuda {

/// A call that cuBLASLt refused. what(): "multiplying: CUBLAS_STATUS_INVALID_VALUE (7), ...".
struct LtError : std::runtime_error {
  LtError(const std::string& what, cublasStatus_t code) : std::runtime_error(what), status(code) {}
  cublasStatus_t status;
};

class CublasLt {
 public:
  /// Opens this file; stays open. Throws LibraryError: not there, foreign, or a function is missing.
  static const CublasLt& open(const std::string& path);

  const LtFunctions& fn() const { return functions_; }
  const std::string& path() const { return path_; }
  const std::string& version_text() const { return version_text_; }  // "cuBLASLt 13.1.0 for CUDA 13.0"
  /// Throws LtError unless the status is success; `doing` begins the sentence.
  void check(cublasStatus_t status, std::string_view doing) const;

  /// The handle of this process for the device of the current context, made once. Throws LtError.
  cublasLtHandle_t handle() const;

 private:
  CublasLt() = default;
  std::string path_, version_text_;
  LtFunctions functions_;
};

namespace lt {

/// A descriptor of the library. Setting an attribute checks only its size: cuBLASLt takes any value here and refuses it later.
template <class Handle>
class Descriptor {
 public:
  using Destroy = cublasStatus_t (*)(Handle);
  using Set = cublasStatus_t (*)(Handle, int, const void*, std::size_t);

  Descriptor(const CublasLt& library, Handle handle, Destroy destroy, Set set)
      : library_(&library), handle_(handle, destroy), set_(set) {}
  /// Throws LtError.
  template <class T>
  void set(int attribute, T value) const {
    library_->check(set_(get(), attribute, &value, sizeof value), "setting an attribute of a descriptor");
  }
  Handle get() const { return handle_.get(); }

 private:
  const CublasLt* library_;
  std::shared_ptr<std::remove_pointer_t<Handle>> handle_;
  Set set_;
};
using Description = Descriptor<cublasLtMatmulDesc_t>;
using Layout = Descriptor<cublasLtMatrixLayout_t>;
using Preference = Descriptor<cublasLtMatmulPreference_t>;

/// These throw LtError.
Description make_description(const CublasLt&, cublasComputeType_t compute, cudaDataType scale);
Layout make_layout(const CublasLt&, cudaDataType, std::uint64_t rows, std::uint64_t columns, std::int64_t ld);
Preference make_preference(const CublasLt&);

/// Everything that configures an algorithm: enough to make it again with the same version of the library.
struct Configuration {
  std::int32_t id = 0;
  std::uint32_t tile = 0, stages = 0;
  std::int32_t splits = 1;
  std::uint32_t reduction = 0, swizzle = 0, custom = 0;
  std::uint16_t inner = 0, cluster = 0;
  bool operator==(const Configuration&) const = default;
};
/// "id=66 tile=20 stages=4 splitk=1 reduction=0 swizzle=0 custom=0 inner=0 cluster=0".
std::string describe(const Configuration&);
/// Reads every attribute back. Throws LtError.
Configuration configuration_of(const CublasLt&, const cublasLtMatmulAlgo_t&);
/// Sets every attribute but the id, which cublasLtMatmulAlgoInit has set. Throws LtError.
void configure(const CublasLt&, cublasLtMatmulAlgo_t&, const Configuration&);

/// What an algorithm can be configured as.
struct Capabilities {
  bool split_k = false;
  std::uint32_t reductions = 0;  // mask of CUBLASLT_REDUCTION_SCHEME_*
  std::uint32_t swizzle = 0;     // largest
  std::int32_t custom = 0;       // largest
  std::vector<std::uint32_t> tiles{}, stages{};
  std::uint64_t numerical_flags = 0;          // 0: the library does not say
  std::uint32_t alignment[4] = {1, 1, 1, 1};  // of A, B, C, D, in bytes
};
/// What a version of the library does not know keeps its default.
Capabilities capabilities_of(const CublasLt&, const cublasLtMatmulAlgo_t&);
/// "HMMA, fp32 accumulator, bf16 input"; "" for 0.
std::string describe_flags(std::uint64_t);

/// A whole multiplication as the library is told of it, without its addresses.
struct Operation {
  Description description;
  Layout a, b, c;  // D is as C
  cublasComputeType_t compute = 0;
  cudaDataType scale = 0, type_a = 0, type_b = 0, type_c = 0;
};

struct Choice {
  cublasLtMatmulAlgo_t algo{};
  Configuration configuration;
  std::uint64_t numerical_flags = 0;
  std::size_t workspace_bytes = 0;
  float waves = 0;
};

/// The heuristic's answers, best first. Throws LtError; NOT_SUPPORTED: it knows none.
std::vector<Choice> heuristic(const CublasLt&, const Operation&, const Preference&, int most);

/// What every algorithm must keep to.
struct Limits {
  std::size_t workspace_bytes = 0;
  std::uint32_t alignment[4] = {};  // of the operands A, B, C, D at hand
};
/// Algorithms that the library's own check accepts for this operation: of every id a first configuration, then every value of
/// every attribute once with the others as in the first (not all combinations). The first configurations of all ids come first,
/// then the second ones, and so on, so that the first so many are a fair sample. The same list in every process.
std::vector<Choice> enumerate(const CublasLt&, const Operation&, const Limits&);

}  // namespace lt
}  // namespace assay::cuda
