// SPDX-License-Identifier: Apache-2.0
#include "probes/diagnose/known.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "probes/ops/op.hpp"

namespace assay {

namespace {

using nlohmann::json;

constexpr std::size_t largest_file = 4 << 20, most_entries = 5000, longest_text = 1000;
constexpr int deepest = 4;  // a list of objects that hold lists

/// For messages: the start of a text that may hold anything.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, 40));
  for (char& c : out)
    if (c < ' ' || c > '~') c = '?';
  return out;
}

/// "12.6.3" as numbers; empty when the text is none.
std::vector<int> parts(std::string_view version) {
  std::vector<int> out;
  while (!version.empty()) {
    int n = -1;
    const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), n);
    const auto used = static_cast<std::size_t>(end - version.data());
    if (error != std::errc{} || n < 0 || used == 0 || out.size() == 6) return {};
    out.push_back(n);
    version.remove_prefix(used);
    if (version.empty()) return out;
    if (version.front() != '.' || version.size() == 1) return {};
    version.remove_prefix(1);
  }
  return out;
}

std::vector<int> needed_parts(std::string_view version) {
  std::vector<int> out = parts(version);
  if (out.empty())
    throw CaseError(fmt::format("'{}' is no version: expected numbers with dots such as 13.1.0", shown(version)));
  return out;
}

int compare(std::vector<int> a, std::vector<int> b) {
  const std::size_t n = std::max(a.size(), b.size());
  a.resize(n), b.resize(n);
  return a < b ? -1 : a > b ? 1 : 0;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

/// "10.x" holds 10.0 and 10.3.
bool sm_fits(const std::string& pattern, const std::string& sm) {
  if (!pattern.ends_with(".x")) return pattern == sm;
  return sm.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
}

bool is_sm_pattern(const std::string& text) {
  const std::size_t dot = text.find('.');
  if (dot == 0 || dot == text.npos || text.size() != dot + 2) return false;
  const std::string_view major = std::string_view(text).substr(0, dot);
  return major.find_first_not_of("0123456789") == major.npos &&
         (text.back() == 'x' || std::isdigit(static_cast<unsigned char>(text.back())) != 0);
}

/// cuBLAS hands products to the cuBLASLt of its own version.
bool serves(const std::string& component, const std::string& loaded) {
  const std::string wanted = lower(component);
  return wanted == loaded || (wanted == "cublaslt" && loaded == "cublas");
}

struct EntryReader {
  const json& entry;
  std::set<std::string> used{};

  [[noreturn]] void wrong(std::string_view key, std::string_view expected) const {
    throw CaseError(fmt::format("its field \"{}\" is not as expected: {}", key, expected));
  }
  std::string checked(std::string_view key, const json& value) const {
    if (!value.is_string()) wrong(key, "text");
    const auto& text = value.get_ref<const std::string&>();
    if (text.size() > longest_text) wrong(key, fmt::format("text of at most {} bytes", longest_text));
    // It is printed: no control codes.
    if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }))
      wrong(key, "text without control characters");
    return text;
  }
  std::string text(const char* key) {
    used.insert(key);
    const auto it = entry.find(key);
    return it == entry.end() ? "" : checked(key, *it);
  }
  std::string needed(const char* key) {
    std::string out = text(key);
    if (out.empty()) wrong(key, "text, and it must be there");
    return out;
  }
  std::string version(const char* key) {
    std::string out = text(key);
    if (!out.empty() && parts(out).empty()) wrong(key, "a version such as 13.1.0");
    return out;
  }
  std::vector<std::string> list(const char* key) {
    used.insert(key);
    const auto it = entry.find(key);
    std::vector<std::string> out;
    if (it == entry.end()) return out;
    if (!it->is_array() || it->size() > 100) wrong(key, "a list of at most 100 texts");
    for (const json& item : *it) out.push_back(checked(key, item));
    return out;
  }
};

bool one_of(std::string_view first_word_of, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view w) {
    return first_word_of.starts_with(w) && (first_word_of.size() == w.size() || first_word_of[w.size()] == ';');
  });
}

bool is_date(std::string_view d) {
  return d.size() == 10 && d[4] == '-' && d[7] == '-' &&
         std::ranges::count_if(d, [](unsigned char c) { return std::isdigit(c) != 0; }) == 8;
}

KnownDefect read_entry(const json& entry) {
  EntryReader in{entry};
  KnownDefect d;
  d.id = in.needed("id"), d.component = in.needed("component");
  static constexpr std::string_view components[] = {"cublas", "cublasLt", "cudnn", "nvrtc", "onednn", "openblas", "blis"};
  if (std::ranges::find(components, d.component) == std::end(components))
    in.wrong("component", "cublas, cublasLt, cudnn, nvrtc, onednn, openblas or blis");
  d.from = in.version("from"), d.last = in.version("last"), d.fixed_in = in.version("fixed_in");
  if (d.from.empty() && d.last.empty() && d.fixed_in.empty()) in.wrong("from", "one of from, last and fixed_in");
  const std::string& end = d.last.empty() ? d.fixed_in : d.last;
  if (!d.from.empty() && !end.empty() && compare_versions(d.from, end) > 0)
    in.wrong("from", "a version before the end of the range");
  d.also_fixed = in.list("also_fixed");
  for (const std::string& v : d.also_fixed)
    if (parts(v).size() < 3) in.wrong("also_fixed", "versions of three numbers such as 12.8.5");
  d.sm = in.list("sm");
  for (const std::string& s : d.sm)
    if (!is_sm_pattern(s)) in.wrong("sm", "a list of texts such as 9.0 or 10.x");
  d.when = in.text("when"), d.case_id = in.text("case"), d.no_case = in.text("no_case");
  if (d.case_id.empty() == d.no_case.empty()) in.wrong("case", "either a case of the suite, or no_case with the reason");
  if (d.case_id.empty() != d.when.empty()) in.wrong("when", "a condition where there is a case, none where there is none");
  if (!d.when.empty()) d.predicate = Predicate::parse(d.when);
  if (!d.case_id.empty() && canonical(d.case_id) != d.case_id)
    in.wrong("case", fmt::format("the canonical id {}", canonical(d.case_id)));
  d.what = in.needed("what"), d.source = in.needed("source");
  if (!d.source.starts_with("https://") && !d.source.starts_with("docs/"))
    in.wrong("source", "an address of https, or a page such as docs/found.md");
  d.confidence = in.needed("confidence");
  if (!one_of(d.confidence, {"vendor", "reported", "measured"}))
    in.wrong("confidence", "vendor, reported or measured, and after a semicolon what is not known");
  d.reviewed = in.needed("reviewed");
  if (!is_date(d.reviewed)) in.wrong("reviewed", "a date such as 2026-12-01");
  for (const auto& [key, value] : entry.items())
    if (!in.used.contains(key))
      throw CaseError(fmt::format("it has a field \"{}\" that no entry has: is it misspelt?", shown(key)));
  return d;
}

json parse_json(std::string_view text, std::string_view where) {
  if (text.size() > largest_file)
    throw CaseError(
        fmt::format("{} is larger than {} MiB, which no list of defects is: name another file", where, largest_file >> 20));
  const auto guard = [&](int depth, json::parse_event_t, json&) {
    if (depth > deepest)
      throw CaseError(fmt::format("{} is nested more than {} levels deep: expected a list of entries", where, deepest));
    return true;
  };
  try {
    return json::parse(text, guard);
  } catch (const json::parse_error& e) {
    throw CaseError(
        fmt::format("{} is not JSON from byte {} on: mend it, or remove it so that the embedded list is used", where, e.byte));
  } catch (const json::exception&) {
    throw CaseError(fmt::format("{} holds a number that fits no type: expected texts only", where));
  }
}

/// Defaults that stand for another key's value.
void resolve(Facts& facts) {
  const auto follow = [&](const char* key, std::string_view as_other, const char* other) {
    const auto mine = facts.find(key), theirs = facts.find(other);
    if (mine != facts.end() && theirs != facts.end() && mine->second == as_other) mine->second = theirs->second;
  };
  follow("out", "same", "in");
  if (facts["op"] != "attention") return;
  follow("hkv", "0", "hq"), follow("skv", "0", "sq"), follow("dv", "0", "d");
}

/// What failed; a convention or a case that could not fail is no defect.
bool failed(const report::Record& r) {
  if (r.verdict == report::Verdict::suspect) return r.label != "POLICY" && r.label != "MISTRUSTED";
  return r.verdict == report::Verdict::fail || r.verdict == report::Verdict::fault;
}

}  // namespace

LoadedLibrary loaded_library(std::string_view text, std::string_view sm) {
  LoadedLibrary out{.component = {}, .version = {}, .sm = sm_text(sm)};
  const std::size_t space = text.find(' ');
  if (space == text.npos || space == 0) return out;
  std::string_view version = text.substr(space + 1);
  version = version.substr(0, version.find_first_not_of("0123456789."));
  if (parts(version).empty()) return out;
  out.component = lower(text.substr(0, space)), out.version = version;
  return out;
}

std::string sm_text(std::string_view text) {
  if (text.starts_with("sm_")) text.remove_prefix(3);
  if (!text.empty() && (text.back() == 'a' || text.back() == 'f')) text.remove_suffix(1);
  if (is_sm_pattern(std::string(text)) && text.back() != 'x') return std::string(text);
  if (text.size() < 2 || text.size() > 4 || text.find_first_not_of("0123456789") != text.npos) return "";
  return fmt::format("{}.{}", text.substr(0, text.size() - 1), text.back());
}

int compare_versions(std::string_view a, std::string_view b) {
  return compare(needed_parts(a), needed_parts(b));
}

std::vector<KnownDefect> read_known_defects(std::string_view text, std::string_view where) {
  const json all = parse_json(text, where);
  if (!all.is_array() || all.size() > most_entries)
    throw CaseError(fmt::format("{} is not a list of at most {} entries: restore it, or remove it", where, most_entries));
  std::vector<KnownDefect> out;
  std::set<std::string> ids;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::string name = fmt::format("entry {}", i + 1);
    try {
      if (!all[i].is_object()) throw CaseError("it is no object");
      if (const auto id = all[i].find("id"); id != all[i].end() && id->is_string())
        name += fmt::format(" ({})", shown(id->get_ref<const std::string&>()));
      out.push_back(read_entry(all[i]));
      if (!ids.insert(out.back().id).second) throw CaseError("another entry has its id");
    } catch (const CaseError& e) {
      throw CaseError(fmt::format("{} {}: {}", where, name, e.what()));
    }
  }
  return out;
}

Facts facts_of(const CaseId& id) {
  Facts out(id.values.begin(), id.values.end());
  out["op"] = id.op;
  resolve(out);
  return out;
}

Facts facts_of(const report::Record& r) {
  Facts out = facts_of(parse_case(r.case_id, find_op(case_op(r.case_id)).grammar));
  out["core"] = r.library.core, out["algorithm"] = r.algorithm;
  return out;
}

bool in_range(const KnownDefect& d, const LoadedLibrary& loaded) {
  if (!serves(d.component, loaded.component)) return false;
  const std::vector<int> version = parts(loaded.version);
  if (version.empty()) return false;
  if (!d.from.empty() && compare(version, parts(d.from)) < 0) return false;
  if (!d.last.empty()) {
    const std::vector<int> last = parts(d.last);
    if (compare({version.begin(), version.begin() + static_cast<std::ptrdiff_t>(std::min(last.size(), version.size()))}, last) >
        0)
      return false;
  } else if (!d.fixed_in.empty() && compare(version, parts(d.fixed_in)) >= 0) {
    return false;
  }
  for (const std::string& patch : d.also_fixed) {
    const std::vector<int> fixed = parts(patch);
    const bool same_line = version.size() >= 2 && std::equal(fixed.begin(), fixed.begin() + 2, version.begin());
    if (same_line && compare(version, fixed) >= 0) return false;
  }
  return d.sm.empty() || std::ranges::any_of(d.sm, [&](const std::string& s) { return sm_fits(s, loaded.sm); });
}

std::vector<const KnownDefect*> matching(const std::vector<KnownDefect>& all, const LoadedLibrary& loaded, const Facts& facts) {
  std::vector<const KnownDefect*> out;
  for (const KnownDefect& d : all)
    if (in_range(d, loaded) && d.predicate.holds(facts)) out.push_back(&d);
  return out;
}

std::string known_defect_of(const std::vector<KnownDefect>& all, const report::Record& r, std::string_view version_text) {
  if (!failed(r)) return "";
  const auto sm = r.conditions.find("library sm");
  const LoadedLibrary loaded = loaded_library(version_text, sm == r.conditions.end() ? "" : sm->second);
  if (loaded.version.empty()) return "";
  std::string out;
  for (const KnownDefect* d : matching(all, loaded, facts_of(r)))
    out += fmt::format("{}{}: known, {} ({})", out.empty() ? "" : "; ", d->id,
                       d->fixed_in.empty() ? "no fixed version is known" : "fixed in " + d->fixed_in, d->source);
  return out;
}

std::string range_text(const KnownDefect& d) {
  std::string out = d.from.empty() ? "" : "from " + d.from;
  const auto add = [&](std::string words) { out += (out.empty() ? "" : " ") + std::move(words); };
  if (!d.last.empty())
    add("to " + d.last + (d.fixed_in.empty() ? "" : fmt::format(", right in {}", d.fixed_in)));
  else
    add(d.fixed_in.empty() ? "on" : "before " + d.fixed_in);
  return out + (d.also_fixed.empty() ? "" : fmt::format(", also right from {}", fmt::join(d.also_fixed, ", ")));
}

std::string notice(const KnownDefect& d, std::string_view named) {
  return fmt::format("your {} is inside the range of {} ({}; {}), {}", named, d.id, d.what,
                     d.fixed_in.empty() ? "no fixed version is known" : "fixed in " + d.fixed_in,
                     d.case_id.empty() ? "which no case here meets: " + d.no_case : "see case " + d.case_id);
}

std::vector<std::string> notices(const std::vector<KnownDefect>& all, const std::vector<report::LibraryIdentity>& libraries,
                                 std::string_view sm) {
  std::vector<std::string> out;
  std::set<std::string> told;
  for (const report::LibraryIdentity& l : libraries) {
    const LoadedLibrary loaded = loaded_library(l.version, sm);
    const std::size_t end = l.version.find(loaded.version) + loaded.version.size();
    for (const KnownDefect& d : all)
      if (in_range(d, loaded) && told.insert(d.id + " " + loaded.version).second)
        out.push_back(notice(d, std::string_view(l.version).substr(0, end)));
  }
  return out;
}

}  // namespace assay
