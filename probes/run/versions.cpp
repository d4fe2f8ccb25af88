// SPDX-License-Identifier: Apache-2.0
#include "probes/run/versions.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "probes/run/device_worker.hpp"
#include "report/environment.hpp"

namespace assay {

namespace {

std::string role_of(const TargetSpec& spec) {
  for (const Op& op : all_ops())
    for (const Target& t : op.targets)
      if (t.name == spec.target) return t.library_role.empty() ? spec.target : t.library_role;
  return spec.target;
}

}  // namespace

std::vector<report::LibraryIdentity> library_versions(const std::vector<Candidate>& targets, double deadline_s) {
  std::vector<std::map<std::string, std::string>> sets;  // files by role, one worker each
  for (const Candidate& c : targets) {
    if (c.spec.library.empty() || !c.unavailable.empty()) continue;
    std::map<std::string, std::string> files = c.spec.set;
    files[role_of(c.spec)] = c.spec.library;
    const bool on_device = c.spec.device >= 0;
    const auto fits = std::ranges::find_if(sets, [&](const auto& other) {
      return (on_device && other.contains("cuda") &&
              std::ranges::all_of(files,
                                  [&](const auto& f) {
                                    const auto there = other.find(f.first);
                                    return there == other.end() || there->second == f.second;
                                  })) ||
             other == files;
    });
    if (fits == sets.end())
      sets.push_back(std::move(files));
    else
      fits->merge(files);
  }
  std::vector<report::LibraryIdentity> out;
  std::set<std::string> seen;
  for (const std::map<std::string, std::string>& files : sets)
    for (report::LibraryIdentity& l : open_in_worker(files, deadline_s).mapped)
      if (!l.version.empty() && seen.insert(l.path).second) out.push_back(std::move(l));
  return out;
}

std::string version_of(const std::vector<report::LibraryIdentity>& libraries, const std::string& path) {
  const auto found = std::ranges::find_if(
      libraries, [&](const report::LibraryIdentity& l) { return l.path == path || report::redact(l.path) == path; });
  return found == libraries.end() ? "" : found->version;
}

}  // namespace assay
