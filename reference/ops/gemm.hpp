// SPDX-License-Identifier: Apache-2.0
// C = alpha * op(A) * op(B) + beta * C, batched: the truth every gemm target is compared with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/expected.hpp"

namespace assay::reference {

/// Logical operands in row-major order, decoded exactly: a (batch,m,k), b (batch,k,n), c (batch,m,n) or empty when beta = 0.
struct Gemm {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  double alpha = 1, beta = 0;
  std::span<const double> a{}, b{}, c{};
};

/// Value and magnitudes of alpha*A*B + beta*C.
/// Shapes   all outputs (batch,m,n); `rows` (of batch*m, sorted) restricts the work to those rows, empty = all.
/// Numbers  wide = false: fp64 products and sums (for targets up to fp32); wide = true: Dot2, two-product by FMA and two-sum.
///          alpha = 0 does not look at a, b; beta = 0 does not look at c.
/// Errors   throws std::invalid_argument if sizes disagree.
/// Source   Ogita, Rump & Oishi 2005 (Dot2); docs/numerics.md.
Expected gemm(const Gemm&, bool wide, bool magnitudes = true, std::vector<std::int64_t> rows = {});

/// A second, dumber implementation: plain triple loop, k outermost to innermost in reverse order, long double. Checks the
/// first.
std::vector<double> gemm_slow(const Gemm&);

}  // namespace assay::reference
