// SPDX-License-Identifier: Apache-2.0
// The measuring tool is itself suspect until it has caught planted faults: every fault, and every correct model, through the
// real path.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace assay {

struct SelftestOptions {
  int fault_seeds = 20;
  int clean_seeds = 100;
  std::string op;  // empty: all
};

struct FaultResult {
  std::string op, name, what;
  int planted = 0, caught = 0;                                                 // seeds; caught when any case of the fault fails
  int exact_planted = 0, exact_caught = 0, real_planted = 0, real_caught = 0;  // single cases, by kind of fill
  bool may_hide_in_noise = false;
  std::string how;  // verdict and label it was caught by, most frequent first
  /// F2 alone is excused, and only where nothing but real data was tried: there one ulp lies below the printed power.
  bool good() const { return caught == planted || (may_hide_in_noise && exact_caught == exact_planted); }
};

struct CleanResult {
  std::string op, model;
  long runs = 0, passed = 0, false_alarms = 0, mistrusted = 0, unsupported = 0;
  std::vector<std::string> alarms;  // up to 5: case id and reason
};

struct PowerResult {
  std::string case_id;
  double smallest_fault = 0;  // median over seeds of bound / RMS(result): a single-element error above it is seen
  double closest_clean = 0;   // largest correct error over the gating bound, over models and seeds
};

struct SelftestResult {
  std::vector<FaultResult> faults;
  std::vector<CleanResult> clean;
  std::vector<PowerResult> power;
  double fault_seconds = 0, clean_seconds = 0;
  bool interrupted = false;
  bool good() const;
};

/// Runs on all cores. `progress`: parts done, parts in all.
SelftestResult run_selftest(const SelftestOptions&, const std::function<void(std::size_t, std::size_t)>& progress);

}  // namespace assay
