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

/// On every oneDNN, plain and packed, these cases of exact data give exactly the true result and nothing else is touched. What
/// a library has not is passed over; returns how many were compared.
inline int require_exact_everywhere(const Target& target, const std::vector<std::string>& ids) {
  int compared = 0;
  for (const std::string& path : onednn_files())
    for (const char* variant : {"", "layout=packed"})
      for (const std::string& id : ids) {
        CAPTURE(path);
        const std::string refused = refusal_of(target, id, onednn_spec(path, variant));
        if (refused.empty()) {
          require_exact(bound_to(target, path), variant, id);
          ++compared;
        } else {
          CAPTURE(id);
          CHECK(contains(refused, "unsupported: "));
        }
      }
  return compared;
}

/// The same inside the bounds, on data of any kind, every output judged.
inline int require_bounded_everywhere(const Target& target, const std::vector<std::string>& ids) {
  int compared = 0;
  for (const std::string& path : onednn_files())
    for (const std::string& id : ids) {
      CAPTURE(path);
      CAPTURE(id);
      if (const std::string refused = refusal_of(target, id, onednn_spec(path)); !refused.empty()) {
        CHECK(contains(refused, "unsupported: "));
        continue;
      }
      Trial t(bound_to(target, path), id, "");
      for (const std::uint64_t seed : {1, 2}) {
        t.run(seed);
        const Arithmetic arithmetic = t.call->report().arithmetic;
        const Op& op = find_op(t.problem.id.op);
        const std::vector<Expected> due = op.expect(t.problem, t.buffers.all(), {});
        const std::vector<std::size_t> outputs = t.problem.outputs();
        for (std::size_t i = 0; i < outputs.size(); ++i) {
          const Discrepancy d = compare(t.problem.operands[outputs[i]], t.buffers.storage(outputs[i]), due[i],
                                        op.bound(t.problem, i, due[i], arithmetic), arithmetic, ~std::uint64_t{0}, false);
          CAPTURE(i);
          CHECK(d.bad == 0);
          CHECK(d.over_iid == 0);
        }
        if (outputs.size() == 1) CHECK(disturbed_bytes(t, seed) == 0);
      }
      ++compared;
    }
  return compared;
}

}  // namespace assay::trial
