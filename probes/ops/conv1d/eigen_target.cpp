// SPDX-License-Identifier: Apache-2.0
// Target "eigen": the control. The unrolled signal times the weights, group by group, by Eigen's product, one thread.
#include <Eigen/Core>

#include "probes/ops/conv1d/signal_memory.hpp"
#include "probes/ops/conv1d/targets.hpp"
#include "probes/ops/eigen_control.hpp"

namespace assay::conv1d {

namespace {

class EigenCall final : public assay::Call {
 public:
  explicit EigenCall(const Problem& problem) : problem_(problem), call_(call_of(problem)) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 ? convolve<double>() : convolve<float>(); }

  CallReport report() override {
    CallReport r = eigen_report(call_.in, compute_format(call_), call_.out,
                                contract_of("this target's code, probes/ops/conv1d/eigen_target.cpp, and IEEE 754-2019, 6.2"));
    r.algorithm = "unrolled signal, product, bias added last";
    return r;
  }

 private:
  template <class T>
  void convolve() const {
    using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    const conv1d::Call& c = call_;
    const Inputs<T> in = read_inputs<T>(problem_, c, images_);
    std::vector<T> y(static_cast<std::size_t>(c.n * c.cout * c.lout));
    const std::int64_t terms = c.group_in() * c.k;
    for (std::int64_t b = 0; b < c.n; ++b) {
      const std::vector<T> panel = unrolled(c, in.x.data() + b * c.cin * c.l);
      for (std::int64_t g = 0; g < c.groups; ++g) {
        const Eigen::Map<const Matrix> w(in.w.data() + g * c.group_out() * terms, c.group_out(), terms);
        const Eigen::Map<const Matrix> x(panel.data() + g * terms * c.lout, terms, c.lout);
        Eigen::Map<Matrix> to(y.data() + (b * c.cout + g * c.group_out()) * c.lout, c.group_out(), c.lout);
        to.noalias() = w * x;
        for (std::int64_t o = 0; c.bias && o < c.group_out(); ++o)
          to.row(o).array() += in.bias[static_cast<std::size_t>(g * c.group_out() + o)];
      }
    }
    write_output(problem_, c, images_, y, c.lout);
  }

  Problem problem_;
  conv1d::Call call_;
  std::vector<Image> images_;
};

}  // namespace

Target eigen_target() {
  return eigen_control<EigenCall>(
      "control: unrolled signal times weights by Eigen's product, compiled into this binary, one thread");
}

}  // namespace assay::conv1d
