// SPDX-License-Identifier: Apache-2.0
// Attention composed from two products and a softmax of ours: what targets share whose library has no attention of its own.
#pragma once

#include "probes/ops/attention/heads.hpp"

namespace assay::attention {

/// A matrix in memory: rows `ld` elements apart.
template <class T>
struct Factor {
  const T* data = nullptr;
  std::int64_t ld = 0;
};

/// Scores are written to memory, masked, softmaxed in place and multiplied by V, head by head. 16-bit inputs are widened to
/// fp32, others handed to the library where they lie. A target gives the products, and may give the softmax.
class ComposedCall : public assay::Call {
 public:
  explicit ComposedCall(const Problem& p) : problem_(p), call_(call_of(p)) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override;
  /// Arithmetic and contract of products to nearest in compute_format and of softmax_row.
  CallReport report() override;

 protected:
  /// c (m,n), packed = alpha a (m,k) b, where b is (n,k) when `transposed`, else (k,n).
  virtual void multiply(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, Factor<float> a, Factor<float> b,
                        bool transposed, float* c) = 0;
  virtual void multiply(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, Factor<double> a, Factor<double> b,
                        bool transposed, double* c) = 0;
  /// In place, each row of `n`; hidden keys are -Inf.
  virtual void softmax(std::int64_t rows, std::int64_t n, float* x);
  virtual void softmax(std::int64_t rows, std::int64_t n, double* x);

  Problem problem_;
  attention::Call call_;
  std::vector<Image> images_;

 private:
  template <class T>
  void all_heads();
  template <class T>
  void write_log_sum_exp(std::int64_t e, std::int64_t h, const std::vector<T>& s);
};

}  // namespace assay::attention
