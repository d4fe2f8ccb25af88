// SPDX-License-Identifier: Apache-2.0
// T_hard, T_iid and the RMS denominators of alpha*A*B + beta*C; docs/numerics.md sections 3 and 4 derive every line.
#include "reference/bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>

namespace assay {
namespace {

constexpr double u64 = 0x1p-53;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// What does not depend on the element.
struct Terms {
  double k = 0;
  bool has_addend = false;
  double u_acc = 0, u_out = 0, u_split = 0, u_operand = 0;  // u_out, u_split, u_operand: 0 when nothing is rounded there
  double steps = 0, step_error = 0;                         // tensor core: fused steps, g
  double splits = 1;
  double absolute = 0;  // underflow of products, operands, scaled values
  double output_absolute = 0;
  double hard_factor = 0;  // T_hard before the output = hard_factor * (S + |beta c|)
  bool tensor_core = false;
  bool integer = false, scaled = false;  // sums in an integer format; alpha or beta*c follows
  bool truncated_operands = false;
};

bool narrower(DType t, DType than) {
  return format(t).precision < format(than).precision;
}

/// (1+u)^n - 1: n factors (1+d), |d| <= u, cannot move a number by more. At most n u / (1 - n u), Higham's gamma_n.
double growth(double n, double u) {
  return std::expm1(n * std::log1p(u));
}

/// (1+a)(1+b) - 1.
double compose(double a, double b) {
  return a + b + a * b;
}

double hard_factor(const Terms& t, bool fp64_reference) {
  // Roundings that one product can meet: its own, alpha, k - 1 additions to its fellows and one to beta*c.
  double f = growth(t.k + 1 + (t.has_addend ? 1 : 0), t.u_acc);
  // Integers add exactly; what scales the sum works in fp32: the conversion of the sum, alpha, beta*c, their addition.
  if (t.integer) f = t.scaled ? growth(4, t.u_acc) : 0;
  // Tensor core: a step errs by at most g times all it adds; then split-K additions, alpha, the addition of beta*c.
  if (t.tensor_core) f = compose(growth(t.steps, t.step_error), growth(t.splits + 1 + (t.has_addend ? 1 : 0), t.u_acc));
  f = compose(f, growth(2, t.u_operand));       // both operands
  f = compose(f, growth(t.splits, t.u_split));  // each partial stored, then added, in split_format
  if (fp64_reference) f = compose(f, growth(t.k + 2, u64));
  return f;
}

Terms terms_of(const Expected& e, const Arithmetic& a, std::optional<DType> input) {
  Terms t;
  t.k = static_cast<double>(e.terms);
  t.has_addend = !e.addend.empty();
  t.u_acc = unit_roundoff(a.accumulator);
  t.tensor_core = a.accumulation == Accumulation::tensor_core;
  t.integer = is_integer(a.accumulator);
  t.scaled = t.has_addend || e.abs_alpha != 1;
  if (t.integer) t.u_acc = t.scaled ? unit_roundoff(DType::f32) : 0;
  if (t.integer && (t.tensor_core || a.splits > 1 || !is_integer(a.operand)))
    throw std::invalid_argument("bound: an integer accumulator adds integer operands in one piece, got " + describe(a));
  t.splits = std::max(1, a.splits);
  if (narrower(a.output, a.accumulator)) {
    t.u_out = unit_roundoff(a.output);
    t.output_absolute = smallest_subnormal(a.output) / 2;
  }
  if (a.splits > 1 && narrower(a.split_format, a.accumulator)) t.u_split = unit_roundoff(a.split_format);
  if (t.tensor_core) {
    if (a.block < 1 || a.fraction_bits < 1)
      throw std::invalid_argument("bound: a tensor-core arithmetic needs block and fraction_bits, got " + describe(a));
    t.steps = std::ceil(t.k / a.block) + (a.splits > 1 ? t.splits : 0);
    // RZ to fp32 errs by up to one ulp, 2u; a narrower accumulator is rounded to nearest, u.
    // An fp32 that keeps only F < 23 fraction bits (e8m13) errs by up to 2^-F.
    const double final_rounding =
        a.accumulator == DType::f32 ? std::max(2 * t.u_acc, std::ldexp(1.0, -a.fraction_bits)) : t.u_acc;
    t.step_error = (a.block + 1) * std::ldexp(1.0, -a.fraction_bits) + final_rounding;
  }
  // A product, a scaled operand, alpha*sum or beta*c that underflows errs by at most one subnormal step, which whatever
  // multiplies it afterwards (alpha; the other operand, when alpha was applied to one) enlarges.
  const double enlarged = std::max(1.0, e.abs_alpha) * e.largest_input;
  if (!t.integer) t.absolute = (t.k + 2) * smallest_subnormal(a.accumulator) * (e.abs_alpha == 1 ? 1 : enlarged);
  if (input && narrower(a.operand, *input)) {
    t.truncated_operands = a.operand_rounding == Rounding::toward_zero;
    const double steps = t.truncated_operands ? 2 : 1;  // RZ errs by up to one ulp, twice what RN does
    t.u_operand = steps * unit_roundoff(a.operand);
    t.absolute += steps * t.k * smallest_subnormal(a.operand) * enlarged;
  }
  const bool fp64_reference = e.value_lo.empty() && !t.integer;  // sums of integers below 2^53 are exact in fp64
  t.hard_factor = hard_factor(t, fp64_reference);
  if (fp64_reference) t.u_acc += u64;  // the fp64 reference rounds like one more accumulator
  return t;
}

/// What alpha made of one unit of the sum.
double scale(const Expected& e) {
  return e.abs_alpha > 0 ? e.abs_alpha : 1;
}

/// sqrt(a^2 + b^2 + c^2), scaled so that nothing overflows. (std::hypot binds to GLIBC_2.35, newer than a release may need.)
double root_sum_squares(double a, double b, double c = 0) {
  const double largest = std::max({std::fabs(a), std::fabs(b), std::fabs(c)});
  if (!(largest > 0) || std::isinf(largest)) return largest;
  a /= largest, b /= largest, c /= largest;
  return largest * std::sqrt(a * a + b * b + c * c);
}

/// Magnitudes of one element. `dot` is at least the size of its alpha*A*B part (the sign of beta*c is not kept).
struct Magnitudes {
  double value, sum_abs, root_sq, addend, dot;
};

Magnitudes magnitudes(const Expected& e, std::size_t i) {
  const double v = std::fabs(e.value[i]), s = e.sum_abs[i], add = e.addend.empty() ? 0 : e.addend[i];
  // sqrt(R2) <= S. Squares that left fp64's range say nothing: then S stands in.
  const double r = e.sum_sq[i] > 0x1p-900 && e.sum_sq[i] < 0x1p1000 ? std::min(s, std::sqrt(e.sum_sq[i])) : s;
  return {v, s, r, add, std::min(s, v + add)};
}

/// RMS size of a running partial sum of exchangeable terms: a random walk pinned at `dot` after k steps.
double partial_sum(const Magnitudes& m) {
  return root_sum_squares(m.dot / std::sqrt(3.0), m.root_sq / std::sqrt(6.0), m.addend);
}

/// Scale of what accumulation leaves when its terms are exchangeable, times the constants of `nearest` and `fused`.
double iid_scale(const Terms& t, const Magnitudes& m, double nearest, double fused, double operand) {
  const double k = std::max(1.0, t.k), p = partial_sum(m);
  double sum;
  if (t.tensor_core) {
    // root_sq is at least the largest product, which the exact formula asks for.
    const double epilogue = (t.splits + 2) * t.u_acc * (m.dot + m.addend);
    sum = fused * (t.steps * t.step_error * p + t.step_error * m.root_sq) + epilogue;
  } else {
    // k additions to partial sums, k products (R2/k each), then alpha*sum and the addition of beta*c.
    const double inner = std::sqrt(k) * root_sum_squares(p, m.root_sq / std::sqrt(k));
    sum = nearest * t.u_acc * root_sum_squares(inner, m.dot, m.value);
  }
  if (t.u_split > 0)  // the same law with `splits` terms, each partial of mean square (R2 + dot^2/splits)/splits
    sum += nearest * t.u_split * std::sqrt(t.splits) * root_sum_squares(p, m.root_sq / std::sqrt(t.splits), m.dot / t.splits);
  // Truncated operands shrink every product, on average by less than (1 + u)^2 - 1: a bias on the sum itself.
  if (t.truncated_operands) sum += growth(2, t.u_operand) * m.dot;
  return sum + operand * t.u_operand * m.root_sq;
}

double with_output(const Terms& t, const Magnitudes& m, double sum) {
  return sum + t.u_out * (m.value + sum) + t.output_absolute;
}

}  // namespace

Bound product_sum_bound(const Expected& e, const Arithmetic& a, bool exchangeable, bool exact, std::optional<DType> input) {
  const std::size_t count = e.value.size();
  if (e.sum_abs.size() != count || e.sum_sq.size() != count || (!e.addend.empty() && e.addend.size() != count))
    throw std::invalid_argument("bound: the expectation has no magnitudes (" + std::to_string(e.sum_abs.size()) + " of " +
                                std::to_string(count) + " elements)");
  const Terms t = terms_of(e, a, input);
  Bound b;
  b.exact = exact && t.u_split == 0 && t.u_operand == 0;  // partials or operands that are rounded are not exact
  if (t.integer) {  // exact unless it leaves the format, whose wrapping or saturation nobody promises
    const double limit = largest_finite(a.accumulator);
    const bool fits = std::all_of(e.sum_abs.begin(), e.sum_abs.end(), [&](double s) { return s <= limit * scale(e); });
    b.exact = fits && !t.scaled && t.u_operand == 0;
    exchangeable = false;
  }
  b.hard.assign(count, 0);
  if (b.exact) {
    b.iid = b.hard;
    return b;
  }
  const double rms_gate = threshold(t.tensor_core ? "rms_tensor_core" : "rms_nearest").value;
  // The gate is made for accumulation; both operands' roundings have an RMS of up to sqrt(2/3) u_op sqrt(R2) of their own.
  const double operand_statistic = t.u_out > 0 ? 1 : 1 / rms_gate;
  if (exchangeable) b.iid.assign(count, 0), b.statistic.assign(count, 0);
  const double nearest = threshold("iid_nearest").value, fused = threshold("iid_tensor_core").value,
               operand = threshold("iid_operand").value;
#pragma omp parallel for if (count > 20000)
  for (std::size_t i = 0; i < count; ++i) {
    const Magnitudes m = magnitudes(e, i);
    const double all = m.sum_abs + m.addend;
    if (all == 0) continue;  // only zeros are added: the result is exactly zero
    b.hard[i] = with_output(t, m, t.hard_factor * all + t.absolute);
    if (t.integer && m.sum_abs > largest_finite(a.accumulator) * scale(e)) b.hard[i] = infinity;
    if (!exchangeable) continue;
    b.iid[i] = with_output(t, m, iid_scale(t, m, nearest, fused, operand) + t.absolute);
    b.statistic[i] = iid_scale(t, m, 1, 1, operand_statistic) + t.absolute;
  }
  if (exchangeable && count >= static_cast<std::size_t>(threshold("rms_least_outputs").value) &&
      !narrower(a.accumulator, DType::f32)) {
    if (t.u_out > 0)
      b.out_rms_gate = threshold("rms_output_rounding").value;
    else
      b.rms_gate = rms_gate;
  }
  return b;
}

}  // namespace assay
