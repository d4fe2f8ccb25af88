// SPDX-License-Identifier: Apache-2.0
// Target "eigen": the control. Plain softmax over Eigen arrays, exp and log of libm, one thread.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "probes/ops/eigen_control.hpp"
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
    return eigen_report(call_.in, compute_format(call_), call_.out,
                        contract_of("this target's code, probes/ops/softmax/eigen_target.cpp, and IEEE 754-2019, 6.2"));
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

}  // namespace

Target eigen_target() {
  return eigen_control<EigenCall>("control: softmax over Eigen arrays compiled into this binary, one thread");
}

}  // namespace assay::softmax
