// SPDX-License-Identifier: Apache-2.0
#include "probes/cli/known_defects.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace assay::cli {

namespace fs = std::filesystem;

std::vector<KnownDefect> known_defects() {
  std::error_code none;
  const fs::path beside = fs::read_symlink("/proc/self/exe", none).parent_path() / "data" / "known_defects.json";
  if (!fs::exists(beside, none)) return read_known_defects(embedded_known_defects(), "known_defects.json (embedded)");
  std::ifstream in(beside, std::ios::binary);
  std::ostringstream text;
  if (fs::is_directory(beside, none) || !in || !(text << in.rdbuf()))
    throw CaseError(
        fmt::format("cannot read the list of known defects {}: check the path and its permissions", beside.string()));
  return read_known_defects(text.str(), beside.string());
}

void list_known() {
  const std::vector<KnownDefect> all = known_defects();
  for (const KnownDefect& d : all) {
    fmt::print("{}: {} {}{}\n", d.id, d.component, range_text(d),
               d.sm.empty() ? "" : fmt::format(", SM {}", fmt::join(d.sm, " ")));
    fmt::print("  what       {}\n", d.what);
    if (!d.when.empty()) fmt::print("  when       {}\n", d.when);
    fmt::print("  case       {}\n", d.case_id.empty() ? "none: " + d.no_case : d.case_id);
    fmt::print("  source     {}\n  confidence {} (reviewed {})\n", d.source, d.confidence, d.reviewed);
  }
  fmt::print("{} known defects; a failure that one explains says so, and stays a failure\n", all.size());
}

}  // namespace assay::cli
