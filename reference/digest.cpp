// SPDX-License-Identifier: Apache-2.0
// XXH3-128 over the logical elements of a tensor. Equal on every machine: the bytes are little-endian, the order row-major.

#include "reference/digest.hpp"

#include <algorithm>

#ifndef XXH_INLINE_ALL
#define XXH_INLINE_ALL
#endif
#include <xxhash.h>

#include "reference/format_bits.hpp"
#include "reference/rows.hpp"

namespace assay {

namespace {

Digest from(const XXH128_hash_t& h) {
  return {h.high64, h.low64};
}

class Stream {
 public:
  Stream() { XXH3_128bits_reset(&state_); }
  void add(const std::byte* bytes, std::size_t size) { XXH3_128bits_update(&state_, bytes, size); }
  Digest digest() const { return from(XXH3_128bits_digest(&state_)); }

 private:
  XXH3_state_t state_;
};

/// Whether the elements lie one after another in logical order.
bool packed(const Operand& o) {
  std::int64_t stride = 1;
  for (std::size_t a = o.dims.size(); a-- > 0; stride *= o.dims[a])
    if (o.dims[a] != 1 && o.strides[a] != stride) return false;
  return true;
}

/// Calls visit(packed bytes) for consecutive blocks of rows.
template <class Visit>
void each_block(const Operand& o, std::span<const std::byte> storage, const Visit& visit) {
  require_storage(o, storage);
  const Rows rows = rows_of(o);
  const std::int64_t block = rows_per_block(o);
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(block, rows.count) * rows.length) * size_bytes(o.dtype));
  for (std::int64_t first = 0; first < rows.count; first += block) {
    const std::int64_t count = std::min(block, rows.count - first);
    copy_rows(o, storage, first, count, buffer.data());
    visit(std::span(buffer).first(static_cast<std::size_t>(count * rows.length) * size_bytes(o.dtype)));
  }
}

}  // namespace

std::string hex(const Digest& d) {
  std::string text(32, '0');
  for (int i = 0; i < 16; ++i) {
    text[static_cast<std::size_t>(i)] = "0123456789abcdef"[d.hi >> (60 - 4 * i) & 15];
    text[static_cast<std::size_t>(i + 16)] = "0123456789abcdef"[d.lo >> (60 - 4 * i) & 15];
  }
  return text;
}

Digest digest_bytes(std::span<const std::byte> bytes) {
  return from(XXH3_128bits(bytes.data(), bytes.size()));
}

Digest digest_tensor(const Operand& o, std::span<const std::byte> storage) {
  require_storage(o, storage);
  const Rows rows = rows_of(o);
  const std::size_t size = size_bytes(o.dtype);
  if (packed(o))
    return digest_bytes(
        storage.subspan(static_cast<std::size_t>(o.offset) * size, static_cast<std::size_t>(element_count(o)) * size));
  Stream stream;
  if (!o.dims.empty() && o.strides.back() == 1) {  // rows are hashed where they lie
    for (std::int64_t r = 0; r < rows.count; ++r)
      stream.add(storage.data() + static_cast<std::size_t>(storage_index(o, r * rows.length)) * size,
                 static_cast<std::size_t>(rows.length) * size);
  } else {
    each_block(o, storage, [&](std::span<const std::byte> bytes) { stream.add(bytes.data(), bytes.size()); });
  }
  return stream.digest();
}

Digest digest_values(const Operand& o, std::span<const std::byte> storage) {
  const Format& f = format(o.dtype);
  const std::size_t size = size_bytes(o.dtype);
  Stream stream;
  each_block(o, storage, [&](std::span<std::byte> bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += size) {
      const std::uint64_t bits = load_bits(o.dtype, &bytes[at]);
      if (!is_integer(o.dtype) && bits == sign_bit(f)) store_bits(o.dtype, &bytes[at], 0);
      if (is_nan(o.dtype, bits)) store_bits(o.dtype, &bytes[at], quiet_nan_bits(f));
    }
    stream.add(bytes.data(), bytes.size());
  });
  return stream.digest();
}

std::vector<Digest> digest_tiles(const Operand& o, std::span<const std::byte> storage) {
  constexpr std::int64_t edge = 64;
  require_storage(o, storage);
  std::vector<Digest> digests;
  const Rows rows = rows_of(o);
  if (rows.count == 0) return digests;
  const std::int64_t matrix_rows = o.dims.size() < 2 ? 1 : o.dims[o.dims.size() - 2];
  const auto size = static_cast<std::int64_t>(size_bytes(o.dtype));
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(edge, matrix_rows) * rows.length * size));
  for (std::int64_t matrix = 0; matrix < rows.count; matrix += matrix_rows) {
    for (std::int64_t i = 0; i < matrix_rows; i += edge) {
      const std::int64_t height = std::min(edge, matrix_rows - i);
      copy_rows(o, storage, matrix + i, height, buffer.data());
      for (std::int64_t j = 0; j < rows.length; j += edge) {
        const std::int64_t width = std::min(edge, rows.length - j);
        Stream tile;
        for (std::int64_t r = 0; r < height; ++r)
          tile.add(buffer.data() + (r * rows.length + j) * size, static_cast<std::size_t>(width * size));
        digests.push_back(tile.digest());
      }
    }
  }
  return digests;
}

}  // namespace assay
