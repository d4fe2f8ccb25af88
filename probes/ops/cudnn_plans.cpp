// SPDX-License-Identifier: Apache-2.0
#include "probes/ops/cudnn_plans.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "reference/digest.hpp"

namespace assay {

namespace {

constexpr std::pair<std::string_view, cudnn::Mode> modes[] = {
    {"mode=A", cudnn::Mode::a}, {"mode=B", cudnn::Mode::b}, {"mode=fallback", cudnn::Mode::fallback}};
using State = CudnnChoice::State;

/// The whole word is a number of an engine.
std::optional<std::int64_t> engine(std::string_view word) {
  if (!word.starts_with("engine=")) return std::nullopt;
  std::int64_t n = -1;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data() + 7, end, n);
  return error == std::errc{} && stop == end && n >= 0 ? std::optional(n) : std::nullopt;
}

/// Without what compiled engines put into it: a cubin (100 KB) becomes its length and digest; arguments, which hold addresses
/// of this process, go.
std::string shortened(const std::string& text) {
  nlohmann::json j = nlohmann::json::parse(text, nullptr, false);
  if (j.is_discarded() || !j.is_object()) return text;
  const nlohmann::json::json_pointer kernels("/engine/payload/kernels");
  if (!j.contains(kernels)) return text;
  for (nlohmann::json& kernel : j[kernels]) {
    if (kernel.contains("cubin") && kernel["cubin"].is_string()) {
      const std::string& cubin = kernel["cubin"].get_ref<const std::string&>();
      kernel["cubin"] = {{"base64 length", cubin.size()}, {"xxh3-128", hex(digest_bytes(std::as_bytes(std::span(cubin))))}};
    }
    kernel.erase("kernelParams");
  }
  return j.dump();
}

CudnnPlan plan(cudnn::Graph graph, const CudnnChoice& choice) {
  if (!choice.mode) {
    if (const std::int64_t count = graph.engine_count(); choice.engine >= count)
      throw cudnn::Refused(fmt::format("cuDNN numbers the engines of this graph 0 to {}", count - 1));
    const int index = graph.propose_engine(choice.engine);
    graph.finalise(index);
    return {std::move(graph), index, {}};
  }
  const std::vector<int> proposed = graph.propose(*choice.mode);
  std::string why = "the heuristic proposes nothing";
  for (const int index : proposed) try {
      graph.finalise(index);
      return {std::move(graph), index, index == proposed.front() ? "" : why};
    } catch (const cudnn::Refused& e) {
      why = e.what();
    } catch (const cudnn::Error& e) {
      why = e.what();
    }
  throw cudnn::Refused(fmt::format("none of {} proposals became a plan; the last: {}", proposed.size(), why));
}

}  // namespace

std::optional<CudnnChoice> parse_cudnn_variant(std::string_view variant) {
  const auto word = [&variant] {
    const std::size_t end = std::min(variant.find('+'), variant.size());
    const std::string_view out = variant.substr(0, end);
    variant.remove_prefix(std::min(end + 1, variant.size()));
    return out;
  };
  CudnnChoice c;
  if (variant.ends_with('+')) return std::nullopt;
  const std::string_view how = word();
  const auto mode = std::ranges::find(modes, how, &std::pair<std::string_view, cudnn::Mode>::first);
  if (mode != std::end(modes))
    c.mode = mode->second;
  else if (const auto n = engine(how))
    c.engine = *n;
  else
    return std::nullopt;
  while (!variant.empty()) {
    const std::string_view more = word();
    if (more == "guards=off" && c.guards == cudnn::Guards::on)
      c.guards = cudnn::Guards::off;
    else if (more == "state=other_shape" && c.state == State::fresh)
      c.state = State::other_shape;
    else if (more == "state=twice" && c.state == State::fresh)
      c.state = State::twice;
    else
      return std::nullopt;
  }
  return c;
}

std::vector<std::string> cudnn_variants() {
  std::vector<std::string> out;
  for (const auto& [name, mode] : modes) out.emplace_back(name);
  return out;
}

std::vector<std::string> cudnn_deep_variants(int engines) {
  std::vector<std::string> out = {"mode=A+state=other_shape", "mode=A+state=twice", "mode=A+guards=off"};
  for (int n = 0; n < engines; ++n) out.push_back(fmt::format("engine={}", n));
  return out;
}

std::vector<CudnnPlan> cudnn_plans(const cudnn::Description& description, const CudnnChoice& choice,
                                   const std::function<cudnn::Graph(const cudnn::Description&)>& make) {
  std::vector<CudnnPlan> out;
  for (const cudnn::Description* d : description.chain()) out.push_back(plan(make(*d), choice));
  return out;
}

cudnn::Candidate cudnn_merged(const std::vector<CudnnPlan>& plans) {
  cudnn::Candidate all = plans.front().candidate();
  std::set<std::string> numerical, behaviour;
  all.workspace = 0;
  for (const CudnnPlan& p : plans) {
    const cudnn::Candidate& c = p.candidate();
    numerical.insert(c.numerical.begin(), c.numerical.end()), behaviour.insert(c.behaviour.begin(), c.behaviour.end());
    for (const auto& [knob, value] : c.knobs) {
      std::int64_t& most = all.knobs.try_emplace(knob, value).first->second;
      most = std::max(most, value);
    }
    all.workspace += std::max<std::int64_t>(0, c.workspace);
  }
  // A note of quality, not of a danger: it holds only where every plan has it.
  const auto strict = [](const CudnnPlan& p) {
    const auto& notes = p.candidate().numerical;
    return std::ranges::find(notes, "strict NaN propagation") != notes.end();
  };
  if (!std::ranges::all_of(plans, strict)) numerical.erase("strict NaN propagation");
  all.numerical.assign(numerical.begin(), numerical.end()), all.behaviour.assign(behaviour.begin(), behaviour.end());
  return all;
}

std::string cudnn_plan_names(const std::vector<CudnnPlan>& plans) {
  std::vector<std::string> names;
  for (const CudnnPlan& p : plans) names.push_back(p.candidate().name());
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string cudnn_plan_json(const std::vector<CudnnPlan>& plans) {
  std::vector<std::string> texts;
  for (const CudnnPlan& p : plans) texts.push_back(shortened(p.graph.plan_json(p.index)));
  return texts.size() == 1 ? texts.front() : fmt::format("[{}]", fmt::join(texts, ","));
}

}  // namespace assay
