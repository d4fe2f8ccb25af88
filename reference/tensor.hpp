// SPDX-License-Identifier: Apache-2.0
// A named operand of a problem and how it lies in memory. Poison, guards, replay, reproducers and records all read this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/dtype.hpp"

namespace assay {

enum class Access : std::uint8_t { in, out, inout };

/// Dims are logical, outermost first, e.g. gemm A: (batch, m, k) whatever its transposition; strides in elements say
/// where each lies. A stride may be 0 on an input (broadcast). Element (i,j,l) sits at offset + i*s0 + j*s1 + l*s2.
struct Operand {
  std::string role{};  // "A", "B", "C"
  DType dtype = DType::f32;
  Access access = Access::in;
  std::vector<std::int64_t> dims{};
  std::vector<std::int64_t> strides{};
  std::int64_t offset = 0;   // elements between the start of the allocation and element 0: misalignment on purpose
  std::int64_t span = 0;     // elements of the allocation after `offset`, loose leading dimensions included
  std::uint32_t stream = 0;  // Philox stream: distinct per operand
};

std::int64_t element_count(const Operand&);  // product of dims
inline std::int64_t storage_elements(const Operand& o) {
  return o.offset + o.span;
}
std::int64_t storage_index(const Operand&, std::int64_t logical);  // logical row-major index -> element of the allocation

/// Gathers an operand from its storage into logical row-major order, decoded exactly to fp64.
std::vector<double> gather(const Operand&, std::span<const std::byte> storage);

/// The bits of every logical element, row-major without gaps.
std::vector<std::byte> dense(const Operand&, std::span<const std::byte> storage);

/// Number of storage bytes that belong to no logical element (loose leading dimension, offset) and differ from `poison`.
std::int64_t disturbed_gap_bytes(const Operand&, std::span<const std::byte> storage, std::byte poison);

}  // namespace assay
