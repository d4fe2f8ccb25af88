// SPDX-License-Identifier: Apache-2.0
// From facts to a verdict, a label and one sentence in plain words.
#pragma once

#include <string>

#include "probes/run/measure.hpp"
#include "report/record.hpp"

namespace assay {

struct Judgement {
  report::Verdict verdict = report::Verdict::unavailable;
  std::string label, reason;
  /// Over T_iid but under T_hard: may be chance, so it counts only when it repeats on fresh seeds.
  bool needs_fresh_seeds = false;
};

Judgement judge(const Problem&, const Measurement&);

/// Fills everything of a record that follows from the case, the target and the measurement.
report::Record make_record(Truth&, const TargetSpec&, const Measurement&, const Judgement&, const std::string& tags);

}  // namespace assay
