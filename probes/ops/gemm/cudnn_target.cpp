// SPDX-License-Identifier: Apache-2.0
// gemm as a graph of cuDNN: a matmul, then alpha, beta C, bias and activation as pointwise steps in fp32. With beta a graph
// before it copies C, because nothing promises that a plan may write the memory that it reads.
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

constexpr std::int64_t id_of_copy = 101;

/// `first` copies C as it was; a step of `d` multiplies the copy by beta. The index of its result in `d`.
int copied_and_scaled(cudnn::Description& first, cudnn::Description& d, const cudnn::Tensor& to, const Call& c) {
  // The pointwise engines want four dims and channels last: what lies side by side in memory are the channels.
  const bool row_major = to.strides[2] == 1;
  const std::int64_t channels = to.dims[row_major ? 2 : 1], positions = to.dims[row_major ? 1 : 2],
                     entry = channels * positions;
  cudnn::Tensor from{.name = "C before",
                     .dtype = c.out,
                     .dims = {c.batch, channels, 1, positions},
                     .strides = {to.strides[0], to.strides[row_major ? 2 : 1], to.strides[0], to.strides[row_major ? 1 : 2]},
                     .id = to.id};
  cudnn::Tensor copy = from;
  copy.name = "copy of C", copy.strides = {entry, 1, entry, channels}, copy.id = id_of_copy;
  first.add({.op = cudnn::Op::copy, .inputs = {first.add(from)}, .outputs = {first.add(copy)}});
  first.between = {{id_of_copy, static_cast<std::size_t>(c.batch * entry) * size_bytes(c.out)}};
  copy.dims = to.dims, copy.strides = {entry, row_major ? channels : 1, row_major ? 1 : channels};
  const int beta = d.add({.name = "beta", .dims = {1, 1, 1}, .strides = {1, 1, 1}, .value = static_cast<float>(c.beta)}),
            read = d.add(copy), scaled = d.add(cudnn_virtual("beta C", to));
  d.add({.op = cudnn::Op::multiply, .inputs = {read, beta}, .outputs = {scaled}});
  return scaled;
}

cudnn::Op step_of(Activation a) {
  return a == Activation::relu ? cudnn::Op::relu : a == Activation::gelu_erf ? cudnn::Op::gelu_erf : cudnn::Op::gelu_tanh;
}

}  // namespace

cudnn::Description cudnn_graph(const Problem& p) {
  require_cudnn_formats(p);
  const Call c = call_of(p);
  if (c.pointer_array) throw Unsupported("cuDNN's matmul takes batches by stride");
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
  cudnn::Description first;
  if (c.beta != 0) {
    const int scaled = copied_and_scaled(first, d, to, c);
    after.push_back({.op = cudnn::Op::add, .inputs = {scaled}, .outputs = {}});
  }
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
  if (first.steps.empty()) return d;
  first.next = {std::move(d)};
  return first;
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
