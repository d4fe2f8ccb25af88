// SPDX-License-Identifier: Apache-2.0
// One case on one target in one worker: prepare, first call, repeats, second call with other data; facts, no verdict.
#pragma once

#include <optional>
#include <string>

#include "probes/run/process.hpp"
#include "probes/run/truth.hpp"
#include "reference/compare.hpp"

namespace assay {

enum class Outcome : std::uint8_t { measured, unsupported, unavailable, fault, interrupted };

/// A comparison, and what it was of.
struct Finding : Discrepancy {
  std::size_t operand = 0;     // the output it lies in
  bool exact = false;          // judged bit for bit
  std::string verification{};  // how, where the output was neither compared whole nor on rows alone
  std::string where{};         // wrong regions, when verification found some
};

struct Measurement {
  Outcome outcome = Outcome::measured;
  std::string reason;      // of every outcome but measured
  bool only_here = false;  // unavailable: for this problem, the next may fit
  CallReport report;
  Finding first;                                 // worst over the first call, its repeats, all callers and all outputs
  std::optional<Finding> second;                 // other data through the same prepared call
  std::int64_t first_rows = 0, second_rows = 0;  // rows compared in each; 0: all
  std::string looked_at_by;                      // how elements outside those rows were looked at: Op::looked_at_by
  std::int64_t bytes_outside = 0;                // written outside the logical output, guards and gaps
  std::string outside;                           // where: "after the end of C", ...
  bool inputs_changed = false;
  int repeats = 0, repeats_identical = 0;  // executions on the same data, the first included
  int callers_differing = 0;
  double execute_ms = 0;
  std::string output_digest;
  std::vector<std::string> output_tiles;
  /// Storage of the outputs of the first call that was wrong, where they were asked for; empty otherwise.
  std::vector<std::vector<std::byte>> kept;
  bool kept_second = false;  // of the second call, on other data
};

/// `deadline_s`: for one call; the caller has added what the size of the problem asks for.
/// The worker is dead afterwards when outcome is fault (or interrupted).
/// `keep`: wrong outputs come back too.
Measurement measure(Truth&, const TargetSpec&, Worker&, Arena&, double deadline_s, bool keep = false);

}  // namespace assay
