// SPDX-License-Identifier: Apache-2.0
// Target "eigen": the control. Plain softmax over Eigen arrays, exp and log of libm, one thread.
#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "probes/ops/softmax/row_memory.hpp"

namespace assay::softmax {

namespace {

class EigenCall final : public assay::Call {
 public:
  explicit EigenCall(const Problem& problem) : problem_(problem), call_(call_of(problem)) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 ? all_rows<double>() : all_rows<float>(); }

  CallReport report() override {
    const DType compute = compute_format(call_);
    CallReport r;
    r.arithmetic.operand = call_.in;
    r.arithmetic.accumulator = r.arithmetic.split_format = compute;
    r.arithmetic.output = call_.out;
    r.contract = contract_of("this target's code, probes/ops/softmax/eigen_target.cpp, and IEEE 754-2019, 6.2");
    r.facts["version"] = fmt::format("Eigen {}.{}.{}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION);
    r.facts["core"] = Eigen::SimdInstructionSetsInUse();
    r.facts["threads"] = "1";
    return r;
  }

 private:
  template <class T>
  void all_rows() const {
    // Arrays of Eigen's own are aligned, so the order of a sum does not depend on where the heap put them.
    using Row = Eigen::Array<T, Eigen::Dynamic, 1>;
    if (call_.n == 0) return;
    for (std::int64_t r = 0; r < call_.rows; ++r) {
      std::vector<T> x = read_row<T>(problem_, call_, images_, r, call_.ldx);
      Row row = Eigen::Map<Row>(x.data(), call_.n);
      row -= row.template maxCoeff<Eigen::PropagateNaN>();
      const Row exponentials = row.unaryExpr([](T v) { return std::exp(v); });
      const T sum = exponentials.sum();
      if (call_.log)
        row -= std::log(sum);
      else
        row = exponentials / sum;
      std::copy(row.begin(), row.end(), x.begin());
      write_row(problem_, call_, images_, r, x, call_.n);
    }
  }

  Problem problem_;
  softmax::Call call_;
  std::vector<Image> images_;
};

std::optional<std::string> refuses(const Problem&, const TargetSpec& spec) {
  if (!spec.variant.empty()) return fmt::format("eigen has no variant \"{}\"", spec.variant);
  return std::nullopt;
}

}  // namespace

Target eigen_target() {
  return {"eigen", "control: softmax over Eigen arrays compiled into this binary, one thread", refuses,
          [](const Problem& problem, const TargetSpec&) -> std::unique_ptr<assay::Call> {
            return std::make_unique<EigenCall>(problem);
          }};
}

}  // namespace assay::softmax
