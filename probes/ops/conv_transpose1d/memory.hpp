// SPDX-License-Identifier: Apache-2.0
// Operands in memory and out of it, in the format that is computed in. Shared by the targets in this binary. Addresses come
// from the arguments of the call, not from Operand::strides: the two descriptions check each other.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "probes/ops/conv_transpose1d/conv_transpose1d.hpp"
#include "probes/ops/own_code.hpp"

namespace assay::conv_transpose1d {

/// Where element (b, channel, frame) of X or Y, or (ci, co, r) of W, lies, from element 0 of the operand.
struct Place {
  std::int64_t entry = 0, channel = 0, frame = 0;
  std::int64_t at(std::int64_t b, std::int64_t c, std::int64_t i) const { return b * entry + c * channel + i * frame; }
};
inline Place place_x(const Call& c) {
  return c.channels_last ? Place{c.l * c.x_row, 1, c.x_row} : Place{c.cin * c.x_row, c.x_row, 1};
}
inline Place place_w(const Call& c) {
  const std::int64_t cout = c.cout / c.groups;
  return c.channels_last ? Place{cout * c.k, 1, cout} : Place{cout * c.k, c.k, 1};
}
inline Place place_y(const Call& c) {
  return c.channels_last ? Place{c.lout * c.y_row, 1, c.y_row} : Place{c.cout * c.y_row, c.y_row, 1};
}

/// Logical operands, row-major: x (n,cin,l), w (cin,cout/groups,k), bias (cout), zeros where there is none, y (n,cout,lout).
template <class T>
struct Data {
  std::vector<T> x, w, bias, y;
};

template <class T>
std::vector<T> read_elements(DType t, const Operand& o, const Image& image, std::array<std::int64_t, 3> dims,
                             const Place& place) {
  const auto width = static_cast<std::int64_t>(size_bytes(t));
  const std::byte* const origin = image.storage + o.offset * width;
  std::vector<T> v;
  v.reserve(static_cast<std::size_t>(dims[0] * dims[1] * dims[2]));
  for (std::int64_t b = 0; b < dims[0]; ++b)
    for (std::int64_t c = 0; c < dims[1]; ++c)
      for (std::int64_t i = 0; i < dims[2]; ++i)
        v.push_back(static_cast<T>(decode(t, load_bits(t, origin + place.at(b, c, i) * width))));
  return v;
}

/// y comes as zeros. `x`, `w`: where their elements are read, normally place_x(call) and place_w(call).
template <class T>
Data<T> read_operands(const Problem& p, const Call& c, Images images, const Place& x, const Place& w) {
  Data<T> d;
  d.x = read_elements<T>(c.in, p.operands[0], images[0], {c.n, c.cin, c.l}, x);
  d.w = read_elements<T>(c.in, p.operands[1], images[1], {c.cin, c.cout / c.groups, c.k}, w);
  d.bias.resize(static_cast<std::size_t>(c.cout));
  if (c.bias) d.bias = read_elements<T>(c.in, p.operands[2], images[2], {1, 1, c.cout}, {0, 0, 1});
  d.y.resize(static_cast<std::size_t>(c.n * c.cout * c.lout));
  return d;
}

inline std::byte* y_element(const Problem& p, const Call& c, Images images, std::int64_t index) {
  return images.back().storage + (p.operands.back().offset + index) * static_cast<std::int64_t>(size_bytes(c.out));
}

template <class T>
void write_y(const Problem& p, const Call& c, Images images, const std::vector<T>& y) {
  const Place to = place_y(c);
  std::size_t next = 0;
  for (std::int64_t b = 0; b < c.n; ++b)
    for (std::int64_t co = 0; co < c.cout; ++co)
      for (std::int64_t t = 0; t < c.lout; ++t)
        store_bits(c.out, y_element(p, c, images, to.at(b, co, t)), encode(c.out, static_cast<double>(y[next++])));
}

/// The frames 0 <= i < l of X whose product with tap r lands on an output, at i*stride + shift.
struct Frames {
  std::int64_t first = 0, last = 0, shift = 0;
};
inline Frames frames_of_tap(const Call& c, std::int64_t r) {
  const std::int64_t shift = r * c.dilation - c.padl, room = c.lout - 1 - shift;
  return {shift < 0 ? (-shift + c.stride - 1) / c.stride : 0, room < 0 ? 0 : std::min(c.l, room / c.stride + 1), shift};
}

/// Every convention that IEEE 754 arithmetic keeps, promised by `source`.
}  // namespace assay::conv_transpose1d
