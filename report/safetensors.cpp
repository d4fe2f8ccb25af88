// SPDX-License-Identifier: Apache-2.0
#include "report/safetensors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "report/jsonl.hpp"

namespace assay::report {

namespace {

using nlohmann::json;

constexpr std::uint64_t longest_header = 100'000'000;  // the format's own limit
constexpr std::size_t alignment = 8;                   // of the first tensor: the header is padded with blanks
constexpr std::size_t most_dims = 64;
constexpr int deepest = 3;  // header, tensor, shape

struct Known {
  std::string_view name;
  int bits;
};
constexpr Known known[] = {{"BOOL", 8}, {"U8", 8},   {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8},
                           {"I16", 16}, {"U16", 16}, {"F16", 16}, {"BF16", 16},   {"I32", 32},
                           {"U32", 32}, {"F32", 32}, {"I64", 64}, {"U64", 64},    {"F64", 64}};

[[noreturn]] void wrong(std::string_view where, const std::string& what) {
  throw FileError(fmt::format("{}: {}; it is no safetensors file, or damaged: take a fresh copy", where, what));
}

/// Texts of a stranger, short and on one line.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, 60));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~') c = '?';
  return out + (text.size() > 60 ? "..." : "");
}

json parse_header(std::string_view text, std::string_view where) {
  std::vector<std::set<std::string>> keys(deepest + 1);
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start || event == json::parse_event_t::array_start) {
      if (depth >= deepest) wrong(where, "its header is nested too deep");
      keys[static_cast<std::size_t>(depth)].clear();
    }
    if (event == json::parse_event_t::key && !keys[static_cast<std::size_t>(depth) - 1].insert(value.get<std::string>()).second)
      wrong(where, fmt::format("its header has the key '{}' twice", shown(value.get<std::string>())));
    return true;
  };
  // The format wants an object at the first byte, and allows blanks behind it.
  if (text.empty() || text.front() != '{') wrong(where, "its header does not begin with '{'");
  try {
    return json::parse(text, watch);
  } catch (const json::exception&) {
    wrong(where, "its header is no JSON in UTF-8");
  }
}

std::uint64_t number(const json& j, std::string_view what, std::string_view where) {
  if (!j.is_number_integer() || (!j.is_number_unsigned() && j.get<std::int64_t>() < 0))
    wrong(where, fmt::format("{} is not a number from 0 on", what));
  return j.get<std::uint64_t>();
}

const json& member(const json& entry, const char* key, const std::string& name, std::string_view where) {
  const auto at = entry.find(key);
  if (at == entry.end()) wrong(where, fmt::format("tensor '{}' has no {}", shown(name), key));
  return *at;
}

Tensor read_tensor(const std::string& name, const json& entry, std::span<const std::byte> data, std::string_view where) {
  const auto in = [&](std::string_view what) { return fmt::format("{} of tensor '{}'", what, shown(name)); };
  if (!entry.is_object()) wrong(where, in("the description") + " is no object");
  for (const auto& [key, value] : entry.items())
    if (key != "dtype" && key != "shape" && key != "data_offsets")
      wrong(where, in("the key '" + shown(key) + "'") + " is unknown");
  Tensor t;
  t.name = name;
  const json& dtype = member(entry, "dtype", name, where);
  if (!dtype.is_string() || tensor_bits(dtype.get<std::string>()) == 0) wrong(where, in("the dtype") + " is not known here");
  t.dtype = dtype.get<std::string>();
  const json &shape = member(entry, "shape", name, where), &offsets = member(entry, "data_offsets", name, where);
  if (!shape.is_array() || shape.size() > most_dims) wrong(where, in("the shape") + " is no list of at most 64 sizes");
  if (!offsets.is_array() || offsets.size() != 2) wrong(where, in("data_offsets") + " is no pair of numbers");
  std::uint64_t bytes = static_cast<std::uint64_t>(tensor_bits(t.dtype)) / 8;
  for (const json& size : shape) {
    const std::uint64_t d = number(size, in("a size"), where);
    if (__builtin_mul_overflow(bytes, d, &bytes) || d > INT64_MAX) wrong(where, in("the shape") + " is larger than any file");
    t.shape.push_back(static_cast<std::int64_t>(d));
  }
  const std::uint64_t begin = number(offsets[0], in("data_offsets"), where),
                      end = number(offsets[1], in("data_offsets"), where);
  if (begin > end || end > data.size())
    wrong(where, fmt::format("data_offsets of tensor '{}' end at {}, and its data end at {}", shown(name), end, data.size()));
  if (end - begin != bytes)
    wrong(where, fmt::format("tensor '{}' has {} bytes where its shape and dtype ask for {}", shown(name), end - begin, bytes));
  t.bytes = data.subspan(begin, bytes);
  return t;
}

/// Sorted by place, without gap or overlap, to the last byte.
void require_whole(std::vector<Tensor>& tensors, std::span<const std::byte> data, std::string_view where) {
  std::ranges::stable_sort(tensors, [](const Tensor& a, const Tensor& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  const std::byte* next = data.data();
  for (const Tensor& t : tensors) {
    if (t.bytes.data() != next && !(t.bytes.empty() && data.empty()))
      wrong(where, fmt::format("tensor '{}' leaves a gap before it, or overlaps another", shown(t.name)));
    next = t.bytes.data() + t.bytes.size();
  }
  if (next != data.data() + data.size()) wrong(where, "bytes lie behind its last tensor");
}

std::string header_of(const TensorFile& file) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!file.metadata.empty()) header["__metadata__"] = file.metadata;
  std::uint64_t at = 0;
  for (const Tensor& t : file.tensors) {
    std::uint64_t bytes = static_cast<std::uint64_t>(tensor_bits(t.dtype)) / 8;
    for (const std::int64_t d : t.shape) bytes *= static_cast<std::uint64_t>(d);
    if (tensor_bits(t.dtype) == 0 || bytes != t.bytes.size() || header.contains(t.name) || t.name == "__metadata__")
      throw std::logic_error("safetensors: tensor " + t.name + " does not fit its description");
    header[t.name] = {{"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {at, at + bytes}}};
    at += bytes;
  }
  std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + alignment - 1) / alignment * alignment, ' ');
  return text;
}

}  // namespace

int tensor_bits(std::string_view dtype) {
  const auto at = std::ranges::find(known, dtype, &Known::name);
  return at == std::end(known) ? 0 : at->bits;
}

TensorFile parse_safetensors(std::span<const std::byte> file, std::string_view where) {
  if (file.size() < 8) wrong(where, fmt::format("it has {} bytes, and its length of header alone takes 8", file.size()));
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | std::to_integer<std::uint64_t>(file[static_cast<std::size_t>(i)]);
  if (length > longest_header || length > file.size() - 8)
    wrong(where, fmt::format("its header claims {} bytes, {} follow and 100000000 are allowed", length, file.size() - 8));
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + 8, length);
  const std::span<const std::byte> data = file.subspan(8 + length);
  const json header = parse_header(text, where);
  TensorFile out;
  for (const auto& [name, entry] : header.items()) {
    if (name != "__metadata__") {
      out.tensors.push_back(read_tensor(name, entry, data, where));
      continue;
    }
    if (!entry.is_object()) wrong(where, "__metadata__ is no object of texts");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) wrong(where, fmt::format("'{}' in __metadata__ is no text", shown(key)));
      out.metadata[key] = value.get<std::string>();
    }
  }
  require_whole(out.tensors, data, where);
  return out;
}

void write_safetensors(const std::filesystem::path& path, const TensorFile& file) {
  const std::string header = header_of(file), unfinished = path.string() + ".part";
  std::FILE* const to = std::fopen(unfinished.c_str(), "wb");
  bool good = to != nullptr;
  int error = errno;
  const auto put = [&](const void* from, std::size_t bytes) {
    if (good && bytes > 0 && std::fwrite(from, 1, bytes, to) != bytes) good = false, error = errno;
  };
  std::uint8_t length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<std::uint8_t>(header.size() >> (8 * i));
  put(length, 8), put(header.data(), header.size());
  for (const Tensor& t : file.tensors) put(t.bytes.data(), t.bytes.size());
  if (to != nullptr && std::fclose(to) != 0 && good) good = false, error = errno;
  if (good && std::rename(unfinished.c_str(), path.c_str()) != 0) good = false, error = errno;
  if (good) return;
  std::remove(unfinished.c_str());
  throw FileError(fmt::format("cannot write {} ({}): make room or choose another --out", path.string(), std::strerror(error)));
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const auto refuse = [&](int error) {
    throw FileError(fmt::format("cannot read {} ({}): name a safetensors file", path.string(), std::strerror(error)));
  };
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) refuse(errno);
  struct stat s {};
  if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode)) {
    close(fd);
    refuse(EINVAL);
  }
  size_ = static_cast<std::size_t>(s.st_size);
  void* const at = size_ == 0 ? nullptr : mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  close(fd);
  if (at == MAP_FAILED) refuse(error);
  base_ = static_cast<const std::byte*>(at);
}

MappedFile::~MappedFile() {
  if (base_ != nullptr) munmap(const_cast<std::byte*>(base_), size_);
}

}  // namespace assay::report
