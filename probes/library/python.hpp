// SPDX-License-Identifier: Apache-2.0
// Where a Python looks for its packages. The interpreter is started for that and imports nothing.
#pragma once

#include <string>
#include <vector>

namespace assay {

/// The folders of that Python's sys.path that hold installed packages, in its order. `python` is a path or a name to be found
/// in PATH. Throws LibraryError: it cannot be started, fails, or does not answer within ten seconds.
std::vector<std::string> python_folders(const std::string& python);

/// The version that an installed distribution writes beside a file of its: looked up in the RECORD of every NAME.dist-info.
struct WheelFile {
  std::string distribution, version;  // "nvidia_cublas_cu12", "12.8.4.1"; "" when no RECORD names the file
};
WheelFile wheel_of(const std::string& folder, const std::string& file);

}  // namespace assay
