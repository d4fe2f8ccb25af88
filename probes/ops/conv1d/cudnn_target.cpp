// SPDX-License-Identifier: Apache-2.0
// conv1d as a graph of cuDNN: a convolution over two dims, of which the first is 1, and a bias.
#include "probes/ops/cudnn_target.hpp"

#include "probes/ops/conv1d/conv1d.hpp"
#include "probes/ops/conv1d/targets.hpp"
#include "probes/ops/cudnn_graphs.hpp"

namespace assay::conv1d {

/// Groups are not named: cuDNN divides the channels of X by those of W.
cudnn::Description cudnn_graph(const Problem& p) {
  require_cudnn_formats(p);
  const Call c = call_of(p);
  cudnn::Description d;
  cudnn::Tensor x = cudnn_signal("X", c.in, c.n, c.cin, c.l, c.x.n, c.x.channel, c.x.position),
                w = cudnn_signal("W", c.in, c.cout, c.group_in(), c.k, c.w.output, c.w.input, c.w.tap),
                y = cudnn_signal("Y", c.out, c.n, c.cout, c.lout, c.y.n, c.y.channel, c.y.position);
  x.id = cudnn_id(0), w.id = cudnn_id(1), y.id = cudnn_id(c.output());
  cudnn::Step conv{.op = cudnn::Op::convolution,
                   .inputs = {d.add(x), d.add(w)},
                   .outputs = {},
                   .pad_left = c.padl,
                   .pad_right = c.padr,
                   .stride = c.stride,
                   .dilation = c.dilation};
  cudnn_step_and_bias(d, conv, y, c.bias, c.in);
  return d;
}

Target cudnn_target() {
  return assay::cudnn_target({.summary = "cuDNN's convolution, opened by path",
                              .graph = cudnn_graph,
                              .arithmetic =
                                  [](const Problem& p, const cudnn::Candidate& plan, int sm) {
                                    const Call c = call_of(p);
                                    return cudnn_arithmetic(plan, c.in, c.out, c.group_in() * c.k, sm);
                                  },
                              .engines = 100});
}

}  // namespace assay::conv1d
