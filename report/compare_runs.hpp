// SPDX-License-Identifier: Apache-2.0
// Two runs side by side: which verdicts, output bits, algorithms and conditions differ, the most telling first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/jsonl.hpp"

namespace assay::report {

/// One way in which results, or the conditions around them, differ; equal ones are one entry with a count.
struct Difference {
  enum class Kind : std::uint8_t { verdict, output, algorithm, condition };
  Kind kind = Kind::condition;
  std::string what;                  // "gemm fp32 on openblas", "OPENBLAS_CORETYPE", "library of openblas: core"
  std::string a, b;                  // in the first and in the second run; empty for output bits
  std::int64_t results = 0, of = 0;  // that differ so, of how many compared there; 0: a condition of the whole run
  std::string example;               // the first case
  std::string detail;                // of a verdict: the reason of the worse result, and whether the bits differ too
  std::string again;                 // of results: command that runs the example again, in the worse or second run
};

struct RunComparison {
  std::int64_t compared = 0;                   // results that both runs have
  std::int64_t not_run = 0;                    // of these, unsupported or unavailable in both
  bool broken_off = false;                     // one of the runs, before its end
  std::int64_t only_a = 0, only_b = 0;         // results without a partner
  std::string only_a_example, only_b_example;  // "gemm fp32 on openblas, g1:..."
  std::int64_t unrepeatable = 0;               // other bits, on a target that does not repeat its own: not a difference
  std::int64_t verdicts = 0, outputs = 0, algorithms = 0;  // results with another one
  std::vector<Difference> differences;                     // most telling first
};

/// Partners have the same case on the same target and variant; of several library files under one name those with equal paths,
/// then in order. Not compared: times and what follows from them (started, *_ms, conditions in ms, the state of a GPU), the
/// command, and anything that only one of the two knows (an empty text).
/// Throws FileError where the runs had different inputs for one case, or where nothing that one of them ran is in both.
RunComparison compare_runs(const RunData& a, const RunData& b);

/// 0 the same verdicts, bits and algorithms (conditions may differ); 1 some differ; 3 the same as far as both go, but one run
/// has results that the other lacks, or was broken off. Precedence 1 > 3 > 0.
int exit_code(const RunComparison&);

/// Lines for people, at most `most` of each kind; the last line is the verdict and, where results differ, the next command,
/// which begins with `program`.
std::string comparison_text(const RunComparison&, const RunData& a, const RunData& b, const std::string& program = "assay",
                            std::size_t most = 20);

}  // namespace assay::report
