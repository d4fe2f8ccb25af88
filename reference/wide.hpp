// SPDX-License-Identifier: Apache-2.0
// Error-free transformations: a product or sum of doubles as an unevaluated pair hi + lo, exactly (no overflow, no underflow).
#pragma once

#include <cmath>

namespace assay {

struct DoubleDouble {
  double hi = 0, lo = 0;
};

/// a * b = hi + lo (Ogita, Rump & Oishi 2005, TwoProductFMA).
inline DoubleDouble two_product(double a, double b) {
  const double p = a * b;
  return {p, std::fma(a, b, -p)};
}

/// a + b = hi + lo (Knuth's TwoSum, no condition on the magnitudes).
inline DoubleDouble two_sum(double a, double b) {
  const double s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}

}  // namespace assay
