// SPDX-License-Identifier: Apache-2.0
// A variant of the targets "cudnn", and the finalised plans that it chooses for a chain of graphs. Needs no device.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "probes/library/cudnn_graph.hpp"

namespace assay {

/// "mode=A", "mode=B", "mode=fallback": the first proposal that becomes a plan; "engine=28": that engine with its own knobs.
/// After a '+': "guards=off", "state=other_shape", "state=twice".
struct CudnnChoice {
  /// What happens in the handle before the plan: nothing; the plan of another shape is executed before every execution; the
  /// problem is planned twice, and every execution is the first plan's, then the second's into the same memory.
  enum class State : std::uint8_t { fresh, other_shape, twice };
  std::optional<cudnn::Mode> mode;
  std::int64_t engine = -1;
  cudnn::Guards guards = cudnn::Guards::on;
  State state = State::fresh;
};

std::optional<CudnnChoice> parse_cudnn_variant(std::string_view);
std::vector<std::string> cudnn_variants();
/// Every number below `engines`, and what comes after a '+' with mode A.
std::vector<std::string> cudnn_deep_variants(int engines);

struct CudnnPlan {
  cudnn::Graph graph;
  int index;                // of its candidate, which is finalised
  std::string passed_over;  // why a better placed proposal became no plan
  const cudnn::Candidate& candidate() const { return graph.candidates()[static_cast<std::size_t>(index)]; }
};

/// One plan per graph of the chain. Throws cudnn::Refused and cudnn::Error.
std::vector<CudnnPlan> cudnn_plans(const cudnn::Description&, const CudnnChoice&,
                                   const std::function<cudnn::Graph(const cudnn::Description&)>& make);

/// What the plans of a chain declare together: the notes and knobs that any of them has, all their workspace.
cudnn::Candidate cudnn_merged(const std::vector<CudnnPlan>&);
/// "eng1_k24=34", of a chain "eng1_k24=34, eng1_k24=38".
std::string cudnn_plan_names(const std::vector<CudnnPlan>&);
/// Of one plan what cuDNN serialises, without its code; of a chain an array of those.
std::string cudnn_plan_json(const std::vector<CudnnPlan>&);

}  // namespace assay
