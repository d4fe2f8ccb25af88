// SPDX-License-Identifier: Apache-2.0
// GELU, SiLU and ReLU, with or without a bias per column: the truth, and how far correct arithmetic may be from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/bound.hpp"
#include "reference/expected.hpp"

namespace assay::reference {

enum class ActivationKind : std::uint8_t {
  gelu_erf,   // z/2 (1 + erf(z / sqrt 2))
  gelu_tanh,  // z/2 (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))): the root is the real number, 0.044715 the decimal
  silu,       // z / (1 + exp(-z))
  relu,       // max(0, z)
};

/// y = f(x + b). x is row-major, rows of length n; b has n elements, or none. Both decoded exactly.
struct Activation {
  std::int64_t rows = 0, n = 0;
  ActivationKind kind = ActivationKind::relu;
  DType compute = DType::f32;  // format that targets compute in: f32, or f64 for fp64 data
  std::span<const double> x{}, bias{};
};

/// Value and magnitudes.
/// Numbers  fp64; long double for compute = f64 (then value_lo is set). Left tails keep their relative accuracy.
/// Special  NaN gives NaN, +Inf gives +Inf. -Inf: relu 0; the others NaN, as -Inf * 0 gives, and Expected::other their limit 0.
/// Errors   throws std::invalid_argument if sizes disagree.
/// Expected::sum_abs is |x| + |b| where a sum is taken, else 0; Expected::further has the ActivationElement members.
Expected activation(const Activation&, std::vector<std::int64_t> rows = {});

/// A second, dumber implementation in long double: the normal distribution from its series and from Laplace's continued
/// fraction, 1 + tanh and the logistic function as exp(w) / cosh(w).
std::vector<double> activation_slow(const Activation&);

/// What the bound of an element is made of; docs/numerics.md, section on activations.
enum ActivationElement : std::size_t {
  argument,     // z = x + b, nearest fp64
  argument_lo,  // and what is left of it, exactly
  sensitivity,  // how much a relative error of the inner function's argument moves f(z)/z (silu: f(z)/f(z))
  element_members
};

/// Rigorous; no statistical gate, since an element is no sum.
Bound activation_bound(const Expected&, const Arithmetic&, ActivationKind);

}  // namespace assay::reference
