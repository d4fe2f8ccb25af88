// SPDX-License-Identifier: Apache-2.0
#include "probes/cli/folder.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <set>
#include <sstream>

namespace assay::cli {

namespace fs = std::filesystem;
using report::FileError;

namespace {

fs::path fresh_path() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char stamp[32];
  std::strftime(stamp, sizeof stamp, "%Y%m%dT%H%M%SZ", &utc);
  fs::path path = fs::path("assay-runs") / stamp;
  for (int i = 2; fs::exists(path); ++i) path = fs::path("assay-runs") / fmt::format("{}-{}", stamp, i);
  return path;
}

std::optional<report::Environment> read_conditions(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  try {
    return report::environment_from_json(text.str());
  } catch (const FileError&) {  // lost or damaged: it is written anew
    return std::nullopt;
  }
}

}  // namespace

RunFolder::RunFolder(const std::string& out, bool resume) : path_(out.empty() ? fresh_path() : fs::path(out)) {
  const fs::path records = path_ / "run.jsonl";
  const bool there = fs::exists(records);
  if (resume && !there)
    throw FileError(
        fmt::format("there is no run to resume in {}: run.jsonl is missing; leave --resume away to start one", path_.string()));
  if (there && !resume)
    throw FileError(
        fmt::format("{} already holds a run: add --resume to continue it, or choose another --out", path_.string()));
  std::error_code error;
  fs::create_directories(path_, error);
  if (error || access(path_.c_str(), W_OK | X_OK) != 0)
    throw FileError(fmt::format("cannot write into the run folder {}: {}; choose another with --out", path_.string(),
                                error ? error.message() : "permission denied"));
  writer_ = std::make_unique<report::JsonlWriter>(records);
  if (!resume) return;
  report::ReadResult read = report::read_jsonl(records);
  if (read.torn) report::cut_to(records, read.good_bytes);
  earlier_ = std::move(read.records);
  conditions_ = read_conditions(path_ / "environment.json");
}

void RunFolder::write(const char* name, const std::string& text) const {
  const fs::path path = path_ / name, fresh = path.string() + ".new";
  std::ofstream out(fresh, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  std::error_code error;
  if (out) fs::rename(fresh, path, error);
  if (out && !error) return;
  fs::remove(fresh, error);
  throw FileError(
      fmt::format("cannot write {}: check free space and permissions; the records in run.jsonl are safe", path.string()));
}

void refuse_changed_variables(const report::Environment& then, const report::Environment& now) {
  std::set<std::string> names;
  for (const auto& [name, value] : then.variables) names.insert(name);
  for (const auto& [name, value] : now.variables) names.insert(name);
  const auto value = [](const report::Environment& e, const std::string& name) {
    const auto it = e.variables.find(name);
    return it == e.variables.end() ? std::string("not set") : it->second;
  };
  for (const std::string& name : names) {
    const char kind = report::variable_class(name);
    if (kind != 'E' && value(then, name) != value(now, name))
      throw FileError(
          fmt::format("{} was {} when this run began and is {} now: set it back, or start a new run with another --out", name,
                      value(then, name), value(now, name)));
  }
}

}  // namespace assay::cli
