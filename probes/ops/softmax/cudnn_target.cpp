// SPDX-License-Identifier: Apache-2.0
// softmax as three graphs of cuDNN, because none of its engines takes one in which a reduction feeds another step: greatest of
// each row; sum of exponentials; quotient (log-softmax: difference from the sum's log). All of it in fp32.
#include "probes/ops/cudnn_target.hpp"

#include "probes/ops/cudnn_graphs.hpp"
#include "probes/ops/softmax/softmax.hpp"

namespace assay::softmax {

namespace {

constexpr std::int64_t id_of_greatest = 101, id_of_sum = 102;

/// {rows, width, 1, 1} with a row's elements side by side: the engines that reduce want channels last.
class Rows {
 public:
  Rows(cudnn::Description& d, const Call& c) : d_(d), c_(c) {}
  int memory(std::string name, DType t, std::int64_t width, std::int64_t ld, std::int64_t id) {
    return d_.add(
        {.name = std::move(name), .dtype = t, .dims = {c_.rows, width, 1, 1}, .strides = {ld, 1, width, width}, .id = id});
  }
  int x() { return memory("X", c_.in, c_.n, c_.ldx, cudnn_id(0)); }
  int y() { return memory("Y", c_.out, c_.n, c_.ldy, cudnn_id(1)); }
  int per_row(std::string name, std::int64_t id) { return memory(std::move(name), DType::f32, 1, 1, id); }
  int inside(std::string name, std::int64_t width) { return memory(std::move(name), DType::f32, width, width, 0); }
  void step(cudnn::Op op, std::vector<int> inputs, int output) {
    d_.add({.op = op, .inputs = std::move(inputs), .outputs = {output}});
  }
  /// Difference of X and the greatest of its row.
  int shifted() {
    const int out = inside("shifted", c_.n);
    step(cudnn::Op::subtract, {x(), per_row("greatest", id_of_greatest)}, out);
    return out;
  }
  int exponentials() {
    const int from = shifted(), out = inside("exponentials", c_.n);
    step(cudnn::Op::exp, {from}, out);
    return out;
  }

 private:
  cudnn::Description& d_;
  const Call& c_;
};

}  // namespace

cudnn::Description cudnn_graph(const Problem& p) {
  require_cudnn_formats(p);
  const Call c = call_of(p);
  using enum cudnn::Op;
  cudnn::Description first, second, third;
  Rows a(first, c), b(second, c), q(third, c);
  a.step(greatest, {a.x()}, a.per_row("greatest", id_of_greatest));
  b.step(sum, {b.exponentials()}, b.per_row("sum", id_of_sum));
  const int z = q.per_row("sum", id_of_sum);
  if (c.log) {
    const int log_z = q.inside("log of the sum", 1), shifted = q.shifted();
    q.step(log, {z}, log_z);
    q.step(subtract, {shifted, log_z}, q.y());
  } else {
    q.step(divide, {q.exponentials(), z}, q.y());
  }
  const auto bytes = static_cast<std::size_t>(c.rows) * sizeof(float);
  first.between = {{id_of_greatest, bytes}, {id_of_sum, bytes}};
  first.next = {std::move(second), std::move(third)};
  return first;
}

Target cudnn_target() {
  return assay::cudnn_target({.summary = "a softmax of cuDNN's pointwise steps and reductions in three graphs, opened by path",
                              .graph = cudnn_graph,
                              .arithmetic = [](const Problem& p, const cudnn::Candidate& plan, int sm) {
                                const Call c = call_of(p);
                                Arithmetic a = cudnn_arithmetic(cudnn_without_products(plan), c.in, c.out, c.n, sm);
                                cudnn_functions(a);
                                return a;
                              }});
}

}  // namespace assay::softmax
