// SPDX-License-Identifier: Apache-2.0
// Per output element: the true value in wide arithmetic, and the magnitudes that its error bound is made of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

namespace assay {

/// resize(n) leaves new numbers as they are: many threads write them for the first time, where one would fill zeros first.
struct Unfilled : std::allocator<double> {
  template <class T>
  struct rebind {
    using other = Unfilled;
  };
  static void construct(double* at) { ::new (at) double; }
  static void construct(double* at, double x) { ::new (at) double(x); }
};
using Numbers = std::vector<double, Unfilled>;
inline bool operator==(const Numbers& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

/// All vectors are row-major over the output's logical dims, or over `rows` of it when rows is not empty
/// (then element e belongs to logical index rows[e / row_length] * row_length + e % row_length).
struct Expected {
  Numbers value;                 // exact to far below the target's u
  Numbers value_lo;              // fp64 outputs: value + value_lo is the double-double result; empty otherwise
  Numbers sum_abs;               // S = |alpha| sum |a||b|; NaN where an operand is NaN or Inf (the class of value then decides)
  Numbers sum_sq;                // R2 = alpha^2 sum (a b)^2
  Numbers addend;                // |beta c|; empty when beta = 0
  std::vector<Numbers> further;  // magnitudes of an op's own, per element or per row as that op says
  Numbers other;                 // a second value that some conventions give (NaN: none); empty: nowhere
  std::vector<std::int64_t> rows;
  std::int64_t row_length = 0;
  std::int64_t terms = 0;  // k, length of one sum
  // What absolute errors (underflow, flushing) and intermediate overflow are scaled by:
  double abs_alpha = 1;      // |alpha|
  double largest_input = 1;  // largest finite |a| or |b|, at least 1
};

}  // namespace assay
