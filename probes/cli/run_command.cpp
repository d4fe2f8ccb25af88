// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>

#include "probes/cli/cases.hpp"
#include "probes/cli/commands.hpp"
#include "probes/cli/folder.hpp"
#include "probes/cli/known_defects.hpp"
#include "probes/cli/profile.hpp"
#include "probes/cli/random_plan.hpp"
#include "probes/cli/tensor_keeper.hpp"
#include "probes/library/device_files.hpp"
#include "probes/library/library.hpp"
#include "probes/run/device_worker.hpp"
#include "probes/run/failing_tensors.hpp"
#include "probes/run/process.hpp"
#include "probes/run/runner.hpp"
#include "probes/run/versions.hpp"
#include "report/census.hpp"
#include "report/jsonl.hpp"
#include "report/markdown.hpp"
#include "report/summary.hpp"
#include "report/terminal.hpp"

namespace assay::cli {

namespace {

namespace fs = std::filesystem;
using report::FileError;
using report::Record;

/// Never throws: a reader that went away, or a full disk behind standard output, must not cost the exit code.
bool print(std::FILE* to, const std::string& text) {
  return std::fwrite(text.data(), 1, text.size(), to) == text.size() && std::fflush(to) == 0;
}

/// Results of two builds of one library must not end up under one name.
void refuse_changed_libraries(const std::vector<Record>& earlier, const std::vector<Candidate>& targets) {
  std::map<std::string, std::string> recorded;
  for (const Record& r : earlier)
    if (!r.library.sha256.empty()) recorded[r.library.path] = r.library.sha256;
  std::map<std::string, std::string> now;
  for (const Candidate& c : targets) {
    const std::string path = report::redact(c.spec.library);
    if (!recorded.contains(path) || now.contains(path)) continue;
    now[path] = read_library(c.spec.library).sha256;
    if (now[path] != recorded[path])
      throw FileError(
          fmt::format("{} has changed since this run began (SHA-256 {} then, {} now): start a new run with another --out", path,
                      recorded[path].substr(0, 12), now[path].substr(0, 12)));
  }
}

/// Progress on stderr: one rewritten line on a terminal, a plain line now and then elsewhere.
class ProgressLine {
 public:
  explicit ProgressLine(const RunArguments& args) : silent_(args.quiet), terminal_(!args.plain && isatty(STDERR_FILENO)) {}

  void operator()(const Progress& p) {
    if (silent_ || p.elapsed_s < next_s_) return;
    next_s_ = p.elapsed_s + (terminal_ ? 0.1 : 10.0);
    if (p.total == 0) return show(fmt::format("{} cases, {:.0f} s", p.done, p.elapsed_s), p);
    const double left_s = p.done == 0 ? 0 : p.elapsed_s / static_cast<double>(p.done) * static_cast<double>(p.total - p.done);
    show(fmt::format("{}/{} cases, {:.0f} s, about {:.0f} s left", p.done, p.total, p.elapsed_s, left_s), p);
  }
  void clear() const {
    if (terminal_ && shown_) print(stderr, "\r\033[K");
  }

 private:
  void show(const std::string& line, const Progress& p) {
    if (terminal_)
      print(stderr, fmt::format("\r\033[K{}  {:.60}", line, p.case_id));
    else if (p.done > 0)
      print(stderr, line + "\n");
    shown_ = true;
  }

  bool silent_, terminal_;
  double next_s_ = 0;
  bool shown_ = false;
};

void announce(const RunPlan& plan, const fs::path& folder) {
  std::string out = fmt::format("assay: {}; records go to {}\n",
                                plan.next                ? "cases at random"
                                : plan.cases.size() == 1 ? "1 case"
                                                         : fmt::format("{} cases", plan.cases.size()),
                                folder.string());
  std::map<std::string, std::pair<std::string, int>> seen;  // library -> (target, variants)
  for (const Candidate& c : plan.targets) {
    auto& [name, variants] = seen[c.spec.library.empty() ? "in this program: " + c.spec.name() : c.spec.library];
    name = c.spec.target;
    variants += !c.spec.variant.empty() && c.unavailable.empty();
  }
  for (const auto& [library, entry] : seen) {
    if (library.front() != '/') {
      out += fmt::format("  {}\n", library);
      continue;
    }
    out += fmt::format("  {:<9} {}{}\n", entry.first, report::redact(library),
                       entry.second > 0 ? fmt::format(" (+ {} variants)", entry.second) : "");
  }
  print(stdout, out);
}

void add_once(std::vector<std::string>& list, std::string item) {
  if (std::ranges::find(list, item) == list.end()) list.push_back(std::move(item));
}

/// The one sentence for what was asked for and could not be tried; empty when there is nothing of the kind.
std::string why_not(const std::vector<Record>& records) {
  const auto missing = [](const Record& r) { return r.required && r.verdict == report::Verdict::unavailable; };
  const auto first = std::find_if(records.begin(), records.end(), missing);
  if (records.empty())
    return "none of the chosen targets takes any of these cases: a variant of ours belongs to some operations, and queue= to a "
           "GPU; see `assay list targets`";
  if (first == records.end()) return {};
  const auto others = std::count_if(first + 1, records.end(), missing);
  return fmt::format("{} on {}: {}{}", first->case_id, report::full_target(*first), first->reason,
                     others > 0 ? fmt::format(" (and {} more, see report.md)", others) : "");
}

/// The profile's lists, then the command line's; a level or a flag of the command line wins.
RunArguments with_profile(RunArguments args, const Profile& profile) {
  const auto put_first = [](std::vector<std::string>& list, const std::vector<std::string>& first) {
    list.insert(list.begin(), first.begin(), first.end());
  };
  put_first(args.ops, profile.ops), put_first(args.tags, profile.tags), put_first(args.cases, profile.cases);
  put_first(args.case_files, profile.case_files), put_first(args.targets, profile.targets);
  put_first(args.libraries, profile.libraries), put_first(args.kernel_builds, profile.kernel_builds);
  put_first(args.require, profile.require);
  if (!args.level_given && !profile.level.empty()) args.level = profile.level, args.level_given = true;
  args.strict |= profile.strict, args.keep_variables |= profile.keep_variables;
  return args;
}

/// Those of --require and the profile of which nothing gave a result; adds a sentence each.
std::vector<std::string> unmet_requirements(const std::vector<std::string>& required, const std::vector<Record>& records,
                                            const report::RunFacts& facts, std::vector<std::string>& notes) {
  std::vector<std::string> unmet;
  for (const std::string& wanted : required) {
    const bool gpu = wanted == "gpu";
    const auto named = [&](const Record& r) {
      return gpu ? r.conditions.contains("device") : fnmatch(wanted.c_str(), report::full_target(r).c_str(), 0) == 0;
    };
    const auto ran = [](const Record& r) {
      return r.verdict != report::Verdict::unsupported && r.verdict != report::Verdict::unavailable;
    };
    const bool simulated = gpu && facts.device.find("simulated") != std::string::npos;
    if (!simulated && std::ranges::any_of(records, [&](const Record& r) { return named(r) && ran(r); })) continue;
    const auto why = std::ranges::find_if(records, [&](const Record& r) { return named(r) && !ran(r); });
    unmet.push_back(wanted);
    notes.push_back(fmt::format("required, and without a result: {} ({})", wanted,
                                simulated              ? "the device is a simulated one"
                                : why == records.end() ? "this run has no such target; see `assay env` for what was found"
                                                       : why->reason));
  }
  return unmet;
}

/// The GPUs that this plan runs on, as they are now; described in a process of its own.
std::vector<report::Gpu> gpus_of(const RunPlan& plan, const std::vector<std::string>& libraries) {
  const auto on_device = std::ranges::find_if(
      plan.targets, [](const Candidate& c) { return c.spec.device >= 0 && !c.spec.driver().empty() && c.unavailable.empty(); });
  if (on_device == plan.targets.end()) return {};
  std::map<std::string, std::string> files = {{"cuda", on_device->spec.driver()}};
  const std::map<std::string, std::string> found = find_device_files(libraries);
  if (const auto nvml = found.find("nvml"); nvml != found.end()) files.insert(*nvml);
  std::vector<report::Gpu> gpus = open_in_worker(files).gpus;
  std::erase_if(gpus, [&](const report::Gpu& g) { return g.ordinal != on_device->spec.device; });
  return gpus;
}

/// What the summary needs of a result that passed: an hour of random cases must not fill the memory.
void lighten(Record& r) {
  if (r.verdict != report::Verdict::pass || !r.label.empty()) return;
  Record light;
  light.case_id = std::move(r.case_id), light.op = std::move(r.op), light.formats = std::move(r.formats);
  light.target = std::move(r.target), light.variant = std::move(r.variant), light.required = r.required,
  light.verdict = r.verdict;
  light.library.path = std::move(r.library.path), light.library.core = std::move(r.library.core);
  light.confirmation = r.confirmation, light.repeats = r.repeats, light.repeats_identical = r.repeats_identical;
  if (r.conditions.contains("device")) light.conditions["device"] = r.conditions["device"];
  r = std::move(light);
}

}  // namespace

report::Environment conditions() {
  report::Environment e = report::read_environment();
  e.assay["generator"] = std::to_string(generator_version);
  e.assay["grammar"] = fmt::format("g{}", generator_version);
  return e;
}

int replay(const std::string& file, RunArguments args) {
  {
    const report::MappedFile mapped(file);
    args.cases = {case_of_tensors(report::parse_safetensors(mapped.bytes(), file), file)};
  }
  return run(args);
}

int run(const RunArguments& given) {
  Profile profile;
  if (!given.profile.empty()) profile = load_profile(given.profile);
  const RunArguments args = with_profile(given, profile);
  const std::string today = today_utc();
  RunPlan plan;
  plan.deadline_s = args.deadline_s;
  const bool own_cases = !args.cases.empty() || !args.case_files.empty();
  const std::string level = args.random || (own_cases && !args.level_given) ? "" : args.level;
  std::optional<RandomPlan> random;
  if (args.random) {
    random.emplace(args.seed, args.minutes, args.ops);
    plan.next = std::ref(*random);
  } else {
    plan.cases = select_cases({level, args.ops, args.tags, args.case_files, args.cases});
  }
  plan.targets = choose_targets({args.targets, args.libraries, level == "deep" || own_cases || args.random, own_cases,
                                 args.kernel_builds, args.device, args.keep_variables});
  if (args.resume && args.out.empty()) throw CaseError("--resume needs --out DIR, the folder of the run to continue");
  RunFolder folder(args.out, args.resume);
  refuse_changed_libraries(folder.earlier(), plan.targets);
  report::Environment environment = conditions();
  environment.command = report::redact(args.command);
  if (!given.profile.empty()) environment.assay["profile"] = identity(profile);
  if (folder.conditions()) {
    refuse_changed_variables(*folder.conditions(), environment);
    environment.command = folder.conditions()->command;  // of the whole run; a resumed part adds nothing to it
    environment.libraries = folder.conditions()->libraries;
    environment.known_defects = folder.conditions()->known_defects;
  }
  std::vector<Record> records = folder.earlier();
  for (Record& r : records) {
    plan.done.insert(report::key(r));
    // Today's profile decides; a record that it judges otherwise is written again, and the later one counts.
    std::string waived = waive(profile, r, today);
    if (waived == r.waived) continue;
    r.waived = std::move(waived);
    folder.append(r);
  }
  if (!args.quiet) announce(plan, folder.path());
  environment.gpus = gpus_of(plan, args.libraries);
  const std::vector<KnownDefect> defects = known_defects();
  const std::vector<report::LibraryIdentity> versions = library_versions(plan.targets, args.deadline_s);
  for (std::string& line : notices(defects, versions, environment.gpus.empty() ? "" : environment.gpus.front().sm))
    add_once(environment.known_defects, std::move(line));
  if (!args.quiet)
    // Those that no case meets are in report.md: there is nothing to type.
    for (const std::string& line : environment.known_defects)
      if (line.find(", see case ") != std::string::npos) print(stderr, fmt::format("assay: {}\n", line));
  folder.write("environment.json", report::to_json(environment));
  report::RunFacts facts;
  // Set by the launcher of a checkout to the way it was called, so that printed commands can be typed as they are.
  if (const char* program = std::getenv("ASSAY_PROGRAM"); program != nullptr && *program != '\0')
    facts.program = report::shell_word(program);
  facts.level = level, facts.folder = report::redact(folder.path().string()), facts.strict = args.strict;
  facts.resume = args.command + (args.resume ? "" : " --resume") +
                 (args.out.empty() ? " --out " + report::shell_word(folder.path().string()) : "");
  std::vector<std::string> troubles;
  TensorKeeper tensors(folder, troubles);
  plan.wants_tensors = [&](const Record& r, double bytes) { return tensors.wants(r, bytes); };
  plan.keep_tensors = [&](const Record& r, const report::TensorFile& file) { return tensors.keep(r, file); };
  ProgressLine progress(args);
  Runner runner(
      plan,
      [&](Record r) {
        const std::string& said = r.library.version;
        const std::string version = version_of(versions, r.library.path);
        r.known_defect = known_defect_of(defects, r, version.empty() ? said : version);
        r.waived = waive(profile, r, today);
        folder.append(records.emplace_back(std::move(r)));
        if (random) lighten(records.back());
      },
      std::ref(progress));
  try {
    facts.interrupted = !runner.run();
  } catch (const FileError& e) {
    troubles.push_back(e.what());
  }
  progress.clear();
  for (const Record& r : records)
    if (r.conditions.contains("device") && !r.library.core.empty()) facts.device = r.library.core;
  const auto required =
      static_cast<std::size_t>(std::count_if(records.begin(), records.end(), [](const Record& r) { return r.required; }));
  if (facts.interrupted || !troubles.empty())
    facts.not_started =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(runner.required_pairs()) - static_cast<std::int64_t>(required));
  for (const report::LibraryIdentity& l : runner.libraries())
    if (std::none_of(environment.libraries.begin(), environment.libraries.end(),
                     [&](const report::LibraryIdentity& o) { return o.path == l.path && o.sha256 == l.sha256; }))
      environment.libraries.push_back(l);
  facts.unmet = unmet_requirements(args.require, records, facts, facts.notes);
  for (std::string& broken : broken_promises(profile, environment)) {
    facts.environment_differs = true;
    facts.notes.push_back(std::move(broken));
  }
  for (std::string& note : waiver_notes(profile, today)) facts.notes.push_back(std::move(note));
  if (!environment.gpus.empty())
    for (const report::Gpu& now : gpus_of(plan, args.libraries))
      for (report::Gpu& g : environment.gpus)
        if (g.ordinal == now.ordinal) g.after = now.before;
  try {
    folder.write("environment.json", report::to_json(environment));
    folder.write("report.md", report::markdown_report(records, environment, facts));
    if (const std::string census = report::algorithm_census(records); !census.empty()) folder.write("algorithms.jsonl", census);
  } catch (const FileError& e) {
    troubles.push_back(e.what());
  }
  int code = report::exit_code(report::summarise(records), facts);
  if (code == 0 && !troubles.empty()) code = 3;  // everything passed, and the folder does not say so
  if (const std::string why = why_not(records); (code == 2 || code == 3) && !why.empty()) troubles.push_back(why);
  if (args.quiet && code == 0 && troubles.empty()) return 0;
  for (const std::vector<std::string>* lines : {&facts.notes, &troubles})
    for (const std::string& line : *lines) print(stderr, fmt::format("assay: {}\n", line));
  if (random) print(stdout, random->sentence() + "\n");
  report::TerminalOptions options = report::terminal_options(STDOUT_FILENO);
  options.program = facts.program;
  if (args.plain) options.color = false;
  const std::string said = fmt::format("{}{}{}\n", args.quiet ? "" : report::terminal_table(records, options),
                                       report::terminal_failures(records, options), report::verdict_sentence(records, facts));
  if (!print(stdout, said))
    print(stderr, fmt::format("assay: cannot print the verdict ({}): it is in {}\n", std::strerror(errno),
                              (folder.path() / "report.md").string()));
  return code;
}

}  // namespace assay::cli
