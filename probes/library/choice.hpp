// SPDX-License-Identifier: Apache-2.0
// What --libraries may say, parsed in one place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

/// One value: "auto", "from-python PYTHON", "FOLDER", "NAME=FILE" or "FILE".
struct Choice {
  enum class Kind { automatic, python, folder, file } kind = Kind::automatic;
  std::string name;   // of a file: CPU library or CUDA role; "" when only its path was given
  std::string path;   // of the folder, file or Python; ~/ replaced
  std::string value;  // as typed, for messages
};

/// Roles of the files that a GPU is worked with through. The last two are programs.
inline constexpr std::string_view device_roles[] = {"cuda",   "nvml",  "nvrtc", "cudart", "cublasLt",
                                                    "cublas", "cudnn", "ptxas", "nvcc"};
inline constexpr std::string_view cpu_families[] = {"openblas", "blis", "mkl", "refblas", "cblas", "onednn"};
bool is_device_role(std::string_view name);
inline bool is_program(std::string_view role) {
  return role == "ptxas" || role == "nvcc";
}

/// No value at all means auto. "from-python" takes the next value, where that is a program or a Python environment's folder;
/// alone it means the python3 of PATH. Throws LibraryError with the forms that are taken.
std::vector<Choice> parse_choice(const std::vector<std::string>& values);

}  // namespace assay
