// SPDX-License-Identifier: Apache-2.0
// Operands in memory: logical order, gaps and refusals, against plain nested loops.

#include "reference/tensor.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <stdexcept>

using namespace assay;

namespace {

std::vector<std::byte> storage_of(const Operand& o, std::byte value = std::byte{0xEE}) {
  return std::vector<std::byte>(static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype), value);
}

/// Writes `value` to element (i, j, l) of a rank-3 operand.
void put(const Operand& o, std::vector<std::byte>& storage, std::int64_t i, std::int64_t j, std::int64_t l, double value) {
  const std::int64_t at = o.offset + i * o.strides[0] + j * o.strides[1] + l * o.strides[2];
  store_bits(o.dtype, &storage[static_cast<std::size_t>(at) * size_bytes(o.dtype)], encode(o.dtype, value));
}

struct Layout {
  const char* what;
  std::vector<std::int64_t> dims, strides;
  std::int64_t offset, span;
};

const std::vector<Layout> layouts = {
    {"row-major", {2, 3, 5}, {15, 5, 1}, 0, 30},
    {"column-major", {2, 3, 5}, {15, 1, 3}, 0, 30},
    {"loose rows, batch gap, offset", {2, 3, 5}, {30, 9, 1}, 3, 60},
    {"loose columns, offset", {2, 5, 3}, {31, 1, 7}, 1, 62},
    {"batch innermost", {4, 3, 5}, {1, 20, 4}, 0, 60},
    {"every axis loose", {2, 3, 4}, {64, 17, 3}, 2, 128},
    {"one element", {1, 1, 1}, {7, 7, 7}, 2, 3},
    {"larger than a tile, column-major", {2, 70, 150}, {12000, 1, 77}, 5, 24000},
    {"larger than a block, column-major", {1, 400, 33}, {0, 1, 401}, 0, 401 * 33},
    {"rows that interleave: elements 0 2 3 4 5 7", {1, 2, 3}, {0, 3, 2}, 0, 8},
    {"reversed rows", {2, 3, 5}, {15, -5, 1}, 10, 30},
};

}  // namespace

TEST_CASE("gather returns logical row-major order for any strides and format") {
  for (const DType t : {DType::f32, DType::f64, DType::bf16, DType::f16, DType::e4m3, DType::e5m2, DType::i8, DType::i32}) {
    const bool coarse = t == DType::e4m3 || t == DType::e5m2;
    for (const Layout& layout : layouts) {
      const Operand o{.role = "A",
                      .dtype = t,
                      .dims = layout.dims,
                      .strides = layout.strides,
                      .offset = layout.offset,
                      .span = layout.span};
      std::vector<std::byte> storage = storage_of(o);
      std::vector<double> expected;
      for (std::int64_t i = 0; i < o.dims[0]; ++i)
        for (std::int64_t j = 0; j < o.dims[1]; ++j)
          for (std::int64_t l = 0; l < o.dims[2]; ++l) {
            // exact in the format
            const double value =
                coarse ? static_cast<double>(expected.size() % 17) - 8 : static_cast<double>(expected.size() % 251) - 125;
            put(o, storage, i, j, l, value);
            CHECK(storage_index(o, std::ssize(expected)) == o.offset + i * o.strides[0] + j * o.strides[1] + l * o.strides[2]);
            expected.push_back(value);
          }
      CHECK_MESSAGE(gather(o, storage) == expected, layout.what << " " << name(t));
      CHECK(element_count(o) == std::ssize(expected));
    }
  }
}

TEST_CASE("gather decodes infinities, NaN, negative zero and subnormals") {
  const Operand o{.role = "A", .dtype = DType::f16, .dims = {5}, .strides = {1}, .span = 5};
  std::vector<std::byte> storage = storage_of(o);
  const std::uint64_t bits[] = {0x7C00, 0xFC00, 0x7D01, 0x8000, 0x0001};
  for (std::size_t i = 0; i < 5; ++i) store_bits(DType::f16, &storage[2 * i], bits[i]);
  const std::vector<double> v = gather(o, storage);
  CHECK(v[0] == std::bit_cast<double>(0x7FF0000000000000u));
  CHECK(v[1] == -v[0]);
  CHECK(std::bit_cast<std::uint64_t>(v[2]) == 0x7FF8000000000000u);
  CHECK(std::bit_cast<std::uint64_t>(v[3]) == 0x8000000000000000u);
  CHECK(v[4] == 0x1p-24);
}

TEST_CASE("a broadcast axis repeats what is stored once") {
  const Operand o{.role = "A", .dims = {3, 2, 2}, .strides = {0, 2, 1}, .span = 4};
  std::vector<std::byte> storage = storage_of(o);
  for (std::int64_t e = 0; e < 4; ++e) put(o, storage, 0, e / 2, e % 2, static_cast<double>(e + 1));
  CHECK(gather(o, storage) == std::vector<double>{1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4});
  CHECK(disturbed_gap_bytes(o, storage, std::byte{0xEE}) == 0);
}

TEST_CASE("every gap byte is watched and no element byte is") {
  const std::byte poison{0xEE};
  for (const Layout& layout : layouts) {
    const Operand o{.role = "C",
                    .dtype = DType::f32,
                    .dims = layout.dims,
                    .strides = layout.strides,
                    .offset = layout.offset,
                    .span = layout.span};
    std::vector<bool> owned(static_cast<std::size_t>(storage_elements(o)));
    for (std::int64_t e = 0; e < element_count(o); ++e) owned[static_cast<std::size_t>(storage_index(o, e))] = true;
    std::vector<std::byte> storage = storage_of(o, poison);
    int wrong = 0;
    const std::size_t step = storage.size() > 4000 ? 997 : 1;  // prime: all bytes of an element take part
    for (std::size_t b = 0; b < storage.size(); b += step) {
      storage[b] = std::byte{0xEF};
      wrong += disturbed_gap_bytes(o, storage, poison) != (owned[b / 4] ? 0 : 1);
      storage[b] = poison;
    }
    CHECK_MESSAGE(wrong == 0, layout.what);
    const std::vector<std::byte> overwritten = storage_of(o, std::byte{0});
    CHECK(disturbed_gap_bytes(o, overwritten, poison) == 4 * (storage_elements(o) - element_count(o)));
  }
}

TEST_CASE("an operand with an empty dim has no elements and its whole allocation is gap") {
  const Operand o{.role = "A", .dims = {2, 0, 3}, .strides = {6, 3, 1}, .offset = 1, .span = 4};
  CHECK(element_count(o) == 0);
  CHECK(gather(o, storage_of(o)).empty());
  CHECK(disturbed_gap_bytes(o, storage_of(o), std::byte{0xEE}) == 0);
  CHECK(disturbed_gap_bytes(o, storage_of(o), std::byte{0}) == 20);
}

TEST_CASE("overlapping rows are counted once, so their gaps stay gaps") {
  const Operand o{.role = "A", .dims = {3, 4}, .strides = {2, 1}, .span = 10};  // elements 0..7, gap 8..9
  CHECK(disturbed_gap_bytes(o, storage_of(o, std::byte{0}), std::byte{0xEE}) == 8);
}

TEST_CASE("storage that cannot hold the operand is refused") {
  Operand o{.role = "A", .dims = {2, 3}, .strides = {3, 1}, .span = 6};
  CHECK_THROWS_AS(gather(o, std::vector<std::byte>(23)), std::invalid_argument);
  o.strides = {4, 1};
  CHECK_THROWS_AS(gather(o, std::vector<std::byte>(24)), std::invalid_argument);
  o.strides = {3};
  CHECK_THROWS_AS(gather(o, std::vector<std::byte>(24)), std::invalid_argument);
  o.strides = {-3, 1};
  CHECK_THROWS_AS(disturbed_gap_bytes(o, std::vector<std::byte>(24), std::byte{0}), std::invalid_argument);
}
