// SPDX-License-Identifier: Apache-2.0
// Attention from a CBLAS opened by path: gemm, or gemv for a single query, around a softmax of ours.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "probes/ops/attention/composed.hpp"
#include "probes/ops/gemm/cpu_targets.hpp"

namespace assay::attention {

namespace {

constexpr int row_major = 101, no_transpose = 111, transpose = 112;  // as cblas.h numbers them

class CblasCall final : public ComposedCall {
 public:
  CblasCall(const Problem& p, const Cblas& library) : ComposedCall(p), library_(library) {}

  CallReport report() override {
    CallReport r = ComposedCall::report();
    // NaN, subnormals and repeatability: a CBLAS documents nothing of them.
    r.contract.nan_propagates = r.contract.keeps_subnormals = r.contract.repeatable = {};
    r.algorithm = uses_gemv() ? "gemv, softmax, gemv" : "gemm, softmax, gemm";
    r.facts = gemm::facts_of(library_);
    return r;
  }

 private:
  bool uses_gemv() const { return call_.sq == 1 && library_.has_gemv(); }

  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, Factor<float> a, Factor<float> b, bool transposed,
                float* c) override {
    if (uses_gemv())  // a row times op(B) is op(B)' times that row
      library_.sgemv(row_major, transposed ? no_transpose : transpose, transposed ? n : k, transposed ? k : n, alpha, b.data,
                     b.ld, a.data, 0, c);
    else
      library_.sgemm(row_major, no_transpose, transposed ? transpose : no_transpose, m, n, k, alpha, a.data, a.ld, b.data, b.ld,
                     0, c, std::max<std::int64_t>(1, n));
  }
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, Factor<double> a, Factor<double> b,
                bool transposed, double* c) override {
    if (uses_gemv())
      library_.dgemv(row_major, transposed ? no_transpose : transpose, transposed ? n : k, transposed ? k : n, alpha, b.data,
                     b.ld, a.data, 0, c);
    else
      library_.dgemm(row_major, no_transpose, transposed ? transpose : no_transpose, m, n, k, alpha, a.data, a.ld, b.data, b.ld,
                     0, c, std::max<std::int64_t>(1, n));
  }

  const Cblas& library_;
};

std::optional<std::string> refuses(const Problem& p, const TargetSpec& spec) {
  const attention::Call c = call_of(p);
  if (size_bytes(c.in) == 2)
    return fmt::format("a CBLAS has no attention in {} ({}); its cblas_sbgemm is probed by gemm", name(c.in), spec.name());
  return std::nullopt;
}

}  // namespace

Target cblas_target(std::string name, std::string summary) {
  return {.name = std::move(name),
          .summary = std::move(summary),
          .refuses = refuses,
          .prepare = [](const Problem& p, const TargetSpec& spec) -> std::unique_ptr<assay::Call> {
            if (const auto reason = refuses(p, spec)) throw Unsupported(*reason);
            const Cblas& library = gemm::open_cblas(spec);
            for (const Operand& o : p.operands)
              if (!library.ilp64() && *std::max_element(o.strides.begin() + static_cast<std::ptrdiff_t>(o.strides.size()) - 2,
                                                        o.strides.end()) > std::numeric_limits<std::int32_t>::max())
                throw Unsupported(fmt::format("a stride of {} does not fit the 32-bit integers of {}", o.role, library.path()));
            return std::make_unique<CblasCall>(p, library);
          }};
}

}  // namespace assay::attention
