// SPDX-License-Identifier: Apache-2.0
// list, selftest.
#include <fmt/format.h>
#include <unistd.h>

#include "probes/cli/cases.hpp"
#include "probes/cli/commands.hpp"
#include "probes/cli/known_defects.hpp"
#include "probes/cli/profile.hpp"
#include "probes/run/runner.hpp"
#include "probes/run/selftest.hpp"
#include "report/environment.hpp"

namespace assay::cli {

namespace {

void list_ops() {
  for (const Op& op : all_ops()) {
    fmt::print("{}: {}\n", op.name, op.summary);
    for (const Parameter& p : op.grammar) {
      std::string values;
      for (std::string_view c : p.choices) values += (values.empty() ? "" : "|") + std::string(c);
      if (p.choices.empty()) values = fmt::format("{:g}..{:g}", p.least, p.most);
      fmt::print("  {:<8} {:<10} {} [{}]\n", p.name, p.fallback.empty() ? "(needed)" : p.fallback, p.meaning, values);
    }
  }
}

void list_targets(const std::vector<std::string>& libraries) {
  for (const Op& op : all_ops()) {
    fmt::print("targets of {}:\n", op.name);
    for (const Target& t : op.targets) {
      fmt::print("  {:<9} {}\n", t.name, t.summary);
      for (const std::string& v : t.variants)
        if (!v.empty()) fmt::print("            {}:{}\n", t.name, v);
    }
  }
  fmt::print("found here:\n");
  for (const Candidate& c : choose_targets({{}, libraries, true, true})) {
    const std::string where = c.spec.library.empty() ? "in this program" : report::redact(c.spec.library);
    fmt::print("  {:<26} {}{}\n", c.spec.name(), where, c.unavailable.empty() ? "" : "  (unavailable: " + c.unavailable + ")");
  }
}

}  // namespace

int list(const ListArguments& args) {
  if (args.what == "ops") list_ops();
  if (args.what == "targets") list_targets(args.libraries);
  if (args.what == "known") list_known();
  if (args.what == "profiles")
    for (const BuiltInProfile& p : built_in_profiles()) fmt::print("# {}\n{}\n", p.name, p.toml);
  if (args.what == "cases")
    for (const ListedCase& c :
         select_cases({args.level.empty() ? "deep" : args.level, args.ops, args.tags, args.case_files, {}}))
      fmt::print("{}{}{}\n", c.id, c.tags.empty() ? "" : " | ", c.tags);
  return 0;
}

int selftest(const SelftestArguments& args) {
  SelftestOptions options;
  options.fault_seeds = args.fault_seeds, options.clean_seeds = args.clean_seeds;
  if (!args.op.empty()) options.op = find_op(args.op).name;
  const bool terminal = isatty(STDERR_FILENO) && !args.quiet;
  const SelftestResult r = run_selftest(options, [&](std::size_t done, std::size_t total) {
    if (terminal) fmt::print(stderr, "\r\033[K{}/{} parts", done, total);
  });
  if (terminal) fmt::print(stderr, "\r\033[K");
  int caught = 0, planted = 0, bad_faults = 0;
  for (const FaultResult& f : r.faults) caught += f.caught, planted += f.planted, bad_faults += !f.good();
  long runs = 0, alarms = 0, mistrusted = 0;
  for (const CleanResult& c : r.clean) runs += c.runs, alarms += c.false_alarms, mistrusted += c.mistrusted;
  if (!args.quiet) {
    fmt::print("planted faults: seeds caught / planted, and single cases by kind of fill\n");
    fmt::print("  {:<24} {:>7}  {:>9}  {:>9}  {}\n", "fault", "caught", "exact", "real", "what it does; how it was seen");
    for (const FaultResult& f : r.faults)
      fmt::print("  {:<24} {:>3}/{:<3}  {:>4}/{:<4}  {:>4}/{:<4}  {}; {}{}\n", f.name, f.caught, f.planted, f.exact_caught,
                 f.exact_planted, f.real_caught, f.real_planted, f.what, f.how.empty() ? "NOT SEEN" : f.how,
                 f.may_hide_in_noise && f.real_caught < f.real_planted ? " (inside accumulation noise on real data)" : "");
    fmt::print("correct models: runs judged, and alarms that should not have been\n");
    for (const CleanResult& c : r.clean) {
      fmt::print("  {:<24} {:>6} runs, {} false alarms, {} mistrusted, {} not for this model\n", c.model, c.runs,
                 c.false_alarms, c.mistrusted, c.unsupported);
      for (const std::string& a : c.alarms) fmt::print("      {}\n", a);
    }
    fmt::print(
        "power: smallest single-element fault seen, in units of the RMS result, and the closest a correct model came to its "
        "bound\n");
    for (const PowerResult& p : r.power)
      fmt::print("  {:<78} {:>9.2e}  {:.3f}\n", p.case_id, p.smallest_fault, p.closest_clean);
  }
  fmt::print(
      "selftest {}: {} of {} planted faults caught, {} faults below the promise, {} false alarms in {} correct runs, {} "
      "mistrusted, {:.0f} s; {}\n",
      r.good()        ? "passed"
      : r.interrupted ? "interrupted"
                      : "FAILED",
      caught, planted, bad_faults, alarms, runs, mistrusted, r.fault_seconds + r.clean_seconds,
      r.good() ? "next: assay run" : "do not trust a run of this build before this is clean");
  return r.good() ? 0 : r.interrupted ? 3 : 1;
}

}  // namespace assay::cli
