// SPDX-License-Identifier: Apache-2.0
// softmax as a graph of cuDNN: greatest of each row, difference, exp, sum and quotient (log-softmax: difference from the sum's
// log), all of it in fp32.
#include "probes/ops/cudnn_target.hpp"

#include "probes/ops/cudnn_graphs.hpp"
#include "probes/ops/softmax/softmax.hpp"

namespace assay::softmax {

cudnn::Description cudnn_graph(const Problem& p) {
  require_cudnn_formats(p);
  const Call c = call_of(p);
  cudnn::Description d;
  const auto rows = [&](std::string name, DType t, std::int64_t width, std::int64_t ld, std::int64_t id) {
    return d.add({.name = std::move(name), .dtype = t, .dims = {1, c.rows, width}, .strides = {c.rows * ld, ld, 1}, .id = id});
  };
  const auto inside = [&](std::string name, std::int64_t width) { return rows(std::move(name), DType::f32, width, width, 0); };
  using enum cudnn::Op;
  const int x = rows("X", c.in, c.n, c.ldx, cudnn_id(0)), top = inside("greatest", 1), shifted = inside("shifted", c.n),
            e = inside("exponentials", c.n), z = inside("sum", 1);
  d.add({.op = greatest, .inputs = {x}, .outputs = {top}});
  d.add({.op = subtract, .inputs = {x, top}, .outputs = {shifted}});
  d.add({.op = exp, .inputs = {shifted}, .outputs = {e}});
  d.add({.op = sum, .inputs = {e}, .outputs = {z}});
  const int y = rows("Y", c.out, c.n, c.ldy, cudnn_id(1));
  if (!c.log) {
    d.add({.op = divide, .inputs = {e, z}, .outputs = {y}});
    return d;
  }
  const int log_z = inside("log of the sum", 1);
  d.add({.op = log, .inputs = {z}, .outputs = {log_z}});
  d.add({.op = subtract, .inputs = {shifted, log_z}, .outputs = {y}});
  return d;
}

Target cudnn_target() {
  return assay::cudnn_target({.summary = "a softmax of cuDNN's pointwise steps and reductions, opened by path",
                              .graph = cudnn_graph,
                              .arithmetic = [](const Problem& p, const cudnn::Candidate& plan, int sm) {
                                const Call c = call_of(p);
                                Arithmetic a = cudnn_arithmetic(plan, c.in, c.out, c.n, sm);
                                cudnn_functions(a);
                                return a;
                              }});
}

}  // namespace assay::softmax
