// SPDX-License-Identifier: Apache-2.0
// What cuDNN offers for a case on a device that need not be here: engines, knobs, notes, workspace. cuDNN is opened in a
// worker; a graph that kills it costs its own case.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace assay {

/// Files and device that plans are made for.
struct PlanSet {
  std::string cudnn, driver;        // absolute paths
  std::vector<std::string> beside;  // opened before cuDNN so that it finds them: NVRTC, cuBLASLt
  int sm = 0;                       // 120
  std::string device;               // properties as cuDNN takes them, JSON
  int plans = -1;                   // candidates of each graph, from the first, that are made plans, not only listed; -1: all
  bool guards = true;               // those of the front end
};

/// In the worker. {"cudnn": version, "graphs": one entry per graph of the case}: {"engines", "candidates": [...], "modes":
/// {"A": [places in candidates], ...}, "silent": {mode: reason}}, or {"refused": one sentence}; "guard": what the front end
/// would have said. Throws cudnn::Error: the graph or a call is wrong, which is a defect of ours until shown otherwise.
nlohmann::json plan_case(const PlanSet&, const std::string& case_id);

/// In the judge: one entry per distinct graph, in order, with "case" and the ids of further cases that have the same graph
/// ("also") added, "graph" and "graphs" where a case is several of them, and one entry per refused case; {"error": ...} where
/// the worker died or says that a graph is wrong. `done` is called after each. Throws Unavailable (no worker) and LibraryError
/// (the files cannot be opened).
nlohmann::json plan_cases(const PlanSet&, const std::vector<std::string>& cases, std::string& cudnn_version,
                          const std::function<void(const nlohmann::json&)>& done);

nlohmann::json to_json(const PlanSet&);
PlanSet plan_set_from_json(const nlohmann::json&);

}  // namespace assay
