// SPDX-License-Identifier: Apache-2.0
// Rows of X and Y in memory, read and written in the format that is computed in. Shared by the targets in this binary.
#pragma once

#include <vector>

#include "probes/ops/own_code.hpp"
#include "probes/ops/row_memory.hpp"
#include "probes/ops/softmax/softmax.hpp"

namespace assay::softmax {

/// `stride`: elements from row to row, normally Call::ldx.
template <class T>
std::vector<T> read_row(const Problem& p, const Call& c, Images images, std::int64_t row, std::int64_t stride) {
  return read_run<T>(p.operands[0], images[0], row * stride, c.n);
}

/// The first `count` elements of a row.
template <class T>
void write_row(const Problem& p, const Call& c, Images images, std::int64_t row, const std::vector<T>& y, std::int64_t count) {
  write_run(p.operands[1], images[1], row * c.ldy, y, count);
}

/// NaN if any element is, so that it cannot get lost on the way.
template <class T>
T row_max(const T* x, std::size_t n, T from) {
  for (std::size_t i = 0; i < n; ++i)
    if (x[i] > from || x[i] != x[i]) from = x[i];
  return from;
}

/// What code in this binary promises, by `source`; a fully masked row gives NaN there unless said otherwise.
inline Contract contract_of(const char* source, bool masked_row_is_zero = false) {
  Contract c = own_contract(source);
  (masked_row_is_zero ? c.masked_row_is_zero : c.masked_row_is_nan) = {true, source};
  return c;
}

}  // namespace assay::softmax
