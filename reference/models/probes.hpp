// SPDX-License-Identifier: Apache-2.0
// Sums whose answer depends on how a unit adds: alignment, rounding, block size (P1 to P11 of docs/numerics.md).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "reference/models/accumulate.hpp"

namespace assay::models {

inline constexpr std::int64_t probe_k = 64;

/// Products x * y at places first..last of K; everything else is 0, so that a split of K adds only zeros.
struct Term {
  std::int64_t first, last;
  double x, y;
};

/// The answer is (sum - base) / unit. A later term replaces an earlier one at its places.
struct Probe {
  std::string_view name, what;
  std::vector<Term> terms;
  double base, unit;
};

struct ProbeOperands {
  std::vector<double> a, b;  // probe_k each
};

/// P1 to P10, of powers of two and multiples of three: exact in fp32, TF32, bf16 and, but P10, fp16.
std::span<const Probe> addition_probes();
/// P11: ones, a large number at 0, minus that at 1: how many ones survive, k minus the products that one step fuses.
Probe counting_probe(DType operand);

ProbeOperands operands_of(const Probe&);
bool representable(const Probe&, DType operand);
inline double answer(const Probe& p, double sum) {
  return (sum - p.base) / p.unit;
}
double answer(const Probe&, const Model&);

/// FPRev (USENIX ATC 2025): ones, +mark at place 0, -mark at place j, b all ones. The ones that survive are those that join
/// the sum of 0 and j after the marks have cancelled; over all j they tell the order of summation. Row r has partner[r].
struct OrderProfile {
  std::int64_t k = 0;
  double mark = 0, one = 0;  // mark takes up k ones without a trace in an fp32 accumulator
  std::vector<std::int64_t> partner;

  double a(std::size_t row, std::int64_t l) const { return l == 0 ? mark : l == partner[row] ? -mark : one; }
};
/// Every j where k - 1 <= rows, else the first rows / 2 and others evenly up to k - 1.
OrderProfile order_profile(DType operand, std::int64_t k, std::size_t rows);
/// Survivors per row.
std::vector<double> survivors(const OrderProfile&, const Model&);

}  // namespace assay::models
