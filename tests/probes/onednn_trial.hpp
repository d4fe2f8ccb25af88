// SPDX-License-Identifier: Apache-2.0
// Every oneDNN of this machine, and targets bound to one of them: the system's, and one of major 3 that tools/fetch_wheels.sh
// put into the cache.
#pragma once

#include <cstdlib>
#include <filesystem>

#include "fakes.hpp"
#include "gemm_trial.hpp"
#include "probes/library/onednn.hpp"

namespace assay::trial {

/// One file per major: two files of the same soname cannot both be mapped.
inline std::vector<std::string> onednn_files() {
  std::vector<std::string> out;
  for (const FoundLibrary& f : find_libraries({}))
    if (f.family == "onednn") out.push_back(f.path);
  const char* cache = std::getenv("XDG_CACHE_HOME");
  const char* home = std::getenv("HOME");
  const std::string wheels =
      (cache != nullptr && *cache != '\0' ? std::string(cache) : std::string(home == nullptr ? "" : home) + "/.cache") +
      "/assay/wheels/";
  for (const char* file : {"onednn-cpu-gomp-2023.2.0/lib/libdnnl.so.3", "paddlepaddle-3.3.1/lib/libdnnl.so.3"}) {
    std::error_code none;
    const std::string path = std::filesystem::canonical(wheels + file, none).string();
    if (none) continue;
    out.push_back(path);
    break;
  }
  if (out.empty()) MESSAGE("not run: no oneDNN here (apt-get install libdnnl2, or tools/fetch_wheels.sh)");
  return out;
}

inline TargetSpec onednn_spec(const std::string& path, const std::string& variant = "") {
  return {.target = "onednn", .variant = variant, .library = path, .environment = {}};
}

/// The target bound to one file, for helpers that know no libraries.
inline Target bound_to(Target target, const std::string& path) {
  target.prepare = [path, inner = target.prepare](const Problem& p, const TargetSpec& spec) {
    TargetSpec own = spec;
    own.library = path;
    return inner(p, own);
  };
  return target;
}

/// Why the target cannot serve, "" when it can.
inline std::string refusal_of(const Target& target, const std::string& id, const TargetSpec& who) {
  try {
    target.prepare(make_problem(id), who);
  } catch (const Unavailable& e) {
    return std::string("unavailable: ") + e.what();
  } catch (const Unsupported& e) {
    return std::string("unsupported: ") + e.what();
  }
  return "";
}

}  // namespace assay::trial
