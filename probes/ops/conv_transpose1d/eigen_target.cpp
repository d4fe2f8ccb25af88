// SPDX-License-Identifier: Apache-2.0
// Target "eigen": the control. One Eigen product per tap, added where the tap falls, one thread.
#include <Eigen/Core>
#include <algorithm>

#include "probes/ops/conv_transpose1d/memory.hpp"
#include "probes/ops/eigen_control.hpp"

namespace assay::conv_transpose1d {

namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;

class EigenCall final : public assay::Call {
 public:
  explicit EigenCall(const Problem& problem) : problem_(problem), call_(call_of(problem)) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 ? run<double>() : run<float>(); }

  CallReport report() override {
    return eigen_report(
        call_.in, compute_format(call_), call_.out,
        own_contract("this target's code, probes/ops/conv_transpose1d/eigen_target.cpp, and IEEE 754-2019, 6.2"));
  }

 private:
  template <class T>
  void run() const {
    Data<T> d = read_operands<T>(problem_, call_, images_, place_x(call_), place_w(call_));
    const std::int64_t cin = call_.cin / call_.groups, cout = call_.cout / call_.groups;
    // Matrices of Eigen's own are aligned, so the order of a sum does not depend on where the heap put them.
    Matrix<T> taps(cout, cin), x(cin, call_.l), y(cout, call_.lout);
    for (std::int64_t b = 0; b < call_.n; ++b)
      for (std::int64_t g = 0; g < call_.groups; ++g) {
        for (std::int64_t ci = 0; ci < cin; ++ci)
          for (std::int64_t i = 0; i < call_.l; ++i)
            x(ci, i) = d.x[static_cast<std::size_t>((b * call_.cin + g * cin + ci) * call_.l + i)];
        y.setZero();
        for (std::int64_t r = 0; r < call_.k; ++r) {
          const Frames f = frames_of_tap(call_, r);
          if (f.first >= f.last) continue;
          for (std::int64_t ci = 0; ci < cin; ++ci)
            for (std::int64_t co = 0; co < cout; ++co)
              taps(co, ci) = d.w[static_cast<std::size_t>(((g * cin + ci) * cout + co) * call_.k + r)];
          Eigen::Map<Matrix<T>, 0, Eigen::OuterStride<>> landing(&y(0, f.first * call_.stride + f.shift), cout,
                                                                 f.last - f.first, Eigen::OuterStride<>(call_.stride * cout));
          landing.noalias() += taps * x.middleCols(f.first, f.last - f.first);
        }
        for (std::int64_t co = 0; co < cout; ++co)
          for (std::int64_t t = 0; t < call_.lout; ++t) {
            const std::int64_t channel = g * cout + co;
            d.y[static_cast<std::size_t>((b * call_.cout + channel) * call_.lout + t)] =
                y(co, t) + d.bias[static_cast<std::size_t>(channel)];
          }
      }
    write_y(problem_, call_, images_, d.y);
  }

  Problem problem_;
  conv_transpose1d::Call call_;
  std::vector<Image> images_;
};

}  // namespace

Target eigen_target() {
  return eigen_control<EigenCall>("control: one Eigen product per tap, compiled into this binary, one thread");
}

}  // namespace assay::conv_transpose1d
