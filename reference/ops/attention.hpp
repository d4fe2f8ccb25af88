// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention: the truth every attention target is compared with, and how far correct arithmetic may be from
// it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/bound.hpp"
#include "reference/expected.hpp"

namespace assay::reference {

/// Keys first <= j < last; none when last <= first.
struct KeyRange {
  std::int64_t first = 0, last = 0;
};

/// o_i = sum_j y_j v_j, y = softmax_j(scale q_i.k_j + bias_ij) over the visible keys of query i.
/// Row-major, decoded exactly: q (batch,hq,sq,d), k (batch,hkv,skv,d), v (batch,hkv,skv,dv), bias (bias_heads,sq,skv).
/// Query head h uses key head h / (hq/hkv); bias_heads is 0, 1 (shared) or hq.
struct Attention {
  std::int64_t batch = 1, hq = 1, hkv = 1, sq = 0, skv = 0, d = 0, dv = 0;
  double scale = 1;
  DType compute = DType::f32;  // format that targets compute in: f32, or f64 for fp64 data
  // Keys, queries and values are independent draws of continuous laws, so errors of scores meet values of random sign.
  bool exchangeable = false;
  // Every score is one product of powers of two, V holds integers whose sums are exact: equal scores stay equal.
  bool exact_scores = false;
  bool magnitudes = true;  // false: values only, nothing that a bound needs
  std::int64_t bias_heads = 0;
  std::span<const double> q{}, k{}, v{}, bias{};
  std::span<const KeyRange> visible{};  // (batch,sq)
};

/// Value and magnitudes: the output (batch,hq,sq,dv), then the log-sum-exp (batch,hq,sq,1).
/// Numbers  fp64 products (Eigen) and exponentials; long double for compute = f64 (then value_lo is set).
/// Special  a row whose visible scores hold NaN or +Inf is NaN. A row without a visible key, or of nothing but -Inf, is NaN
/// with
///          Expected::other 0, its log-sum-exp -Inf. V must be finite.
/// Errors   throws std::invalid_argument if sizes disagree.
/// `rows` (of batch*hq*sq, sorted) restricts the work to those queries; empty = all.
/// Expected::sum_abs holds sum y|v|, sum_sq sum (y v)^2, further the members of AttentionRow in their order. One of the two
/// sums is taken and bounds the other: sum_sq of exchangeable data, else sum_abs.
std::vector<Expected> attention(const Attention&, std::vector<std::int64_t> rows = {});

/// A second, dumber implementation: long double, o = sum_j v_j / sum_i exp(s_i - s_j), the logarithms added one by one.
/// Output and log-sum-exp.
std::vector<std::vector<double>> attention_slow(const Attention&);

/// What the bounds are made of; docs/numerics.md, attention. G_j bounds the error of score j and of its argument in units of u.
enum AttentionRow : std::size_t {
  weighted,       // per element: sum (y G v)^2, G by chance, of exchangeable data; else sum y G |v|, G rigorous
  key_count,      // visible keys
  tie_count,      // c when c exact scores are the maximum and every other exponential is zero in the compute format; else 0
  row_max,        // largest score
  row_log_sum,    // log of the sum of exponentials
  root_sum,       // sqrt(sum y^2)
  mean_gap_of,    // sum y G, rigorous
  root_gap_of,    // sqrt(sum (y G)^2), by chance
  mean_argument,  // sum y (2.25 (max - s) + 4 (|scale q.k| + |bias|) + |max|)
  largest_gap,    // largest G, rigorous
  attention_row_members
};

/// Bounds of the output and of the log-sum-exp. `d`: length of a score's sum. Bound::iid is set for exchangeable data.
/// Errors   throws std::invalid_argument without magnitudes.
Bound attention_bound(const Expected&, const Arithmetic&, std::int64_t d, bool exchangeable);
Bound log_sum_exp_bound(const Expected&, const Arithmetic&, std::int64_t d, bool exchangeable);

}  // namespace assay::reference
