// SPDX-License-Identifier: Apache-2.0
// One simulated gemm of bench/rival_rules: inputs as a named tool fills them, correct results in several summation orders,
// and the thirteen faulty ones.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "reference/inputs.hpp"
#include "reference/ops/gemm.hpp"
#include "reference/philox.hpp"

namespace assay::rivals {

constexpr int m = 256, n = 256, k = 1024, elements = m * n;
constexpr float alpha = 0.5f;  // not 1, so that losing it shows; a power of two, so that exact fills stay exact
constexpr int slice = 32, slices = k / slice;

using Values = std::vector<float>;  // holds bf16 and fp32 exactly; row-major

enum class Fill {
  benchdnn,            // integers, A thinned so that k * max|a| * max|b| fits the output's significand
  cutlass,             // integers in [-4, 4]
  rocblas_integers,    // integers 1..10, the sign of B alternating like a chessboard
  rocblas_hpl,         // uniform in (-0.5, 0.5)
  cudnn,               // 80 % zeros, else integers in [-2, 2]
  ggml,                // uniform in (-1, 1)
  zero_to_one,         // uniform in [0, 1)
  transformer_engine,  // uniform in [-2, 1)
  normal,              // Assay's real fill, and what torch.randn draws
  assay_integers,      // Assay's exact fill
};
constexpr int fills = 10;

inline Operand operand(DType t, std::vector<std::int64_t> dims, std::uint32_t stream) {
  const std::int64_t columns = dims.back(), count = dims[0] * dims[1] * columns;
  return {.dtype = t, .dims = std::move(dims), .strides = {count, columns, 1}, .span = count, .stream = stream};
}

inline Operand output(DType t) {
  return operand(t, {1, m, n}, 3);
}

/// Significand cut to 24 - `dropped` bits, to nearest, ties to even: 16 gives bf16, 13 gives TF32. Finite values.
template <int dropped>
constexpr float nearest(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t half = (1u << (dropped - 1)) - 1, odd = bits >> dropped & 1;
  return std::bit_cast<float>((bits + half + odd) >> dropped << dropped);
}
static_assert(nearest<16>(0x1.01p0f) == 1 && nearest<16>(0x1.03p0f) == 0x1.04p0f && nearest<16>(-0x1.ffp0f) == -2);
static_assert(nearest<13>(0x1.002p0f) == 1 && nearest<13>(0x1.0021p0f) == 0x1.004p0f);

inline float rounded(DType t, float x) {
  return t == DType::bf16 ? nearest<16>(x) : x;
}

/// Element `index` of the left or right operand, from Philox words, in the ranges above.
inline float drawn(Fill fill, DType t, bool left, std::uint64_t seed, std::uint32_t index) {
  const PhiloxCounter w = philox_element(seed, left ? 101 : 102, index);
  const auto integer = [&](int lo, int hi) {
    return static_cast<float>(lo + static_cast<int>(std::uint64_t{w[0]} * (hi - lo + 1) >> 32));
  };
  const auto real = [&](float lo, float hi) { return rounded(t, lo + (hi - lo) * static_cast<float>(w[0] >> 8) * 0x1p-24f); };
  const double other = w[1] * 0x1p-32;
  switch (fill) {
    case Fill::benchdnn: {
      const int limit = t == DType::bf16 ? (left ? 4 : 2) : (left ? 64 : 128);
      const double safe = t == DType::bf16 ? 0x1p8 / (4 * 2) : 0x1p24 / (64 * 128);  // products that may be nonzero
      return left && other >= safe / k ? 0 : integer(-limit, limit);
    }
    case Fill::cutlass:
      return integer(-4, 4);
    case Fill::rocblas_integers:
      return integer(1, 10) * (left || (index / n + index % n) % 2 == 0 ? 1 : -1);
    case Fill::rocblas_hpl:
      return real(-0.5, 0.5);
    case Fill::cudnn:
      return other < 0.8 ? 0 : integer(-2, 2);
    case Fill::ggml:
      return real(-1, 1);
    case Fill::zero_to_one:
      return real(0, 1);
    default:
      return real(-2, 1);
  }
}

inline Values operand_values(Fill fill, DType t, bool left, std::uint64_t seed) {
  Values v(left ? m * k : k * n);
  if (fill != Fill::normal && fill != Fill::assay_integers) {
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = drawn(fill, t, left, seed, static_cast<std::uint32_t>(i));
    return v;
  }
  const FillRule rule{.family = fill == Fill::normal ? Family::normal : Family::integer,
                      .outer_axis = left ? 1 : 2,
                      .inner_axis = left ? 2 : 1,
                      .left = left,
                      .limit = integer_limit(k, format(DType::f32).precision, t)};
  const auto bits = generate(left ? operand(t, {1, m, k}, 1) : operand(t, {1, k, n}, 2), rule, seed);
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(decode(t, bits[i]));
  return v;
}

/// sum += A * B over k0 <= l < k1, every element in ascending l, one FMA per product.
inline void accumulate(const Values& a, const Values& b, int k0, int k1, float* sum) {
  for (int from = k0; from < k1; from += slice)
    for (int i = 0; i < m; ++i)
      for (int l = from; l < std::min(from + slice, k1); ++l) {
        const float x = a[i * k + l];
        const float* row = b.data() + l * n;
        float* to = sum + i * n;
#pragma omp simd
        for (int j = 0; j < n; ++j) to[j] = std::fma(x, row[j], to[j]);
      }
}

/// Everything one rule may look at, made from one fill, format and seed.
struct Trial {
  DType type = DType::f32;  // of operands and output; sums are fp32
  std::uint64_t seed = 0;
  Expected expected;                 // fp64 truth
  Values sequential, split_k, tree;  // correct outputs: k in order; four slices; 32 slices added in pairs
  Values tree_fp32;                  // `tree` before its rounding to the output format
  std::vector<Values> faulty;        // F1..F13 done to `sequential`; F12 empty where TF32 holds the operands
};

constexpr int faults = 13;

namespace detail {

inline Values finish(DType t, const float* sum, float scale = alpha) {
  Values out(elements);
  for (int e = 0; e < elements; ++e) out[e] = rounded(t, scale * sum[e]);
  return out;
}

inline std::uint32_t choose(std::uint64_t seed, std::uint32_t use, std::uint32_t limit) {
  return philox_element(seed, 103, use)[0] % limit;
}

inline Values with_bad_element(const Trial& t, int fault) {
  Values out = t.sequential;
  std::uint32_t e = choose(t.seed, 0, elements);
  while (out[e] == 0) e = (e + 1) % elements;
  if (fault == 1) out[e] = 0;
  if (fault == 2) out[e] = std::bit_cast<float>(std::bit_cast<std::uint32_t>(out[e]) + (t.type == DType::bf16 ? 0x10000u : 1u));
  if (fault == 3) out[e] = std::numeric_limits<float>::quiet_NaN();
  return out;
}

/// Two rows exchanged inside one fragment of 16 rows and 8 columns.
inline Values with_swapped_rows(const Trial& t) {
  Values out = t.sequential;
  const std::uint32_t row = 16 * choose(t.seed, 1, m / 16), column = 8 * choose(t.seed, 2, n / 8);
  const std::uint32_t first = choose(t.seed, 3, 16), second = (first + 1 + choose(t.seed, 4, 15)) % 16;
  for (std::uint32_t j = column; j < column + 8; ++j) std::swap(out[(row + first) * n + j], out[(row + second) * n + j]);
  return out;
}

}  // namespace detail

inline Trial make_trial(Fill fill, DType type, std::uint64_t seed) {
  const Values a = operand_values(fill, type, true, seed), b = operand_values(fill, type, false, seed);
  const std::vector<double> wide_a(a.begin(), a.end()), wide_b(b.begin(), b.end());
  Trial t{
      .type = type, .seed = seed, .expected = {}, .sequential = {}, .split_k = {}, .tree = {}, .tree_fp32 = {}, .faulty = {}};
  t.expected = reference::gemm({.m = m, .n = n, .k = k, .alpha = alpha, .a = wide_a, .b = wide_b}, false);
  t.faulty.resize(faults);
  const auto fault = [&](int f) -> Values& { return t.faulty[f - 1]; };

  Values sum(elements);
  accumulate(a, b, 0, k - slice, sum.data());
  fault(7) = detail::finish(type, sum.data());
  accumulate(a, b, k - slice, k - 1, sum.data());
  fault(6) = detail::finish(type, sum.data());
  accumulate(a, b, k - 1, k, sum.data());
  t.sequential = detail::finish(type, sum.data());
  fault(9) = t.sequential;
  for (int e = 0; e < elements; ++e)
    if (e % n >= n / 2) fault(9)[e] = rounded(type, sum[e]);
  fault(13) = detail::finish(type, sum.data(), alpha * (1 + 0x1p-8f));
  for (const int f : {1, 2, 3}) fault(f) = detail::with_bad_element(t, f);
  fault(4).assign(elements, std::numeric_limits<float>::quiet_NaN());
  fault(5).assign(elements, 0.0f);
  fault(8) = detail::with_swapped_rows(t);

  Values fp32(elements), stored_bf16(elements);
  for (int s = 0; s < 4; ++s) {
    Values part(elements);
    accumulate(a, b, s * k / 4, (s + 1) * k / 4, part.data());
    for (int e = 0; e < elements; ++e) fp32[e] += part[e], stored_bf16[e] += nearest<16>(part[e]);
  }
  t.split_k = detail::finish(type, fp32.data());
  fault(10) = detail::finish(type, stored_bf16.data());

  std::vector<Values> parts(slices, Values(elements));
  Values bf16_accumulator(elements);
  for (int s = 0; s < slices; ++s) {
    accumulate(a, b, s * slice, (s + 1) * slice, parts[s].data());
    for (int e = 0; e < elements; ++e) bf16_accumulator[e] = nearest<16>(bf16_accumulator[e] + parts[s][e]);
  }
  fault(11) = detail::finish(type, bf16_accumulator.data());
  for (int width = slices / 2; width > 0; width /= 2)
    for (int s = 0; s < width; ++s)
      for (int e = 0; e < elements; ++e) parts[s][e] += parts[s + width][e];
  t.tree_fp32 = detail::finish(DType::f32, parts[0].data());
  t.tree = detail::finish(type, parts[0].data());

  if (type == DType::f32) {
    Values short_a = a, short_b = b;
    for (float& x : short_a) x = nearest<13>(x);
    for (float& x : short_b) x = nearest<13>(x);
    sum.assign(elements, 0);
    accumulate(short_a, short_b, 0, k, sum.data());
    fault(12) = detail::finish(type, sum.data());
  }
  return t;
}

}  // namespace assay::rivals
