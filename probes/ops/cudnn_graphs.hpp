// SPDX-License-Identifier: Apache-2.0
// What the descriptions of cuDNN graphs share. Each op's own is in probes/ops/OP/cudnn_target.cpp.
#pragma once

#include <algorithm>
#include <string>

#include "probes/library/cudnn_graph.hpp"
#include "probes/ops/problem.hpp"
#include "probes/ops/target.hpp"

namespace assay {

/// Memory ids of a graph: operand `index` of the problem has id index + 1.
inline std::int64_t cudnn_id(std::size_t operand) {
  return static_cast<std::int64_t>(operand) + 1;
}

/// Throws Unsupported for formats and sizes that no graph here has.
inline void require_cudnn_formats(const Problem& p) {
  for (const Operand& o : p.operands) {
    if (o.dtype != DType::f32 && o.dtype != DType::bf16 && o.dtype != DType::f16)
      throw Unsupported("the graphs for cuDNN take fp32, bf16 and fp16, and compute in fp32");
    if (element_count(o) == 0) throw Unsupported("cuDNN has no tensor without elements, and " + o.role + " has none");
  }
}

/// {n, channels, 1, positions} of (n, channels, positions): the height of 1 gets the stride that a packed tensor would have.
inline cudnn::Tensor cudnn_signal(std::string name, DType t, std::int64_t n, std::int64_t channels, std::int64_t positions,
                                  std::int64_t n_stride, std::int64_t channel_stride, std::int64_t position_stride) {
  const bool channels_last = channel_stride < position_stride;
  return {.name = std::move(name),
          .dtype = t,
          .dims = {n, channels, 1, positions},
          .strides = {n_stride, channel_stride, channels_last ? n_stride : channel_stride, position_stride}};
}

/// Inside the graph: fp32, packed in the order of `like`.
inline cudnn::Tensor cudnn_virtual(std::string name, const cudnn::Tensor& like) {
  cudnn::Tensor t = like;
  t.name = std::move(name), t.dtype = DType::f32, t.id = 0;
  return t;
}

/// The step into y, and where `bias` one number per channel (operand 2, in `in`) added to it.
inline void cudnn_step_and_bias(cudnn::Description& d, cudnn::Step step, const cudnn::Tensor& y, bool bias, DType in) {
  if (!bias) {
    step.outputs = {d.add(y)};
    d.add(step);
    return;
  }
  const int sum = d.add(cudnn_virtual("sum", y));
  step.outputs = {sum};
  d.add(step);
  const std::int64_t channels = y.dims[1];
  const int added =
      d.add({.name = "B", .dtype = in, .dims = {1, channels, 1, 1}, .strides = {channels, 1, 1, 1}, .id = cudnn_id(2)});
  d.add({.op = cudnn::Op::add, .inputs = {sum, added}, .outputs = {d.add(y)}});
}

}  // namespace assay
