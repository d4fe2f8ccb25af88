// SPDX-License-Identifier: Apache-2.0
// A cuBLASLt for tests: computes from the very arguments passed, in the memory and the streams of the simulated device. Never
// installed; every version text and every complaint of it says "simulated".
//   ASSAY_SIM_CUBLASLT_VERSION=130100   what it says it is
//   ASSAY_SIM_CUBLASLT_FAULT=NAME[:key=value]...[,NAME...]
// Keys narrow a fault down to calls: id, tile, stages, splitk, reduction, swizzle, custom, version, sm, m, n, k (those of D),
// batch, order, opa, opb, epilogue; values with * and ?.
//   k_tail        sums of two or more products lose the last
//   tf32          fp32 operands keep 10 fraction bits
//   lost_slice    the last slice of a split-K is not added
//   narrow_slice  partial sums of a split-K are stored in the format of D, whatever the reduction scheme says
//   read_c        beta = 0 reads C
//   no_bias       the bias is left out
//   no_scale      the scale of an fp8 A counts as 1
//   edge_row      the last row of D repeats the one before
//   overrun       one element after the last one of D is written
//   greedy        64 bytes after the workspace are written
//   refuse        cublasLtMatmul gives CUBLAS_STATUS_EXECUTION_FAILED
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "probes/library/cublaslt_symbols.hpp"
#include "tests/sim/inside.hpp"

// The product's declarations, at the top as the header has them: an entry that is defined with other arguments does not
// compile.
using namespace assay::cuda;
extern "C" {
#define ASSAY_SIM_DECLARE(name, arguments) __attribute__((visibility("default"))) cublasStatus_t name arguments;
ASSAY_CUBLASLT_FUNCTIONS(ASSAY_SIM_DECLARE)
#undef ASSAY_SIM_DECLARE
}

namespace assay::sim::lt {

struct AttributeSize {
  int attribute;
  std::size_t bytes;
};

/// What a descriptor holds: bytes by attribute. Only sizes are checked when one is set, as the real library does.
class Attributes {
 public:
  Attributes(const AttributeSize* begin, const AttributeSize* end);
  cublasStatus_t set(int attribute, const void* value, std::size_t bytes);
  cublasStatus_t get(int attribute, void* value, std::size_t bytes, std::size_t* written) const;
  template <class T>
  T as(int attribute) const {
    T value{};
    const std::vector<std::byte>& bytes = values_.at(attribute);
    std::memcpy(&value, bytes.data(), bytes.size() < sizeof value ? bytes.size() : sizeof value);
    return value;
  }
  template <class T>
  void put(int attribute, T value) {
    set(attribute, &value, sizeof value);
  }

 private:
  std::map<int, std::vector<std::byte>> values_;
};

/// Whether this is a descriptor of the kind, not destroyed.
const Attributes* description(const void*);
const Attributes* layout(const void*);
const Attributes* preference(const void*);

/// As the caller's 64 bytes hold it.
struct Algorithm {
  std::int32_t id, splits;
  std::uint32_t tile, stages, reduction, swizzle, custom;
  std::uint16_t inner, cluster;
  std::int32_t compute, type_a, type_c;
  std::uint32_t made;  // by cublasLtMatmulAlgoInit of this library
  std::uint32_t unused[4];
};
static_assert(sizeof(Algorithm) == sizeof(cublasLtMatmulAlgo_t));
inline constexpr std::uint32_t algorithm_is_made = 0x51B0;
Algorithm read(const cublasLtMatmulAlgo_t&);

/// A multiplication whose descriptors agree with each other.
struct Checked {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const Attributes *description = nullptr, *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr;
  std::int64_t m = 0, n = 0, k = 0, batch = 1;  // those of D
};
Checked check(const void* description, const void* a, const void* b, const void* c, const void* d);
/// Workspace of an algorithm for this multiplication; the status says whether it can do it at all.
cublasStatus_t require(const Algorithm&, const Checked&, std::size_t& workspace_bytes);
/// What it asks of addresses, in bytes.
std::uint32_t alignment_of(const Algorithm&);

int version();
void announce(const std::string&);
bool planted(std::string_view fault, const std::map<std::string, std::string>& facts);

}  // namespace assay::sim::lt
