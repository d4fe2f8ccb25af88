// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cublaslt/product.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/models/tensor_core.hpp"

namespace assay::sim::lt {

namespace {

std::byte* element(std::byte* from, DType t, std::int64_t index) {
  return from + index * static_cast<std::int64_t>(size_bytes(t));
}

/// Products lo <= l < hi of a row of op(A) and a column of op(B).
double sum(const Product& p, const double* a, const double* b, std::int64_t count) {
  if (p.tensor_cores && p.sums == DType::f32)
    return p.block == 4 ? models::tensor_core_dot<4, 24>(a, 1, b, 1, count) : models::tensor_core_dot<8, 25>(a, 1, b, 1, count);
  double s = 0;
  for (std::int64_t l = 0; l < count; ++l) switch (p.sums) {
      case DType::i32:  // exact in fp64
      case DType::f64:
        s = std::fma(a[l], b[l], s);
        break;
      case DType::f32:
        s = std::fma(static_cast<float>(a[l]), static_cast<float>(b[l]), static_cast<float>(s));
        break;
      default:  // a product of two fp16 is exact in fp64, and rounding its fp64 sum again is innocuous (53 >= 2*11 + 2)
        s = round_to(p.sums, a[l] * b[l] + s);
    }
  return s;
}

double scaled(const Product& p, double sum, double beta, double addend) {
  const double product = round_to(p.scale, p.alpha * sum);
  return beta == 0 ? product : round_to(p.scale, product + round_to(p.scale, beta * addend));
}

double finished(const Product& p, double z, std::int64_t row) {
  if (p.bias != nullptr)
    z = round_to(p.scale,
                 z + decode(p.d.format, load_bits(p.d.format, element(const_cast<std::byte*>(p.bias), p.d.format, row))));
  if (p.function == Function::relu) return z < 0 ? 0 : z;
  if (p.function == Function::none) return z;
  const auto x = static_cast<float>(z);
  return x / 2 * (1 + std::tanh(0.797884560802865356F * (x + 0.044715F * x * x * x)));
}

}  // namespace

double View::read(std::int64_t i, std::int64_t j) const {
  return decode(format, load_bits(format, element(at, format, i * row + j * column)));
}
void View::write(std::int64_t i, std::int64_t j, double x) const {
  store_bits(format, element(at, format, i * row + j * column), encode(format, x));
}

void compute(const Product& p) {
  const std::int64_t k = p.loses_last_product && p.k > 1 ? p.k - 1 : p.k;
  std::vector<double> a(static_cast<std::size_t>(p.m * k)), b(static_cast<std::size_t>(p.n * k));
  const bool narrows = p.operands != p.a.format;
  const auto operand = [&](double x) { return narrows ? round_to(p.operands, x, Rounding::toward_zero) : x; };
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t l = 0; l < k; ++l) a[static_cast<std::size_t>(i * k + l)] = operand(p.a.read(i, l));
  for (std::int64_t j = 0; j < p.n; ++j)
    for (std::int64_t l = 0; l < k; ++l) b[static_cast<std::size_t>(j * k + l)] = operand(p.b.read(l, j));
  const std::int64_t length = (k + p.slices - 1) / p.slices;
  const auto slice = [&](int s, std::int64_t i, std::int64_t j) {
    const std::int64_t begin = std::min<std::int64_t>(k, s * length);
    return sum(p, &a[static_cast<std::size_t>(i * k)] + begin, &b[static_cast<std::size_t>(j * k)] + begin,
               std::min(length, k - begin));
  };
  const int last = p.slices - (p.loses_last_slice && p.slices > 1 ? 1 : 0);
  const auto addend = [&](std::int64_t i, std::int64_t j) { return p.beta != 0 || p.reads_c ? p.c.read(i, j) : 0; };
  // A fault that reads C adds a C that it ought not to know: 0*NaN is NaN.
  const auto scale = [&](double s, double c) {
    return p.reads_c && p.beta == 0 ? scaled(p, s, 0, 0) + 0 * c : scaled(p, s, p.beta, c);
  };
  for (int s = 0; p.slices > 1 && p.partials == Partials::in_workspace && s < last; ++s)
    for (std::int64_t e = 0; e < p.m * p.n; ++e)
      store_bits(p.slice_format, element(p.workspace, p.slice_format, s * p.m * p.n + e),
                 encode(p.slice_format, slice(s, e / p.n, e % p.n)));
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      double z;
      if (p.slices > 1 && p.partials == Partials::in_place) {
        z = scale(slice(0, i, j), addend(i, j));
        for (int s = 1; s < last; ++s) {
          p.d.write(i, j, z);
          z = round_to(p.scale, p.d.read(i, j) + round_to(p.scale, p.alpha * slice(s, i, j)));
        }
      } else if (p.slices > 1) {
        double all = 0;
        for (int s = 0; s < last; ++s)
          all = round_to(p.sums, all + decode(p.slice_format, load_bits(p.slice_format, element(p.workspace, p.slice_format,
                                                                                                s * p.m * p.n + i * p.n + j))));
        z = scale(all, addend(i, j));
      } else {
        z = scale(slice(0, i, j), addend(i, j));
      }
      p.d.write(i, j, finished(p, z, i));
    }
  if (p.repeats_edge_row && p.m > 1)
    for (std::int64_t j = 0; j < p.n; ++j) p.d.write(p.m - 1, j, p.d.read(p.m - 2, j));
}

}  // namespace assay::sim::lt
