// SPDX-License-Identifier: Apache-2.0
// Target "eigen": the control. Eigen's product, compiled into this binary, one thread. What it fails, the judge got wrong.
#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>

#include "probes/ops/eigen_control.hpp"
#include "probes/ops/gemm/blas.hpp"
#include "probes/ops/gemm/cpu_targets.hpp"

namespace assay::gemm {

namespace {

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
template <class T>
using View = Eigen::Map<const Matrix<T>, Eigen::Unaligned, Eigen::OuterStride<>>;

/// A column-major operand: op(X) has `rows` x `cols`.
template <class T>
struct Input {
  const T* data = nullptr;
  std::int64_t ld = 1;
  bool transposed = false;

  View<T> view(std::int64_t rows, std::int64_t cols) const {
    return transposed ? View<T>(data, cols, rows, Eigen::OuterStride<>(ld))
                      : View<T>(data, rows, cols, Eigen::OuterStride<>(ld));
  }
};

/// op(A) * op(B), (m,k) * (k,n), column-major.
template <class T>
Matrix<T> product(const Input<T>& a, const Input<T>& b, std::int64_t m, std::int64_t n, std::int64_t k) {
  Matrix<T> out(m, n);
  const auto va = a.view(m, k), vb = b.view(k, n);
  if (a.transposed && b.transposed)
    out.noalias() = va.transpose() * vb.transpose();
  else if (a.transposed)
    out.noalias() = va.transpose() * vb;
  else if (b.transposed)
    out.noalias() = va * vb.transpose();
  else
    out.noalias() = va * vb;
  return out;
}

/// The stored elements of a narrow matrix in the format that sums are formed in: exact, it holds them all.
template <class T>
std::vector<T> widen(DType t, const std::byte* from, std::int64_t ld, std::int64_t rows, std::int64_t cols) {
  std::vector<T> out(static_cast<std::size_t>(rows * cols));
  for (std::int64_t j = 0; j < cols; ++j)
    for (std::int64_t i = 0; i < rows; ++i)
      out[static_cast<std::size_t>(j * rows + i)] =
          static_cast<T>(decode(t, load_bits(t, from + (j * ld + i) * static_cast<std::int64_t>(size_bytes(t)))));
  return out;
}

class EigenCall final : public assay::Call {
 public:
  explicit EigenCall(const Problem& problem) : problem_(problem), call_(call_of(problem)) {
    if (call_.row_major) {  // a row-major C = A*B is a column-major C' = B'*A' over the same memory
      std::swap(call_.m, call_.n);
      std::swap(call_.lda, call_.ldb);
      std::swap(call_.stride_a, call_.stride_b);
      std::swap(call_.transpose_a, call_.transpose_b);
    }
  }

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}

  void execute() override {
    for (std::int64_t i = 0; i < call_.batch; ++i) {
      const std::int64_t entry = call_.pointer_array ? pointer_order(i, call_.batch) : i;
      if (call_.in == DType::f64)
        multiply<double>(entry);
      else if (call_.in == DType::i8)
        multiply<std::int32_t>(entry);
      else
        multiply<float>(entry);
    }
  }

  CallReport report() override {
    CallReport out;
    out.arithmetic.operand = call_.in;
    out.arithmetic.accumulator = out.arithmetic.split_format = call_.in == DType::f64  ? DType::f64
                                                               : call_.in == DType::i8 ? DType::i32
                                                                                       : DType::f32;
    out.arithmetic.output = call_.out;
    const std::string here = "this target's code, probes/ops/gemm/eigen_target.cpp: ";
    out.contract.beta_zero_ignores_c = {true, here + "beta = 0 stores alpha*A*B"};
    out.contract.alpha_zero_ignores_ab = {true, here + "alpha = 0 or k = 0 stores beta*C"};
    out.contract.nan_propagates = {true,
                                   here + "Eigen multiplies every pair, compiled without -ffast-math; IEEE 754-2019, 6.2"};
    out.contract.nan_confined = {true, here + "each result is the sum of its own products"};
    out.contract.keeps_subnormals = {true,
                                     here + "SSE and AVX follow MXCSR, which is left at its default; Intel SDM vol. 1, 10.2.3"};
    out.contract.repeatable = {true, here + "one thread, and an order of operations set by shape and alignment alone"};
    add_eigen_facts(out);
    out.facts["batched"] = "loop";
    return out;
  }

 private:
  /// Operand `index` of batch entry `entry`, widened to T when it is narrower; `rows` is that of the stored matrix.
  template <class T>
  Input<T> input(std::size_t index, std::int64_t entry, std::int64_t stride, std::int64_t ld, bool transposed,
                 std::int64_t rows, std::int64_t cols, std::vector<T>& scratch) const {
    const Operand& operand = problem_.operands[index];
    if (transposed) std::swap(rows, cols);
    if (size_bytes(operand.dtype) == sizeof(T))
      return {first_element<const T>(images_[index], operand) + entry * stride, ld, transposed};
    const auto width = static_cast<std::int64_t>(size_bytes(operand.dtype));
    scratch = widen<T>(operand.dtype, images_[index].storage + (operand.offset + entry * stride) * width, ld, rows, cols);
    return {scratch.data(), std::max<std::int64_t>(1, rows), transposed};
  }

  template <class T>
  void multiply(std::int64_t entry) const {
    const auto [m, n, k] = std::tuple(call_.m, call_.n, call_.k);
    const std::size_t left = call_.row_major ? 1 : 0;
    Matrix<T> sum;
    if (call_.alpha != 0 && k != 0) {
      std::vector<T> wide_a, wide_b;
      sum = product(input<T>(left, entry, call_.stride_a, call_.lda, call_.transpose_a, m, k, wide_a),
                    input<T>(1 - left, entry, call_.stride_b, call_.ldb, call_.transpose_b, k, n, wide_b), m, n, k);
      sum *= static_cast<T>(call_.alpha);
    } else {
      sum.setZero(m, n);
    }
    const Operand& c = problem_.operands[2];
    const auto width = static_cast<std::int64_t>(size_bytes(c.dtype));
    std::byte* const out = images_[2].storage + (c.offset + entry * call_.stride_c) * width;
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t i = 0; i < m; ++i) {
        std::byte* const at = out + (j * call_.ldc + i) * width;
        T value = sum(i, j);
        if (call_.beta != 0) value += static_cast<T>(call_.beta) * static_cast<T>(decode(c.dtype, load_bits(c.dtype, at)));
        if (call_.bias) value += static_cast<T>(bias_of(problem_, images_, entry, call_.row_major ? i : j));
        if constexpr (std::is_floating_point_v<T>) value = activated(call_.activation, value);  // no other has one
        store_bits(c.dtype, at, encode(c.dtype, static_cast<double>(value)));
      }
  }

  Problem problem_;
  gemm::Call call_;
  std::vector<Image> images_;
};

std::optional<std::string> refuses(const Problem&, const TargetSpec& spec) {
  if (!spec.variant.empty()) return fmt::format("eigen has no variant \"{}\"", spec.variant);
  return std::nullopt;
}

}  // namespace

Target eigen_target() {
  return {"eigen", "control: Eigen's product compiled into this binary, one thread", refuses,
          [](const Problem& problem, const TargetSpec&) -> std::unique_ptr<assay::Call> {
            // The binary uses OpenMP, so Eigen would. The setting is the process's own, and a worker serves one target.
            Eigen::setNbThreads(1);
            return std::make_unique<EigenCall>(problem);
          }};
}

}  // namespace assay::gemm
