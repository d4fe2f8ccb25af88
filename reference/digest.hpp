// SPDX-License-Identifier: Apache-2.0
// 128-bit digests (XXH3) of tensors in logical order, independent of strides, whole and per 64x64 tile.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/tensor.hpp"

namespace assay {

struct Digest {
  std::uint64_t hi = 0, lo = 0;
  bool operator==(const Digest&) const = default;
};
std::string hex(const Digest&);

Digest digest_bytes(std::span<const std::byte>);
/// Digest of logical elements, row-major, little-endian; strides, gaps and offset do not matter.
Digest digest_tensor(const Operand&, std::span<const std::byte> storage);
/// The same with every NaN made one pattern and -0 made +0: equal when values are equal.
Digest digest_values(const Operand&, std::span<const std::byte> storage);
/// One digest per 64x64 tile of the last two dims, tiles row-major, leading dims outermost.
std::vector<Digest> digest_tiles(const Operand&, std::span<const std::byte> storage);

}  // namespace assay
