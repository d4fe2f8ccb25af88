// SPDX-License-Identifier: Apache-2.0
// What the oneDNN targets of all operations share: variants and what the library answers to them, refusals, facts, promises.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "probes/library/onednn.hpp"
#include "probes/ops/target.hpp"

namespace assay::onednn {

/// One prepared call; the operation's own class runs its primitives on `images()` and adds to the report.
class TargetCall : public Call {
 public:
  /// `packed`: layouts are the library's choice, with copies into and out of them.
  TargetCall(const Problem& problem, const Library& library, bool packed)
      : problem_(problem), library_(library), packed_(packed) {}

  void load(Images images) final { images_.assign(images.begin(), images.end()); }
  void store(Images) final {}

 protected:
  const Problem& problem() const { return problem_; }
  const Library& library() const { return library_; }
  bool packed() const { return packed_; }
  /// Address of element `index` of an operand, counted from its offset.
  std::byte* at(std::size_t operand, std::int64_t index = 0) const;

  /// Sums in f32, operands and result in these formats; version, core, runtime, threads and layout; no promise yet.
  CallReport base_report(DType in, DType out, const Primitive&) const;
  /// NaN reaches only what is computed from it.
  static Promise nan_confined();
  /// What major 3 documents for f32 (not made for others).
  Promise keeps_subnormals(DType in) const;

 private:
  Problem problem_;
  const Library& library_;
  bool packed_;
  std::vector<Image> images_;
};

/// An operand as it lies.
Tensor tensor_of(const Operand&);

/// f64, which oneDNN has on GPU engines only.
std::optional<std::string> refuses_f64(DType in);

// Functions that oneDNN generates itself (src/cpu/x64/injectors/jit_uni_eltwise_injector.cpp), in the units of
// Arithmetic::function_ulps. The developer guide says nothing of their accuracy; docs/numerics.md has what they showed.
/// exp: n = floor(x log2(e) + 1/2), r = x - n ln 2, a polynomial of degree 5 in r.
inline constexpr double exp_ulps = 2;
/// ln 2 is one fp32 number, off by 0.046 u, so r errs by 0.046 u |x|; without FMA n ln 2 is rounded as well, another u |x|.
double exp_ulps_per_x(const Library&);
/// log: 32 table entries. oneDNN's own test accepts a log-softmax within 4e-6 of its result (benchdnn, softmax.cpp), 34 ulp.
inline constexpr double log_ulps = 34;

using Make = std::function<std::unique_ptr<Call>(const Library&, bool packed)>;
/// Checks the variant, opens the library, checks what it answers, makes the call.
/// Errors   Unavailable, Unsupported: the library's own word for what it does not have.
std::unique_ptr<Call> prepare(const TargetSpec&, const Make&);

inline constexpr const char* variants = "variants isa=NAME, layout=packed, threads=N";

}  // namespace assay::onednn
