// SPDX-License-Identifier: Apache-2.0
// The ELF reader: a good library is read right, and no byte string is read wrong.
#include "probes/library/elf.hpp"

#include <doctest/doctest.h>
#include <elf.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>

#include "fakes.hpp"
#include "probes/library/sha256.hpp"

using namespace assay;

namespace {

std::string refusal_of(const std::vector<std::byte>& bytes) {
  return refusal([&] { read_library_bytes(bytes, "lib.so"); });
}

std::vector<std::byte> good() {
  return read_file(fake("fake_lp64"));
}

template <class T>
void put(std::vector<std::byte>& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

Elf64_Ehdr header_of(const std::vector<std::byte>& bytes) {
  Elf64_Ehdr h;
  std::memcpy(&h, bytes.data(), sizeof h);
  return h;
}

}  // namespace

TEST_CASE("a shared library is read: exports, machine, size, digest, absolute path") {
  const LibraryFile file = read_library(fake("fake_reference"));
  CHECK(file.machine == "x86_64");
  CHECK(std::filesystem::path(file.path).is_absolute());
  CHECK(file.size_bytes == static_cast<std::int64_t>(std::filesystem::file_size(fake("fake_reference"))));
  CHECK(file.sha256 == sha256_hex(read_file(fake("fake_reference"))));
  for (const char* name : {"cblas_sgemm", "cblas_dgemm", "cblas_sdot", "CBLAS_CallFromC", "RowMajorStrg"})
    CHECK_MESSAGE(std::ranges::count(file.exports, name) == 1, name);
  // Imported names are not exports.
  CHECK(std::ranges::count(file.exports, "__cxa_finalize") == 0);
}

TEST_CASE("soname, build id and dependencies are those that the system's own libraries carry") {
  const LibraryFile libm = read_library(system_libm());
  CHECK(libm.soname == "libm.so.6");
  CHECK(std::ranges::count(libm.needed, "libc.so.6") == 1);
  CHECK(libm.build_id.size() == 40);
  CHECK(libm.build_id.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(std::ranges::count(libm.exports, "cos") >= 1);
  CHECK(std::ranges::count(libm.exports, "cblas_sgemm") == 0);
}

TEST_CASE("links are resolved") {
  const auto link = std::filesystem::temp_directory_path() / "assay_elf_test_link.so";
  std::filesystem::remove(link);
  std::filesystem::create_symlink(fake("fake_lp64"), link);
  CHECK(read_library(link.string()).path == std::filesystem::canonical(fake("fake_lp64")).string());
  std::filesystem::remove(link);
}

TEST_CASE("what is not a library is refused in a sentence that says what it is") {
  CHECK(contains(refusal([] { read_library("/nonexistent/libfoo.so"); }), "No such file"));
  CHECK(contains(refusal([] { read_library("/usr"); }), "it is a directory"));
  CHECK(contains(refusal([] { read_library("/dev/null"); }), "not a regular file"));
  CHECK(contains(refusal([] { read_library(ASSAY_SOURCE_DIR "/CMakeLists.txt"); }), "a text file"));
  CHECK(contains(refusal([] { read_library("/proc/self/exe"); }), "is a program"));
  CHECK(contains(refusal_of(std::vector<std::byte>{}), "an empty file"));
  CHECK(contains(refusal_of(std::vector<std::byte>(64)), "not an ELF file"));
  const auto changed = [](auto edit) {
    std::vector<std::byte> bytes = good();
    edit(bytes);
    return refusal_of(bytes);
  };
  CHECK(contains(changed([](auto& b) { b[EI_CLASS] = std::byte{ELFCLASS32}; }), "a 32-bit library"));
  CHECK(contains(changed([](auto& b) { b[EI_DATA] = std::byte{ELFDATA2MSB}; }), "a big-endian library"));
  CHECK(contains(changed([](auto& b) { put<Elf64_Half>(b, offsetof(Elf64_Ehdr, e_machine), EM_AARCH64); }), "for aarch64"));
  CHECK(contains(changed([](auto& b) { put<Elf64_Half>(b, offsetof(Elf64_Ehdr, e_type), ET_REL); }), "an object file"));
  CHECK(contains(changed([](auto& b) { put<Elf64_Half>(b, offsetof(Elf64_Ehdr, e_type), ET_EXEC); }), "a program"));
  CHECK(refusal_of(good()) == "");
}

TEST_CASE("a library cut at any length is refused, never read as a smaller one") {
  const std::vector<std::byte> whole = good();
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const std::string why = refusal_of({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n)});
    REQUIRE_MESSAGE(!why.empty(), "cut at ", n);
  }
}

TEST_CASE("a library without section headers is read all the same, from its hash tables") {
  std::vector<std::byte> stripped = good();
  const Elf64_Ehdr h = header_of(stripped);
  put<Elf64_Off>(stripped, offsetof(Elf64_Ehdr, e_shoff), 0);
  put<Elf64_Half>(stripped, offsetof(Elf64_Ehdr, e_shnum), 0);
  stripped.resize(h.e_shoff);
  CHECK(read_library_bytes(stripped, "lib.so").exports == read_library_bytes(good(), "lib.so").exports);
}

TEST_CASE("any single damaged byte of the headers and tables is either refused or harmless") {
  // The sanitizer build turns a read out of bounds into a failure; here the promise is: LibraryError or an answer, nothing
  // else.
  const std::vector<std::byte> whole = good();
  int refused = 0, read = 0;
  for (std::size_t at = 0; at < std::min<std::size_t>(whole.size(), 4096); ++at)
    for (const unsigned value : {0x00u, 0xffu, 0x80u}) {
      std::vector<std::byte> damaged = whole;
      damaged[at] = static_cast<std::byte>(value);
      refusal_of(damaged).empty() ? ++read : ++refused;
    }
  CHECK(refused > 100);
  CHECK(read > 100);
}

TEST_CASE("forged counts and offsets near 2^64 do not wrap around") {
  const std::vector<std::byte> whole = good();
  const Elf64_Ehdr h = header_of(whole);
  for (std::uint64_t i = 0; i < h.e_phnum; ++i)
    for (const std::size_t field :
         {offsetof(Elf64_Phdr, p_offset), offsetof(Elf64_Phdr, p_filesz), offsetof(Elf64_Phdr, p_vaddr)})
      for (const std::uint64_t value :
           {~std::uint64_t{0}, ~std::uint64_t{0} - 24, std::uint64_t{1} << 63, std::uint64_t{1} << 32}) {
        std::vector<std::byte> forged = whole;
        put<std::uint64_t>(forged, h.e_phoff + i * sizeof(Elf64_Phdr) + field, value);
        const std::string why = refusal_of(forged);
        CHECK((why.empty() || contains(why, "truncated or damaged")));
      }
}
