// SPDX-License-Identifier: Apache-2.0
// Digests: one published value, independence of the layout, sensitivity to every bit, tiles that locate a change.

#include "reference/digest.hpp"

#include <doctest/doctest.h>

#include "reference/inputs.hpp"

using namespace assay;

namespace {

Operand matrix(DType t, std::int64_t rows, std::int64_t columns, std::int64_t batch = 1) {
  return {.role = "A",
          .dtype = t,
          .dims = {batch, rows, columns},
          .strides = {rows * columns, columns, 1},
          .span = batch * rows * columns,
          .stream = 1};
}

Operand loose_columns(Operand o) {
  o.strides = {(o.dims[1] + 3) * o.dims[2] + 5, 1, o.dims[1] + 3};
  o.offset = 7;
  o.span = o.dims[0] * o.strides[0];
  return o;
}

std::vector<std::byte> filled(const Operand& o) {
  std::vector<std::byte> storage(static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype), std::byte{0x5A});
  fill(o, {.family = Family::normal, .outer_axis = 1, .inner_axis = 2}, 11, storage);
  return storage;
}

}  // namespace

TEST_CASE("digest of no bytes is the published XXH3-128 value") {
  CHECK(hex(digest_bytes({})) == "99aa06d3014798d86001c324468d497f");
}

TEST_CASE("hex writes all 32 digits, high half first") {
  CHECK(hex({0x00000000000000abu, 0x0123456789abcdefu}) == "00000000000000ab0123456789abcdef");
}

TEST_CASE("digests do not depend on strides, gaps and offset, and equal the digest of the packed bytes") {
  for (const DType t : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const Operand tight = matrix(t, 130, 67, 2), loose = loose_columns(tight);
    Operand padded = tight;
    padded.strides = {130 * 80, 80, 1};
    padded.span = 2 * 130 * 80;
    const auto a = filled(tight), b = filled(loose), c = filled(padded);
    CHECK(digest_tensor(tight, a) == digest_bytes(a));
    CHECK(digest_tensor(loose, b) == digest_bytes(a));
    CHECK(digest_tensor(padded, c) == digest_bytes(a));
    CHECK(digest_values(loose, b) == digest_values(tight, a));
    CHECK(digest_tiles(loose, b) == digest_tiles(tight, a));
    CHECK(digest_tiles(padded, c) == digest_tiles(tight, a));
  }
}

TEST_CASE("any flipped bit changes the digest, and only the tile that holds it") {
  const Operand o = loose_columns(matrix(DType::f32, 100, 140, 2));  // tiles per matrix: 2 x 3
  std::vector<std::byte> storage = filled(o);
  const Digest before = digest_tensor(o, storage), values = digest_values(o, storage);
  const std::vector<Digest> tiles = digest_tiles(o, storage);
  REQUIRE(tiles.size() == 12);
  for (std::int64_t e = 0; e < element_count(o); e += 613) {
    const auto at = static_cast<std::size_t>(storage_index(o, e)) * 4 + static_cast<std::size_t>(e % 4);
    storage[at] ^= std::byte{1};
    CHECK(digest_tensor(o, storage) != before);
    CHECK(digest_values(o, storage) != values);
    const std::vector<Digest> now = digest_tiles(o, storage);
    const std::int64_t i = e / 140 % 100, j = e % 140;
    for (std::int64_t tile = 0; tile < 12; ++tile) {
      const bool holds = tile == e / 14000 * 6 + i / 64 * 3 + j / 64;
      CHECK((now[static_cast<std::size_t>(tile)] != tiles[static_cast<std::size_t>(tile)]) == holds);
    }
    storage[at] ^= std::byte{1};
  }
  storage[0] ^= std::byte{1};  // before the offset: not an element
  CHECK(digest_tensor(o, storage) == before);
}

TEST_CASE("the digest of values ignores NaN payloads and the sign of zero, the digest of bits does not") {
  for (const DType t : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const Operand o{.role = "A", .dtype = t, .dims = {3}, .strides = {1}, .span = 3};
    const std::size_t size = size_bytes(t);
    std::vector<std::byte> a(3 * size), b(3 * size);
    const std::uint64_t nan = encode(t, decode(t, ~std::uint64_t{0} >> (65 - format(t).bits)));
    store_bits(t, &a[0], nan), store_bits(t, &b[0], ~std::uint64_t{0});
    store_bits(t, &a[size], 0), store_bits(t, &b[size], encode(t, -0.0));
    store_bits(t, &a[2 * size], encode(t, 1.5)), store_bits(t, &b[2 * size], encode(t, 1.5));
    CHECK(digest_values(o, a) == digest_values(o, b));
    CHECK(digest_tensor(o, a) != digest_tensor(o, b));
    store_bits(t, &b[2 * size], encode(t, -1.5));
    CHECK(digest_values(o, a) != digest_values(o, b));
  }
}

TEST_CASE("vectors and empty tensors have digests too") {
  const Operand v{.role = "x", .dims = {100}, .strides = {3}, .span = 300};
  CHECK(digest_tiles(v, std::vector<std::byte>(1200)).size() == 2);
  const Operand none{.role = "x", .dims = {2, 0}, .strides = {1, 1}, .span = 0};
  CHECK(digest_tensor(none, {}) == digest_bytes({}));
  CHECK(digest_tiles(none, {}).empty());
}
