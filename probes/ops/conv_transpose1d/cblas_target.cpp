// SPDX-License-Identifier: Apache-2.0
// Target "openblas": columns W^T X by the library's gemm, straight from the operands, then added where they fall by code of
// ours: what frameworks do on a BLAS. The product is a gemm problem of its own, given to the gemm target.
#include <fmt/format.h>

#include "probes/ops/conv_transpose1d/memory.hpp"
#include "probes/ops/gemm/cpu_targets.hpp"

namespace assay::conv_transpose1d {

namespace {

const Target& gemm_target() {
  static const Target target = gemm::cblas_target("openblas", "");
  return target;
}

/// Columns (taps and output channels of a group, in W's order; frames) = W^T X of one batch entry and group.
std::string columns_id(const Problem& p) {
  const Call c = call_of(p);
  const std::int64_t cin = c.cin / c.groups, rows = c.cout / c.groups * c.k;
  return fmt::format("g1:gemm:m={},n={},k={},order=row,ta=t,tb={},padb={},in={},out={}", rows, c.l, cin,
                     c.channels_last ? "t" : "n", c.x_row - (c.channels_last ? cin : c.l), p.id.word("in"),
                     size_bytes(c.in) == 2 ? "f32" : "same");
}

class CblasCall final : public assay::Call {
 public:
  CblasCall(const Problem& problem, const TargetSpec& spec)
      : problem_(problem),
        call_(call_of(problem)),
        columns_(make_problem(columns_id(problem_))),
        product_(gemm_target().prepare(columns_, spec)) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 ? run<double>() : run<float>(); }

  CallReport report() override {
    CallReport r = product_->report();
    r.arithmetic.output = call_.out;
    r.contract = {};  // neither ?gemm nor its library documents NaN, subnormals or repeatability
    r.algorithm = "gemm, then columns added";
    return r;
  }

 private:
  std::byte* element(std::size_t operand, std::int64_t index) const {
    return images_[operand].storage +
           (problem_.operands[operand].offset + index) * static_cast<std::int64_t>(size_bytes(call_.in));
  }

  template <class T>
  void run() {
    const std::int64_t cin = call_.cin / call_.groups, cout = call_.cout / call_.groups;
    const Place x = place_x(call_), w = place_w(call_);
    std::vector<T> columns(static_cast<std::size_t>(cout * call_.k * call_.l)), y;
    y.reserve(static_cast<std::size_t>(call_.n * call_.cout * call_.lout));
    const std::vector<T> bias =
        call_.bias ? read_elements<T>(call_.in, problem_.operands[2], images_[2], {1, 1, call_.cout}, {0, 0, 1})
                   : std::vector<T>(static_cast<std::size_t>(call_.cout));
    for (std::int64_t b = 0; b < call_.n; ++b)
      for (std::int64_t g = 0; g < call_.groups; ++g) {
        const auto bytes = [&](std::size_t o) {
          return static_cast<std::size_t>(columns_.operands[o].span) * size_bytes(columns_.operands[o].dtype);
        };
        const Image matrices[] = {{element(1, w.at(g * cin, 0, 0)), bytes(0)},
                                  {element(0, x.at(b, g * cin, 0)), bytes(1)},
                                  {reinterpret_cast<std::byte*>(columns.data()), bytes(2)}};
        product_->load(matrices);
        product_->execute();
        for (std::int64_t co = 0; co < cout; ++co) add_columns(columns, co, bias[static_cast<std::size_t>(g * cout + co)], y);
      }
    write_y(problem_, call_, images_, y);
  }

  /// Appends the row of output channel `co` of the group.
  template <class T>
  void add_columns(const std::vector<T>& columns, std::int64_t co, T bias, std::vector<T>& y) const {
    const std::int64_t cout = call_.cout / call_.groups;
    y.resize(y.size() + static_cast<std::size_t>(call_.lout), bias);
    T* const row = y.data() + y.size() - call_.lout;
    for (std::int64_t r = 0; r < call_.k; ++r) {
      const Frames f = frames_of_tap(call_, r);
      const T* column = columns.data() + (call_.channels_last ? r * cout + co : co * call_.k + r) * call_.l;
      for (std::int64_t i = f.first; i < f.last; ++i) row[i * call_.stride + f.shift] += column[i];
    }
  }

  Problem problem_;
  conv_transpose1d::Call call_;
  Problem columns_;
  std::unique_ptr<assay::Call> product_;
  std::vector<Image> images_;
};

std::optional<std::string> refuses(const Problem& p, const TargetSpec& spec) {
  try {
    return gemm_target().refuses(make_problem(columns_id(p)), spec);
  } catch (const CaseError& e) {
    return e.what();
  }
}

}  // namespace

Target cblas_target() {
  return {"openblas", "columns by OpenBLAS's gemm, opened by path, added by this binary; variants core=NAME, threads=N",
          refuses, [](const Problem& problem, const TargetSpec& spec) -> std::unique_ptr<assay::Call> {
            return std::make_unique<CblasCall>(problem, spec);
          }};
}

}  // namespace assay::conv_transpose1d
