// SPDX-License-Identifier: Apache-2.0
// Logical rows of an operand (its last dim, all other dims flattened), whatever its strides: what gather and digests read.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/tensor.hpp"

namespace assay {

struct Rows {
  std::int64_t count = 0;
  std::int64_t length = 0;
};

Rows rows_of(const Operand&);

/// Copies the bits of rows [first, first + count) to `out`, packed, row-major. Memory is read in cache-friendly order also
/// when the last dim is the strided one (a column-major matrix).
void copy_rows(const Operand&, std::span<const std::byte> storage, std::int64_t first, std::int64_t count, std::byte* out);

/// How many rows to copy at a time: enough to use whole cache lines of a column-major matrix, within a few MiB.
std::int64_t rows_per_block(const Operand&);

/// `count` of 0..rows-1 (all, when there are fewer), sorted, the first and the last among them, the others drawn by `seed`.
std::vector<std::int64_t> sample_rows(std::int64_t rows, std::int64_t count, std::uint64_t seed);

/// Throws std::invalid_argument unless storage holds the allocation and the allocation holds every logical element.
void require_storage(const Operand&, std::span<const std::byte> storage);

}  // namespace assay
