// SPDX-License-Identifier: Apache-2.0
// gemm as a graph of cuDNN: a matmul, then alpha, bias and activation as pointwise steps in fp32.
#include "probes/ops/cudnn_target.hpp"

#include "probes/ops/cudnn_graphs.hpp"
#include "probes/ops/gemm/blas.hpp"

namespace assay::gemm {

namespace {

/// A logical matrix of a batch. One matrix for the whole batch is a batch of 1, which cuDNN broadcasts; its stride, and that
/// of a batch of 1, is what a packed tensor would have.
cudnn::Tensor matrix(std::string name, DType t, const Layout& at, std::int64_t batch, std::int64_t rows, std::int64_t columns) {
  const bool one = batch == 1 || at.entry == 0;
  return {.name = std::move(name),
          .dtype = t,
          .dims = {one ? 1 : batch, rows, columns},
          .strides = {one ? std::max(rows * at.row, columns * at.column) : at.entry, at.row, at.column}};
}

cudnn::Op step_of(Activation a) {
  return a == Activation::relu ? cudnn::Op::relu : a == Activation::gelu_erf ? cudnn::Op::gelu_erf : cudnn::Op::gelu_tanh;
}

}  // namespace

cudnn::Description cudnn_graph(const Problem& p) {
  require_cudnn_formats(p);
  const Call c = call_of(p);
  if (c.pointer_array) throw Unsupported("cuDNN's matmul takes batches by stride");
  if (c.beta != 0) throw Unsupported("cuDNN's matmul writes C without reading it: there is no beta");
  cudnn::Description d;
  cudnn::Tensor a = matrix("A", c.in, layout_a(c, p), c.batch, c.m, c.k),
                b = matrix("B", c.in, layout_b(c, p), c.batch, c.k, c.n),
                to = matrix("C", c.out, layout_c(c, p), c.batch, c.m, c.n);
  a.id = cudnn_id(0), b.id = cudnn_id(1), to.id = cudnn_id(2);
  // Of a batch, even when A and B are each one matrix for all of it.
  if (a.dims[0] < c.batch && b.dims[0] < c.batch)
    throw Unsupported("cuDNN makes as many products as there are matrices in A or B, and both are one for the whole batch");

  std::vector<cudnn::Step> after;
  if (c.alpha != 1)
    after.push_back(
        {.op = cudnn::Op::multiply,
         .inputs = {d.add({.name = "alpha", .dims = {1, 1, 1}, .strides = {1, 1, 1}, .value = static_cast<float>(c.alpha)})},
         .outputs = {}});
  if (c.bias)
    after.push_back(
        {.op = cudnn::Op::add,
         .inputs = {d.add(
             {.name = "bias", .dtype = c.out, .dims = {c.batch, 1, c.n}, .strides = {c.n, c.n, 1}, .id = cudnn_id(3)})},
         .outputs = {}});
  if (c.activation != Activation::none) after.push_back({.op = step_of(c.activation), .inputs = {}, .outputs = {}});

  cudnn::Step product{.op = cudnn::Op::matmul, .inputs = {d.add(a), d.add(b)}, .outputs = {}};
  int made = d.add(after.empty() ? to : cudnn_virtual("product", to));
  product.outputs = {made};
  d.add(product);
  for (std::size_t i = 0; i < after.size(); ++i) {
    after[i].inputs.insert(after[i].inputs.begin(), made);
    made = d.add(i + 1 == after.size() ? to : cudnn_virtual("step " + std::to_string(i), to));
    after[i].outputs = {made};
    d.add(after[i]);
  }
  return d;
}

Target cudnn_target() {
  return assay::cudnn_target({.summary = "cuDNN's matmul with its epilogue, opened by path",
                              .graph = cudnn_graph,
                              .arithmetic = [](const Problem& p, const cudnn::Candidate& plan, int sm) {
                                const Call c = call_of(p);
                                Arithmetic a = cudnn_arithmetic(plan, c.in, c.out, c.k, sm);
                                cudnn_functions(a);
                                // PTX ISA, tanh.approx.f32: relative error 2^-11, which is 2^12 ulp of fp32.
                                if (c.activation == Activation::gelu_tanh) a.function_ulps = 4096;
                                return a;
                              }});
}

}  // namespace assay::gemm
