// SPDX-License-Identifier: Apache-2.0
// ELF64 reader of shared libraries: the entry that tests and the fuzzer feed with any bytes.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "probes/library/library.hpp"

namespace assay {

/// What the bytes of a library file say; `path` is for messages and LibraryFile::path. The digest is left empty.
/// Every offset, size and count in the file is checked; work and memory are linear in the size of the file.
/// Errors   LibraryError: not ELF, not 64-bit little-endian x86_64, not a shared library, truncated or damaged.
/// Source   System V ABI, chapters 4 and 5; DT_GNU_HASH as ld.so walks it.
LibraryFile read_library_bytes(std::span<const std::byte>, const std::string& path);

/// The bytes of a regular file; throws LibraryError (missing, directory, unreadable).
std::vector<std::byte> read_file(const std::string& path);

/// read_library without the digest, which costs more than all the rest: for looking around.
LibraryFile read_library_without_digest(const std::string& path);

}  // namespace assay
