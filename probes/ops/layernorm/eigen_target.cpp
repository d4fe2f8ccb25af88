// SPDX-License-Identifier: Apache-2.0
// Target "eigen": the control. Two passes over Eigen arrays, one thread.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>

#include "probes/ops/eigen_control.hpp"
#include "probes/ops/layernorm/row_memory.hpp"

namespace assay::layernorm {

namespace {

class EigenCall final : public assay::Call {
 public:
  explicit EigenCall(const Problem& problem) : problem_(problem), call_(call_of(problem)) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 ? all_rows<double>() : all_rows<float>(); }

  CallReport report() override {
    return eigen_report(call_.in, compute_format(call_), call_.out,
                        own_contract("this target's code, probes/ops/layernorm/eigen_target.cpp, and IEEE 754-2019, 6.2"));
  }

 private:
  template <class T>
  void all_rows() const {
    // Arrays of Eigen's own are aligned, so the order of a sum does not depend on where the heap put them.
    using Row = Eigen::Array<T, Eigen::Dynamic, 1>;
    if (call_.n == 0) return;
    const Columns<T> columns(problem_, call_, images_);
    const Row gamma = Eigen::Map<const Row>(columns.gamma.data(), call_.n),
              beta = Eigen::Map<const Row>(columns.beta.data(), call_.n);
    const T n = static_cast<T>(call_.n), eps = static_cast<T>(call_.eps);
    for (std::int64_t r = 0; r < call_.rows; ++r) {
      std::vector<T> x = read_run<T>(problem_.operands[call_.x], images_[call_.x], r * call_.ldx, call_.n);
      Row row = Eigen::Map<Row>(x.data(), call_.n);
      const T mean = call_.rms ? T{0} : row.sum() / n;
      if (!call_.rms) row -= mean;
      const T rstd = 1 / std::sqrt(row.square().sum() / n + eps);
      row = row * rstd * gamma;
      if (call_.beta) row += beta;
      std::copy(row.begin(), row.end(), x.begin());
      write_run(problem_.operands[call_.y], images_[call_.y], r * call_.ldy, x, call_.n);
      write_statistics(problem_, call_, images_, r, mean, rstd);
    }
  }

  Problem problem_;
  layernorm::Call call_;
  std::vector<Image> images_;
};

}  // namespace

Target eigen_target() {
  return eigen_control<EigenCall>(
      "control: layer and RMS normalisation over Eigen arrays compiled into this binary, one thread");
}

}  // namespace assay::layernorm
