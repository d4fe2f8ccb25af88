// SPDX-License-Identifier: Apache-2.0
// plan: what cuDNN would offer for the suite's cases on a GPU that need not be here.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "probes/cli/cases.hpp"
#include "probes/cli/commands.hpp"
#include "probes/library/cudnn_graph.hpp"
#include "probes/library/device_files.hpp"
#include "probes/library/library.hpp"
#include "probes/library/library_set.hpp"
#include "probes/ops/embedded_devices.hpp"
#include "probes/run/plan.hpp"
#include "probes/run/process.hpp"
#include "report/redact.hpp"

namespace assay::cli {

namespace {

using nlohmann::json;

constexpr std::string_view format_name = "assay plan";

std::string known_devices() {
  std::string out;
  for (const EmbeddedDevice& d : embedded_devices())
    out += fmt::format("{}{} (sm_{})", out.empty() ? "" : ", ", d.name, json::parse(d.json).at("sm").get<int>());
  return out;
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (std::filesystem::is_directory(path) || !in || !(text << in.rdbuf()))
    throw LibraryError(fmt::format("cannot read {}: check the path and its permissions", path));
  return text.str();
}

json parsed(const std::string& path) {
  json j = json::parse(read_text(path), nullptr, false);
  if (j.is_discarded()) throw LibraryError(fmt::format("{} is not JSON", path));
  return j;
}

/// {"name", "sm", "properties"}. "sm_120" is the first device of that SM.
json find_device(const std::string& arch) {
  if (arch.empty()) throw LibraryError(fmt::format("plan needs --arch: sm_N, one of {}, or a JSON file", known_devices()));
  for (const EmbeddedDevice& d : embedded_devices()) {
    json j = json::parse(d.json);
    if (arch == d.name || arch == fmt::format("sm_{}", j.at("sm").get<int>())) return j;
  }
  std::error_code none;
  if (!std::filesystem::exists(arch, none))
    throw LibraryError(fmt::format("--arch {} is neither a device known here nor a file; known: {}", arch, known_devices()));
  json j = parsed(arch);
  if (!j.is_object() || !j.contains("properties")) j = {{"properties", j}};
  const json& properties = j["properties"];
  if (!properties.is_object() || !properties.contains("deviceVer") || !properties["deviceVer"].is_number_integer())
    throw LibraryError(
        fmt::format("{} describes no device: expected an object with deviceVer (1200 for sm_120) and the other fields of "
                    "data/device-properties/rtx-5090.json",
                    arch));
  j["sm"] = properties["deviceVer"].get<int>() / 10;
  if (!j.contains("name")) j["name"] = properties.value("deviceName", std::filesystem::path(arch).stem().string());
  return j;
}

/// cuDNN opens libcuda.so.1 even where it only plans; the stub that a toolkit ships for linking is enough for that.
std::string find_driver(const std::vector<LibrarySet>& sets) {
  std::vector<std::filesystem::path> stubs;
  for (const bool stub : {false, true})
    for (const LibrarySet& set : sets)
      for (const SetFile& f : set.files) {
        if (f.role == "cuda" && f.stub == stub) return f.path;
        stubs.push_back(std::filesystem::path(f.path).parent_path() / "stubs" / "libcuda.so");
      }
  stubs.emplace_back("/usr/local/cuda/lib64/stubs/libcuda.so");
  std::error_code none;
  for (const std::filesystem::path& stub : stubs)
    if (std::filesystem::exists(stub, none)) return std::filesystem::canonical(stub, none).string();
  throw LibraryError(
      "cuDNN opens libcuda.so.1 even to plan, and neither a driver nor a toolkit's stub was found; name one with --libraries "
      "cuda=PATH");
}

PlanSet find_files(const PlanArguments& args) {
  PlanSet out;
  const std::vector<LibrarySet> sets = find_library_sets(args.libraries);
  const std::map<std::string, std::string> files = find_library_files(args.libraries);
  if (!args.cudnn.empty()) {
    std::error_code missing;
    out.cudnn = std::filesystem::canonical(args.cudnn, missing).string();
    if (missing) throw LibraryError(fmt::format("there is no file {}: --cudnn names a libcudnn.so.9", args.cudnn));
  } else if (const auto found = files.find("cudnn"); found != files.end()) {
    out.cudnn = found->second;
  } else {
    throw LibraryError("no cuDNN was found; name its file with --cudnn PATH/libcudnn.so.9");
  }
  out.driver = find_driver(sets);
  // What lies in the set of this cuDNN; another cuDNN finds its own.
  for (const LibrarySet& set : sets)
    if (const SetFile* f = set.file("cudnn"); f != nullptr && f->path == out.cudnn)
      for (const char* role : {"nvrtc", "cublasLt"})
        if (const SetFile* beside = set.file(role)) out.beside.push_back(beside->path);
  return out;
}

std::string notes(const json& candidate) {
  std::vector<std::string> all = candidate.at("numerical").get<std::vector<std::string>>();
  for (const json& b : candidate.at("behaviour")) all.push_back(b);
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string workspace(const json& candidate) {
  return candidate.contains("workspace") ? fmt::format("{}", candidate["workspace"].get<std::int64_t>()) : "-";
}

std::string state_of(const json& candidate) {
  return candidate.value("state", "-");
}

/// Candidates that became plans, or would with a driver that loads.
int planned(const json& entry) {
  return static_cast<int>(std::ranges::count_if(
      entry.at("candidates"), [](const json& c) { return state_of(c) == "plan" || state_of(c) == "compiled"; }));
}

std::string counts(const json& entry) {
  std::string out;
  for (const char* mode : {"A", "B", "fallback"})
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", mode, entry.at("modes").at(mode).size());
  return out;
}

/// The case and, where it is several graphs, which of them.
std::string title(const json& entry) {
  std::string out = entry.at("case");
  if (entry.contains("graph")) out += fmt::format(" (graph {} of {})", entry["graph"].get<int>(), entry["graphs"].get<int>());
  return out;
}

/// Every candidate of one graph.
void print_whole(const json& entry) {
  fmt::print("{}\n", title(entry));
  if (entry.contains("refused")) return fmt::print("  refused: {}\n", entry["refused"].get<std::string>());
  if (entry.contains("error")) return fmt::print("  ERROR: {}\n", entry["error"].get<std::string>());
  fmt::print("  {} engines numbered; candidates: {}\n", entry.at("engines").get<int>(), counts(entry));
  if (entry.contains("silent"))
    for (const auto& [mode, why] : entry["silent"].items()) fmt::print("  {}: {}\n", mode, why.get<std::string>());
  if (entry.contains("guard")) fmt::print("  passed: {}\n", entry["guard"].get<std::string>());
  if (entry.at("candidates").empty()) return;
  fmt::print("  {:<44} {:<14} {:<9} {:>12}  {}\n", "engine and knobs", "rank in", "state", "workspace", "notes");
  for (std::size_t i = 0; i < entry.at("candidates").size(); ++i) {
    const json& c = entry["candidates"][i];
    std::string ranks;
    for (const auto& [mode, places] : entry["modes"].items())
      for (std::size_t rank = 0; rank < places.size(); ++rank)
        if (places[rank] == i) ranks += fmt::format("{}{}{}", ranks.empty() ? "" : " ", mode == "fallback" ? "F" : mode, rank);
    fmt::print("  {:<44} {:<14} {:<9} {:>12}  {}\n", c.at("name").get<std::string>(), ranks, state_of(c), workspace(c),
               notes(c));
    if (c.contains("reason")) fmt::print("      {}\n", c["reason"].get<std::string>());
  }
}

/// One line for one graph: what heuristic A would take.
void print_line(const json& entry) {
  std::string said;
  if (entry.contains("refused")) {
    said = "refused: " + entry["refused"].get<std::string>();
  } else if (entry.contains("error")) {
    said = "ERROR: " + entry["error"].get<std::string>();
  } else {
    const json& first = entry["modes"]["A"];
    said = fmt::format("{} candidates", entry["candidates"].size());
    if (!entry["candidates"].empty() && entry["candidates"][0].contains("state"))
      said = fmt::format("{} of {}", planned(entry), said);
    if (entry["candidates"].empty() && entry.contains("silent")) said += "; " + entry["silent"].front().get<std::string>();
    if (!first.empty()) {
      const json& c = entry["candidates"][first[0].get<std::size_t>()];
      said += fmt::format("; first {}, workspace {}, {}", c["name"].get<std::string>(), workspace(c), notes(c));
    }
  }
  fmt::print("{}\n  {}\n", title(entry), said);
}

}  // namespace

int plan(const PlanArguments& args) {
  if (const std::string why = cudnn::absent(); !why.empty()) throw LibraryError(why);
  const json device = find_device(args.arch);
  PlanSet set = find_files(args);
  set.sm = device.at("sm"), set.device = device.at("properties").dump(), set.plans = args.quick_look ? 0 : args.plans;
  set.guards = !args.no_guards;
  std::vector<std::string> ids;
  for (const ListedCase& c :
       select_cases({args.cases.empty() || args.level_given ? args.level : "", args.ops, args.tags, {}, args.cases}))
    ids.push_back(c.id);
  const bool whole = ids.size() <= 3;
  std::string version;
  int refused = 0, errors = 0, without = 0;
  const json cases = plan_cases(set, ids, version, [&](const json& entry) {
    refused += entry.contains("refused"), errors += entry.contains("error");
    if (entry.contains("candidates") && (set.plans != 0 ? planned(entry) == 0 : entry["candidates"].empty())) ++without;
    if (!args.json) (whole ? print_whole : print_line)(entry);
  });
  if (args.json) {
    const json all = {{"format", format_name},
                      {"cudnn", version},
                      {"front end", cudnn::front_end_version()},
                      {"file", report::redact(set.cudnn)},
                      {"driver", report::redact(set.driver)},
                      {"device", device.at("name")},
                      {"sm", set.sm},
                      {"cases", cases}};
    fmt::print("{}\n", all.dump(1));
  } else {
    fmt::print("{} cases, {} graphs for {} (sm_{}) by cuDNN {}: {} refused, {} without a plan, {} errors\n", ids.size(),
               cases.size() - static_cast<std::size_t>(refused), device.at("name").get<std::string>(), set.sm, version, refused,
               without, errors);
  }
  return interrupted ? 3 : errors > 0 ? 1 : 0;
}

namespace {

json plan_output(const std::string& path) {
  json j = parsed(path);
  if (!j.is_object() || j.value("format", "") != format_name || !j.contains("cases"))
    throw LibraryError(fmt::format("{} is no output of assay plan --json", path));
  return j;
}

std::map<std::string, json> by_title(const json& entries) {
  std::map<std::string, json> out;
  for (const json& entry : entries) out[title(entry)] = entry;
  return out;
}

std::map<std::string, json> by_name(const json& candidates) {
  std::map<std::string, json> out;
  for (const json& c : candidates) out[c.at("name").get<std::string>()] = c;
  return out;
}

std::string first_choice(const json& entry, const std::string& mode) {
  const json& places = entry.at("modes").at(mode);
  return places.empty() ? "nothing" : entry.at("candidates")[places[0].get<std::size_t>()].at("name").get<std::string>();
}

std::string state(const json& entry) {
  return entry.contains("refused") ? "refused: " + entry["refused"].get<std::string>()
         : entry.contains("error") ? "error: " + entry["error"].get<std::string>()
                                   : "planned";
}

/// Lines about one case that both have.
std::vector<std::string> differences(const json& a, const json& b) {
  std::vector<std::string> out;
  if (state(a) != state(b)) return {fmt::format("{} | {}", state(a), state(b))};
  if (!a.contains("candidates")) return out;
  for (const char* mode : {"A", "B", "fallback"})
    if (first_choice(a, mode) != first_choice(b, mode))
      out.push_back(fmt::format("first of {}: {} | {}", mode, first_choice(a, mode), first_choice(b, mode)));
  const auto in_a = by_name(a["candidates"]), in_b = by_name(b["candidates"]);
  for (const auto& [name, c] : in_a) {
    const auto other = in_b.find(name);
    if (other == in_b.end()) {
      out.push_back(fmt::format("{}: offered | not offered", name));
      continue;
    }
    if (notes(c) != notes(other->second)) out.push_back(fmt::format("{}: {} | {}", name, notes(c), notes(other->second)));
    if (workspace(c) != workspace(other->second))
      out.push_back(fmt::format("{}: workspace {} | {}", name, workspace(c), workspace(other->second)));
    if (state_of(c) != state_of(other->second))
      out.push_back(fmt::format("{}: {} | {}", name, state_of(c), state_of(other->second)));
  }
  for (const auto& [name, c] : in_b)
    if (!in_a.contains(name)) out.push_back(fmt::format("{}: not offered | offered", name));
  return out;
}

}  // namespace

int plan_diff(const std::string& path_a, const std::string& path_b) {
  const json a = plan_output(path_a), b = plan_output(path_b);
  for (const char* key : {"cudnn", "front end", "device", "sm"})
    if (a.value(key, json()) != b.value(key, json()))
      fmt::print("{}: {} | {}\n", key, a.value(key, json()).dump(), b.value(key, json()).dump());
  const auto in_a = by_title(a["cases"]), in_b = by_title(b["cases"]);
  int different = 0, same = 0;
  for (const auto& [id, entry] : in_a) {
    const auto other = in_b.find(id);
    const std::vector<std::string> lines =
        other == in_b.end() ? std::vector<std::string>{"planned | not asked"} : differences(entry, other->second);
    (lines.empty() ? same : different) += 1;
    if (!lines.empty()) fmt::print("{}\n", id);
    for (const std::string& line : lines) fmt::print("  {}\n", line);
  }
  for (const auto& [id, entry] : in_b)
    if (!in_a.contains(id)) ++different, fmt::print("{}\n  not asked | planned\n", id);
  fmt::print("{} graphs differ, {} are the same\n", different, same);
  return different == 0 ? 0 : 1;
}

}  // namespace assay::cli
