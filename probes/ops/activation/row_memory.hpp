// SPDX-License-Identifier: Apache-2.0
// Rows of X, B and Y in memory, read and written in the format that is computed in. Shared by the targets in this binary.
#pragma once

#include <vector>

#include "probes/ops/activation/activation.hpp"
#include "probes/ops/own_code.hpp"
#include "probes/ops/row_memory.hpp"

namespace assay::activation {

/// `stride`: elements from row to row, normally Call::ldx.
template <class T>
std::vector<T> read_row(const Problem& p, const Call& c, Images images, std::int64_t row, std::int64_t stride) {
  return read_run<T>(p.operands[0], images[0], row * stride, c.n);
}

/// Zeros without a bias.
template <class T>
std::vector<T> read_bias(const Problem& p, const Call& c, Images images) {
  if (!c.bias) return std::vector<T>(static_cast<std::size_t>(c.n));
  return read_run<T>(p.operands[1], images[1], 0, c.n);
}

/// The first `count` elements of a row.
template <class T>
void write_row(const Problem& p, const Call& c, Images images, std::int64_t row, const std::vector<T>& y, std::int64_t count) {
  write_run(p.operands[c.y_index()], images[c.y_index()], row * c.ldy, y, count);
}

/// What code in this binary promises, by `source`.
inline Contract contract_of(const char* source, bool limit_at_infinity) {
  Contract c = own_contract(source);
  if (limit_at_infinity) c.limit_at_infinity = {true, source};
  return c;
}

}  // namespace assay::activation
