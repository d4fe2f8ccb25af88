// SPDX-License-Identifier: Apache-2.0
// The correct ways to add k products, and the table that names them.
#include "reference/models/accumulate.hpp"

#include <array>
#include <cmath>

#include "reference/models/tensor_core.hpp"

namespace assay::models {
namespace {

/// k operand pairs with strides, converted to the accumulator type T (exactly: operands are no wider).
template <class T>
struct Pairs {
  const double* a;
  std::int64_t stride_a;
  const double* b;
  std::int64_t stride_b;
  T left(std::int64_t l) const { return static_cast<T>(a[l * stride_a]); }
  T right(std::int64_t l) const { return static_cast<T>(b[l * stride_b]); }
  T product(std::int64_t l) const { return left(l) * right(l); }
  T add_fused(std::int64_t l, T sum) const { return std::fma(left(l), right(l), sum); }
};

template <class T>
T fused_range(const Pairs<T>& p, std::int64_t first, std::int64_t last) {
  T sum = 0;
  for (std::int64_t l = first; l < last; ++l) sum = p.add_fused(l, sum);
  return sum;
}

template <class T>
double sequential(const double* a, std::int64_t sa, const double* b, std::int64_t sb, std::int64_t k) {
  const Pairs<T> p{a, sa, b, sb};
  T sum = 0;
  for (std::int64_t l = 0; l < k; ++l) sum += p.product(l);
  return sum;
}

template <class T>
double sequential_fma(const double* a, std::int64_t sa, const double* b, std::int64_t sb, std::int64_t k) {
  return fused_range(Pairs<T>{a, sa, b, sb}, 0, k);
}

template <class T>
T pairwise_range(const Pairs<T>& p, std::int64_t first, std::int64_t last) {
  if (last - first == 1) return p.product(first);
  const std::int64_t middle = first + (last - first) / 2;
  return pairwise_range(p, first, middle) + pairwise_range(p, middle, last);
}

template <class T>
double pairwise(const double* a, std::int64_t sa, const double* b, std::int64_t sb, std::int64_t k) {
  return k == 0 ? T{0} : pairwise_range(Pairs<T>{a, sa, b, sb}, 0, k);
}

/// 32 interleaved FMA accumulators (a warp, or eight 4-wide vectors), then a binary tree over them.
template <class T>
double lanes32(const double* a, std::int64_t sa, const double* b, std::int64_t sb, std::int64_t k) {
  const Pairs<T> p{a, sa, b, sb};
  std::array<T, 32> lane{};
  for (std::int64_t l = 0; l < k; ++l) lane[l % 32] = p.add_fused(l, lane[l % 32]);
  for (int width = 16; width > 0; width /= 2)
    for (int i = 0; i < width; ++i) lane[i] += lane[i + width];
  return lane[0];
}

/// Four contiguous slices of K, each sequential, added in order.
template <class T>
double split_k4(const double* a, std::int64_t sa, const double* b, std::int64_t sb, std::int64_t k) {
  const Pairs<T> p{a, sa, b, sb};
  T sum = 0;
  for (std::int64_t s = 0; s < 4; ++s) sum += fused_range(p, k * s / 4, k * (s + 1) / 4);
  return sum;
}

Arithmetic nearest(DType t) {
  return {.operand = t, .accumulator = t, .split_format = t, .output = t};
}

Arithmetic tensor_core(DType operand, int block, int fraction_bits, Rounding rounding = Rounding::nearest) {
  return {.operand = operand,
          .operand_rounding = rounding,
          .accumulation = Accumulation::tensor_core,
          .block = block,
          .fraction_bits = fraction_bits};
}

constexpr std::string_view blas = "summation orders of BLAS libraries and GPU kernels; Higham 2002, ch. 4";
constexpr std::string_view published = "Khattak & Mikaitis, arXiv 2512.07004; Xie et al. (MMA-Sim), arXiv 2511.10909";

const std::array<Model, 17>& table() {
  static const std::array<Model, 17> models{{
      {"sequential", nearest(DType::f32), sequential<float>, blas},
      {"sequential_fma", nearest(DType::f32), sequential_fma<float>, blas},
      {"pairwise", nearest(DType::f32), pairwise<float>, blas},
      {"lanes32", nearest(DType::f32), lanes32<float>, blas},
      {"split_k4", nearest(DType::f32), split_k4<float>, blas},
      {"sequential_f64", nearest(DType::f64), sequential<double>, blas},
      {"sequential_fma_f64", nearest(DType::f64), sequential_fma<double>, blas},
      {"pairwise_f64", nearest(DType::f64), pairwise<double>, blas},
      {"lanes32_f64", nearest(DType::f64), lanes32<double>, blas},
      {"split_k4_f64", nearest(DType::f64), split_k4<double>, blas},
      // V100 multiplies fp16 only; A100 and H100 treat bf16 and fp16 alike; B200 and RTX Blackwell equal H100 here.
      {"v100", tensor_core(DType::f16, 4, 23), tensor_core_dot<4, 23>, published},
      {"a100", tensor_core(DType::bf16, 8, 24), tensor_core_dot<8, 24>, published},
      {"h100", tensor_core(DType::bf16, 16, 25), tensor_core_dot<16, 25>, published},
      // The unit ignores the 13 low bits of an fp32 operand (RZ); software may round them first (cvt.rna.tf32, cvt.rn.tf32).
      {"a100_tf32_rz", tensor_core(DType::tf32, 4, 24, Rounding::toward_zero), tensor_core_dot<4, 24>, published},
      {"a100_tf32_rna", tensor_core(DType::tf32, 4, 24, Rounding::nearest_away), tensor_core_dot<4, 24>, published},
      {"h100_tf32_rne", tensor_core(DType::tf32, 8, 25), tensor_core_dot<8, 25>, published},
      // e4m3 and e5m2 alike; 32 products, sums of 13 fraction bits: wgmma with fast accumulation.
      {"h100_fp8", tensor_core(DType::e5m2, 32, 13), tensor_core_dot<32, 13>, published},
  }};
  return models;
}

}  // namespace

std::span<const Model> all_models() {
  return table();
}

const Model* find_model(std::string_view name) {
  for (const Model& m : all_models())
    if (m.name == name) return &m;
  return nullptr;
}

double operand_value(const Model& m, double x) {
  return m.arithmetic.operand == DType::tf32 ? round_to(DType::tf32, x, m.arithmetic.operand_rounding) : x;
}

}  // namespace assay::models
