// SPDX-License-Identifier: Apache-2.0
// Rows of an operand in memory, read and written in the format that is computed in. Shared by the targets in this binary.
#pragma once

#include <cstdint>
#include <vector>

#include "probes/ops/target.hpp"
#include "reference/tensor.hpp"

namespace assay {

/// `count` neighbouring elements from element `first` on, counted from the operand's element 0.
template <class T>
std::vector<T> read_run(const Operand& o, const Image& image, std::int64_t first, std::int64_t count) {
  const auto width = static_cast<std::int64_t>(size_bytes(o.dtype));
  const std::byte* at = image.storage + (o.offset + first) * width;
  std::vector<T> x(static_cast<std::size_t>(count));
  for (T& v : x) v = static_cast<T>(decode(o.dtype, load_bits(o.dtype, at))), at += width;
  return x;
}

/// The first `count` of `y`, rounded to the operand's format.
template <class T>
void write_run(const Operand& o, const Image& image, std::int64_t first, const std::vector<T>& y, std::int64_t count) {
  const auto width = static_cast<std::int64_t>(size_bytes(o.dtype));
  std::byte* at = image.storage + (o.offset + first) * width;
  for (std::int64_t i = 0; i < count; ++i)
    store_bits(o.dtype, at + i * width, encode(o.dtype, static_cast<double>(y[static_cast<std::size_t>(i)])));
}

}  // namespace assay
