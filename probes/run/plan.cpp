// SPDX-License-Identifier: Apache-2.0
#include "probes/run/plan.hpp"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "probes/library/cudnn_graph.hpp"
#include "probes/library/opened.hpp"
#include "probes/ops/op.hpp"
#include "probes/run/device_worker.hpp"
#include "probes/run/process.hpp"

namespace assay {

namespace {

using nlohmann::json;

constexpr std::pair<cudnn::Mode, const char*> modes[] = {
    {cudnn::Mode::a, "A"}, {cudnn::Mode::b, "B"}, {cudnn::Mode::fallback, "fallback"}};
constexpr double case_deadline_s = 300;  // cuDNN compiles up to a few dozen kernels for one case

json to_json(const cudnn::Candidate& c) {
  json j = {
      {"name", c.name()}, {"engine", c.engine}, {"knobs", c.knobs}, {"numerical", c.numerical}, {"behaviour", c.behaviour}};
  if (c.workspace >= 0) j["workspace"] = c.workspace;
  return j;
}

/// "state" of a candidate: "plan", "compiled" (and the driver is a stub, which loads nothing) or "failed".
json offered(cudnn::Graph& graph, int plans) {
  json out = {{"engines", graph.engine_count()}, {"modes", json::object()}, {"candidates", json::array()}};
  for (const auto& [mode, name] : modes) {
    try {
      out["modes"][name] = graph.propose(mode);
    } catch (const cudnn::Refused& e) {
      out["modes"][name] = json::array(), out["silent"][name] = e.what();
    }
  }
  for (std::size_t i = 0; i < graph.candidates().size(); ++i) {
    std::string why, state = "plan";
    const bool finalise = plans < 0 || static_cast<int>(i) < plans;
    if (finalise) {
      try {
        graph.finalise(static_cast<int>(i));
      } catch (const cudnn::OnlyCompiled&) {
        state = "compiled";
      } catch (const std::runtime_error& e) {
        state = "failed", why = e.what();
      }
    }
    json c = to_json(graph.candidates()[i]);
    if (finalise) c["state"] = state;
    if (!why.empty()) c["reason"] = why;
    out["candidates"].push_back(std::move(c));
  }
  return out;
}

/// Cases that differ in their data only have one graph; refused ones have none.
std::string graph_key(const std::string& case_id) {
  try {
    const Op& op = find_op(case_op(case_id));
    return op.cudnn_graph ? cudnn::key(op.cudnn_graph(make_problem(case_id))) : "";
  } catch (const Unsupported&) {
    return {};
  }
}

}  // namespace

json plan_case(const PlanSet& set, const std::string& case_id) {
  for (const std::string& path : set.beside) open_exactly(path);
  const cudnn::Library& library = cudnn::Library::open(set.cudnn, set.driver);
  const Problem problem = make_problem(case_id);
  const Op& op = find_op(case_op(case_id));
  json graphs = json::array();
  try {
    if (!op.cudnn_graph) throw Unsupported(fmt::format("there is no graph for {}", op.name));
    const cudnn::Description whole = op.cudnn_graph(problem);
    for (const cudnn::Description* d : whole.chain()) try {
        cudnn::Graph graph(library, *d, set.sm, set.device, set.guards ? cudnn::Guards::on : cudnn::Guards::off);
        graphs.push_back(offered(graph, set.plans));
        if (!graph.passed_guard().empty()) graphs.back()["guard"] = graph.passed_guard();
      } catch (const cudnn::Refused& e) {
        graphs.push_back({{"refused", e.what()}});
      }
  } catch (const Unsupported& e) {
    graphs = {{{"refused", e.what()}}};
  }
  return {{"cudnn", library.version_text()}, {"graphs", std::move(graphs)}};
}

json plan_cases(const PlanSet& set, const std::vector<std::string>& cases, std::string& cudnn_version,
                const std::function<void(const json&)>& done) {
  json out = json::array();
  const Arena arena;
  std::optional<Worker> worker;
  std::map<std::string, std::size_t> planned;  // graph -> place in `out`
  for (const std::string& id : cases) {
    const std::string graph = graph_key(id);
    if (const auto [at, fresh] = planned.try_emplace(graph, out.size()); !fresh && !graph.empty()) {
      out[at->second]["also"].push_back(id);
      continue;
    }
    if (!worker || !worker->alive())
      worker.emplace(TargetSpec{.target = "plan", .variant = {}, .library = {}, .environment = device_environment(false)},
                     arena.fd());
    const Answer answer = worker->ask({{"do", "plan"}, {"case", id}, {"set", to_json(set)}}, case_deadline_s);
    if (answer.interrupted) break;
    json graphs = json::array();
    if (!answer.reply) {
      graphs.push_back({{"error", answer.death}});
    } else if (answer.reply->kind == ReplyKind::unavailable) {
      throw LibraryError(answer.reply->reason);
    } else if (answer.reply->kind != ReplyKind::ok) {
      graphs.push_back({{"error", answer.reply->reason}});
    } else {
      json reply = json::parse(answer.reply->plan);
      cudnn_version = reply.at("cudnn");
      graphs = std::move(reply.at("graphs"));
    }
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      json& entry = graphs[i];
      entry["case"] = id;
      if (graphs.size() > 1) entry["graph"] = i + 1, entry["graphs"] = graphs.size();
      done(entry);
      out.push_back(std::move(entry));
    }
  }
  return out;
}

json to_json(const PlanSet& s) {
  return {{"cudnn", s.cudnn},   {"driver", s.driver}, {"beside", s.beside}, {"sm", s.sm},
          {"device", s.device}, {"plans", s.plans},   {"guards", s.guards}};
}

PlanSet plan_set_from_json(const json& j) {
  return {j.at("cudnn"), j.at("driver"), j.at("beside").get<std::vector<std::string>>(), j.at("sm"), j.at("device"),
          j.at("plans"), j.at("guards")};
}

}  // namespace assay
