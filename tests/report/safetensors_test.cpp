// SPDX-License-Identifier: Apache-2.0
// safetensors: what is written reads back, and every way to be malformed is one sentence.
#include "report/safetensors.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "fixtures.hpp"
#include "report/jsonl.hpp"

using namespace assay::report;

namespace {

std::string with_length(const std::string& header, const std::string& data = "") {
  std::string out(8, '\0');
  for (int i = 0; i < 8; ++i) out[static_cast<std::size_t>(i)] = static_cast<char>(header.size() >> (8 * i));
  return out + header + data;
}
TensorFile parse(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "f.safetensors");
}
std::string refusal(const std::string& bytes) {
  try {
    parse(bytes);
  } catch (const FileError& e) {
    return e.what();
  }
  return "accepted";
}
std::string one(const std::string& entry) {
  return "{\"a\":" + entry + "}";
}

}  // namespace

TEST_CASE("a file that was written reads back: bytes, shapes, formats, metadata, empty tensors and scalars") {
  const fixtures::TemporaryFolder folder;
  const float values[] = {1, -2.5F, 3e38F};
  const std::uint8_t small[] = {7};
  TensorFile file;
  file.metadata = {{"case", "g1:gemm:m=1"}, {"quote", "a \"b\"\n\xc3\xa9"}};
  file.tensors = {{"C.expected", "F32", {1, 3}, std::as_bytes(std::span(values))},
                  {"none", "BF16", {0, 4}, {}},
                  {"scalar", "F8_E4M3", {}, std::as_bytes(std::span(small))}};
  const auto path = folder.path / "t.safetensors";
  write_safetensors(path, file);
  const MappedFile mapped(path);
  const TensorFile back = parse_safetensors(mapped.bytes(), path.string());
  CHECK(back.metadata == file.metadata);
  REQUIRE(back.tensors.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto t =
        std::find_if(back.tensors.begin(), back.tensors.end(), [&](const Tensor& x) { return x.name == file.tensors[i].name; });
    REQUIRE(t != back.tensors.end());
    CHECK(t->dtype == file.tensors[i].dtype);
    CHECK(t->shape == file.tensors[i].shape);
    CHECK(std::equal(t->bytes.begin(), t->bytes.end(), file.tensors[i].bytes.begin(), file.tensors[i].bytes.end()));
  }
  CHECK(std::filesystem::exists(path.string() + ".part") == false);
}

TEST_CASE("every way to be malformed is refused in one sentence that names the file") {
  const std::string right = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", data(4, 'x');
  CHECK(refusal(with_length(one(right), data)) == "accepted");
  CHECK(refusal(with_length(one(right) + "   ", data)) == "accepted");
  const std::pair<std::string, const char*> wrong[] = {
      {"", "it has 0 bytes"},
      {"1234567", "it has 7 bytes"},
      {with_length("").substr(0, 8), "does not begin with '{'"},
      {std::string(8, '\xff') + "{}", "its header claims 18446744073709551615 bytes"},
      {with_length("{}").substr(0, 9), "its header claims 2 bytes, 1 follow"},
      {with_length(" {}"), "does not begin with '{'"},
      {with_length("[]"), "does not begin with '{'"},
      {with_length("{\"a\":}"), "no JSON"},
      {with_length("{\"\xff\":1}"), "no JSON"},
      {with_length("{}", "x"), "bytes lie behind its last tensor"},
      {with_length("{\"a\":1}"), "is no object"},
      {with_length(one("{\"b\":{\"c\":{\"d\":1}}}")), "nested too deep"},
      {with_length("{\"a\":" + right + ",\"a\":" + right + "}", data), "the key 'a' twice"},
      {with_length(one(R"({"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})"), data), "the key 'dtype' twice"},
      {with_length(one(R"({"shape":[1],"data_offsets":[0,4]})"), data), "has no dtype"},
      {with_length(one(R"({"dtype":"F33","shape":[1],"data_offsets":[0,4]})"), data), "the dtype of tensor 'a' is not known"},
      {with_length(one(R"({"dtype":4,"shape":[1],"data_offsets":[0,4]})"), data), "the dtype"},
      {with_length(one(R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})"), data), "the shape"},
      {with_length(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})"), data),
       "a size of tensor 'a' is not a number from 0 on"},
      {with_length(one(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})"), data), "a size"},
      {with_length(one(R"({"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,4]})"), data),
       "larger than any file"},
      {with_length(one(R"({"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]})"), data), "a size"},
      {with_length(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})"), data), "no pair"},
      {with_length(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})"), data), "end at 0"},
      {with_length(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,8]})"), data), "end at 8, and its data end at 4"},
      {with_length(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,3]})"), data),
       "has 3 bytes where its shape and dtype ask for 4"},
      {with_length(one(R"({"dtype":"F32","shape":[1],"data_offsets":[1,5]})"), data + "y"), "leaves a gap"},
      {with_length("{\"a\":" + right + ",\"b\":" + right + "}", data), "overlaps another"},
      {with_length(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1})"), data),
       "the key 'x' of tensor 'a' is unknown"},
      {with_length(R"({"__metadata__":{"a":1}})"), "'a' in __metadata__ is no text"},
      {with_length(R"({"__metadata__":[]})"), "__metadata__ is no object"},
  };
  for (const auto& [bytes, expected] : wrong) {
    const std::string said = refusal(bytes);
    CAPTURE(said);
    CAPTURE(expected);
    CHECK(said.find("f.safetensors: ") == 0);
    CHECK(said.find(expected) != std::string::npos);
    CHECK(said.find('\n') == std::string::npos);
  }
}

TEST_CASE("a tensor that is not as described is not written, a full disk is said, a folder is no file") {
  const fixtures::TemporaryFolder folder;
  const float x = 1;
  const auto bytes = std::as_bytes(std::span(&x, 1));
  CHECK_THROWS_AS(write_safetensors(folder.path / "t", {{}, {{"a", "F32", {2}, bytes}}}), std::logic_error);
  CHECK_THROWS_AS(write_safetensors(folder.path / "t", {{}, {{"a", "F32", {1}, bytes}, {"a", "F32", {1}, bytes}}}),
                  std::logic_error);
  CHECK_THROWS_WITH_AS(write_safetensors(folder.path / "no" / "t", {{}, {{"a", "F32", {1}, bytes}}}),
                       doctest::Contains("cannot write"), FileError);
  CHECK_THROWS_WITH_AS(MappedFile(folder.path), doctest::Contains("cannot read"), FileError);
  CHECK_THROWS_WITH_AS(MappedFile(folder.path / "none"), doctest::Contains("No such file"), FileError);
  CHECK(std::filesystem::is_empty(folder.path));
}
