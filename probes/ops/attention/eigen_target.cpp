// SPDX-License-Identifier: Apache-2.0
// Target "eigen": the control. Eigen's products around a plain softmax, one thread.
#include <Eigen/Core>

#include "probes/ops/attention/composed.hpp"
#include "probes/ops/eigen_control.hpp"

namespace assay::attention {

namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
void product(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, Factor<T> a, Factor<T> b, bool transposed, T* c) {
  using View = Eigen::Map<const Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;
  const View left(a.data, m, k, Eigen::OuterStride<>(a.ld));
  // A matrix of Eigen's own is aligned, so the order of a sum does not depend on where the heap put it.
  Matrix<T> out(m, n);
  if (transposed)
    out.noalias() = alpha * left * View(b.data, n, k, Eigen::OuterStride<>(b.ld)).transpose();
  else
    out.noalias() = alpha * left * View(b.data, k, n, Eigen::OuterStride<>(b.ld));
  Eigen::Map<Matrix<T>>(c, m, n) = out;
}

class EigenCall final : public ComposedCall {
 public:
  using ComposedCall::ComposedCall;

  CallReport report() override {
    CallReport r = ComposedCall::report();
    add_eigen_facts(r);
    return r;
  }

 private:
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, float alpha, Factor<float> a, Factor<float> b, bool transposed,
                float* c) override {
    product(m, n, k, alpha, a, b, transposed, c);
  }
  void multiply(std::int64_t m, std::int64_t n, std::int64_t k, double alpha, Factor<double> a, Factor<double> b,
                bool transposed, double* c) override {
    product(m, n, k, alpha, a, b, transposed, c);
  }
};

}  // namespace

Target eigen_target() {
  return eigen_control<EigenCall>("attention with Eigen's products and libm's exp: the control that must always pass");
}

}  // namespace assay::attention
