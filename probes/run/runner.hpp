// SPDX-License-Identifier: Apache-2.0
// Every case on every target: order, workers, confirmation, records to a sink.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "probes/run/judge.hpp"
#include "report/safetensors.hpp"

namespace assay {

/// A target of this run. `only_tag`: takes only cases that carry this tag (ladder variants); empty: all.
struct Candidate {
  TargetSpec spec;
  std::string only_tag;
  std::string unavailable;  // known before anything is started (the CPU lacks the level): recorded once, not tried
  double largest_flops =
      0;  // leaves out bigger problems, so that an unoptimised library does not eat the level's time; 0: none
};

/// The emulator behind a simulated device computes some 10^8 operations in a second; larger cases are left out unless named.
inline constexpr double simulated_flops = 2e6;

struct TargetChoice {
  std::vector<std::string> patterns;   // shell patterns on TargetSpec::name; empty: control, libraries, ladders
  std::vector<std::string> libraries;  // values of --libraries
  bool whole = false;                 // ladder variants and slow libraries take every case (deep, or cases that were named) ...
  bool named = false;                 // ... of any size: else ladder variants leave out those above 1 GFLOP, refblas above 4
  std::vector<std::string> builds{};  // of our kernels; empty: one; "all": every one that the files at hand allow
  int device = 0;                     // ordinal of the GPU
  bool keep_variables = false;        // GPU workers keep the variables of the user that change numbers
};
/// Throws CaseError when a pattern matches nothing (names what there is), LibraryError for --libraries.
std::vector<Candidate> choose_targets(const TargetChoice&);
/// Whether an operation's target has this variant: a version of a kernel, or a model, belongs to some operations only.
bool offers(const Target&, const TargetSpec&);

struct RunPlan {
  std::vector<ListedCase> cases;
  /// Instead of `cases`: asked for one case after the other until it has none. Each goes to one variant of a library's ladder.
  std::function<std::optional<ListedCase>()> next{};
  std::vector<Candidate> targets;
  double deadline_s = 20;         // per call, plus time for the size of the problem
  int confirmations = 2;          // further runs of a failure, each in a fresh worker
  int give_up_after_faults = 10;  // in a row on one target: its process cannot live; 0: never
  std::set<std::string> done;     // record keys that a resumed run already has
  /// Of a failure whose file would have so many bytes: whether its tensors are wanted, and where they went ("": nowhere).
  std::function<bool(const report::Record&, double bytes)> wants_tensors{};
  std::function<std::string(const report::Record&, const report::TensorFile&)> keep_tensors{};
};

struct Progress {
  std::size_t done = 0, total = 0;  // total 0: nobody knows
  double elapsed_s = 0;
  std::string_view case_id;
};

using Sink = std::function<void(const report::Record&)>;

/// Runs the plan. Exceptions of the sink (a full disk) pass through; workers are stopped.
class Runner {
 public:
  Runner(RunPlan, Sink, std::function<void(const Progress&)> progress = {});
  ~Runner();

  /// False when the user interrupted it.
  bool run();
  /// Case x target pairs that must have a record when the run is complete: those of required targets.
  std::size_t required_pairs() const;
  /// What the workers really mapped, library by library.
  const std::vector<report::LibraryIdentity>& libraries() const { return libraries_; }

 private:
  struct Lane;  // a candidate with its worker
  void run_listed();
  void run_endless();
  void tell(std::size_t done, std::size_t total, const ListedCase& next) const;
  /// Of a case, for the lanes that leave out large ones; 0 where there is no such lane.
  double flops_where_limited(const ListedCase&) const;
  bool takes(const Lane&, const ListedCase&, double flops) const;
  void run_case(const ListedCase&);
  void run_on(Truth&, const ListedCase&, Lane&);
  Measurement attempt(Truth&, Lane&, bool keep = false);
  void confirm(Truth&, Lane&, Judgement&, report::Record&);
  void identify(Lane&, const CallReport&, report::Record&);
  /// Our kernels use IEEE 754 operations in a fixed order, so every build of a version must give the same bits.
  void compare_builds(const TargetSpec&, report::Record&);
  void unavailable_record(const ListedCase&, Lane&, const std::string& why);

  RunPlan plan_;
  Sink sink_;
  std::function<void(const Progress&)> progress_;
  std::chrono::steady_clock::time_point begin_{};
  Arena arena_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::map<std::string, report::LibraryIdentity> identities_;  // by library path
  std::vector<report::LibraryIdentity> libraries_;
  /// Of the case at hand, per version of our kernels: the first build that passed, and its bits.
  std::map<std::string, std::pair<std::string, std::string>> build_bits_;
};

}  // namespace assay
