// SPDX-License-Identifier: Apache-2.0
#include "report/census.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace assay::report {

namespace {

using nlohmann::ordered_json;

/// Of a plan, a field that says how much device memory the algorithm asked for; nothing where there is none.
ordered_json workspace_of(const Record& r) {
  const ordered_json plan = ordered_json::parse(r.plan, nullptr, false);
  return plan.is_object() && plan.contains("workspace") ? plan["workspace"] : ordered_json();
}

std::string line(const Record& r) {
  ordered_json out = {
      {"case", r.case_id}, {"target", r.variant.empty() ? r.target : r.target + ":" + r.variant}, {"algorithm", r.algorithm}};
  if (const auto kernel = r.conditions.find("library kernel"); kernel != r.conditions.end()) out["kernel"] = kernel->second;
  if (const ordered_json workspace = workspace_of(r); !workspace.is_null()) out["workspace"] = workspace;
  return out.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

std::string algorithm_census(const std::vector<Record>& records) {
  std::vector<std::string> lines;
  for (const Record& r : records)
    if (!r.algorithm.empty() && !r.library.path.empty() && r.target != "kernel") lines.push_back(line(r));
  std::ranges::sort(lines);
  std::string out;
  for (const std::string& l : lines) out += l + "\n";
  return out;
}

}  // namespace assay::report
