// SPDX-License-Identifier: Apache-2.0
// ELF64 reader of shared libraries. Reads the dynamic segment, as the loader does: section headers may be stripped.
#include "probes/library/elf.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <utility>

#include "probes/library/sha256.hpp"

namespace assay {

namespace {

using std::uint64_t;

/// A file's bytes; every read is checked against its end.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  uint64_t size() const { return bytes_.size(); }
  bool holds(uint64_t offset, uint64_t length) const { return offset <= size() && length <= size() - offset; }
  [[noreturn]] void damaged(std::string_view what) const {
    throw LibraryError(fmt::format("{} is truncated or damaged: {}; copy or install it again", path_, what));
  }
  template <class T>
  T at(uint64_t offset, std::string_view what) const {
    if (!holds(offset, sizeof(T))) damaged(fmt::format("its {} lies past the end of the file", what));
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  /// Entry `i` of a table; a table position that wraps around 2^64 is past the end too.
  template <class T>
  T entry(uint64_t table, uint64_t i, std::string_view what) const {
    if (table > size() || i > size() / sizeof(T)) damaged(fmt::format("its {} lies past the end of the file", what));
    return at<T>(table + i * sizeof(T), what);
  }
  /// The string at table + index, which must end inside the table.
  std::string_view text(uint64_t table, uint64_t table_size, uint64_t index) const {
    if (!holds(table, table_size) || index >= table_size) damaged("a name lies outside its string table");
    const auto* begin = reinterpret_cast<const char*>(bytes_.data() + table + index);
    const auto* end = static_cast<const char*>(std::memchr(begin, 0, table_size - index));
    if (end == nullptr) damaged("a name in its string table does not end");
    return {begin, static_cast<std::size_t>(end - begin)};
  }
  std::span<const std::byte> bytes(uint64_t offset, uint64_t length, std::string_view what) const {
    if (!holds(offset, length)) damaged(fmt::format("its {} lies past the end of the file", what));
    return bytes_.subspan(offset, length);
  }

 private:
  std::span<const std::byte> bytes_;
  const std::string& path_;
};

std::string machine_name(unsigned machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86_64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "i386";
    case EM_ARM:
      return "arm";
    case EM_PPC64:
      return "ppc64";
    case EM_S390:
      return "s390";
    case EM_RISCV:
      return "riscv";
    default:
      return fmt::format("machine type {}", machine);
  }
}

/// Refuses everything that is not an x86_64 shared library, and says what it is instead.
Elf64_Ehdr checked_header(const Reader& file, std::span<const std::byte> bytes, const std::string& path) {
  const auto refuse = [&](std::string_view what) {
    throw LibraryError(fmt::format("{} is {}; expected a 64-bit x86_64 shared library (.so): name such a file", path, what));
  };
  if (bytes.empty()) refuse("an empty file");
  if (!file.holds(0, SELFMAG) || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0) {
    const auto head = bytes.first(std::min<std::size_t>(bytes.size(), 512));
    const bool text = std::ranges::none_of(head, [](std::byte b) { return b == std::byte{0}; });
    refuse(text ? "a text file (a linker script names the real library inside)" : "not an ELF file");
  }
  if (!file.holds(0, EI_NIDENT)) file.damaged("it ends inside the ELF header");
  if (bytes[EI_CLASS] == std::byte{ELFCLASS32}) refuse("a 32-bit library");
  if (bytes[EI_CLASS] != std::byte{ELFCLASS64}) refuse("an ELF file of unknown class");
  if (bytes[EI_DATA] != std::byte{ELFDATA2LSB}) refuse("a big-endian library");
  const auto header = file.at<Elf64_Ehdr>(0, "ELF header");
  if (header.e_machine != EM_X86_64) refuse("a library for " + machine_name(header.e_machine));
  if (header.e_type == ET_REL) refuse("an object file");
  if (header.e_type == ET_EXEC) refuse("a program");
  if (header.e_type == ET_CORE) refuse("a core dump");
  if (header.e_type != ET_DYN) refuse("an ELF file of unknown type");
  if (header.e_phentsize != sizeof(Elf64_Phdr)) file.damaged("its program headers have an unknown size");
  // The section headers come last, so a cut file has lost them; a stripped one says that it has none.
  if (header.e_shoff != 0 &&
      (header.e_shoff > file.size() || !file.holds(header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize)))
    file.damaged("its section headers lie past the end of the file");
  return header;
}

struct Segments {
  std::vector<Elf64_Phdr> load, note;
  Elf64_Phdr dynamic{};

  /// Where an address of the loaded image lies in the file; 0 (the ELF header, never a table) when nowhere.
  uint64_t offset(uint64_t address) const {
    for (const Elf64_Phdr& s : load)
      if (address >= s.p_vaddr && address - s.p_vaddr < s.p_filesz) return s.p_offset + (address - s.p_vaddr);
    return 0;
  }
};

Segments read_segments(const Reader& file, const Elf64_Ehdr& header) {
  Segments out;
  for (uint64_t i = 0; i < header.e_phnum; ++i) {
    const auto s = file.entry<Elf64_Phdr>(header.e_phoff, i, "program header");
    if (s.p_type == PT_LOAD || s.p_type == PT_DYNAMIC || s.p_type == PT_NOTE)
      if (!file.holds(s.p_offset, s.p_filesz)) file.damaged("a segment reaches past the end of the file");
    if (s.p_type == PT_LOAD) out.load.push_back(s);
    if (s.p_type == PT_NOTE) out.note.push_back(s);
    if (s.p_type == PT_DYNAMIC) out.dynamic = s;
  }
  if (out.dynamic.p_filesz == 0) file.damaged("it has no dynamic segment");
  return out;
}

constexpr uint64_t padded(uint64_t n) {
  return (n + 3) / 4 * 4;
}

std::string read_build_id(const Reader& file, const Segments& segments) {
  uint64_t total = 0;
  for (const Elf64_Phdr& s : segments.note) {
    total += s.p_filesz;
    if (total > file.size()) file.damaged("its note segments overlap");
    uint64_t at = s.p_offset;
    const uint64_t end = s.p_offset + s.p_filesz;
    while (at < end && end - at >= sizeof(Elf64_Nhdr)) {
      const auto note = file.at<Elf64_Nhdr>(at, "note");
      const uint64_t name = at + sizeof note, payload = name + padded(note.n_namesz);
      if (payload > end || note.n_descsz > end - payload) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
          std::memcmp(file.bytes(name, 4, "note").data(), ELF_NOTE_GNU, 4) == 0) {
        std::string id;
        for (const std::byte b : file.bytes(payload, note.n_descsz, "build id"))
          id += fmt::format("{:02x}", static_cast<unsigned>(b));
        return id;
      }
      at = payload + padded(note.n_descsz);
    }
  }
  return {};
}

/// Number of dynamic symbols. The dynamic segment does not say it; its hash tables do.
uint64_t symbol_count(const Reader& file, const Segments& segments, const std::map<std::int64_t, uint64_t>& tags) {
  if (const auto hash = tags.find(DT_HASH); hash != tags.end())
    return file.entry<std::uint32_t>(segments.offset(hash->second), 1, "hash table");  // nchain: one chain link per symbol
  const auto gnu = tags.find(DT_GNU_HASH);
  if (gnu == tags.end()) return 0;
  // Header {buckets, first hashed symbol, bloom words, shift}, bloom filter, buckets, then one chain word per hashed symbol.
  // The highest bucket starts the last chain, and a set low bit ends it.
  const uint64_t table = segments.offset(gnu->second);
  const auto buckets = file.entry<std::uint32_t>(table, 0, "hash table"),
             first = file.entry<std::uint32_t>(table, 1, "hash table"),
             bloom = file.entry<std::uint32_t>(table, 2, "hash table");
  const uint64_t bucket_table = table + 16 + uint64_t{bloom} * 8, chain_table = bucket_table + uint64_t{buckets} * 4;
  uint64_t last = 0;
  for (uint64_t i = 0; i < buckets; ++i)
    last = std::max<uint64_t>(last, file.entry<std::uint32_t>(bucket_table, i, "hash table"));
  if (last < first) return first;
  while ((file.entry<std::uint32_t>(chain_table, last - first, "hash table") & 1) == 0) ++last;
  return last + 1;
}

std::vector<std::string> read_exports(const Reader& file, uint64_t symbols, uint64_t count, uint64_t strings,
                                      uint64_t strings_size) {
  std::vector<std::string> out;
  uint64_t total = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const auto s = file.entry<Elf64_Sym>(symbols, i, "symbol table");
    const unsigned binding = ELF64_ST_BIND(s.st_info), visibility = ELF64_ST_VISIBILITY(s.st_other);
    if (s.st_shndx == SHN_UNDEF || s.st_name == 0) continue;
    if (binding != STB_GLOBAL && binding != STB_WEAK && binding != STB_GNU_UNIQUE) continue;
    if (visibility != STV_DEFAULT && visibility != STV_PROTECTED) continue;
    const std::string_view name = file.text(strings, strings_size, s.st_name);
    // Names share their tails in real tables, a little; a forged table could make every symbol one enormous name.
    total += name.size();
    if (total > 8 * file.size()) file.damaged("its symbol names overlap too much");
    out.emplace_back(name);
  }
  return out;
}

std::string absolute(const std::string& path) {
  std::error_code failed;
  const auto real = std::filesystem::canonical(path, failed);
  if (failed) throw LibraryError(fmt::format("cannot open {}: {}; name an existing shared library", path, failed.message()));
  return real.string();
}

/// A file's bytes without reading them all: a cuBLASLt has 500 MB, of which the tables are one.
struct MappedFile {
  std::span<const std::byte> bytes;
  explicit MappedFile(std::span<const std::byte> b) : bytes(b) {}
  MappedFile(MappedFile&& other) noexcept : bytes(std::exchange(other.bytes, {})) {}
  ~MappedFile() {
    if (!bytes.empty()) ::munmap(const_cast<std::byte*>(bytes.data()), bytes.size());
  }
};

/// Nothing for a file that is small or cannot be mapped: it is read, and a refusal is said there. A file that somebody
/// truncates while it is mapped would end the process, so a small one, which might be under work, is never mapped.
std::optional<MappedFile> map_large(const std::string& path) {
  constexpr off_t large = 4 << 20;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  struct stat info {};
  void* map = MAP_FAILED;
  if (::fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_size >= large)
    map = ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
  ::close(fd);
  if (map == MAP_FAILED) return std::nullopt;
  return MappedFile({static_cast<const std::byte*>(map), static_cast<std::size_t>(info.st_size)});
}

}  // namespace

LibraryFile read_library_bytes(std::span<const std::byte> bytes, const std::string& path) {
  const Reader file(bytes, path);
  const Elf64_Ehdr header = checked_header(file, bytes, path);
  const Segments segments = read_segments(file, header);

  std::map<std::int64_t, uint64_t> tags;
  std::vector<uint64_t> needed;
  for (uint64_t i = 0; i < segments.dynamic.p_filesz / sizeof(Elf64_Dyn); ++i) {
    const auto d = file.entry<Elf64_Dyn>(segments.dynamic.p_offset, i, "dynamic segment");
    if (d.d_tag == DT_NULL) break;
    if (d.d_tag == DT_NEEDED) needed.push_back(d.d_un.d_val);
    tags.emplace(d.d_tag, d.d_un.d_val);
  }
  if (const auto flags = tags.find(DT_FLAGS_1); flags != tags.end() && (flags->second & DF_1_PIE) != 0)
    throw LibraryError(path + " is a program; expected a 64-bit x86_64 shared library (.so): name such a file");
  if (!tags.contains(DT_STRTAB) || !tags.contains(DT_STRSZ) || !tags.contains(DT_SYMTAB))
    file.damaged("its dynamic segment names no symbol table");
  const uint64_t strings = segments.offset(tags[DT_STRTAB]), strings_size = tags[DT_STRSZ];

  LibraryFile out;
  out.path = path;
  out.machine = machine_name(header.e_machine);
  out.size_bytes = static_cast<std::int64_t>(bytes.size());
  out.build_id = read_build_id(file, segments);
  if (tags.contains(DT_SONAME)) out.soname = file.text(strings, strings_size, tags[DT_SONAME]);
  uint64_t total = 0;
  for (const uint64_t name : needed) {
    out.needed.emplace_back(file.text(strings, strings_size, name));
    total += out.needed.back().size();
    if (total > 8 * file.size()) file.damaged("the names of its dependencies overlap too much");
  }
  out.exports = read_exports(file, segments.offset(tags[DT_SYMTAB]), symbol_count(file, segments, tags), strings, strings_size);
  return out;
}

std::vector<std::byte> read_file(const std::string& path) {
  const auto refuse = [&](std::string_view why) {
    throw LibraryError(fmt::format("cannot read {}: {}; name a readable shared library", path, why));
  };
  // Non-blocking, so that a pipe cannot hold us; whether it is a regular file is asked of the opened descriptor.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) refuse(std::strerror(errno));
  struct Close {
    int fd;
    ~Close() { ::close(fd); }
  } const close{fd};
  struct stat info {};
  if (::fstat(fd, &info) != 0) refuse(std::strerror(errno));
  if (S_ISDIR(info.st_mode)) refuse("it is a directory");
  if (!S_ISREG(info.st_mode)) refuse("it is not a regular file");
  std::vector<std::byte> bytes(static_cast<std::size_t>(info.st_size));
  std::size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t got = ::read(fd, bytes.data() + have, bytes.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse(std::strerror(errno));
    if (got == 0) break;  // it shrank meanwhile; the reader will find what is missing
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

LibraryFile read_library_without_digest(const std::string& path) {
  const std::string real = absolute(path);
  const std::optional<MappedFile> mapped = map_large(real);
  return mapped ? read_library_bytes(mapped->bytes, real) : read_library_bytes(read_file(real), real);
}

LibraryFile read_library(const std::string& path) {
  const std::string real = absolute(path);
  const std::vector<std::byte> bytes = read_file(real);
  LibraryFile out = read_library_bytes(bytes, real);
  out.sha256 = sha256_hex(bytes);
  return out;
}

}  // namespace assay
