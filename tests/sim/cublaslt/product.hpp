// SPDX-License-Identifier: Apache-2.0
// What one batch entry of the double computes: D = f(alpha op(A) op(B) + beta C + bias), from host views of device memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "reference/dtype.hpp"

namespace assay::sim::lt {

/// Element (i,j) lies i*row + j*column elements from `at`.
struct View {
  std::byte* at = nullptr;
  DType format = DType::f32;
  std::int64_t row = 1, column = 1;

  double read(std::int64_t i, std::int64_t j) const;
  void write(std::int64_t i, std::int64_t j, double x) const;
};

enum class Function : std::uint8_t { none, relu, gelu };
enum class Partials : std::uint8_t { in_place, in_workspace };

struct Product {
  std::int64_t m = 0, n = 0, k = 0;
  View a, b, c, d;  // of op(A) (m,k) and op(B) (k,n)
  double alpha = 1, beta = 0;
  DType scale = DType::f32;     // format of alpha, beta and of what is done with them
  DType operands = DType::f32;  // what A and B become
  DType sums = DType::f32;      // the accumulator's format
  bool tensor_cores = false;    // one fused step per block of products instead of one addition per product
  int block = 8;
  int slices = 1;
  Partials partials = Partials::in_workspace;
  DType slice_format = DType::f32;
  std::byte* workspace = nullptr;  // slices of (m,n)
  const std::byte* bias = nullptr;
  Function function = Function::none;
  // Ways to be wrong.
  bool loses_last_product = false, loses_last_slice = false, reads_c = false, repeats_edge_row = false;
};

void compute(const Product&);

}  // namespace assay::sim::lt
