// SPDX-License-Identifier: Apache-2.0
// Primitives of oneDNN: descriptors of both majors, attributes, scratchpad, execution.
#include <fmt/format.h>

#include <algorithm>

#include "probes/library/onednn.hpp"
#include "probes/library/onednn_symbols.hpp"

namespace assay::onednn {

namespace {

constexpr std::byte nan_byte{0xFF}, guard_byte{0xA5};
constexpr std::size_t guard_bytes = 256, page_bytes = 4096;

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
  }
  return 0;
}

/// A memory descriptor: a structure of ours in major 2, an object of the library in major 3.
class Descriptor {
 public:
  /// `any`: no layout yet, the library will choose one.
  Descriptor(const Symbols& s, const Tensor& t, bool any) {
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
      check(s.dnnl_memory_desc_create_with_tag(&made, rank, t.dims.data(), type, format_any),
            "dnnl_memory_desc_create_with_tag");
    else
      check(s.dnnl_memory_desc_create_with_strides(&made, rank, t.dims.data(), type, t.strides.data()),
            "dnnl_memory_desc_create_with_strides");
    object_ = Handle(made, {s.dnnl_memory_desc_destroy});
  }
  const void* get() const { return structure_.empty() ? object_.get() : structure_.data(); }

 private:
  std::vector<std::byte> structure_;
  Handle object_;
};

/// dnnl_alg_kind_t; major 3 numbered them anew.
int algorithm(int major, PostOp::Kind kind) {
  switch (kind) {
    case PostOp::relu:
      return major == 2 ? 0x1f : 0x20;
    case PostOp::linear:
      return major == 2 ? 0x7f : 0x26;
    case PostOp::gelu_erf:
      return major == 2 ? 0x30 : 0x31;
    case PostOp::gelu_tanh:
      return major == 2 ? 0xcf : 0x2b;
    case PostOp::sum:
      break;
  }
  return 0;
}

void append(const Symbols& s, void* list, const PostOp& op) {
  if (op.kind == PostOp::sum) {
    constexpr int same_type = 0;  // dnnl_data_type_undef
    const Status status = s.major == 2 ? reinterpret_cast<Status (*)(void*, float)>(s.dnnl_post_ops_append_sum)(list, op.scale)
                                       : reinterpret_cast<Status (*)(void*, float, std::int32_t, int)>(
                                             s.dnnl_post_ops_append_sum)(list, op.scale, 0, same_type);
    return check(status, "dnnl_post_ops_append_sum");
  }
  const float alpha = op.kind == PostOp::linear ? op.scale : 0;  // relu: slope of the negative side
  const int kind = algorithm(s.major, op.kind);
  const Status status =
      s.major == 2
          ? reinterpret_cast<Status (*)(void*, float, int, float, float)>(s.dnnl_post_ops_append_eltwise)(list, 1, kind, alpha,
                                                                                                          0)
          : reinterpret_cast<Status (*)(void*, int, float, float)>(s.dnnl_post_ops_append_eltwise)(list, kind, alpha, 0);
  check(status, "dnnl_post_ops_append_eltwise");
}

/// User scratchpad, strict arithmetic whatever ONEDNN_DEFAULT_FPMATH_MODE says, and the post-ops.
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

}  // namespace

Room::Room(std::size_t bytes) : storage_(bytes + 2 * guard_bytes + page_bytes), bytes_(bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(storage_.data()) + guard_bytes;
  begin_ = guard_bytes + (page_bytes - address % page_bytes) % page_bytes;
}

void Room::poison() {
  std::fill(storage_.begin(), storage_.end(), guard_byte);
  std::fill_n(data(), bytes_, nan_byte);
}

void Room::check(const char* what) const {
  const auto intact = [](std::byte b) { return b == guard_byte; };
  const std::byte* const first = storage_.data() + begin_;
  if (!std::all_of(storage_.data(), first, intact) || !std::all_of(first + bytes_, storage_.data() + storage_.size(), intact))
    throw std::runtime_error(fmt::format("oneDNN wrote outside the {} bytes of its {}", bytes_, what));
}

Primitive::Primitive(const Library& library, Handle descriptor) : library_(&library), descriptor_(std::move(descriptor)) {
  const Symbols& s = library.symbols();
  primitive_ = primitive(s, descriptor_.get());
  void* made = nullptr;
  check(s.dnnl_stream_create(&made, library.engine(), stream_default), "dnnl_stream_create");
  stream_ = Handle(made, {s.dnnl_stream_destroy});
  const char* name = nullptr;
  check(s.dnnl_primitive_desc_query(descriptor_.get(), query_implementation, 0, &name), "dnnl_primitive_desc_query");
  implementation_ = name == nullptr ? "" : name;
  const void* wanted = s.dnnl_primitive_desc_query_md(descriptor_.get(), query_scratchpad, 0);
  if (const std::size_t bytes = wanted == nullptr ? 0 : s.dnnl_memory_desc_get_size(wanted); bytes > 0) {
    scratchpad_.emplace(bytes);
    scratchpad_memory_ = memory(library, wanted, scratchpad_->data());
  }
}

void Primitive::bind(Argument argument, const Tensor& tensor) {
  const Symbols& s = library_->symbols();
  const Descriptor plain(s, tensor, false);
  if (!tensor.packed) {
    arguments_.push_back({argument, memory(*library_, plain.get(), nullptr), {}, {}, {}});
    return;
  }
  if (argument != Argument::source && argument != Argument::weights)
    throw std::logic_error("oneDNN primitive: only inputs are packed");
  const int which = argument == Argument::source ? query_source : query_weights;
  const void* chosen = s.dnnl_primitive_desc_query_md(descriptor_.get(), which, 0);
  Room room(s.dnnl_memory_desc_get_size(chosen));
  void* made = nullptr;
  check(s.dnnl_reorder_primitive_desc_create(&made, plain.get(), library_->engine(), chosen, library_->engine(), nullptr),
        "dnnl_reorder_primitive_desc_create");
  const Handle reorder(made, {s.dnnl_primitive_desc_destroy});
  Handle packed = memory(*library_, chosen, room.data());
  arguments_.push_back(
      {argument, std::move(packed), std::move(room), memory(*library_, plain.get(), nullptr), primitive(s, reorder.get())});
}

void Primitive::execute(const Handle& what, std::span<const std::pair<int, void*>> arguments, const char* name) const {
  const Symbols& s = library_->symbols();
  std::vector<ExecArgument> raw;
  for (const auto& [argument, object] : arguments) raw.push_back({argument, object});
  const auto done = [&](Status status, const char* call) {
    if (status != success)
      throw std::runtime_error(fmt::format("{} of the {} answered {}: {}", call, name, status, status_word(status)));
  };
  done(s.dnnl_primitive_execute(what.get(), stream_.get(), static_cast<int>(raw.size()), raw.data()), "dnnl_primitive_execute");
  done(s.dnnl_stream_wait(stream_.get()), "dnnl_stream_wait");
}

void Primitive::run(std::span<const Data> given) {
  const Symbols& s = library_->symbols();
  std::vector<std::pair<int, void*>> arguments;
  for (Bound& bound : arguments_) {
    const auto mine = std::ranges::find(given, bound.argument, &Data::argument);
    if (mine == given.end()) throw std::logic_error("oneDNN primitive: an argument was left out");
    const Handle& outer = bound.room ? bound.plain : bound.memory;
    check(s.dnnl_memory_set_data_handle(outer.get(), mine->data), "dnnl_memory_set_data_handle");
    if (bound.room) {
      bound.room->poison();
      execute(bound.reorder, std::vector<std::pair<int, void*>>{{source, bound.plain.get()}, {destination, bound.memory.get()}},
              "reorder");
      bound.room->check("packed copy");
    }
    arguments.emplace_back(bound.argument, bound.memory.get());
  }
  if (scratchpad_) {
    scratchpad_->poison();
    arguments.emplace_back(argument_scratchpad, scratchpad_memory_.get());
  }
  execute(primitive_, arguments, "primitive");
  if (scratchpad_) scratchpad_->check("scratchpad");
  for (const Bound& bound : arguments_)
    if (bound.room) bound.room->check("packed copy");
}

Primitive Primitive::matmul(const Library& library, const Tensor& src, const Tensor& weights, const std::optional<Tensor>& bias,
                            const Tensor& dst, std::span<const PostOp> post_ops) {
  const Symbols& s = library.symbols();
  const Handle attr = attributes(s, post_ops);
  const Descriptor a(s, src, src.packed), b(s, weights, weights.packed), c(s, dst, dst.packed);
  std::optional<Descriptor> added;
  if (bias) added.emplace(s, *bias, false);
  const void* const added_or_null = added ? added->get() : nullptr;
  void* made = nullptr;
  if (s.major == 2) {
    std::vector<std::byte> operation(operation_descriptor_room);
    check(s.dnnl_matmul_desc_init(operation.data(), a.get(), b.get(), added_or_null, c.get()), "dnnl_matmul_desc_init");
    check(s.dnnl_primitive_desc_create(&made, operation.data(), attr.get(), library.engine(), nullptr),
          "dnnl_primitive_desc_create for matmul");
  } else {
    check(s.dnnl_matmul_primitive_desc_create(&made, library.engine(), a.get(), b.get(), added_or_null, c.get(), attr.get()),
          "dnnl_matmul_primitive_desc_create");
  }
  Primitive out(library, Handle(made, {s.dnnl_primitive_desc_destroy}));
  out.bind(Argument::source, src);
  out.bind(Argument::weights, weights);
  if (bias) out.bind(Argument::bias, *bias);
  out.bind(Argument::destination, dst);
  return out;
}

}  // namespace assay::onednn
