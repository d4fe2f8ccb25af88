// SPDX-License-Identifier: Apache-2.0
#include "probes/cli/profile.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "probes/diagnose/known.hpp"
#include "probes/library/sha256.hpp"
#include "report/summary.hpp"

namespace assay::cli {

namespace {

constexpr int days_of_warning = 14;
constexpr std::size_t largest_file = 1 << 20;

bool matches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

/// Reads one table and, at its end, refuses what is left in it.
class Table {
 public:
  Table(const toml::table& table, std::string name, const std::string& where)
      : table_(table), name_(std::move(name)), where_(where) {}

  [[noreturn]] void wrong(const toml::node* at, const std::string& what) const {
    throw CaseError(fmt::format("profile {} line {}: {}", where_, at == nullptr ? line() : line_of(*at), what));
  }
  int line() const { return line_of(table_); }
  static int line_of(const toml::node& n) { return static_cast<int>(n.source().begin.line); }

  const toml::node* find(std::string_view key) {
    known_.emplace_back(key);
    return table_.get(key);
  }
  std::string text(std::string_view key, bool needed = false) {
    const toml::node* const n = find(key);
    if (n == nullptr && needed) wrong(nullptr, fmt::format("{}{} is missing, expected a text", name_, key));
    if (n == nullptr) return {};
    if (!n->is_string()) wrong(n, fmt::format("{}{} is not a text, expected {} = \"...\"", name_, key, key));
    std::string value = n->as_string()->get();
    if (needed && value.empty()) wrong(n, fmt::format("{}{} is empty, expected a text", name_, key));
    return value;
  }
  bool flag(std::string_view key) {
    const toml::node* const n = find(key);
    if (n != nullptr && !n->is_boolean()) wrong(n, fmt::format("{}{} is not true or false", name_, key));
    return n != nullptr && n->as_boolean()->get();
  }
  std::vector<std::string> texts(std::string_view key) {
    std::vector<std::string> out;
    const toml::node* const n = find(key);
    if (n == nullptr) return out;
    const auto refuse = [&](const toml::node& at) {
      wrong(&at, fmt::format("{}{} is not a list of texts, expected {} = [\"...\"]", name_, key, key));
    };
    if (!n->is_array()) refuse(*n);
    for (const toml::node& item : *n->as_array()) {
      if (!item.is_string()) refuse(item);
      out.push_back(item.as_string()->get());
    }
    return out;
  }
  /// A table inside, or null.
  const toml::table* table(std::string_view key) {
    const toml::node* const n = find(key);
    if (n != nullptr && !n->is_table()) wrong(n, fmt::format("{}{} is not a table, expected [{}{}]", name_, key, name_, key));
    return n == nullptr ? nullptr : n->as_table();
  }
  void finish() const {
    for (const auto& [key, value] : table_)
      if (std::ranges::find(known_, key.str()) == known_.end())
        wrong(&value, fmt::format("the key {}{} is unknown, expected one of {}", name_, key.str(), fmt::join(known_, ", ")));
  }

 private:
  const toml::table& table_;
  std::string name_;
  const std::string& where_;
  std::vector<std::string> known_;
};

Waiver read_waiver(const toml::table& table, const std::string& where) {
  Table t(table, "waiver.", where);
  Waiver w;
  w.line = t.line();
  w.target = t.text("target", true);
  w.reason = t.text("reason", true);
  const toml::node* const when = t.find("when");
  try {
    w.when = Predicate::parse(t.text("when", true));
  } catch (const CaseError& e) {
    t.wrong(when, fmt::format("waiver.when: {}", e.what()));
  }
  w.verdicts = t.texts("verdict");
  for (const std::string& v : w.verdicts)
    if (v != "fail" && v != "fault" && v != "flaky" && v != "suspect")
      t.wrong(t.find("verdict"), fmt::format("waiver.verdict has '{}', expected fail, fault, flaky or suspect", v));
  const toml::node* const expires = t.find("expires");
  if (expires == nullptr || !expires->is_date())
    t.wrong(expires, "waiver.expires is missing or no date, expected the last day on which it holds: expires = 2027-03-01");
  const toml::date d = expires->as_date()->get();
  w.expires = fmt::format("{:04}-{:02}-{:02}", d.year, d.month, d.day);
  t.finish();
  return w;
}

/// [environment.gpu] name = "..."  ->  ("gpu.name", "..."); tables may lie in tables.
void read_promises(const toml::table& table, const std::string& prefix, const std::string& where, std::vector<Promised>& out) {
  for (const auto& [key, value] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* const inner = value.as_table())
      read_promises(*inner, name + ".", where, out);
    else if (value.is_string())
      out.push_back({name, value.as_string()->get(), Table::line_of(value)});
    else
      throw CaseError(
          fmt::format("profile {} line {}: environment.{} is not a text, expected the promised value or a shell pattern", where,
                      Table::line_of(value), name));
  }
}

/// Where a run says what a promise speaks of. A name that no run has is a typing error, found before anything runs.
const std::vector<std::string_view>& gpu_keys() {
  static const std::vector<std::string_view> keys = {"name", "sm", "ecc", "mig", "vbios", "user_driver", "kernel_driver"};
  return keys;
}
void check_promise(const Promised& p, const std::string& where) {
  const std::size_t dot = p.what.find('.'), last = p.what.rfind('.');
  const std::string section = p.what.substr(0, dot), field = p.what.substr(last + 1);
  const auto one_of = [&](const std::vector<std::string_view>& keys) { return std::ranges::find(keys, field) != keys.end(); };
  const bool right = section == "assay" || section == "system" || section == "variables" ? dot != p.what.npos && dot == last
                     : section == "gpu"                                                  ? dot == last && one_of(gpu_keys())
                     : section == "library" ? dot < last && one_of({"version", "sha256", "build_id", "path", "core"})
                                            : false;
  if (!right)
    throw CaseError(fmt::format(
        "profile {} line {}: environment.{} is nothing that a run records, expected assay.*, system.* or variables.* "
        "as in `assay env --json`, gpu.{{{}}}, or library.NAME.{{version, sha256, build_id, path, core}}",
        where, p.line, p.what, fmt::join(gpu_keys(), ", ")));
  // A misspelled one would be "not set" for ever.
  if (section == "variables" && report::variable_class(field) == '\0')
    throw CaseError(fmt::format(
        "profile {} line {}: the variable {} is none that a run records, expected one that changes what a library computes or "
        "loads, such as OMP_NUM_THREADS",
        where, p.line, field));
}

std::string found_value(const std::map<std::string, std::string>& values, const std::string& key) {
  const auto at = values.find(key);
  return at == values.end() ? "" : at->second;
}

std::vector<std::string> gpu_values(const report::Environment& e, const std::string& field) {
  std::vector<std::string> out;
  for (const report::Gpu& g : e.gpus)
    out.push_back(field == "name"          ? g.name
                  : field == "sm"          ? g.sm
                  : field == "ecc"         ? g.ecc
                  : field == "mig"         ? g.mig
                  : field == "vbios"       ? g.vbios
                  : field == "user_driver" ? g.user_driver
                                           : g.kernel_driver);
  return out;
}

/// Whether a file is what the profile calls NAME: by its own words ("OpenBLAS 0.3.21"), or by soname or file name up to ".so"
/// or a version. Never by a part of the name: cublas is not cublasLt, and cuDNN has eight files that begin alike.
bool is_library(const report::LibraryIdentity& l, const std::string& wanted) {
  const auto lower = [](std::string text) {
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    return text;
  };
  const std::string name = lower(wanted);
  if (loaded_library(l.version).component == name) return true;
  for (const std::string& file : {l.soname, std::filesystem::path(l.path).filename().string()}) {
    const std::string stem = lower(file.substr(0, file.find_first_of(".-")));
    if (!stem.empty() && (stem == name || stem == "lib" + name)) return true;
  }
  return false;
}

std::vector<std::string> library_values(const report::Environment& e, const std::string& name, const std::string& field) {
  std::vector<std::string> out;
  for (const report::LibraryIdentity& l : e.libraries)
    if (is_library(l, name))
      out.push_back(field == "version"    ? l.version
                    : field == "sha256"   ? l.sha256
                    : field == "build_id" ? l.build_id
                    : field == "core"     ? l.core
                                          : l.path);
  return out;
}

/// What this run has of it: several libraries may answer to one name, and all must be as promised.
std::vector<std::string> values_of(const report::Environment& e, const std::string& what) {
  const std::size_t dot = what.find('.'), last = what.rfind('.');
  const std::string section = what.substr(0, dot), key = what.substr(dot + 1);
  if (section == "assay") return {found_value(e.assay, key)};
  if (section == "system") return {found_value(e.system, key)};
  if (section == "variables") return {found_value(e.variables, key)};
  if (section == "gpu") return gpu_values(e, key);
  return library_values(e, what.substr(dot + 1, last - dot - 1), what.substr(last + 1));
}

std::string days_later(std::string_view date, int days) {
  std::tm t{};
  t.tm_year = std::stoi(std::string(date.substr(0, 4))) - 1900, t.tm_mon = std::stoi(std::string(date.substr(5, 2))) - 1;
  t.tm_mday = std::stoi(std::string(date.substr(8, 2))) + days;
  const std::time_t when = timegm(&t);
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(when));
}

}  // namespace

Profile parse_profile(std::string_view text, const std::string& where, const std::string& folder) {
  toml::table root;
  try {
    root = toml::parse(text, where);
  } catch (const toml::parse_error& e) {
    throw CaseError(fmt::format("profile {} line {}: it is no TOML: {}; see docs/profiles.md", where, e.source().begin.line,
                                e.description()));
  }
  Table top(root, "", where);
  const toml::node* const version = top.find("profile");
  if (version == nullptr || !version->is_integer() || version->as_integer()->get() != 1)
    top.wrong(version, "it does not begin with profile = 1, the only version that this assay reads");
  Profile p;
  p.where = where;
  p.sha256 = sha256_hex(std::as_bytes(std::span(text)));
  p.name = top.text("name");
  p.strict = top.flag("strict");
  p.require = top.texts("require");
  if (const toml::table* const cases = top.table("cases")) {
    Table t(*cases, "cases.", where);
    p.level = t.text("level");
    if (!p.level.empty() && p.level != "quick" && p.level != "standard" && p.level != "deep")
      t.wrong(t.find("level"), fmt::format("cases.level is '{}', expected quick, standard or deep", p.level));
    p.ops = t.texts("op"), p.tags = t.texts("tag"), p.cases = t.texts("id"), p.case_files = t.texts("file");
    for (std::string& file : p.case_files) file = (std::filesystem::path(folder) / file).string();
    t.finish();
  }
  if (const toml::table* const targets = top.table("targets")) {
    Table t(*targets, "targets.", where);
    p.targets = t.texts("target"), p.libraries = t.texts("libraries"), p.kernel_builds = t.texts("kernel_builds");
    p.keep_variables = t.flag("keep_variables");
    t.finish();
  }
  if (const toml::table* const environment = top.table("environment")) read_promises(*environment, "", where, p.environment);
  for (const Promised& promised : p.environment) check_promise(promised, where);
  if (const toml::node* const waivers = top.find("waiver")) {
    if (!waivers->is_array_of_tables()) top.wrong(waivers, "waiver is not a list of tables, expected [[waiver]]");
    for (const toml::node& w : *waivers->as_array()) p.waivers.push_back(read_waiver(*w.as_table(), where));
  }
  top.finish();
  return p;
}

Profile load_profile(const std::string& file_or_name) {
  for (const BuiltInProfile& b : built_in_profiles())
    if (b.name == file_or_name) return parse_profile(b.toml, file_or_name, ".");
  std::ifstream in(file_or_name, std::ios::binary);
  std::ostringstream text;
  std::error_code none;
  const bool too_large =
      std::filesystem::is_regular_file(file_or_name, none) && std::filesystem::file_size(file_or_name, none) > largest_file;
  if (std::filesystem::is_directory(file_or_name, none) || !in || too_large || !(text << in.rdbuf())) {
    std::vector<std::string_view> names;
    for (const BuiltInProfile& b : built_in_profiles()) names.push_back(b.name);
    throw CaseError(fmt::format("cannot read the profile {}{}: name a TOML file, or one that is built in: {}", file_or_name,
                                too_large ? " (beyond 1 MiB)" : "", fmt::join(names, ", ")));
  }
  return parse_profile(text.str(), file_or_name, std::filesystem::path(file_or_name).parent_path().string());
}

std::string identity(const Profile& p) {
  return fmt::format("{} (sha256 {})", report::redact(p.where), p.sha256.substr(0, 16));
}

std::string waive(Profile& p, const report::Record& r, std::string_view today) {
  const report::Standing s = report::unexcused(r);
  if (s == report::Standing::pass || s == report::Standing::unsupported || s == report::Standing::unavailable) return "";
  for (Waiver& w : p.waivers) {
    if (!w.verdicts.empty() && std::ranges::find(w.verdicts, report::name(s)) == w.verdicts.end()) continue;
    if (w.expires < today || !matches(w.target, report::full_target(r)) || !w.when.holds(facts_of(r))) continue;
    ++w.used;
    return fmt::format("until {}: {}", w.expires, w.reason);
  }
  return "";
}

std::vector<std::string> waiver_notes(const Profile& p, std::string_view today) {
  std::vector<std::string> out;
  for (const Waiver& w : p.waivers) {
    const std::string which = fmt::format("the waiver of profile {} line {} ({})", p.where, w.line, w.reason);
    if (w.expires < today)
      out.push_back(fmt::format("{} has expired on {} and excuses nothing: renew or remove it", which, w.expires));
    else if (w.expires <= days_later(today, days_of_warning))
      out.push_back(fmt::format("{} expires on {}", which, w.expires));
    if (w.expires >= today && w.used == 0) out.push_back(fmt::format("{} excused nothing in this run", which));
  }
  return out;
}

std::vector<std::string> broken_promises(const Profile& p, const report::Environment& e) {
  std::vector<std::string> out;
  for (const Promised& promised : p.environment) {
    const std::vector<std::string> values = values_of(e, promised.what);
    if (values.empty())
      out.push_back(fmt::format("the profile promises {} = '{}', and this run has none", promised.what, promised.pattern));
    for (const std::string& value : values)
      if (!matches(promised.pattern, value))
        out.push_back(fmt::format("the profile promises {} = '{}', this run has '{}'", promised.what, promised.pattern, value));
  }
  return out;
}

std::string today_utc() {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::chrono::system_clock::now()));
}

}  // namespace assay::cli
