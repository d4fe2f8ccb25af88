// SPDX-License-Identifier: Apache-2.0
#include "probes/library/onednn_descriptor.hpp"

#include <stdexcept>
#include <string>

namespace assay::onednn {

namespace {

int type_number(DType t) {  // dnnl_data_type_t
  switch (t) {
    case DType::f16:
      return 1;
    case DType::bf16:
      return 2;
    case DType::f32:
      return 3;
    case DType::f64:
      return 7;
    default:
      throw std::invalid_argument("oneDNN: a tensor of format " + std::string(name(t)) +
                                  " was asked for, which the probe does not pass on: use f16, bf16, f32 or f64");
  }
}

void append(const Symbols& s, void* list, const PostOp& op) {
  if (op.kind == PostOp::add) {
    const Descriptor term(s, op.term, false);
    return check(s.dnnl_post_ops_append_binary(list, binary_add, term.get()), "dnnl_post_ops_append_binary");
  }
  if (op.kind == PostOp::sum) {
    constexpr int same_type = 0;  // dnnl_data_type_undef
    const Status status = s.major == 2 ? reinterpret_cast<Status (*)(void*, float)>(s.dnnl_post_ops_append_sum)(list, op.scale)
                                       : reinterpret_cast<Status (*)(void*, float, std::int32_t, int)>(
                                             s.dnnl_post_ops_append_sum)(list, op.scale, 0, same_type);
    return check(status, "dnnl_post_ops_append_sum");
  }
  // linear: factor; silu: factor inside the sigmoid; relu: slope of the negative side
  const float alpha = op.kind == PostOp::linear ? op.scale : op.kind == PostOp::silu ? 1 : 0;
  const int kind = algorithm(s.major, op.kind);
  const Status status =
      s.major == 2
          ? reinterpret_cast<Status (*)(void*, float, int, float, float)>(s.dnnl_post_ops_append_eltwise)(list, 1, kind, alpha,
                                                                                                          0)
          : reinterpret_cast<Status (*)(void*, int, float, float)>(s.dnnl_post_ops_append_eltwise)(list, kind, alpha, 0);
  check(status, "dnnl_post_ops_append_eltwise");
}

}  // namespace

Descriptor::Descriptor(const Symbols& s, const Tensor& t, bool any) {
  const int rank = static_cast<int>(t.dims.size()), type = type_number(t.dtype);
  if (s.major == 2) {
    structure_.resize(memory_descriptor_room);
    if (any)
      check(s.dnnl_memory_desc_init_by_tag(structure_.data(), rank, t.dims.data(), type, format_any),
            "dnnl_memory_desc_init_by_tag");
    else
      check(s.dnnl_memory_desc_init_by_strides(structure_.data(), rank, t.dims.data(), type, t.strides.data()),
            "dnnl_memory_desc_init_by_strides");
    return;
  }
  void* made = nullptr;
  if (any)
    check(s.dnnl_memory_desc_create_with_tag(&made, rank, t.dims.data(), type, format_any), "dnnl_memory_desc_create_with_tag");
  else
    check(s.dnnl_memory_desc_create_with_strides(&made, rank, t.dims.data(), type, t.strides.data()),
          "dnnl_memory_desc_create_with_strides");
  object_ = Handle(made, {s.dnnl_memory_desc_destroy});
}

int algorithm(int major, PostOp::Kind kind) {
  switch (kind) {
    case PostOp::linear:
      return major == 2 ? 0x7f : 0x26;
    case PostOp::relu:
      return algorithm(major, Function::relu);
    case PostOp::gelu_erf:
      return algorithm(major, Function::gelu_erf);
    case PostOp::gelu_tanh:
      return algorithm(major, Function::gelu_tanh);
    case PostOp::silu:
      return algorithm(major, Function::silu);
    case PostOp::sum:
    case PostOp::add:
      break;
  }
  return 0;
}

int algorithm(int major, Function f) {
  switch (f) {
    case Function::relu:
      return major == 2 ? 0x1f : 0x20;
    case Function::gelu_erf:
      return major == 2 ? 0x30 : 0x31;
    case Function::gelu_tanh:
      return major == 2 ? 0xcf : 0x2b;
    case Function::silu:  // "swish" with alpha = 1
      return major == 2 ? 0xdf : 0x2c;
  }
  return 0;
}

Handle attributes(const Symbols& s, std::span<const PostOp> post_ops) {
  void* made = nullptr;
  check(s.dnnl_primitive_attr_create(&made), "dnnl_primitive_attr_create");
  Handle out(made, {s.dnnl_primitive_attr_destroy});
  check(s.dnnl_primitive_attr_set_scratchpad_mode(out.get(), scratchpad_user), "dnnl_primitive_attr_set_scratchpad_mode");
  if (s.dnnl_primitive_attr_set_fpmath_mode != nullptr)
    check(s.dnnl_primitive_attr_set_fpmath_mode(out.get(), math_strict), "dnnl_primitive_attr_set_fpmath_mode");
  if (post_ops.empty()) return out;
  check(s.dnnl_post_ops_create(&made), "dnnl_post_ops_create");
  const Handle list(made, {s.dnnl_post_ops_destroy});
  for (const PostOp& op : post_ops) append(s, list.get(), op);
  check(s.dnnl_primitive_attr_set_post_ops(out.get(), list.get()), "dnnl_primitive_attr_set_post_ops");  // copies the list
  return out;
}

Handle memory(const Library& library, const void* descriptor, void* data) {
  const Symbols& s = library.symbols();
  void* made = nullptr;
  check(s.dnnl_memory_create(&made, descriptor, library.engine(), data), "dnnl_memory_create");
  return Handle(made, {s.dnnl_memory_destroy});
}

Handle primitive(const Symbols& s, const void* descriptor) {
  void* made = nullptr;
  check(s.dnnl_primitive_create(&made, descriptor), "dnnl_primitive_create");
  return Handle(made, {s.dnnl_primitive_destroy});
}

}  // namespace assay::onednn
