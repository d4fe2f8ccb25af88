// SPDX-License-Identifier: Apache-2.0
// Element by element: NaN, Inf, -0 and subnormals are decided before any distance is measured.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/bound.hpp"
#include "reference/expected.hpp"
#include "reference/tensor.hpp"

namespace assay {

struct WorstElement {
  std::int64_t index = -1;  // logical row-major index into the output
  double got = 0, expected = 0;
  double error_over_bound = 0;  // infinite for a wrong class; exact outputs: in half ulps
  std::int64_t ulp_error = 0;
  std::uint64_t got_bits = 0, expected_bits = 0;
};

/// What comparison found. `bad` counts elements over the bound or of the wrong class; the tool passes only when bad == 0.
struct Discrepancy {
  std::int64_t compared = 0;
  std::int64_t bad = 0;       // over hard, or wrong class (NaN, Inf)
  std::int64_t over_iid = 0;  // over iid but not over hard
  std::int64_t nan_unexpected = 0, nan_missing = 0, inf_mismatch = 0;
  std::int64_t nan_leaked = 0;         // of nan_unexpected: where every operand of the element is a finite number
  std::int64_t unwritten = 0;          // still the poison pattern
  std::int64_t subnormal_flushed = 0;  // zero where a subnormal was due
  std::int64_t overflow_open = 0;      // true value or a partial sum may exceed the format: Inf and finite both accepted
  std::int64_t two_values = 0;         // elements where conventions differ (Expected::other)
  std::int64_t took_other = 0;         // and how many of them have the second value: accepted here, the contract decides
  std::int64_t first_bad = -1;         // logical index
  WorstElement worst;                  // largest error over the bound that gates
  double max_over_hard = 0, max_over_iid = 0;
  double rms_over_statistic = 0;  // RMS(err / statistic); 0 when there is no statistic
  double rms_over_rounding = 0;   // outputs narrower than the accumulator: RMS(err) / RMS(one output rounding)
  double bias = 0;                // mean(sign(value) * z) / RMS(z), z = err / statistic
  bool rms_exceeded = false;
  std::int64_t differing_bits = 0;   // exact compare: elements whose bits differ (-0 equals +0 here)
  double median_bound_over_rms = 0;  // power: smallest visible single-element error, in units of RMS(value)
  double blind_fraction =
      0;  // share of elements that do not round to zero and whose bound is at least |value|: a zero would pass
  std::vector<std::int64_t> bad_indices;  // up to 64, for the picture and the report
};

/// `storage` is the output operand's allocation. Only the rows named in Expected are compared when it is sampled; of a pure
/// output every other element must at least have been written.
/// `poison_bits`: pattern written before the call, to count unwritten elements; subnormals_kept: from the contract.
Discrepancy compare(const Operand& output, std::span<const std::byte> storage, const Expected&, const Bound&, const Arithmetic&,
                    std::uint64_t poison_bits, bool subnormals_kept);

}  // namespace assay
