// SPDX-License-Identifier: Apache-2.0
// The files that a GPU is reached through, found without loading any: driver, run-time compiler, and the toolkit's programs.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

/// Roles that --libraries ROLE=PATH may name besides CPU libraries.
inline constexpr std::string_view device_roles[] = {"cuda", "nvrtc", "ptxas", "nvcc"};

/// Absolute paths by role; a role is absent when nothing was found. What `choice` names wins over the system's.
/// Throws LibraryError when a named file is not there or is no ELF file.
std::map<std::string, std::string> find_device_files(const std::vector<std::string>& choice);

/// Whether a value of --libraries names one of these roles.
bool names_device_file(std::string_view value);

}  // namespace assay
