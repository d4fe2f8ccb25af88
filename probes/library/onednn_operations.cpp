// SPDX-License-Identifier: Apache-2.0
// The operations of oneDNN that assay calls, described in the way of either major.
#include <fmt/format.h>

#include "probes/library/onednn_descriptor.hpp"

namespace assay::onednn {

namespace {

using Operation = std::vector<std::byte>;  // major 2: a structure that the caller owns

std::optional<Descriptor> optional(const Symbols& s, const std::optional<Tensor>& t) {
  return t ? std::optional<Descriptor>(Descriptor(s, *t)) : std::nullopt;
}
const void* or_null(const std::optional<Descriptor>& d) {
  return d ? d->get() : nullptr;
}

/// Where one descriptor serves source and destination.
void require_alike(const Tensor& src, const Tensor& dst, const char* what) {
  if (src.dtype != dst.dtype || src.dims != dst.dims)
    throw Refused(fmt::format("oneDNN 2 has one format for source and destination of {}", what));
}

}  // namespace

Primitive Primitive::make(const Library& library, const char* what, const void* operation, const void* attributes) {
  const Symbols& s = library.symbols();
  void* made = nullptr;
  check(s.dnnl_primitive_desc_create(&made, operation, attributes, library.engine(), nullptr),
        fmt::format("dnnl_primitive_desc_create for {}", what).c_str());
  return {library, Handle(made, {s.dnnl_primitive_desc_destroy})};
}

Primitive Primitive::matmul(const Library& library, const Tensor& src, const Tensor& weights, const std::optional<Tensor>& bias,
                            const Tensor& dst, std::span<const PostOp> post_ops) {
  const Symbols& s = library.symbols();
  const Handle attr = attributes(s, post_ops);
  const Descriptor a(s, src), b(s, weights), c(s, dst);
  const std::optional<Descriptor> added = optional(s, bias);
  Primitive out = [&] {
    if (s.major == 2) {
      Operation operation(operation_descriptor_room);
      check(s.dnnl_matmul_desc_init(operation.data(), a.get(), b.get(), or_null(added), c.get()), "dnnl_matmul_desc_init");
      return make(library, "matmul", operation.data(), attr.get());
    }
    void* made = nullptr;
    check(s.dnnl_matmul_primitive_desc_create(&made, library.engine(), a.get(), b.get(), or_null(added), c.get(), attr.get()),
          "dnnl_matmul_primitive_desc_create");
    return Primitive(library, Handle(made, {s.dnnl_primitive_desc_destroy}));
  }();
  out.bind(Argument::source, src);
  out.bind(Argument::weights, weights);
  if (bias) out.bind(Argument::bias, *bias);
  out.bind(Argument::destination, dst);
  out.bind_terms(post_ops);
  return out;
}

Primitive Primitive::softmax(const Library& library, const Tensor& src, const Tensor& dst, bool log) {
  const Symbols& s = library.symbols();
  const Handle attr = attributes(s);
  const Descriptor from(s, src), to(s, dst);
  const int kind = log ? softmax_log : softmax_accurate, axis = static_cast<int>(src.dims.size()) - 1;
  Primitive out = [&] {
    if (s.major == 2) {
      if (s.dnnl_softmax_v2_forward_desc_init == nullptr)
        throw Refused("this oneDNN has no dnnl_softmax_v2_forward_desc_init, which came with 2.6");
      Operation operation(operation_descriptor_room);
      check(s.dnnl_softmax_v2_forward_desc_init(operation.data(), forward_inference, kind, from.get(), to.get(), axis),
            "dnnl_softmax_v2_forward_desc_init");
      return make(library, "softmax", operation.data(), attr.get());
    }
    void* made = nullptr;
    check(s.dnnl_softmax_forward_primitive_desc_create(&made, library.engine(), forward_inference, kind, from.get(), to.get(),
                                                       axis, attr.get()),
          "dnnl_softmax_forward_primitive_desc_create");
    return Primitive(library, Handle(made, {s.dnnl_primitive_desc_destroy}));
  }();
  out.bind(Argument::source, src);
  out.bind(Argument::destination, dst);
  return out;
}

Primitive Primitive::eltwise(const Library& library, Function f, const Tensor& src, const Tensor& dst) {
  const Symbols& s = library.symbols();
  const Handle attr = attributes(s);
  const Descriptor from(s, src), to(s, dst);
  const int kind = algorithm(s.major, f);
  const float alpha = f == Function::silu ? 1 : 0;  // silu: factor inside the sigmoid; relu: slope of the negative side
  Primitive out = [&] {
    if (s.major == 2) {
      require_alike(src, dst, "an elementwise function");
      if (src.strides != dst.strides)
        throw Refused("oneDNN 2 has one layout for source and destination of an elementwise function");
      Operation operation(operation_descriptor_room);
      check(s.dnnl_eltwise_forward_desc_init(operation.data(), forward_inference, kind, from.get(), alpha, 0),
            "dnnl_eltwise_forward_desc_init");
      return make(library, "eltwise", operation.data(), attr.get());
    }
    void* made = nullptr;
    check(s.dnnl_eltwise_forward_primitive_desc_create(&made, library.engine(), forward_inference, kind, from.get(), to.get(),
                                                       alpha, 0, attr.get()),
          "dnnl_eltwise_forward_primitive_desc_create");
    return Primitive(library, Handle(made, {s.dnnl_primitive_desc_destroy}));
  }();
  out.bind(Argument::source, src);
  out.bind(Argument::destination, dst);
  return out;
}

Primitive Primitive::sum(const Library& library, const Tensor& src, const Tensor& src_1, const Tensor& dst,
                         std::span<const PostOp> post_ops) {
  const Symbols& s = library.symbols();
  const Handle attr = attributes(s, post_ops);
  const Descriptor a(s, src), b(s, src_1), c(s, dst);
  Primitive out = [&] {
    if (s.major == 2) {
      Operation operation(operation_descriptor_room);
      check(s.dnnl_binary_desc_init(operation.data(), binary_add, a.get(), b.get(), c.get()), "dnnl_binary_desc_init");
      return make(library, "binary", operation.data(), attr.get());
    }
    void* made = nullptr;
    check(s.dnnl_binary_primitive_desc_create(&made, library.engine(), binary_add, a.get(), b.get(), c.get(), attr.get()),
          "dnnl_binary_primitive_desc_create");
    return Primitive(library, Handle(made, {s.dnnl_primitive_desc_destroy}));
  }();
  out.bind(Argument::source, src);
  out.bind(Argument::source_1, src_1);
  out.bind(Argument::destination, dst);
  out.bind_terms(post_ops);
  return out;
}

Primitive Primitive::reorder(const Library& library, const Tensor& src, const Tensor& dst) {
  const Symbols& s = library.symbols();
  const Handle attr = attributes(s);
  const Descriptor from(s, src), to(s, dst);
  void* made = nullptr;
  check(s.dnnl_reorder_primitive_desc_create(&made, from.get(), library.engine(), to.get(), library.engine(), attr.get()),
        "dnnl_reorder_primitive_desc_create");
  Primitive out(library, Handle(made, {s.dnnl_primitive_desc_destroy}));
  out.bind(Argument::source, src);
  out.bind(Argument::destination, dst);
  return out;
}

Primitive Primitive::layer_normalization(const Library& library, const Normalization& n) {
  const Symbols& s = library.symbols();
  const Handle attr = attributes(s);
  const Descriptor from(s, n.source), to(s, n.destination);
  const std::optional<Descriptor> statistics = optional(s, n.statistics);
  const unsigned flags =
      (n.scale ? scale_flag(s.major) : 0) | (n.shift ? shift_flag(s.major) : 0) | (n.root_mean_square ? rms_flag : 0);
  // Mean and variance are outputs in training only; without a descriptor the library chooses theirs.
  const int kind = n.statistics ? forward_training : forward_inference;
  if (n.root_mean_square && s.major == 2) throw Refused("oneDNN 2 has no root-mean-square normalization");
  Primitive out = [&] {
    if (s.major == 2) {
      require_alike(n.source, n.destination, "layer normalization");
      if (n.source.strides != n.destination.strides)
        throw Refused("oneDNN 2 has one layout for source and destination of layer normalization");
      Operation operation(operation_descriptor_room);
      check(s.dnnl_layer_normalization_forward_desc_init(operation.data(), kind, from.get(), or_null(statistics), n.epsilon,
                                                         flags),
            "dnnl_layer_normalization_forward_desc_init");
      return make(library, "layer normalization", operation.data(), attr.get());
    }
    void* made = nullptr;
    check(s.dnnl_layer_normalization_forward_primitive_desc_create(&made, library.engine(), kind, from.get(), to.get(),
                                                                   or_null(statistics), n.epsilon, flags, attr.get()),
          "dnnl_layer_normalization_forward_primitive_desc_create");
    return Primitive(library, Handle(made, {s.dnnl_primitive_desc_destroy}));
  }();
  const Tensor per_channel{.dtype = DType::f32, .dims = {n.source.dims.back()}, .strides = {1}};
  out.bind(Argument::source, n.source);
  out.bind(Argument::destination, n.destination);
  if (n.scale) out.bind(Argument::scale, per_channel);
  if (n.shift) out.bind(Argument::shift, per_channel);
  if (n.statistics && !n.root_mean_square) out.bind(Argument::mean, *n.statistics);
  if (n.statistics) out.bind(Argument::variance, *n.statistics);
  return out;
}

Primitive Primitive::convolve(const Library& library, const Convolution& c, bool transposed, std::span<const PostOp> post_ops) {
  const Symbols& s = library.symbols();
  const Handle attr = attributes(s, post_ops);
  const Descriptor from(s, c.source), taps(s, c.weights), to(s, c.destination);
  const std::optional<Descriptor> added = optional(s, c.bias);
  const int kind = transposed ? deconvolution_direct : c.direct ? convolution_direct : convolution_auto;
  const std::int64_t gap = c.dilation - 1;  // oneDNN counts the taps left out
  Primitive out = [&] {
    if (s.major == 2) {
      Operation operation(operation_descriptor_room);
      const auto init =
          transposed ? s.dnnl_dilated_deconvolution_forward_desc_init : s.dnnl_dilated_convolution_forward_desc_init;
      check(init(operation.data(), forward_inference, kind, from.get(), taps.get(), or_null(added), to.get(), &c.stride, &gap,
                 &c.padding_left, &c.padding_right),
            transposed ? "dnnl_dilated_deconvolution_forward_desc_init" : "dnnl_dilated_convolution_forward_desc_init");
      return make(library, transposed ? "deconvolution" : "convolution", operation.data(), attr.get());
    }
    void* made = nullptr;
    const auto create =
        transposed ? s.dnnl_deconvolution_forward_primitive_desc_create : s.dnnl_convolution_forward_primitive_desc_create;
    check(create(&made, library.engine(), forward_inference, kind, from.get(), taps.get(), or_null(added), to.get(), &c.stride,
                 &gap, &c.padding_left, &c.padding_right, attr.get()),
          transposed ? "dnnl_deconvolution_forward_primitive_desc_create" : "dnnl_convolution_forward_primitive_desc_create");
    return Primitive(library, Handle(made, {s.dnnl_primitive_desc_destroy}));
  }();
  out.bind(Argument::source, c.source);
  out.bind(Argument::weights, c.weights);
  if (c.bias) out.bind(Argument::bias, *c.bias);
  out.bind(Argument::destination, c.destination);
  out.bind_terms(post_ops);
  return out;
}

Primitive Primitive::convolution(const Library& library, const Convolution& c, std::span<const PostOp> post_ops) {
  return convolve(library, c, false, post_ops);
}

Primitive Primitive::deconvolution(const Library& library, const Convolution& c) {
  return convolve(library, c, true, {});
}

}  // namespace assay::onednn
