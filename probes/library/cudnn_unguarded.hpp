// SPDX-License-Identifier: Apache-2.0
// A step of cudnn-frontend without its checks. The front end keeps users from versions, devices and shapes with known defects;
// whoever wants to prove such a defect must get past it. Included by the one file that knows NVIDIA's headers.
#pragma once

#include <cudnn_frontend.h>

#include <memory>
#include <utility>

namespace assay::cudnn {

using FrontEndStep = cudnn_frontend::graph::INode;

namespace opened {

// Private entries of a step: an explicit instantiation may name them ([temp.spec.general]/6).
using Entry = cudnn_frontend::error_t (FrontEndStep::*)();
struct Infer {
  friend Entry entry(Infer);
};
struct Expand {
  friend Entry entry(Expand);
};
template <class Which, Entry member>
struct Open {
  friend Entry entry(Which) { return member; }
};
template struct Open<Infer, &FrontEndStep::infer_properties_node>;
template struct Open<Expand, &FrontEndStep::expand_node>;

}  // namespace opened

/// pre_validate_node and post_validate_node of a step hold its checks. The traversal that calls them is not virtual, but a
/// step's entries are: the step is wrapped, its checks are not forwarded, everything else is.
class Unguarded final : public FrontEndStep {
  using Error = cudnn_frontend::error_t;
  using Attributes = cudnn_frontend::graph::Tensor_attributes;
  using Uid = Attributes::uid_t;
  using Tensors = std::unordered_map<std::int64_t, std::shared_ptr<cudnn_frontend::Tensor>>;

  /// Protected entries, named through a derived class ([class.protected]).
  struct Reach : FrontEndStep {
    static constexpr auto steps = &Reach::sub_nodes;
    static constexpr auto expand = &Reach::expand_subtree;
    static constexpr auto attributes = &Reach::collect_tensor_attributes_subtree;
    static constexpr auto tensors = &Reach::create_cudnn_tensors_subtree;
    static constexpr auto operations = &Reach::create_cudnn_operations;
    static constexpr auto by_value = &Reach::collect_pass_by_value_tensors_subtree;
    static constexpr auto workspace = &Reach::collect_tensors_in_workspace_subtree;
    static constexpr auto workspace_bytes = &Reach::get_fe_workspace_size_subtree;
    static constexpr auto replacements = &Reach::collect_variant_pack_replacements_subtree;
  };

 public:
  Unguarded(std::shared_ptr<FrontEndStep> step, const cudnn_frontend::detail::Context& of_graph)
      : FrontEndStep(of_graph), step_(std::move(step)) {}

  Type getType() override { return step_->getType(); }
  void serialize(nlohmann::json& j) const override { step_->serialize(j); }
  std::pair<std::int64_t, std::unordered_map<cudnn_frontend::KnobType_t, std::int64_t>> override_heuristics_query()
      const override {
    return step_->override_heuristics_query();
  }

 private:
  Error infer_properties_node() override { return ((*step_).*entry(opened::Infer()))(); }
  Error expand_node() override {
    Error e = ((*step_).*entry(opened::Expand()))();
    for (const auto& inner : (*step_).*Reach::steps)
      if (e.is_good()) e = ((*inner).*Reach::expand)();
    return e;
  }
  Error collect_tensor_attributes_node(std::vector<std::shared_ptr<Attributes>>& out) const override {
    return ((*step_).*Reach::attributes)(out);
  }
  Error create_cudnn_tensors_node(Tensors& made) const override { return ((*step_).*Reach::tensors)(made); }
  Error create_cudnn_operations(std::unordered_set<Uid>& uids,
                                std::vector<std::shared_ptr<cudnn_frontend::Operation>>& operations,
                                cudnn_frontend::graph::managed_backend_descriptor_t& raw, Tensors& made) const override {
    return ((*step_).*Reach::operations)(uids, operations, raw, made);
  }
  Error collect_pass_by_value_tensors_node(std::unordered_map<Uid, Attributes::pass_by_values_t>& values) const override {
    return ((*step_).*Reach::by_value)(values);
  }
  Error collect_tensors_in_workspace_node(
      std::unordered_map<Uid, std::tuple<std::int64_t, std::int64_t, std::vector<float>>>& changes,
      std::int64_t& offset) const override {
    return ((*step_).*Reach::workspace)(changes, offset);
  }
  std::int64_t get_fe_workspace_size_node() const override { return ((*step_).*Reach::workspace_bytes)(); }
  Error collect_variant_pack_replacements_node(
      std::unordered_map<Uid, std::pair<Uid, std::int64_t>>& replacements) const override {
    return ((*step_).*Reach::replacements)(replacements);
  }

  std::shared_ptr<FrontEndStep> step_;
};

}  // namespace assay::cudnn
