// SPDX-License-Identifier: Apache-2.0
// A gemm with its operands in memory, computed by Eigen in fp32 or by a model, that a test may then spoil.
#pragma once

#include <Eigen/Core>
#include <cstring>
#include <string>
#include <vector>

#include "reference/models/accumulate.hpp"
#include "reference/verify.hpp"
#include "tightness.hpp"

namespace assay::verify_test {

struct Shape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
};

struct Finished {
  Operand a, b, c;
  std::vector<std::byte> a_data, b_data, c_data, c0_data;
  double alpha = 1, beta = 0;
  Arithmetic arithmetic;
  bool exchangeable = false, exact = false;

  reference::Verification verified(std::uint64_t seed = 1) const {
    return reference::verify({.a = a,
                              .b = b,
                              .c = c,
                              .a_storage = a_data,
                              .b_storage = b_data,
                              .c_storage = c_data,
                              .c0_storage = c0_data,
                              .alpha = alpha,
                              .beta = beta,
                              .arithmetic = arithmetic,
                              .exchangeable = exchangeable,
                              .exact = exact,
                              .unit = 1,
                              .poison_bits = 0x7fffffff},
                             seed);
  }
  std::size_t at(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>(c.offset + i * c.strides[1] + j * c.strides[2]) * size_bytes(c.dtype);
  }
  double get(std::int64_t i, std::int64_t j) const { return decode(c.dtype, load_bits(c.dtype, c_data.data() + at(i, j))); }
  void set(std::int64_t i, std::int64_t j, double x) { store_bits(c.dtype, c_data.data() + at(i, j), encode(c.dtype, x)); }
  double a_at(std::int64_t i, std::int64_t l) const { return read(a, a_data, i, l); }
  double b_at(std::int64_t l, std::int64_t j) const { return read(b, b_data, l, j); }

 private:
  static double read(const Operand& o, const std::vector<std::byte>& data, std::int64_t i, std::int64_t j) {
    const auto e = static_cast<std::size_t>(o.offset + i * o.strides[1] + j * o.strides[2]);
    return decode(o.dtype, load_bits(o.dtype, data.data() + e * size_bytes(o.dtype)));
  }
};

/// `columns`: stored column by column, with a loose leading dimension.
inline Operand matrix(std::string role, DType t, Access access, std::int64_t batch, std::int64_t rows, std::int64_t cols,
                      bool columns, std::uint32_t stream) {
  Operand o = tightness::packed(std::move(role), t, {batch, rows, cols}, stream);
  o.access = access;
  if (!columns) return o;
  const std::int64_t ld = rows + 3;
  o.strides = {ld * cols, 1, ld};
  o.offset = 1, o.span = batch * ld * cols;
  return o;
}

inline std::vector<std::byte> filled(const Operand& o, const FillRule& rule, std::uint64_t seed) {
  std::vector<std::byte> data(static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype), std::byte{0xff});
  fill(o, rule, seed, data);
  return data;
}

inline Finished prepared(Shape s, DType in, DType out, Family family, std::uint64_t seed, bool columns = false,
                         std::int64_t limit = 1, double beta = 0) {
  Finished f;
  f.a = matrix("A", in, Access::in, s.batch, s.m, s.k, columns, 1);
  f.b = matrix("B", in, Access::in, s.batch, s.k, s.n, columns, 2);
  f.c = matrix("C", out, beta == 0 ? Access::out : Access::inout, s.batch, s.m, s.n, columns, 3);
  f.a_data = filled(f.a, {.family = family, .outer_axis = 1, .inner_axis = 2, .left = true, .limit = limit}, seed);
  f.b_data = filled(f.b, {.family = family, .outer_axis = 2, .inner_axis = 1, .left = false, .limit = limit}, seed);
  const FillRule addend{
      .family = exact(family) ? Family::integer : Family::normal, .outer_axis = 1, .inner_axis = 2, .left = true, .limit = 64};
  f.c_data = filled(f.c, addend, seed);
  f.beta = beta;
  if (beta != 0) f.c0_data = f.c_data;
  f.exchangeable = assay::exchangeable(family);
  f.exact = assay::exact(family);
  return f;
}

/// fp32 sums in the order of an Eigen product: a correct implementation that is fast.
inline void by_eigen(Finished& f) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const auto numbers = [](const Operand& o, const std::vector<std::byte>& data) {
    const std::vector<double> v = gather(o, data);
    return Eigen::Map<const Eigen::VectorXd>(v.data(), std::ssize(v)).cast<float>().eval();
  };
  const Eigen::VectorXf a = numbers(f.a, f.a_data), b = numbers(f.b, f.b_data);
  const std::int64_t m = f.c.dims[1], n = f.c.dims[2], k = f.a.dims[2];
  for (std::int64_t z = 0; z < f.c.dims[0]; ++z) {
    Matrix product(m, n);
    product.noalias() =
        Eigen::Map<const Matrix>(a.data() + z * m * k, m, k) * Eigen::Map<const Matrix>(b.data() + z * k * n, k, n);
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const std::size_t at = f.at(i, j) + static_cast<std::size_t>(z * f.c.strides[0]) * size_bytes(f.c.dtype);
        float x = static_cast<float>(f.alpha) * product(i, j);
        if (f.beta != 0) x += static_cast<float>(f.beta * decode(f.c.dtype, load_bits(f.c.dtype, f.c0_data.data() + at)));
        store_bits(f.c.dtype, f.c_data.data() + at, encode(f.c.dtype, x));
      }
  }
  f.arithmetic = {.operand = DType::f32, .accumulator = DType::f32, .output = f.c.dtype};
}

/// Batch 1, alpha = 1, beta = 0, row-major.
inline void by_model(Finished& f, const models::Model& model) {
  std::vector<double> a = gather(f.a, f.a_data), b = gather(f.b, f.b_data);
  for (std::vector<double>* v : {&a, &b})
    for (double& x : *v) x = models::operand_value(model, x);
  const std::int64_t m = f.c.dims[1], n = f.c.dims[2], k = f.a.dims[2];
#pragma omp parallel for
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) f.set(i, j, model.dot(a.data() + i * k, 1, b.data() + j, n, k));
  f.arithmetic = model.arithmetic;
  f.arithmetic.output = f.c.dtype;
}

}  // namespace assay::verify_test
