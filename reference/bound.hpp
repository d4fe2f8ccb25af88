// SPDX-License-Identifier: Apache-2.0
// The largest error that correct arithmetic of the declared kind could show. From problem and arithmetic, never from who
// computed it.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "reference/arithmetic.hpp"
#include "reference/expected.hpp"

namespace assay {

/// Every threshold of the tool, with where it comes from. docs/numerics.md derives each.
struct Threshold {
  std::string_view name;
  double value;
  std::string_view provenance;  // "rigorous", "calibrated: ...", "provisional: ..."
};
const Threshold& threshold(std::string_view name);  // "iid_nearest", "iid_tensor_core", "rms_nearest", ...
std::vector<Threshold> all_thresholds();

/// Per element of Expected: |got - value| must not exceed hard (ever), nor iid (the gate, where it is valid).
/// Both already contain the output rounding u_out*|value| and the underflow term.
struct Bound {
  std::vector<double> hard;
  std::vector<double> iid;        // empty when the K terms are not exchangeable
  std::vector<double> statistic;  // unscaled T_iid without output rounding: denominator of the RMS statistic; empty with iid
  bool exact = false;             // the rounded true value is required bit for bit (hard and iid are zero)
  double rms_gate = 0;            // 0: no RMS gate for this output (too few elements, or no iid)
  double out_rms_gate = 0;        // 16-bit outputs: RMS(err) over RMS of one output rounding
};

/// Bound of alpha*A*B + beta*C from its magnitudes.
/// `exchangeable`: T_iid is valid for these inputs. `exact`: integer fill whose every partial sum is representable.
/// `input`: format the operands are stored in; only needed when Arithmetic::operand is narrower (a reduced-precision mode).
/// Errors   throws std::invalid_argument when Expected has no magnitudes or the arithmetic is incomplete.
Bound product_sum_bound(const Expected&, const Arithmetic&, bool exchangeable, bool exact,
                        std::optional<DType> input = std::nullopt);

}  // namespace assay
