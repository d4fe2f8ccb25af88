// SPDX-License-Identifier: Apache-2.0
// Target "eigen": the control. The defining formulas over Eigen arrays, erf, tanh and exp of libm, one thread.
#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "probes/ops/activation/row_memory.hpp"

namespace assay::activation {

namespace {

class EigenCall final : public assay::Call {
 public:
  explicit EigenCall(const Problem& problem) : problem_(problem), call_(call_of(problem)) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 ? all_rows<double>() : all_rows<float>(); }

  CallReport report() override {
    CallReport r;
    r.arithmetic.operand = call_.in;
    r.arithmetic.accumulator = r.arithmetic.split_format = compute_format(call_);
    r.arithmetic.output = call_.out;
    r.contract = contract_of("this target's code, probes/ops/activation/eigen_target.cpp, and IEEE 754-2019, 6.2", true);
    r.facts["version"] = fmt::format("Eigen {}.{}.{}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION);
    r.facts["core"] = Eigen::SimdInstructionSetsInUse();
    r.facts["threads"] = "1";
    return r;
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

std::optional<std::string> refuses(const Problem&, const TargetSpec& spec) {
  if (!spec.variant.empty()) return fmt::format("eigen has no variant \"{}\"", spec.variant);
  return std::nullopt;
}

}  // namespace

Target eigen_target() {
  return {"eigen", "control: activations over Eigen arrays compiled into this binary, one thread", refuses,
          [](const Problem& problem, const TargetSpec&) -> std::unique_ptr<assay::Call> {
            return std::make_unique<EigenCall>(problem);
          }};
}

}  // namespace assay::activation
