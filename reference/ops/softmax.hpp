// SPDX-License-Identifier: Apache-2.0
// Row-wise softmax and log-softmax: the truth every softmax target is compared with, and how far correct arithmetic may be from
// it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/bound.hpp"
#include "reference/expected.hpp"

namespace assay::reference {

/// y_i = exp(x_i - max) / S, S = sum exp(x_j - max); log: (x_i - max) - log S. x is row-major, rows of length n, decoded
/// exactly.
struct Softmax {
  std::int64_t rows = 0, n = 0;
  bool log = false;
  DType compute = DType::f32;  // format that targets compute in: f32, or f64 for fp64 data
  std::span<const double> x{};
};

/// Value and magnitudes.
/// Numbers  fp64, two passes, maximum subtracted; long double for compute = f64 (then value_lo is set).
/// Special  a row with NaN or +Inf, and a row of nothing but -Inf, is NaN (IEEE 754); for the latter Expected::other is 0, or
///          -Inf for log. One -Inf among others gives 0, or -Inf.
/// Errors   throws std::invalid_argument if sizes disagree.
/// Expected::sum_abs holds X_i = max - x_i, Expected::further the rows' SoftmaxRow members in their order.
Expected softmax(const Softmax&, std::vector<std::int64_t> rows = {});

/// A second, dumber implementation, long double, quadratic, without a maximum: y_i = 1 / sum_j exp(x_j - x_i);
/// log: the terms are added one by one as logarithms.
std::vector<double> softmax_slow(const Softmax&);

/// What the bound of a row is made of; docs/numerics.md section 3.9.
enum SoftmaxRow : std::size_t {
  mean_gap,    // sum y_j X_j
  log_sum,     // log S
  additions,   // error of summation in any order, in units of u S
  spread,      // square root of sum c_v^2 over the values v of the row whose exponential is above u S, c_v elements each
  small_part,  // what exponentials below u S can add to the error of summation, in units of u S
  rescales,    // sum y_j (number of distinct values above x_j): rescalings that a running maximum can cost
  ties,        // c when c elements are the maximum and every other exponential is zero in the compute format; else 0
  row_members
};

/// Bound::hard holds for any row and any order; Bound::iid for rows whose values stand in random order, as every family's do.
/// `exact_arguments`: x - max is exact for every element.
Bound softmax_bound(const Expected&, const Arithmetic&, bool log, bool exact_arguments);

}  // namespace assay::reference
