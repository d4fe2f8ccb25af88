// SPDX-License-Identifier: Apache-2.0
// Objects that primitives of oneDNN are made of: memory descriptors of both majors, attributes, memories.
#pragma once

#include <span>
#include <vector>

#include "probes/library/onednn.hpp"
#include "probes/library/onednn_symbols.hpp"

namespace assay::onednn {

/// A memory descriptor: a structure of ours in major 2, an object of the library in major 3.
class Descriptor {
 public:
  /// `any`: no layout yet, the library will choose one.
  Descriptor(const Symbols&, const Tensor&, bool any);
  /// Packed tensors get `any`.
  Descriptor(const Symbols& s, const Tensor& t) : Descriptor(s, t, t.packed) {}
  const void* get() const { return structure_.empty() ? object_.get() : structure_.data(); }

 private:
  std::vector<std::byte> structure_;
  Handle object_;
};

/// dnnl_alg_kind_t of an elementwise function; major 3 numbered them anew.
int algorithm(int major, PostOp::Kind);
int algorithm(int major, Function);

/// User scratchpad, strict arithmetic whatever ONEDNN_DEFAULT_FPMATH_MODE says, and the post-ops.
Handle attributes(const Symbols&, std::span<const PostOp> = {});

Handle memory(const Library&, const void* descriptor, void* data);
Handle primitive(const Symbols&, const void* descriptor);

}  // namespace assay::onednn
