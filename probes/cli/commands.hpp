// SPDX-License-Identifier: Apache-2.0
// The commands, one function each; each returns the process's exit code.
#pragma once

#include <string>
#include <vector>

#include "report/environment.hpp"

namespace CLI {
class App;
}

namespace assay::cli {

struct RunArguments {
  std::string level = "quick";
  bool level_given = false;
  std::vector<std::string> ops, targets, cases, case_files, tags, libraries, kernel_builds;
  std::vector<std::string> require;  // "gpu", or patterns of targets that must give a result
  std::string profile;               // a file, or a name that is built in
  int device = 0;
  std::string out;
  bool resume = false, strict = false, quiet = false, plain = false, keep_variables = false;
  bool random = false;  // cases drawn until `minutes` are over
  double minutes = 10;
  std::uint64_t seed = 1;
  double deadline_s = 20;
  std::string command;  // as typed, for the record
};
int run(const RunArguments&);

/// What a run records of its surroundings, before any library is mapped.
report::Environment conditions();

struct ListArguments {
  std::string what, level;
  std::vector<std::string> ops, tags, case_files, libraries;
};
int list(const ListArguments&);

int env(const std::vector<std::string>& libraries, bool json);

struct SelftestArguments {
  int fault_seeds = 20, clean_seeds = 100;
  std::string op;  // empty: all
  bool quiet = false;
};
int selftest(const SelftestArguments&);

/// Runs the case of a file of failing tensors; the rest of the arguments as in run. Refuses inputs that are not that case's.
int replay(const std::string& file, RunArguments);

struct FingerprintArguments {
  std::vector<std::string> targets, libraries, kernel_builds;
  int device = 0;
  bool json = false, deep = false;
  double deadline_s = 20;
};
int fingerprint(const FingerprintArguments&);

/// compare and report, which read finished runs: their options and what they do; the exit code goes to `code`.
void add_finished_commands(CLI::App&, int& code);
/// What cuDNN would offer for cases on a device that is not here.
struct PlanArguments {
  std::string arch, cudnn, level = "quick";
  bool level_given = false, json = false, quick_look = false, no_guards = false;
  int plans = -1;
  std::vector<std::string> ops, cases, tags, libraries;
};
int plan(const PlanArguments&);
/// Differences between two outputs of plan --json; 0 none, 1 some.
int plan_diff(const std::string& a, const std::string& b);

/// Hidden, for tests/gpu/run: digests over the outputs of our kernels in a run folder; what = "inputs" or "traps":
/// device-made inputs against the host's, compiler traps in every build.
int digests(const std::string& run);
int device_check(const std::string& what, const std::vector<std::string>& libraries, int device, std::uint32_t step);

}  // namespace assay::cli
