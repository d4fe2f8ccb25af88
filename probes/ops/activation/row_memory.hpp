// SPDX-License-Identifier: Apache-2.0
// Rows of X, B and Y in memory, read and written in the format that is computed in. Shared by the targets in this binary.
#pragma once

#include <vector>

#include "probes/ops/activation/activation.hpp"

namespace assay::activation {

/// `count` elements of one operand from element `from` of its allocation on.
template <class T>
std::vector<T> read_elements(DType format, const Image& image, std::int64_t from, std::int64_t count) {
  const auto width = static_cast<std::int64_t>(size_bytes(format));
  const std::byte* at = image.storage + from * width;
  std::vector<T> x(static_cast<std::size_t>(count));
  for (T& v : x) v = static_cast<T>(decode(format, load_bits(format, at))), at += width;
  return x;
}

/// `stride`: elements from row to row, normally Call::ldx.
template <class T>
std::vector<T> read_row(const Problem& p, const Call& c, Images images, std::int64_t row, std::int64_t stride) {
  return read_elements<T>(c.in, images[0], p.operands[0].offset + row * stride, c.n);
}

/// Zeros without a bias.
template <class T>
std::vector<T> read_bias(const Problem& p, const Call& c, Images images) {
  if (!c.bias) return std::vector<T>(static_cast<std::size_t>(c.n));
  return read_elements<T>(c.in, images[1], p.operands[1].offset, c.n);
}

/// The first `count` elements of a row.
template <class T>
void write_row(const Problem& p, const Call& c, Images images, std::int64_t row, const std::vector<T>& y, std::int64_t count) {
  const auto width = static_cast<std::int64_t>(size_bytes(c.out));
  std::byte* at = images[c.y_index()].storage + (p.operands[c.y_index()].offset + row * c.ldy) * width;
  for (std::int64_t i = 0; i < count; ++i)
    store_bits(c.out, at + i * width, encode(c.out, static_cast<double>(y[static_cast<std::size_t>(i)])));
}

/// What code in this binary promises, by `source`.
inline Contract contract_of(const char* source, bool limit_at_infinity) {
  Contract c;
  const Promise yes{true, source};
  c.nan_propagates = c.nan_confined = c.keeps_subnormals = c.repeatable = yes;
  if (limit_at_infinity) c.limit_at_infinity = yes;
  return c;
}

}  // namespace assay::activation
