// SPDX-License-Identifier: Apache-2.0
// Which files a GPU worker works with: one of each role, chosen from the sets found, nothing loaded.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

/// What our own kernels need: driver, NVML, run-time compiler and the toolkit's programs. Absolute paths by role; a role is
/// absent when nothing was found. A file that `choice` names wins, then the set that it names; the driver and the programs
/// fall back to the system's. Throws LibraryError.
std::map<std::string, std::string> find_device_files(const std::vector<std::string>& choice);

/// cublasLt, cublas, cudnn and cudart, all from one set: the first that has a cuBLASLt, else the first that has any.
std::map<std::string, std::string> find_library_files(const std::vector<std::string>& choice);

}  // namespace assay
