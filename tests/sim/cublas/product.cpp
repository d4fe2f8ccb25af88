// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/cublas/product.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "reference/models/accumulate.hpp"

namespace assay::sim::cublas {
namespace {

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// (outer, inner), inner contiguous, decoded exactly. `by_row`: outer counts rows.
std::vector<double> read(const Matrix& m, std::int64_t outer, std::int64_t inner, bool by_row) {
  std::vector<double> out(at(outer * inner));
  const std::int64_t size = static_cast<std::int64_t>(size_bytes(m.format));
  for (std::int64_t i = 0; i < outer; ++i)
    for (std::int64_t j = 0; j < inner; ++j) {
      const std::int64_t place = by_row ? i * m.row + j * m.column : j * m.row + i * m.column;
      out[at(i * inner + j)] = decode(m.format, load_bits(m.format, m.at + place * size));
    }
  return out;
}

bool subnormal(DType t, double x) {
  return x != 0 && std::fabs(x) < smallest_normal(t);
}

void spoil_operands(std::vector<double>& values, DType t, const Spoilt& s) {
  for (double& x : values) {
    if (s.swallows_nan && std::isnan(x)) x = 0;
    if (s.flushes && subnormal(t, x)) x = 0;
  }
}

const models::Model& tensor_core(Operands operands, int sm) {
  if (operands == Operands::tf32) return *models::find_model(sm < 90 ? "a100_tf32_rna" : "h100_tf32_rne");
  return *models::find_model(sm < 80 ? "v100" : sm < 90 ? "a100" : "h100");
}

void reduce_operands(std::vector<double>& values, const Arithmetic& a) {
  for (double& x : values) {
    if (a.operands == Operands::tf32) x = models::operand_value(tensor_core(a.operands, a.sm), x);
    if (a.operands == Operands::f16) x = round_to(DType::f16, x);
    if (a.operands == Operands::bf16) x = round_to(DType::bf16, x);
  }
}

DType sum_format(const Arithmetic& a) {
  return a.sums == Sums::f64 ? DType::f64 : a.sums == Sums::f16 ? DType::f16 : DType::f32;
}

using Dot = std::function<double(const double* a, const double* b, std::int64_t k)>;

template <class T>
double fused(const double* a, const double* b, std::int64_t k) {
  T sum = 0;
  for (std::int64_t l = 0; l < k; ++l) sum = std::fma(static_cast<T>(a[l]), static_cast<T>(b[l]), sum);
  return sum;
}

double fused_f16(const double* a, const double* b, std::int64_t k) {
  double sum = 0;
  for (std::int64_t l = 0; l < k; ++l) sum = round_to(DType::f16, a[l] * b[l] + sum);  // exact product of two fp16
  return sum;
}

/// Each fp32 as the sum of three bf16; the nine products of their parts from small to large, on tensor cores.
double nine_products(const double* a, const double* b, std::int64_t k, int sm) {
  const auto finite = [k](const double* v) { return std::all_of(v, v + k, [](double x) { return std::isfinite(x); }); };
  if (!finite(a) || !finite(b)) return fused<float>(a, b, k);  // parts of Inf would be NaN
  std::array<std::vector<double>, 3> left, right;
  for (auto& [parts, whole] : {std::pair{&left, a}, std::pair{&right, b}}) {
    std::vector<double> rest(whole, whole + k);
    for (std::vector<double>& part : *parts)
      for (double& x : rest) {
        part.push_back(round_to(DType::bf16, x));
        x -= part.back();
      }
  }
  float sum = 0;
  for (std::size_t order = 5; order-- > 0;)
    for (std::size_t i = 0; i < 3; ++i)
      if (const std::size_t j = order - i; i <= order && j < 3)
        sum += static_cast<float>(
            tensor_core(Operands::three_bf16, std::max(sm, 80)).dot(left[i].data(), 1, right[j].data(), 1, k));
  return sum;
}

/// From the highest to the lowest bit that any of these needs, as one fixed-point format of them all; 0: none has any.
int bits_needed(const double* v, std::int64_t k) {
  int highest = -5000, lowest = 5000;
  for (std::int64_t l = 0; l < k; ++l) {
    if (v[l] == 0) continue;
    if (!std::isfinite(v[l])) return 5000;
    const std::uint64_t significand = (std::bit_cast<std::uint64_t>(v[l]) & 0xFFFFFFFFFFFFF) | 0x10000000000000;
    const int exponent = std::ilogb(v[l]);
    highest = std::max(highest, exponent), lowest = std::min(lowest, exponent - 52 + std::countr_zero(significand));
  }
  return std::max(0, highest - lowest + 1);
}

int lowest_bit(const double* v, std::int64_t k) {
  int lowest = 5000;
  for (std::int64_t l = 0; l < k; ++l)
    if (v[l] != 0)
      lowest =
          std::min(lowest, std::ilogb(v[l]) - 52 +
                               std::countr_zero((std::bit_cast<std::uint64_t>(v[l]) & 0xFFFFFFFFFFFFF) | 0x10000000000000));
  return lowest;
}

double fixed_point_dot(const double* a, const double* b, std::int64_t k) {
  const int low_a = lowest_bit(a, k), low_b = lowest_bit(b, k);
  if (low_a == 5000 || low_b == 5000) return 0;
  __int128 sum = 0;
  for (std::int64_t l = 0; l < k; ++l)
    sum += static_cast<__int128>(std::ldexp(a[l], -low_a)) * static_cast<__int128>(std::ldexp(b[l], -low_b));
  return std::ldexp(static_cast<double>(sum), low_a + low_b);
}

constexpr int most_mantissa_bits = 48;  // so that 2^31 products fit 128 bits

/// Bits that every row of op(A) and column of op(B) needs to be held exactly; -1: more than there are.
int fixed_point_bits(const std::vector<double>& a, const std::vector<double>& b, std::int64_t m, std::int64_t n,
                     std::int64_t k) {
  int bits = 0;
  for (std::int64_t i = 0; i < m; ++i) bits = std::max(bits, bits_needed(a.data() + i * k, k));
  for (std::int64_t j = 0; j < n; ++j) bits = std::max(bits, bits_needed(b.data() + j * k, k));
  return bits <= most_mantissa_bits ? bits : -1;
}

Dot dot_of(const Arithmetic& a) {
  if (a.operands == Operands::fixed_point) return fixed_point_dot;
  if (a.operands == Operands::three_bf16)
    return [sm = a.sm](const double* x, const double* y, std::int64_t k) { return nine_products(x, y, k, sm); };
  switch (a.sums) {
    case Sums::f64:
      return fused<double>;
    case Sums::f32:
      return fused<float>;
    case Sums::f16:
      return fused_f16;
    case Sums::tensor_core:
      break;
  }
  return [&model = tensor_core(a.operands, a.sm)](const double* x, const double* y, std::int64_t k) {
    return model.dot(x, 1, y, 1, k);
  };
}

/// The sum in its slices, whose partial results are stored in the format of C when there are several.
double sum_of(const Product& p, const Dot& dot, const double* a, const double* b) {
  const std::int64_t k = p.spoilt.loses_last_product && p.k > 1 ? p.k - 1 : p.k;
  const int slices = p.arithmetic.slices;
  if (slices < 2) return dot(a, b, k);
  double sum = 0;
  for (int s = 0; s < slices; ++s) {
    const std::int64_t from = k * s / slices, to = k * (s + 1) / slices;
    sum = round_to(p.c_format, sum + round_to(p.c_format, dot(a + from, b + from, to - from)));
  }
  return sum;
}

std::byte* element(const Product& p, std::int64_t i, std::int64_t j) {
  return p.c + (i * p.c_row + j * p.c_column) * static_cast<std::int64_t>(size_bytes(p.c_format));
}

void store(const Product& p, std::int64_t i, std::int64_t j, double value) {
  const double rounded = round_to(p.c_format, value);
  store_bits(p.c_format, element(p, i, j),
             encode(p.c_format, p.spoilt.flushes && subnormal(p.c_format, rounded) ? 0 : rounded));
}

void compute_element(const Product& p, std::int64_t i, std::int64_t j, double sum) {
  const DType f = p.arithmetic.scalar;
  const bool reads_c = (p.beta != 0 || p.spoilt.beta_zero_reads_c) && !p.spoilt.ignores_beta;
  double c = reads_c ? decode(p.c_format, load_bits(p.c_format, element(p, i, j))) : 0;
  if (p.spoilt.swallows_nan && std::isnan(c)) c = 0;
  if (p.spoilt.flushes && subnormal(p.c_format, c)) c = 0;
  const double scaled = p.alpha == 0 ? 0 : round_to(f, p.alpha * sum);
  store(p, i, j, reads_c ? round_to(f, scaled + round_to(f, p.beta * c)) : scaled);
}

void flip_a_bit(const Product& p) {
  std::byte* const place = element(p, p.m / 2, p.n / 2) + size_bytes(p.c_format) - 1;
  *place ^= std::byte{4};  // an exponent bit in every format
}

}  // namespace

int compute(const Product& p) {
  if (p.m == 0 || p.n == 0) return -1;
  const bool reads_ab = p.alpha != 0 && p.k > 0;
  std::vector<double> a, b;
  Product q = p;
  int bits = -1;
  if (reads_ab) {
    a = read(p.a, p.m, p.k, true), b = read(p.b, p.n, p.k, false);
    spoil_operands(a, p.a.format, p.spoilt), spoil_operands(b, p.b.format, p.spoilt);
    reduce_operands(a, p.arithmetic), reduce_operands(b, p.arithmetic);
    if (p.arithmetic.operands == Operands::fixed_point) {
      bits = fixed_point_bits(a, b, p.m, p.n, p.k);
      if (bits < 0) q.arithmetic.operands = Operands::as_they_are;
    }
  }
  const Dot dot = dot_of(q.arithmetic);
  const DType sums = sum_format(q.arithmetic);
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      const bool repeated = p.spoilt.repeats_edge_row && i == p.m - 1 && p.m % 32 != 0 && i > 0;
      const std::int64_t row = repeated ? i - 1 : i;
      const double sum = reads_ab ? sum_of(q, dot, a.data() + row * p.k, b.data() + j * p.k) : 0;
      compute_element(q, i, j, p.spoilt.flushes && subnormal(sums, sum) ? 0 : sum);
    }
  if (p.spoilt.flips_a_bit) flip_a_bit(p);
  if (p.spoilt.overruns) store(p, p.m, p.n - 1, 1);
  return bits;
}

}  // namespace assay::sim::cublas
