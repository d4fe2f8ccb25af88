// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>

#include "probes/cli/cases.hpp"
#include "probes/cli/commands.hpp"
#include "probes/library/library.hpp"
#include "probes/run/process.hpp"
#include "probes/run/runner.hpp"
#include "report/jsonl.hpp"
#include "report/markdown.hpp"
#include "report/summary.hpp"
#include "report/terminal.hpp"

namespace assay::cli {

namespace {

namespace fs = std::filesystem;
using report::FileError;
using report::Record;

std::string time_stamp() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &utc);
  return text;
}

void write_text(const fs::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) throw FileError(fmt::format("cannot write {}: check free space and permissions; the records in run.jsonl are safe", path.string()));
}

/// The folder of a run: made new, or taken up again with what it already holds.
struct Folder {
  fs::path path;
  std::vector<Record> earlier;
};

Folder open_folder(const RunArguments& args) {
  Folder f;
  f.path = args.out.empty() ? fs::path("assay-runs") / time_stamp() : fs::path(args.out);
  if (args.out.empty())
    for (int i = 2; fs::exists(f.path); ++i) f.path = fs::path("assay-runs") / fmt::format("{}-{}", time_stamp(), i);
  if (args.resume && args.out.empty()) throw CaseError("--resume needs --out DIR, the folder of the run to continue");
  const fs::path records = f.path / "run.jsonl";
  std::error_code error;
  fs::create_directories(f.path, error);
  if (error || access(f.path.c_str(), W_OK | X_OK) != 0)
    throw FileError(fmt::format("cannot write into the run folder {}: {}; choose another with --out", f.path.string(),
                                error ? error.message() : "permission denied"));
  if (!fs::exists(records)) {
    if (args.resume) throw FileError(fmt::format("there is no run to resume in {}: run.jsonl is missing; leave --resume away to start one", f.path.string()));
    return f;
  }
  if (!args.resume) throw FileError(fmt::format("{} already holds a run: add --resume to continue it, or choose another --out", f.path.string()));
  report::ReadResult read = report::read_jsonl(records);
  if (read.torn) report::cut_to(records, read.good_bytes);
  f.earlier = std::move(read.records);
  return f;
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
      throw FileError(fmt::format("{} has changed since this run began (SHA-256 {} then, {} now): start a new run with another --out", path,
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
    const double left_s = p.done == 0 ? 0 : p.elapsed_s / static_cast<double>(p.done) * static_cast<double>(p.total - p.done);
    const std::string line = fmt::format("{}/{} cases, {:.0f} s, about {:.0f} s left", p.done, p.total, p.elapsed_s, left_s);
    if (terminal_)
      fmt::print(stderr, "\r\033[K{}  {:.60}", line, p.case_id);
    else if (p.done > 0)
      fmt::print(stderr, "{}\n", line);
    shown_ = true;
  }
  void clear() const {
    if (terminal_ && shown_) fmt::print(stderr, "\r\033[K");
  }

 private:
  bool silent_, terminal_;
  double next_s_ = 0;
  bool shown_ = false;
};

void announce(const RunPlan& plan, const fs::path& folder) {
  fmt::print("assay: {} cases; records go to {}\n", plan.cases.size(), folder.string());
  std::map<std::string, std::pair<std::string, int>> seen;  // library -> (target, variants)
  for (const Candidate& c : plan.targets) {
    auto& [name, variants] = seen[c.spec.library.empty() ? "in this program: " + c.spec.name() : c.spec.library];
    name = c.spec.target;
    variants += !c.spec.variant.empty() && c.unavailable.empty();
  }
  for (const auto& [library, entry] : seen) {
    if (library.front() != '/') {
      fmt::print("  {}\n", library);
      continue;
    }
    fmt::print("  {:<9} {}{}\n", entry.first, report::redact(library), entry.second > 0 ? fmt::format(" (+ {} variants)", entry.second) : "");
  }
}

}  // namespace

int run(const RunArguments& args) {
  RunPlan plan;
  plan.deadline_s = args.deadline_s;
  const bool own_cases = !args.cases.empty() || !args.case_files.empty();
  const std::string level = own_cases && !args.level_given ? "" : args.level;
  plan.cases = select_cases({level, args.ops, args.tags, args.case_files, args.cases});
  plan.targets = choose_targets({args.targets, args.libraries, level == "deep" || own_cases});
  Folder folder = open_folder(args);
  refuse_changed_libraries(folder.earlier, plan.targets);
  std::vector<Record> records = std::move(folder.earlier);
  for (const Record& r : records) plan.done.insert(report::key(r));
  if (!args.quiet) announce(plan, folder.path);

  report::Environment environment = report::read_environment();
  environment.command = args.command;
  environment.assay["generator"] = std::to_string(generator_version);
  environment.assay["grammar"] = fmt::format("g{}", generator_version);
  write_text(folder.path / "environment.json", report::to_json(environment));
  report::JsonlWriter writer(folder.path / "run.jsonl");
  report::RunFacts facts;
  facts.level = level, facts.folder = report::redact(folder.path.string()), facts.strict = args.strict;
  ProgressLine progress(args);
  Runner runner(plan, [&](const Record& r) {
    records.push_back(r);
    writer.append(r);
  }, std::ref(progress));
  std::vector<std::string> troubles;
  try {
    facts.interrupted = !runner.run();
  } catch (const FileError& e) {
    troubles.push_back(e.what());
  }
  progress.clear();
  const auto required = static_cast<std::size_t>(std::count_if(records.begin(), records.end(), [](const Record& r) { return r.required; }));
  if (facts.interrupted || !troubles.empty())
    facts.not_started = std::max<std::int64_t>(1, static_cast<std::int64_t>(runner.required_pairs()) - static_cast<std::int64_t>(required));
  environment.libraries = runner.libraries();
  try {
    write_text(folder.path / "environment.json", report::to_json(environment));
    write_text(folder.path / "report.md", report::markdown_report(records, environment, facts));
  } catch (const FileError& e) {
    troubles.push_back(e.what());
  }
  for (const std::string& trouble : troubles) fmt::print(stderr, "assay: {}\n", trouble);

  const int code = report::exit_code(report::summarise(records), facts);
  if (args.quiet && code == 0 && troubles.empty()) return 0;
  report::TerminalOptions options = report::terminal_options(STDOUT_FILENO);
  if (args.plain) options.color = false;
  if (!args.quiet) fmt::print("{}", report::terminal_table(records, options));
  fmt::print("{}{}\n", report::terminal_failures(records, options), report::verdict_sentence(records, facts));
  return code;
}

}  // namespace assay::cli
