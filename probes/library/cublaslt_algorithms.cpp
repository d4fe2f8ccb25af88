// SPDX-License-Identifier: Apache-2.0
// Algorithms of cuBLASLt: their configuration read and set, and the walk through everything that the library says they can be.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "probes/library/cublaslt.hpp"

namespace assay::cuda::lt {

namespace {

template <class T>
void set(const CublasLt& library, cublasLtMatmulAlgo_t& algo, int attribute, T value) {
  library.check(library.fn().cublasLtMatmulAlgoConfigSetAttribute(&algo, attribute, &value, sizeof value),
                fmt::format("setting attribute {} of an algorithm", attribute));
}

template <class T>
void get(const CublasLt& library, const cublasLtMatmulAlgo_t& algo, int attribute, T& value) {
  std::size_t written = 0;
  library.check(library.fn().cublasLtMatmulAlgoConfigGetAttribute(&algo, attribute, &value, sizeof value, &written),
                fmt::format("reading attribute {} of an algorithm", attribute));
}

/// A capability that this version does not know leaves the value as it was.
template <class T>
void capability(const CublasLt& library, const cublasLtMatmulAlgo_t& algo, int attribute, T& value) {
  std::size_t written = 0;
  T answer{};
  if (library.fn().cublasLtMatmulAlgoCapGetAttribute(&algo, attribute, &answer, sizeof answer, &written) ==
      CUBLAS_STATUS_SUCCESS)
    value = answer;
}

void capability(const CublasLt& library, const cublasLtMatmulAlgo_t& algo, int attribute, std::vector<std::uint32_t>& list) {
  std::size_t bytes = 0;
  if (library.fn().cublasLtMatmulAlgoCapGetAttribute(&algo, attribute, nullptr, 0, &bytes) != CUBLAS_STATUS_SUCCESS) return;
  list.resize(bytes / sizeof(std::uint32_t));
  if (!list.empty() &&
      library.fn().cublasLtMatmulAlgoCapGetAttribute(&algo, attribute, list.data(), bytes, &bytes) != CUBLAS_STATUS_SUCCESS)
    list.clear();
}

/// Algorithms of one id.
class Walk {
 public:
  Walk(const CublasLt& library, const Operation& operation, const Limits& limits, const cublasLtMatmulAlgo_t& fresh)
      : library_(library), operation_(operation), limits_(limits), fresh_(fresh), can_(capabilities_of(library, fresh)) {
    for (std::vector<std::uint32_t>* list : {&can_.tiles, &can_.stages}) {
      if (list->empty()) list->push_back(0);  // undefined: the algorithm has no such choice
      std::ranges::sort(*list);
    }
    first_ = configuration_of(library, fresh);
  }

  std::vector<Choice> all() {
    for (int i = 0; i < 4; ++i)
      if (can_.alignment[i] > limits_.alignment[i]) return {};  // cublasLtMatmulAlgoCheck sees no addresses
    std::vector<Choice> shapes, others;
    for (const std::uint32_t stages : can_.stages)
      for (const std::uint32_t tile : can_.tiles) {
        Configuration c = first_;
        c.tile = tile, c.stages = stages;
        if (!accept(c, shapes) || shapes.size() > 1) continue;
        first_ = c;
      }
    if (shapes.empty()) return {};
    vary(others);
    // In turns, so that the beginning of the list has some of each.
    std::vector<Choice> out;
    for (std::size_t i = 0; i < std::max(shapes.size(), others.size()); ++i) {
      if (i < shapes.size()) out.push_back(shapes[i]);
      if (i < others.size()) out.push_back(others[i]);
    }
    return out;
  }

 private:
  bool accept(const Configuration& c, std::vector<Choice>& to) {
    Choice choice{.algo = fresh_, .configuration = c, .numerical_flags = can_.numerical_flags};
    configure(library_, choice.algo, c);
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t status = library_.fn().cublasLtMatmulAlgoCheck(
        library_.handle(), operation_.description.get(), operation_.a.get(), operation_.b.get(), operation_.c.get(),
        operation_.c.get(), &choice.algo, &result);
    if (status != CUBLAS_STATUS_SUCCESS || result.workspaceSize > limits_.workspace_bytes) return false;
    choice.workspace_bytes = result.workspaceSize, choice.waves = result.wavesCount;
    to.push_back(choice);
    return true;
  }

  /// Split-K is where partial sums meet, so every reduction scheme is tried with an even and an odd number of slices.
  void vary(std::vector<Choice>& to) {
    Configuration c = first_;
    for (const std::uint32_t scheme :
         {CUBLASLT_REDUCTION_SCHEME_INPLACE, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE})
      for (const int splits : {2, 3, 8})
        if (can_.split_k && (can_.reductions & scheme) != 0) {
          c.splits = splits, c.reduction = scheme;
          accept(c, to);
        }
    c = first_;
    for (std::uint32_t swizzle = 1; swizzle <= can_.swizzle; ++swizzle) {
      c.swizzle = swizzle;
      accept(c, to);
    }
    c = first_;
    for (std::int32_t custom = 1; custom <= can_.custom; ++custom) {
      c.custom = static_cast<std::uint32_t>(custom);
      accept(c, to);
    }
    c = first_;
    for (const int cluster : {CUBLASLT_CLUSTER_SHAPE_1x1x1, CUBLASLT_CLUSTER_SHAPE_2x1x1, CUBLASLT_CLUSTER_SHAPE_1x2x1,
                              CUBLASLT_CLUSTER_SHAPE_2x2x1}) {
      c.cluster = static_cast<std::uint16_t>(cluster);
      accept(c, to);
    }
    c = first_;
    for (int inner = 1; inner <= CUBLASLT_MATMUL_INNER_SHAPE_MMA16816; ++inner) {
      c.inner = static_cast<std::uint16_t>(inner);
      accept(c, to);
    }
  }

  const CublasLt& library_;
  const Operation& operation_;
  const Limits& limits_;
  cublasLtMatmulAlgo_t fresh_;
  Capabilities can_;
  Configuration first_;
};

}  // namespace

std::string describe(const Configuration& c) {
  return fmt::format("id={} tile={} stages={} splitk={} reduction={} swizzle={} custom={} inner={} cluster={}", c.id, c.tile,
                     c.stages, c.splits, c.reduction, c.swizzle, c.custom, c.inner, c.cluster);
}

Configuration configuration_of(const CublasLt& library, const cublasLtMatmulAlgo_t& algo) {
  Configuration c;
  get(library, algo, CUBLASLT_ALGO_CONFIG_ID, c.id);
  get(library, algo, CUBLASLT_ALGO_CONFIG_TILE_ID, c.tile);
  get(library, algo, CUBLASLT_ALGO_CONFIG_STAGES_ID, c.stages);
  get(library, algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, c.splits);
  get(library, algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, c.reduction);
  get(library, algo, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, c.swizzle);
  get(library, algo, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, c.custom);
  get(library, algo, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, c.inner);
  get(library, algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, c.cluster);
  return c;
}

void configure(const CublasLt& library, cublasLtMatmulAlgo_t& algo, const Configuration& c) {
  set(library, algo, CUBLASLT_ALGO_CONFIG_TILE_ID, c.tile);
  set(library, algo, CUBLASLT_ALGO_CONFIG_STAGES_ID, c.stages);
  set(library, algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, c.splits);
  set(library, algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, c.reduction);
  set(library, algo, CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, c.swizzle);
  set(library, algo, CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, c.custom);
  set(library, algo, CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, c.inner);
  set(library, algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, c.cluster);
}

Capabilities capabilities_of(const CublasLt& library, const cublasLtMatmulAlgo_t& algo) {
  Capabilities c;
  std::int32_t split = 0;
  capability(library, algo, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT, split);
  c.split_k = split != 0;
  capability(library, algo, CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK, c.reductions);
  capability(library, algo, CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT, c.swizzle);
  capability(library, algo, CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX, c.custom);
  capability(library, algo, CUBLASLT_ALGO_CAP_TILE_IDS, c.tiles);
  capability(library, algo, CUBLASLT_ALGO_CAP_STAGES_IDS, c.stages);
  capability(library, algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, c.numerical_flags);
  for (int i = 0; i < 4; ++i) capability(library, algo, CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES + i, c.alignment[i]);
  return c;
}

std::vector<Choice> enumerate(const CublasLt& library, const Operation& o, const Limits& limits) {
  constexpr int most_ids = 1024;
  std::vector<int> ids(most_ids);
  int count = 0;
  library.check(library.fn().cublasLtMatmulAlgoGetIds(library.handle(), o.compute, o.scale, o.type_a, o.type_b, o.type_c,
                                                      o.type_c, most_ids, ids.data(), &count),
                "asking for the algorithms' numbers");
  ids.resize(static_cast<std::size_t>(count));
  std::ranges::sort(ids);
  std::vector<std::vector<Choice>> of_id;
  std::size_t longest = 0;
  for (const int id : ids) {
    cublasLtMatmulAlgo_t fresh{};
    if (library.fn().cublasLtMatmulAlgoInit(library.handle(), o.compute, o.scale, o.type_a, o.type_b, o.type_c, o.type_c, id,
                                            &fresh) != CUBLAS_STATUS_SUCCESS)
      continue;
    of_id.push_back(Walk(library, o, limits, fresh).all());
    longest = std::max(longest, of_id.back().size());
  }
  std::vector<Choice> out;
  for (std::size_t i = 0; i < longest; ++i)
    for (const std::vector<Choice>& list : of_id)
      if (i < list.size()) out.push_back(list[i]);
  return out;
}

}  // namespace assay::cuda::lt
