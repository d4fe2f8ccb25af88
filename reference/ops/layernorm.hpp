// SPDX-License-Identifier: Apache-2.0
// Layer and RMS normalisation along rows: the truth every such target is compared with, and how far correct arithmetic may be
// from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/bound.hpp"
#include "reference/expected.hpp"

namespace assay::reference {

/// layer: y_i = (x_i - mean) rstd g_i + b_i, rstd = 1 / sqrt(variance + eps), variance = sum (x - mean)^2 / n (biased).
/// rms:   y_i = x_i rstd g_i, rstd = 1 / sqrt(sum x^2 / n + eps).
/// x is row-major, rows of length n, decoded exactly; gamma and beta have length n or are empty (1 and 0).
struct LayerNorm {
  std::int64_t rows = 0, n = 0;
  bool rms = false;
  double eps = 0;
  DType compute = DType::f32;  // format that targets compute in: f32, or f64 for fp64 data
  std::span<const double> x{}, gamma{}, beta{};
};

/// One value per element, and one mean (layer only) and one rstd per row.
struct LayerNormTruth {
  Expected y, mean, rstd;
};

/// Values and magnitudes.
/// Numbers  fp64, two passes, sums in blocks; long double for compute = f64 (then value_lo is set).
/// Special  a row with NaN is NaN. A row with Inf: layer NaN (its mean Inf or NaN, by order: left open); rms 0, NaN where Inf
///          stands, rstd 0 (IEEE 754). variance + eps = 0 is 0/0: left open.
/// Errors   throws std::invalid_argument if sizes disagree.
/// Expected::further holds the rows' NormRow members in their order; for y then |gamma| and beta per column.
LayerNormTruth layernorm(const LayerNorm&, std::vector<std::int64_t> rows = {});

/// A second, dumber implementation of y, long double, quadratic, without a mean: x_i - mean = sum_j (x_i - x_j) / n,
/// variance = sum_{i<j} (x_i - x_j)^2 / n^2.
std::vector<double> layernorm_slow(const LayerNorm&);

/// What the bound of a row is made of; docs/numerics.md section 3.14.
enum NormRow : std::size_t {
  norm_mean,
  norm_mean_abs,
  norm_mean_square,
  norm_variance,
  norm_spread,         // layer: square root of sum c_v^2 over the values v of the row, c_v elements each
  norm_mean_bias,      // layer: error of the mean from values whose additions err alike
  norm_square_spread,  // as norm_spread, over the squares that are summed, as far as they are above u of their sum
  norm_square_bias,    // what squares err alike, and what squares of a running mean lose, in units of u of that sum
  norm_exact_sums,     // 1: layer: a constant row whose sum and mean are exact in any order; rms: sums of squares are exact
  norm_row_members
};

/// Bounds of y, mean and rstd; `output`: the format they are stored in.
/// Bound::hard holds for any row and any order; Bound::iid for rows whose values stand in random order, as every family's do.
Bound layernorm_bound(const Expected& y, const Arithmetic&, DType output, bool rms, double eps);
Bound norm_mean_bound(const Expected& mean, const Arithmetic&, DType output, std::int64_t n, double eps);
Bound norm_rstd_bound(const Expected& rstd, const Arithmetic&, DType output, std::int64_t n, bool rms, double eps);

}  // namespace assay::reference
