// SPDX-License-Identifier: Apache-2.0
// The false-alarm experiment: a correct accumulator model computes a small gemm and is judged like any library.
// Shared by the unit test (few seeds) and bench/tightness (many).
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "reference/bound.hpp"
#include "reference/compare.hpp"
#include "reference/inputs.hpp"
#include "reference/models/accumulate.hpp"
#include "reference/ops/gemm.hpp"

namespace assay::tightness {

struct Setting {
  const models::Model* model = nullptr;
  Family family = Family::normal;
  DType input = DType::f32, output = DType::f32;
  std::int64_t m = 16, n = 16, k = 64;
  double alpha = 1, beta = 0;
  bool addend_first = false;  // beta*c starts the accumulator instead of being added at the end
  std::uint64_t seed = 0;
};

/// Input and output formats in which a model is at home.
inline std::vector<std::pair<DType, DType>> formats_of(const models::Model& model) {
  using enum DType;
  if (model.arithmetic.accumulator == f64) return {{f64, f64}};
  if (model.arithmetic.operand == tf32) return {{f32, f32}, {f32, bf16}};
  if (model.name == "h100_fp8") return {{e4m3, f32}, {e5m2, f32}, {e4m3, bf16}, {e5m2, f16}};
  if (model.name == "v100") return {{f16, f32}, {f16, f16}};
  if (model.arithmetic.accumulation == Accumulation::tensor_core) return {{bf16, f32}, {bf16, bf16}, {f16, f32}, {f16, f16}};
  return {{f32, f32}, {bf16, f32}, {bf16, bf16}, {f16, f16}};
}

inline Operand packed(std::string role, DType t, std::vector<std::int64_t> dims, std::uint32_t stream) {
  Operand o;
  o.role = std::move(role);
  o.dtype = t;
  o.dims = std::move(dims);
  o.strides.assign(o.dims.size(), 1);
  for (std::size_t i = o.dims.size() - 1; i-- > 0;) o.strides[i] = o.strides[i + 1] * o.dims[i + 1];
  o.span = element_count(o);
  o.stream = stream;
  return o;
}

inline std::vector<double> values(const Operand& o, const FillRule& rule, std::uint64_t seed) {
  std::vector<double> v;
  for (const std::uint64_t bits : generate(o, rule, seed)) v.push_back(decode(o.dtype, bits));
  return v;
}

/// Whether this fill at this k keeps every partial sum of the accumulator exact; limit: largest |v| of the integer family.
inline bool stays_exact(const Setting& s, std::int64_t& limit) {
  const Arithmetic& arithmetic = s.model->arithmetic;
  const bool short_sums = arithmetic.accumulation == Accumulation::tensor_core && arithmetic.fraction_bits < 23;
  const int bits = short_sums ? arithmetic.fraction_bits + 1 : format(arithmetic.accumulator).precision;
  limit = integer_limit(s.k + 1, bits, s.input);
  if (!exact(s.family) || s.alpha != 1) return false;
  if (s.family == Family::integer) return limit >= 1;
  if (s.family == Family::reveal) return s.k <= std::int64_t{1} << (bits - reveal_bits(s.input));  // fp32: 2^13 * 2^11 = 2^24
  return s.beta == 0 || s.family != Family::position;
}

struct Case {
  std::vector<double> a, b, c;
  bool exact = false;
  Expected expected;
};

inline Case make_case(const Setting& s) {
  Case x;
  std::int64_t limit = 1;
  x.exact = stays_exact(s, limit);
  limit = std::max<std::int64_t>(1, limit);
  x.a = values(packed("A", s.input, {1, s.m, s.k}, 1), {s.family, 1, 2, true, limit}, s.seed);
  x.b = values(packed("B", s.input, {1, s.k, s.n}, 2), {s.family, 2, 1, false, limit}, s.seed);
  if (s.beta != 0) x.c = values(packed("C", s.output, {1, s.m, s.n}, 3), {s.family, 1, 1, false, limit}, s.seed);
  const reference::Gemm g{1, s.m, s.n, s.k, s.alpha, s.beta, x.a, x.b, x.c};
  x.expected = reference::gemm(g, s.model->arithmetic.accumulator == DType::f64);
  return x;
}

/// What the model returns for element (i, j), rounded to the output format by the caller.
inline double element(const Setting& s, const Case& x, std::int64_t i, std::int64_t j) {
  const DType acc = s.model->arithmetic.accumulator;
  const double* a = x.a.data() + i * s.k;
  const double* b = x.b.data() + j;
  std::vector<double> reduced_a, reduced_b;
  if (s.model->arithmetic.operand == DType::tf32) {
    reduced_a.assign(a, a + s.k);
    for (std::int64_t l = 0; l < s.k; ++l) reduced_b.resize(l * s.n + 1), reduced_b[l * s.n] = b[l * s.n];
    for (double& v : reduced_a) v = models::operand_value(*s.model, v);
    for (double& v : reduced_b) v = models::operand_value(*s.model, v);
    a = reduced_a.data(), b = reduced_b.data();
  }
  if (s.addend_first) {
    std::vector<double> left{x.c[i * s.n + j]}, right{s.beta};
    for (std::int64_t l = 0; l < s.k; ++l) left.push_back(a[l]), right.push_back(b[l * s.n]);
    return s.model->dot(left.data(), 1, right.data(), 1, s.k + 1);
  }
  double y = s.model->dot(a, 1, b, s.n, s.k);
  if (s.alpha != 1) y = round_to(acc, s.alpha * y);
  if (s.beta != 0) y = round_to(acc, y + round_to(acc, s.beta * x.c[i * s.n + j]));
  return y;
}

inline Discrepancy judge(const Setting& s, const Case& x) {
  const Operand out = packed("C", s.output, {1, s.m, s.n}, 0);
  std::vector<std::byte> storage(size_bytes(s.output) * s.m * s.n);
  for (std::int64_t e = 0; e < s.m * s.n; ++e)
    store_bits(s.output, storage.data() + e * size_bytes(s.output), encode(s.output, element(s, x, e / s.n, e % s.n)));
  Arithmetic arithmetic = s.model->arithmetic;
  arithmetic.output = s.output;
  const Bound bound = product_sum_bound(x.expected, arithmetic, exchangeable(s.family), x.exact, s.input);
  const std::uint64_t poison = encode(s.output, -12345.0);
  return compare(out, storage, x.expected, bound, arithmetic, poison, true);
}

}  // namespace assay::tightness
