// SPDX-License-Identifier: Apache-2.0
// A primitive of oneDNN once it is described: scratchpad, arguments, copies into and out of packed layouts, execution.
#include <fmt/format.h>

#include <algorithm>

#include "probes/library/onednn_descriptor.hpp"

namespace assay::onednn {

namespace {

constexpr std::byte nan_byte{0xFF}, guard_byte{0xA5};
constexpr std::size_t guard_bytes = 256, page_bytes = 4096;

bool is_output(Argument a) {
  return a == destination || a == mean || a == variance;
}

/// Which descriptor to ask for when the library chose the layout.
int layout_query(Argument a) {
  switch (a) {
    case source:
      return query_source;
    case weights:
      return query_weights;
    case destination:
      return query_destination;
    default:
      throw std::logic_error("oneDNN primitive: only source, weights and destination can be packed");
  }
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
    arguments_.push_back({argument, argument, memory(*library_, plain.get(), nullptr), {}, {}, {}});
    return;
  }
  const void* const chosen = s.dnnl_primitive_desc_query_md(descriptor_.get(), layout_query(argument), 0);
  const bool out = is_output(argument);
  void* made = nullptr;
  check(s.dnnl_reorder_primitive_desc_create(&made, out ? chosen : plain.get(), library_->engine(), out ? plain.get() : chosen,
                                             library_->engine(), nullptr),
        "dnnl_reorder_primitive_desc_create");
  const Handle reorder(made, {s.dnnl_primitive_desc_destroy});
  Room room(s.dnnl_memory_desc_get_size(chosen));
  Handle packed = memory(*library_, chosen, room.data());
  arguments_.push_back({argument, argument, std::move(packed), std::move(room), memory(*library_, plain.get(), nullptr),
                        primitive(s, reorder.get())});
}

/// Tensors that post-ops add.
void Primitive::bind_terms(std::span<const PostOp> post_ops) {
  for (std::size_t i = 0; i < post_ops.size(); ++i) {
    if (post_ops[i].kind != PostOp::add) continue;
    bind(added, post_ops[i].term);
    arguments_.back().number = post_op_argument(library_->version().major, static_cast<int>(i)) | 2;  // DNNL_ARG_SRC_1
  }
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

/// Between the caller's layout and the packed one.
void Primitive::copy(const Bound& b) const {
  const Handle &from = is_output(b.argument) ? b.memory : b.plain, &to = is_output(b.argument) ? b.plain : b.memory;
  execute(b.reorder, std::vector<std::pair<int, void*>>{{source, from.get()}, {destination, to.get()}}, "reorder");
  b.room->check("packed copy");
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
      if (!is_output(bound.argument)) copy(bound);
    }
    arguments.emplace_back(bound.number, bound.memory.get());
  }
  if (scratchpad_) {
    scratchpad_->poison();
    arguments.emplace_back(argument_scratchpad, scratchpad_memory_.get());
  }
  execute(primitive_, arguments, "primitive");
  if (scratchpad_) scratchpad_->check("scratchpad");
  for (const Bound& bound : arguments_)
    if (bound.room && is_output(bound.argument))
      copy(bound);
    else if (bound.room)
      bound.room->check("packed copy");
}

}  // namespace assay::onednn
