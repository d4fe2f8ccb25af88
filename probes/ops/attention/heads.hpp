// SPDX-License-Identifier: Apache-2.0
// Operands of attention in memory, read and written through their strides. Shared by the targets in this binary.
#pragma once

#include <vector>

#include "probes/ops/attention/attention.hpp"
#include "probes/ops/own_code.hpp"

namespace assay::attention {

/// Rows of one operand as T: element (a,b,c,x) of (b,heads,s,width), or (heads,sq,skv) of the bias with a = 0.
class Rows {
 public:
  Rows(const Problem& p, Images images, std::string_view role)
      : operand_(p.operand(role)), storage_(images[p.operand_index(role)].storage) {}

  template <class T>
  void read(std::int64_t e, std::int64_t h, std::int64_t i, std::int64_t first, std::int64_t count, T* to) const {
    for (std::int64_t x = 0; x < count; ++x)
      to[x] = static_cast<T>(decode(operand_.dtype, load_bits(operand_.dtype, at(e, h, i, first + x))));
  }
  template <class T>
  void write(std::int64_t e, std::int64_t h, std::int64_t i, std::int64_t count, const T* from) const {
    for (std::int64_t x = 0; x < count; ++x)
      store_bits(operand_.dtype, at(e, h, i, x), encode(operand_.dtype, static_cast<double>(from[x])));
  }
  /// (count, width), packed: positions `first` on of one head.
  template <class T>
  std::vector<T> head(std::int64_t e, std::int64_t h, std::int64_t first, std::int64_t count) const {
    const std::int64_t width = operand_.dims.back();
    std::vector<T> out(static_cast<std::size_t>(count * width));
    for (std::int64_t i = 0; i < count; ++i) read(e, h, first + i, 0, width, out.data() + i * width);
    return out;
  }
  std::byte* at(std::int64_t e, std::int64_t h, std::int64_t i, std::int64_t x) const {
    const std::vector<std::int64_t>& s = operand_.strides;
    const std::int64_t leading = s.size() == 4 ? e * s[0] : 0;
    const std::size_t axis = s.size() - 3;
    return storage_ + (operand_.offset + leading + h * s[axis] + i * s[axis + 1] + x * s[axis + 2]) *
                          static_cast<std::int64_t>(size_bytes(operand_.dtype));
  }

 private:
  const Operand& operand_;
  std::byte* storage_;
};

/// NaN if any element is, so that it cannot get lost on the way.
template <class T>
T row_max(const T* x, std::int64_t n, T from) {
  for (std::int64_t i = 0; i < n; ++i)
    if (x[i] > from || x[i] != x[i]) from = x[i];
  return from;
}

/// What code in this binary promises, by `source`; a fully masked row gives NaN there unless said otherwise.
inline Contract contract_of(const char* source, bool masked_row_is_zero = false) {
  Contract c = own_contract(source);
  (masked_row_is_zero ? c.masked_row_is_zero : c.masked_row_is_nan) = {true, source};
  return c;
}

}  // namespace assay::attention
