// SPDX-License-Identifier: Apache-2.0
// One-dimensional convolution (cross-correlation): the truth every conv1d target is compared with, and how far correct
// arithmetic may be from it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "reference/bound.hpp"
#include "reference/expected.hpp"

namespace assay::reference {

/// y[b,o,j] = bias[o] + sum over i, t of w[o,i,t] * x[b, g*cin/groups + i, j*stride - padl + t*dilation], g the group of o, x
/// zero outside 0..l-1. Logical operands in row-major order, decoded exactly: x (n,cin,l), w (cout,cin/groups,k), bias (cout)
/// or empty.
struct Conv1d {
  std::int64_t n = 1, cin = 0, cout = 0, l = 0, k = 1, stride = 1, dilation = 1, padl = 0, padr = 0, groups = 1;
  std::span<const double> x{}, w{}, bias{};

  std::int64_t output_length() const { return (l + padl + padr - dilation * (k - 1) - 1) / stride + 1; }
};

/// Value and magnitudes; as a product of w with the unrolled signal, so everything that reference::gemm says of numbers, NaN
/// and Inf holds. `rows`: of n*cout, sorted; empty = all. Expected::further holds Conv1dRow members per row. Errors   throws
/// std::invalid_argument if sizes disagree.
Expected conv1d(const Conv1d&, bool wide, std::vector<std::int64_t> rows = {});

/// A second, dumber implementation: direct loops in long double, taps in reverse.
std::vector<double> conv1d_slow(const Conv1d&);

/// What the bounds of transforms are made of, per output row (b, o); docs/numerics.md section 3.13. Finite elements only.
enum Conv1dRow : std::size_t {
  norm_2,     // sum over i of |x_i|_2 |w_i|_2
  norm_max,   // sum over i of max |x_i| max |w_i|
  norm_root,  // square root of the sum of their squares
  row_members
};

/// Without a transform that of a sum of products; with one, errors spread over the tile or the row. `c`: sizes only.
/// `exact`: integer fill whose every partial sum is representable.
Bound conv1d_bound(const Conv1d& c, const Expected&, const Arithmetic&, bool exchangeable, bool exact,
                   std::optional<DType> input = std::nullopt);

}  // namespace assay::reference
