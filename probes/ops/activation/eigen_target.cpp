// SPDX-License-Identifier: Apache-2.0
// Target "eigen": the control. The defining formulas over Eigen arrays, erf, tanh and exp of libm, one thread.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "probes/ops/activation/row_memory.hpp"
#include "probes/ops/eigen_control.hpp"

namespace assay::activation {

namespace {

class EigenCall final : public assay::Call {
 public:
  explicit EigenCall(const Problem& problem) : problem_(problem), call_(call_of(problem)) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 ? all_rows<double>() : all_rows<float>(); }

  CallReport report() override {
    return eigen_report(
        call_.in, compute_format(call_), call_.out,
        contract_of("this target's code, probes/ops/activation/eigen_target.cpp, and IEEE 754-2019, 6.2", true));
  }

 private:
  template <class Row>
  Row apply(const Row& z) const {
    using T = typename Row::Scalar;
    switch (call_.kind) {
      case Kind::gelu_erf:
        return T{0.5} * z * (1 + (z * static_cast<T>(1 / std::numbers::sqrt2)).unaryExpr([](T v) { return std::erf(v); }));
      case Kind::gelu_tanh: {
        const auto inner = static_cast<T>(0.7978845608028654) * (z + static_cast<T>(0.044715) * z.cube());
        return T{0.5} * z * (1 + inner.unaryExpr([](T v) { return std::tanh(v); }));
      }
      case Kind::silu:
        return z / (1 + z.unaryExpr([](T v) { return std::exp(-v); }));
      case Kind::relu:
        break;
    }
    return (z < T{0}).select(T{0}, z);  // NaN stays
  }

  template <class T>
  void all_rows() const {
    using Row = Eigen::Array<T, Eigen::Dynamic, 1>;
    const std::vector<T> bias = read_bias<T>(problem_, call_, images_);
    for (std::int64_t r = 0; r < call_.rows; ++r) {
      std::vector<T> x = read_row<T>(problem_, call_, images_, r, call_.ldx);
      const Row z = Eigen::Map<const Row>(x.data(), call_.n) + Eigen::Map<const Row>(bias.data(), call_.n);
      // The formulas make -Inf * 0 or -Inf / Inf of it.
      const Row y = (z == -std::numeric_limits<T>::infinity()).select(T{0}, apply<Row>(z));
      std::copy(y.begin(), y.end(), x.begin());
      write_row(problem_, call_, images_, r, x, call_.n);
    }
  }

  Problem problem_;
  activation::Call call_;
  std::vector<Image> images_;
};

}  // namespace

Target eigen_target() {
  return eigen_control<EigenCall>("control: activations over Eigen arrays compiled into this binary, one thread");
}

}  // namespace assay::activation
