// SPDX-License-Identifier: Apache-2.0
// The safetensors format (https://github.com/huggingface/safetensors, "Format"): 8 bytes length of the header, a JSON header
// with name, format, shape and place of every tensor, then their bytes, little-endian and row-major, without a gap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace assay::report {

struct Tensor {
  std::string name, dtype;  // "F32", "BF16", "F8_E4M3", ...
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // not owned
};

struct TensorFile {
  std::map<std::string, std::string> metadata;
  std::vector<Tensor> tensors;  // in the order of their bytes
};

/// Bits of one element; 0 for a format that this reader does not know.
int tensor_bits(std::string_view dtype);

/// Reads no byte outside `file` and takes no memory from a number in it but that of the header. Tensors point into `file`.
/// Throws FileError: one sentence that begins with `where`.
TensorFile parse_safetensors(std::span<const std::byte> file, std::string_view where);

/// Writes a whole file or none; throws FileError (disk full, ...), std::logic_error for a tensor whose bytes do not fit its
/// shape.
void write_safetensors(const std::filesystem::path&, const TensorFile&);

/// A file in memory as long as this lives; throws FileError.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path&);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> bytes() const { return {base_, size_}; }

 private:
  const std::byte* base_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace assay::report
