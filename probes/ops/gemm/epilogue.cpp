// SPDX-License-Identifier: Apache-2.0
#include "probes/ops/gemm/epilogue.hpp"

#include <algorithm>

#include "reference/ops/activation.hpp"
#include "reference/wide.hpp"

namespace assay::gemm {

namespace {

/// Largest slope of GELU, either form: 1.1289 at z = sqrt 2 and 1.1290 near it. ReLU's is 1.
constexpr double steepest_gelu = 1.13;

reference::ActivationKind kind_of(Activation f) {
  return f == Activation::relu       ? reference::ActivationKind::relu
         : f == Activation::gelu_erf ? reference::ActivationKind::gelu_erf
                                     : reference::ActivationKind::gelu_tanh;
}

void add_bias(const Call& c, Expected& z, const std::vector<double>& bias) {
  if (z.addend.empty()) z.addend.assign(z.value.size(), 0);
  z.terms += c.beta != 0;  // one more addition than product_sum_bound knows of
  for (std::size_t e = 0; e < z.value.size(); ++e) {
    const auto n = static_cast<std::size_t>(c.n);
    const std::size_t at = e / n, row = z.rows.empty() ? at : static_cast<std::size_t>(z.rows[at]);
    const double b = bias[row / static_cast<std::size_t>(c.m) * n + e % n];
    const DoubleDouble sum = two_sum(z.value[e], b);
    z.addend[e] += std::fabs(b);
    if (z.value_lo.empty() || !std::isfinite(sum.hi)) {
      z.value[e] = sum.hi;
    } else {
      const DoubleDouble whole = two_sum(sum.hi, sum.lo + z.value_lo[e]);
      z.value[e] = whole.hi, z.value_lo[e] = whole.lo;
    }
  }
}

}  // namespace

Expected with_epilogue(const Call& c, Expected z, const std::vector<double>& bias) {
  if (c.bias) add_bias(c, z, bias);
  if (c.activation == Activation::none) return z;
  const auto count = static_cast<std::int64_t>(z.value.size());
  Expected y = reference::activation({.rows = 1,
                                      .n = count,
                                      .kind = kind_of(c.activation),
                                      .compute = c.out == DType::f64 ? DType::f64 : DType::f32,
                                      .x = z.value});
  z.further = std::move(y.further);
  z.further.insert(z.further.begin(), std::move(z.value));
  z.value = std::move(y.value);
  if (!z.value_lo.empty() && c.activation != Activation::relu) z.value_lo = std::move(y.value_lo);
  if (c.activation == Activation::relu)
    for (std::size_t e = 0; e < z.value_lo.size(); ++e)
      if (z.value[e] == 0) z.value_lo[e] = 0;
  return z;
}

Bound epilogue_bound(const Call& c, const Expected& e, const Arithmetic& arithmetic, bool exchangeable, bool exact) {
  if (c.activation == Activation::none) return product_sum_bound(e, arithmetic, exchangeable, exact, c.in);
  // f is applied before the result is rounded to the format of C.
  Arithmetic inside = arithmetic;
  inside.output = arithmetic.accumulator;
  Expected z = e;
  z.value = e.further.front();
  z.further.clear();
  Bound b = product_sum_bound(z, inside, exchangeable, exact, c.in);
  const bool relu = c.activation == Activation::relu;
  if (b.exact && relu) return b;
  b.exact = false;
  z.further.assign(e.further.begin() + 1, e.further.end());
  z.value = e.value;
  for (double& s : z.sum_abs) s = std::isnan(s) ? s : 0;  // no bias of its own: the sum above has it
  const Bound f = reference::activation_bound(z, inside, kind_of(c.activation));
  const bool narrow = format(arithmetic.output).precision < format(arithmetic.accumulator).precision;
  const double u_out = narrow ? unit_roundoff(arithmetic.output) : 0,
               absolute = narrow ? smallest_subnormal(arithmetic.output) / 2 : 0, slope = relu ? 1 : steepest_gelu;
  // f(z + d) is within slope |d| of f(z); f itself errs at z + d as at z, to second order, which the one per cent covers. What
  // the nearest fp64 of z leaves out is below 2^-53 |z|.
  const auto through = [&](double of_sum, std::size_t i) {
    const double inner = slope * of_sum + 1.01 * f.hard[i] + (relu ? 0 : 0x1p-53 * std::fabs(e.further.front()[i]));
    return inner + u_out * (std::fabs(e.value[i]) + inner) + absolute;
  };
  for (std::size_t i = 0; i < b.hard.size(); ++i) b.hard[i] = through(b.hard[i], i);
  for (std::size_t i = 0; i < b.iid.size(); ++i) b.iid[i] = through(b.iid[i], i);
  // The statistics of a sum say nothing once f has squeezed half of the outputs.
  b.statistic.clear();
  b.rms_gate = b.out_rms_gate = 0;
  return b;
}

}  // namespace assay::gemm
