// SPDX-License-Identifier: Apache-2.0
// conv_transpose1d as a graph of cuDNN: the gradient, for its data, of the convolution that maps Y to X; then a bias.
#include "probes/ops/cudnn_target.hpp"

#include "probes/ops/conv_transpose1d/memory.hpp"
#include "probes/ops/cudnn_graphs.hpp"

namespace assay::conv_transpose1d {

cudnn::Description cudnn_graph(const Problem& p) {
  require_cudnn_formats(p);
  const Call c = call_of(p);
  // A convolution of lout positions has floor(room / stride) + 1 outputs: output padding of a stride or more would be l + 1.
  const std::int64_t room = c.lout + c.padl + c.padr - c.dilation * (c.k - 1) - 1;
  if (room < 0 || room / c.stride + 1 != c.l)
    throw Unsupported(
        "cuDNN knows this operation as the gradient of a convolution, and none maps lout positions to l here: the output "
        "padding is a stride or more");
  cudnn::Description d;
  const Place px = place_x(c), pw = place_w(c), py = place_y(c);
  cudnn::Tensor x = cudnn_signal("X", c.in, c.n, c.cin, c.l, px.entry, px.channel, px.frame),
                w = cudnn_signal("W", c.in, c.cin, c.cout / c.groups, c.k, pw.entry, pw.channel, pw.frame),
                y = cudnn_signal("Y", c.out, c.n, c.cout, c.lout, py.entry, py.channel, py.frame);
  x.id = cudnn_id(0), w.id = cudnn_id(1), y.id = cudnn_id(p.operands.size() - 1);
  cudnn::Step step{.op = cudnn::Op::transposed_convolution,
                   .inputs = {d.add(x), d.add(w)},
                   .outputs = {},
                   .pad_left = c.padl,
                   .pad_right = c.padr,
                   .stride = c.stride,
                   .dilation = c.dilation};
  cudnn_step_and_bias(d, step, y, c.bias, c.in);
  return d;
}

Target cudnn_target() {
  return assay::cudnn_target({.summary = "cuDNN's gradient of a convolution, opened by path",
                              .graph = cudnn_graph,
                              .arithmetic =
                                  [](const Problem& p, const cudnn::Candidate& plan, int sm) {
                                    const Call c = call_of(p);
                                    return cudnn_arithmetic(plan, c.in, c.out, c.cin / c.groups * c.k, sm);
                                  },
                              .engines = 100});
}

}  // namespace assay::conv_transpose1d
