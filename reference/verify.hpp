// SPDX-License-Identifier: Apache-2.0
// A large product checked without computing it: random combinations of its columns (Freivalds), and rows computed in full.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/compare.hpp"
#include "reference/tensor.hpp"

namespace assay::reference {

/// A finished C = alpha A B + beta C0 with all that is declared about it. Operands as they lie: a (batch,m,k), b (batch,k,n),
/// c (batch,m,n), any strides.
struct FinishedGemm {
  const Operand& a;
  const Operand& b;
  const Operand& c;
  std::span<const std::byte> a_storage, b_storage, c_storage;
  std::span<const std::byte> c0_storage{};  // what C held before, laid out like c; empty when beta = 0
  double alpha = 1, beta = 0;               // as the target got them
  Arithmetic arithmetic{};
  bool exchangeable = false;  // T_iid is valid for these operands
  bool exact = false;         // every partial sum is representable: the true result, rounded once to the format of C, is due
  double unit = 1;            // exact: all results are multiples of it
  std::uint64_t poison_bits = 0;
  bool subnormals_kept = true;
};

/// Wrong elements that lie together. Kind: "element", "row", "column" or "tile".
struct WrongRegion {
  std::int64_t batch = 0, row = 0, rows = 0, column = 0, columns = 0;
  std::int64_t wrong = 0;  // elements over their bound
  std::string_view kind() const;
};

struct Verification {
  bool panels = false;         // all of C was seen through combinations; otherwise only the sampled rows were
  std::string without_panels;  // why not
  bool exact = false;
  std::int64_t sampled_rows = 0;
  /// What comparing element by element found, in sampled rows and suspects. Indices are logical ones of C. Statistics over
  /// tensors are those of the sampled rows, or of suspects when theirs are worse.
  Discrepancy found;
  std::int64_t flagged_rows = 0, flagged_columns = 0;  // lines of one panel whose combination was out of bounds
  std::int64_t beyond_bound = 0;            // of flagged_rows: those that no correct product leaves; the others only stand out
  std::int64_t suspects = 0, examined = 0;  // elements where flagged rows meet flagged columns, and how many were computed
  double sigma = 0, sigma_gate = 0;         // noise of the combinations in units of the statistic (section 3.7); 0: no gate
  bool sigma_exceeded = false;              // the whole product is less exact than declared
  /// Power, in units of RMS(c): in half of the lines a single wrong element of this size is flagged unless three deviations of
  /// noise hide it; exact: 0, any single one is.
  double smallest_fault = 0;
  std::vector<WrongRegion> regions;  // most wrong elements first, at most 64

  bool clean() const;
  std::string method() const;  // "panels:512+rows:16", "panels:512,exact", "rows:16"
};

/// Panel Freivalds: for panels of 512 columns and two draws of signs r, C r - alpha A (B r) - beta C0 r in fp64 against what
/// correct arithmetic may leave; 16 rows in full; when a line is flagged the same from the left, and elements where flagged
/// rows meet flagged columns in full.
/// Numbers  alarms come from comparing elements with Bound, so the threshold of a line costs time when it is low, never truth.
///          A line whose errors keep to the RMS gate (calibrated, for whole tensors) is beyond bound with a probability below
///          3e-14 over the signs (Hoeffding, lambda = 8). Lines at 7 robust deviations are examined too.
///          C narrower than fp32: its own rounding (u |c| per element, rigorous) is part of the noise, so real results show a
///          fault from about 0.2 RMS(c) on (fp16 0.02); exact ones any fault, where few of them needed rounding.
/// Cost     O(mk + kn + mn) memory, 3 n/512 + 48 products of a matrix with a vector; all cores.
/// Errors   throws std::invalid_argument for fp64 results, operands that are not finite, sizes that disagree.
/// Source   Freivalds 1977; Hoeffding 1963; docs/numerics.md.
Verification verify(const FinishedGemm&, std::uint64_t seed);

}  // namespace assay::reference
