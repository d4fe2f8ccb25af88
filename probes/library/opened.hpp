// SPDX-License-Identifier: Apache-2.0
// What the files that open a library share: opening exactly the named file, and what is open already.
#pragma once

#include <string>

#include "probes/library/library.hpp"

namespace assay {

/// Maps this file, with what it needs, and gives its dlopen handle. Throws LibraryError: it cannot be loaded, or the loader
/// answers with another file.
void* open_exactly(const std::string& path);

/// The CBLAS opened from this real path, or nullptr.
const Cblas* opened_cblas(const std::string& path);

/// What a library opened from this path says of its version, kept for mapped_libraries(); "" when nobody noted it.
void note_version(const std::string& path, std::string version);
std::string noted_version(const std::string& path);

}  // namespace assay
