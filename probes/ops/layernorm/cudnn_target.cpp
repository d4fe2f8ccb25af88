// SPDX-License-Identifier: Apache-2.0
// layernorm and rmsnorm as graphs of cuDNN. Its layernorm needs a scale and a bias, its rmsnorm a scale: where the case has
// none they are ones and zeros in memory of ours.
#include "probes/ops/cudnn_target.hpp"

#include "probes/ops/cudnn_graphs.hpp"
#include "probes/ops/layernorm/layernorm.hpp"

namespace assay::layernorm {

namespace {

constexpr std::int64_t id_of_scale = 101, id_of_bias = 102;

}  // namespace

/// {rows, n, 1, 1}: cuDNN normalises over the dims that the scale has.
cudnn::Description cudnn_graph(const Problem& p) {
  require_cudnn_formats(p);
  const Call c = call_of(p);
  if (c.ldx != c.ldy) throw Unsupported("cuDNN's normalisation writes Y with the strides of X");
  cudnn::Description d;
  const auto rows = [&](std::string name, DType t, std::int64_t width, std::int64_t ld, std::size_t operand) {
    return d.add({.name = std::move(name),
                  .dtype = t,
                  .dims = {c.rows, width, 1, 1},
                  .strides = {ld, 1, width, width},
                  .id = cudnn_id(operand)});
  };
  const auto parameter = [&](std::string name, bool there, std::size_t operand, std::int64_t id, float otherwise) {
    if (!there) d.memory[id] = cudnn::filled(otherwise, c.n);
    return d.add({.name = std::move(name),
                  .dtype = c.parameters,
                  .dims = {1, c.n, 1, 1},
                  .strides = {c.n, 1, c.n, c.n},
                  .id = there ? cudnn_id(operand) : id});
  };
  cudnn::Step step{
      .op = c.rms ? cudnn::Op::rmsnorm : cudnn::Op::layernorm, .inputs = {rows("X", c.in, c.n, c.ldx, c.x)}, .outputs = {}};
  step.inputs.push_back(parameter("G", c.gamma, c.g, id_of_scale, 1));
  if (!c.rms) step.inputs.push_back(parameter("B", c.beta, c.b, id_of_bias, 0));
  step.inputs.push_back(d.add({.name = "eps", .dims = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}, .value = c.eps}));
  if (c.rms && c.beta) step.inputs.push_back(parameter("B", true, c.b, id_of_bias, 0));
  step.outputs = {rows("Y", c.out, c.n, c.ldy, c.y)};
  if (c.stats && !c.rms) step.outputs.push_back(rows("M", c.parameters, 1, 1, c.m));
  if (c.stats) step.outputs.push_back(rows("R", c.parameters, 1, 1, c.r));
  d.add(step);
  return d;
}

Target cudnn_target() {
  return assay::cudnn_target({.summary = "cuDNN's layer and RMS normalisation, opened by path",
                              .graph = cudnn_graph,
                              .arithmetic = [](const Problem& p, const cudnn::Candidate& plan, int sm) {
                                const Call c = call_of(p);
                                return cudnn_arithmetic(cudnn_without_products(plan), c.in, c.out, c.n, sm);
                              }});
}

}  // namespace assay::layernorm
