// SPDX-License-Identifier: Apache-2.0
// Transposed 1-d convolution: the truth every conv_transpose1d target is compared with.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/expected.hpp"

namespace assay::reference {

/// y[b,co,t] = bias[co] + sum of x[b,ci,i] * w[ci,co,r] over ci of co's group and all (i, r) with
/// i*stride + r*dilation = t + padl. Logical operands in row-major order, decoded exactly: x (n,cin,l), w (cin,cout/groups,k),
/// bias (cout) or empty. padl, padr crop the full output; outpad adds outputs on the right.
struct ConvTranspose1d {
  std::int64_t n = 1, cin = 1, cout = 1, l = 1, k = 1;
  std::int64_t stride = 1, dilation = 1, padl = 0, padr = 0, outpad = 0, groups = 1;
  std::span<const double> x{}, w{}, bias{};

  std::int64_t lout() const { return (l - 1) * stride - padl - padr + dilation * (k - 1) + 1 + outpad; }
  /// Largest number of (i, r) that meet in one output of the full result. Solutions of i*stride + r*dilation = const lie
  /// dilation/g apart in i and stride/g in r, g the greatest common divisor.
  std::int64_t most_taps() const;
};

/// Value and magnitudes; all outputs (n,cout,lout), or those of the given rows (of n*cout, sorted).
/// Numbers  fp64 products and sums; wide: Dot2 and double-double sums.
/// Special  an output is NaN or Inf by IEEE 754 from its own terms only; one that no term reaches is its bias, or 0.
/// Errors   throws std::invalid_argument if sizes disagree.
Expected conv_transpose1d(const ConvTranspose1d&, bool wide, std::vector<std::int64_t> rows = {});

/// A second, dumber implementation: by the definition, in long double.
std::vector<double> conv_transpose1d_slow(const ConvTranspose1d&);

}  // namespace assay::reference
