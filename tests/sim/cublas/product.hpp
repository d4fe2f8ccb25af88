// SPDX-License-Identifier: Apache-2.0
// What the cuBLAS double computes: C = alpha op(A) op(B) + beta C, column-major, from host views of device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reference/dtype.hpp"

namespace assay::sim::cublas {

/// A stored matrix: element (i,j) lies i*row + j*column elements from `at`.
struct Matrix {
  const std::byte* at = nullptr;
  DType format = DType::f32;
  std::int64_t row = 1, column = 1;
};

/// What the operands become before they are multiplied.
enum class Operands : std::uint8_t { as_they_are, tf32, f16, bf16, three_bf16, fixed_point };
/// How products are added: one after the other with fused multiply-adds in this format, or as a tensor core of the device does.
enum class Sums : std::uint8_t { f64, f32, f16, tensor_core };

struct Arithmetic {
  Operands operands = Operands::as_they_are;
  Sums sums = Sums::f32;
  DType scalar = DType::f32;  // format of alpha, beta and of what is done with them
  int slices = 1;             // of split-K, whose partial sums are stored in the format of C
  int sm = 120;
};

/// Ways to be wrong.
struct Spoilt {
  bool loses_last_product = false;  // of every sum of two or more
  bool beta_zero_reads_c = false, ignores_beta = false;
  bool swallows_nan = false;      // a NaN operand counts as 0
  bool flushes = false;           // subnormal operands and results count as 0
  bool repeats_edge_row = false;  // the last row of a tile of 32 that is not full repeats the row before
  bool flips_a_bit = false;       // in the middle element
  bool overruns = false;          // one element after the last is written
};

struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  double alpha = 1, beta = 0;
  Matrix a, b;             // of op(A) (m,k) and op(B) (k,n)
  std::byte* c = nullptr;  // (m,n)
  DType c_format = DType::f32;
  std::int64_t c_row = 1, c_column = 1;
  Arithmetic arithmetic;
  Spoilt spoilt;
};

/// Returns the number of mantissa bits of fixed-point emulation, -1 where it was not used.
int compute(const Product&);

}  // namespace assay::sim::cublas
