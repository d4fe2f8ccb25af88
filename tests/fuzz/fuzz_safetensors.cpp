// SPDX-License-Identifier: Apache-2.0
// Files of failing tensors, from any bytes.
#include "fuzz.hpp"
#include "report/jsonl.hpp"
#include "report/safetensors.hpp"

using namespace assay;

namespace {

/// A length that fits, so that mutations reach the header.
std::string framed(std::string_view input) {
  std::string out(8, '\0');
  const std::size_t header = std::min(input.find('}') == input.npos ? input.size() : input.rfind('}') + 1, input.size());
  for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header >> (8 * i));
  return out.append(input);
}

void read(std::string_view bytes) {
  try {
    const auto all = std::as_bytes(std::span(bytes.data(), bytes.size()));
    std::size_t sum = 0;
    for (const report::Tensor& t : report::parse_safetensors(all, "fuzz").tensors) {
      fuzz::require(
          t.bytes.empty() || (t.bytes.data() >= all.data() && t.bytes.data() + t.bytes.size() <= all.data() + all.size()),
          "a tensor outside the file: " + t.name);
      sum += t.bytes.size();
    }
    fuzz::require(sum < bytes.size(), "tensors larger than the file");
  } catch (const report::FileError& error) {
    fuzz::require_sentence(error.what());
  }
}

void one(std::string_view input) {
  read(input);
  read(framed(input));
}

}  // namespace

int main(int argc, char** argv) {
  return fuzz::run(argc, argv,
                   {one,
                    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
                     "\"dtype\":", "\"shape\":", "\"data_offsets\":", "\"__metadata__\":{\"a\":\"b\"}", "F8_E4M3", "BF16", "[",
                     "]", "{", "}", ",", "18446744073709551615", "4611686018427387904", "-1", "1e30", "\xff",
                     std::string_view("\0\0\0\0\0\0\0\0", 8)}});
}
