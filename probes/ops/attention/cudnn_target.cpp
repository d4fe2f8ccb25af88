// SPDX-License-Identifier: Apache-2.0
// attention as a graph of cuDNN: one step for all of it, with its masks, bias, key lengths and log-sum-exp.
#include "probes/ops/cudnn_target.hpp"

#include "probes/ops/attention/attention.hpp"
#include "probes/ops/cudnn_graphs.hpp"

namespace assay::attention {

namespace {

constexpr std::int64_t id_of_query_lengths = 101, id_of_key_lengths = 102;

}  // namespace

cudnn::Description cudnn_graph(const Problem& p) {
  require_cudnn_formats(p);
  const Call c = call_of(p);
  if (c.part != Part::whole) throw Unsupported("cuDNN's attention is one step: its parts cannot be asked for alone");
  cudnn::Description d;
  const auto operand = [&](const char* role) {
    const std::size_t i = p.operand_index(role);
    const Operand& o = p.operands[i];
    return d.add({.name = role, .dtype = o.dtype, .dims = o.dims, .strides = o.strides, .id = cudnn_id(i)});
  };
  cudnn::Step step{.op = cudnn::Op::attention, .inputs = {operand("Q"), operand("K"), operand("V")}, .outputs = {operand("O")}};
  if (c.lse) step.outputs.push_back(operand("L"));
  cudnn::Attention& a = step.attention;
  a.scale = static_cast<float>(c.scale);
  if (c.bias_heads > 0) {
    const std::size_t i = p.operand_index("bias");
    const Operand& o = p.operands[i];
    a.bias = d.add({.name = "bias",
                    .dtype = o.dtype,
                    .dims = {1, o.dims[0], o.dims[1], o.dims[2]},
                    .strides = {o.dims[0] * o.strides[0], o.strides[0], o.strides[1], o.strides[2]},
                    .id = cudnn_id(i)});
  }
  if (std::any_of(c.length.begin(), c.length.end(), [&](std::int64_t n) { return n < c.skv; })) {
    const auto lengths = [&](const char* name, std::int64_t id, const std::vector<std::int64_t>& values) {
      d.memory[id] = cudnn::integers(values);
      return d.add({.name = name, .dtype = DType::i32, .dims = {c.b, 1, 1, 1}, .strides = {1, 1, 1, 1}, .id = id});
    };
    a.query_lengths =
        lengths("query lengths", id_of_query_lengths, std::vector<std::int64_t>(static_cast<std::size_t>(c.b), c.sq));
    a.key_lengths = lengths("key lengths", id_of_key_lengths, c.length);
  }
  a.bottom_right = c.bottom_right;
  if (c.causal) a.right = 0;
  if (c.window > 0) a.left = c.window;
  d.add(step);
  return d;
}

/// Probabilities go to the second product in the format of its operands.
Target cudnn_target() {
  return assay::cudnn_target({.summary = "cuDNN's attention, opened by path",
                              .graph = cudnn_graph,
                              .arithmetic = [](const Problem& p, const cudnn::Candidate& plan, int sm) {
                                const Call c = call_of(p);
                                Arithmetic a = cudnn_arithmetic(plan, c.in, c.out, c.d, sm);
                                cudnn_functions(a);
                                if (c.in == DType::f32 && a.operand == DType::bf16)
                                  throw Unsupported(
                                      "there is no error bound here for attention of fp32 data that a plan converts down");
                                a.scores = DType::f32, a.probabilities = c.in;
                                return a;
                              }});
}

}  // namespace assay::attention
