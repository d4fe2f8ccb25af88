// SPDX-License-Identifier: Apache-2.0
// Operands in memory, read and written in the format that is computed in. Shared by the targets in this binary.
// Addresses come from the strides of Call.
#pragma once

#include <vector>

#include "probes/ops/conv1d/conv1d.hpp"
#include "probes/ops/own_code.hpp"

namespace assay::conv1d {

/// Row-major logical order: x (n,cin,l), w (cout,group_in,k), bias (cout) or empty.
template <class T>
struct Inputs {
  std::vector<T> x, w, bias;
};

namespace memory {

struct Steps {
  std::int64_t outer, middle, inner;
};

template <class T>
std::vector<T> read(DType t, const std::byte* storage, std::int64_t offset, std::int64_t outer, std::int64_t middle,
                    std::int64_t inner, const Steps& s) {
  const auto width = static_cast<std::int64_t>(size_bytes(t));
  std::vector<T> out(static_cast<std::size_t>(outer * middle * inner));
  std::size_t next = 0;
  for (std::int64_t a = 0; a < outer; ++a)
    for (std::int64_t b = 0; b < middle; ++b) {
      const std::byte* at = storage + (offset + a * s.outer + b * s.middle) * width;
      for (std::int64_t c = 0; c < inner; ++c, at += s.inner * width) out[next++] = static_cast<T>(decode(t, load_bits(t, at)));
    }
  return out;
}

}  // namespace memory

template <class T>
Inputs<T> read_inputs(const Problem& p, const Call& c, Images images) {
  const auto one = [&](std::size_t i, std::int64_t outer, std::int64_t middle, std::int64_t inner, const memory::Steps& s) {
    return memory::read<T>(c.in, images[i].storage, p.operands[i].offset, outer, middle, inner, s);
  };
  Inputs<T> in;
  in.x = one(0, c.n, c.cin, c.l, {c.x.n, c.x.channel, c.x.position});
  in.w = one(1, c.cout, c.group_in(), c.k, {c.w.output, c.w.input, c.w.tap});
  if (c.bias) in.bias = one(2, 1, 1, c.cout, {0, 0, 1});
  return in;
}

/// The first `count` positions of every channel of y (n,cout,lout).
template <class T>
void write_output(const Problem& p, const Call& c, Images images, const std::vector<T>& y, std::int64_t count) {
  const auto width = static_cast<std::int64_t>(size_bytes(c.out));
  for (std::int64_t b = 0; b < c.n; ++b)
    for (std::int64_t o = 0; o < c.cout; ++o) {
      std::byte* at = images[c.output()].storage + (p.operands[c.output()].offset + b * c.y.n + o * c.y.channel) * width;
      for (std::int64_t j = 0; j < count; ++j, at += c.y.position * width)
        store_bits(c.out, at, encode(c.out, static_cast<double>(y[static_cast<std::size_t>((b * c.cout + o) * c.lout + j)])));
    }
}

/// One batch entry unrolled: row (channel, tap), column output position, zero where the tap lies in the padding.
template <class T>
std::vector<T> unrolled(const Call& c, const T* x) {
  std::vector<T> panel(static_cast<std::size_t>(c.cin * c.k * c.lout));
  for (std::int64_t i = 0; i < c.cin; ++i)
    for (std::int64_t t = 0; t < c.k; ++t) {
      T* const row = panel.data() + (i * c.k + t) * c.lout;
      std::int64_t position = t * c.dilation - c.padl;
      for (std::int64_t j = 0; j < c.lout; ++j, position += c.stride)
        row[j] = position >= 0 && position < c.l ? x[i * c.l + position] : T{0};
    }
  return panel;
}

/// What code in this binary promises, by `source`. Transforms spread a NaN over their tile or over the row.
inline Contract contract_of(const char* source, bool transform = false) {
  if (!transform) return own_contract(source);
  Contract c;
  c.repeatable = {true, source};
  return c;
}

}  // namespace assay::conv1d
