// SPDX-License-Identifier: Apache-2.0
// Names, limits and parameter sizes of a cubin's kernels. Attribute numbers as measured on what NVRTC 12.8 and 13.0 write.
#include <elf.h>
#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "tests/sim/image.hpp"
#include "tests/sim/status.hpp"

namespace assay::sim {
namespace {

constexpr int cuda_machine = 190;
constexpr std::size_t reserved_shared_bytes = 1024;  // of every block from sm_90 on, counted in .nv.shared

[[noreturn]] void fail(const std::string& why) {
  throw Refusal(ERROR_INVALID_IMAGE, "cubin: " + why);
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

struct Section {
  std::string name;
  const std::byte* bytes;
  Elf64_Shdr head;
};

std::vector<Section> sections_of(const std::byte* image, const Elf64_Ehdr& head) {
  if (head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shstrndx >= head.e_shnum) fail("damaged section table");
  std::vector<Section> all;
  for (unsigned i = 0; i < head.e_shnum; ++i) {
    const auto one = load<Elf64_Shdr>(image + head.e_shoff + i * sizeof(Elf64_Shdr));
    all.push_back({"", image + one.sh_offset, one});
  }
  const std::byte* const names = all[head.e_shstrndx].bytes;
  for (Section& s : all) {
    if (s.head.sh_name >= all[head.e_shstrndx].head.sh_size) fail("damaged section name");
    s.name = reinterpret_cast<const char*>(names) + s.head.sh_name;
  }
  return all;
}

struct Attribute {
  int number;
  unsigned value;                    // format 3: in place
  std::vector<std::uint32_t> words;  // format 4: behind it
};

/// A section .nv.info or .nv.info.KERNEL: {format, number, value or size}, then the payload of format 4.
std::vector<Attribute> attributes_of(const Section& s) {
  std::vector<Attribute> all;
  for (std::size_t at = 0; at + 4 <= s.head.sh_size;) {
    const auto format = static_cast<int>(s.bytes[at]);
    Attribute a{static_cast<int>(s.bytes[at + 1]), load<std::uint16_t>(s.bytes + at + 2), {}};
    at += 4;
    if (format == 4) {
      if (at + a.value > s.head.sh_size) fail("damaged " + s.name);
      for (std::size_t word = 0; word + 4 <= a.value; word += 4) a.words.push_back(load<std::uint32_t>(s.bytes + at + word));
      at += a.value;
    }
    all.push_back(std::move(a));
  }
  return all;
}

const Section* find(const std::vector<Section>& all, const std::string& name) {
  for (const Section& s : all)
    if (s.name == name) return &s;
  return nullptr;
}

/// Registers are listed for all kernels together, by number of the symbol.
void read_registers(const std::vector<Section>& all, std::map<std::string, Entry>& entries) {
  constexpr int register_count = 0x2f;
  const Section *info = find(all, ".nv.info"), *symbols = find(all, ".symtab"), *names = find(all, ".strtab");
  if (!info || !symbols || !names) return;
  for (const Attribute& a : attributes_of(*info)) {
    if (a.number != register_count || a.words.size() != 2) continue;
    if (a.words[0] >= symbols->head.sh_size / sizeof(Elf64_Sym)) fail("damaged .nv.info");
    const auto symbol = load<Elf64_Sym>(symbols->bytes + a.words[0] * sizeof(Elf64_Sym));
    if (symbol.st_name >= names->head.sh_size) fail("damaged symbol name");
    const auto entry = entries.find(reinterpret_cast<const char*>(names->bytes) + symbol.st_name);
    if (entry != entries.end()) entry->second.registers = static_cast<int>(a.words[1]);
  }
}

Entry entry_of(const std::vector<Section>& all, const std::string& name, int target) {
  constexpr int parameter_bytes = 0x19, most_threads = 0x05;
  Entry e;
  if (const Section* const shared = find(all, ".nv.shared." + name)) e.static_shared_bytes = shared->head.sh_size;
  if (target >= 90 && e.static_shared_bytes >= reserved_shared_bytes) e.static_shared_bytes -= reserved_shared_bytes;
  if (const Section* const info = find(all, ".nv.info." + name))
    for (const Attribute& a : attributes_of(*info)) {
      if (a.number == parameter_bytes) e.parameter_bytes = a.value;
      if (a.number == most_threads && a.words.size() == 3) e.threads = static_cast<int>(a.words[0] * a.words[1] * a.words[2]);
    }
  return e;
}

}  // namespace

Image read_cubin(const std::byte* bytes, int sm) {
  const auto head = load<Elf64_Ehdr>(bytes);
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_machine != cuda_machine) fail("an ELF file that is not for a GPU");
  const bool older = head.e_ident[EI_ABIVERSION] < 8;
  const int target = static_cast<int>(older ? head.e_flags & 0xff : head.e_flags >> 8 & 0xff);
  const bool only_this_sm = head.e_flags & (older ? 0x800u : 0x8u);  // sm_90a and its like
  if (only_this_sm ? target != sm : target / 10 != sm / 10 || target > sm)
    throw Refusal(ERROR_NO_BINARY_FOR_GPU,
                  fmt::format("a cubin for sm_{}{} does not run on sm_{}", target, only_this_sm ? "a" : "", sm));
  Image image{"cubin", target, {}};
  const std::vector<Section> all = sections_of(bytes, head);
  constexpr std::string_view code = ".text.";
  for (const Section& s : all)
    if (s.name.starts_with(code)) image.entries[s.name.substr(code.size())] = entry_of(all, s.name.substr(code.size()), target);
  read_registers(all, image.entries);
  return image;
}

}  // namespace assay::sim
