// SPDX-License-Identifier: Apache-2.0
// The epilogue of gemm, f(alpha*A*B + beta*C + bias): its truth, its bound, and f as the targets in this binary compute it.
#pragma once

#include <cmath>
#include <numbers>

#include "probes/ops/gemm/gemm.hpp"
#include "reference/expected.hpp"

namespace assay::gemm {

/// From the truth of z = alpha*A*B + beta*C to that of f(z + bias). `bias` (batch,n) decoded, empty when the call has none.
/// Expected::further keeps z + bias and what the bound of f needs; the other magnitudes stay those of the sum.
Expected with_epilogue(const Call&, Expected z, const std::vector<double>& bias);

/// Bound of an expectation of with_epilogue. `exact`: the sum and its bias are exact in any order.
Bound epilogue_bound(const Call&, const Expected&, const Arithmetic&, bool exchangeable, bool exact);

/// f in the arithmetic of T, with libm.
template <class T>
T activated(Activation f, T z) {
  switch (f) {
    case Activation::none:
      break;
    case Activation::relu:
      return z < 0 ? T{0} : z;  // NaN stays
    case Activation::gelu_erf:
      return z / 2 * (1 + std::erf(z * (1 / std::numbers::sqrt2_v<T>)));
    case Activation::gelu_tanh:
      return z / 2 * (1 + std::tanh(T(0.797884560802865356) * (z + T(0.044715) * z * z * z)));
  }
  return z;
}

}  // namespace assay::gemm
