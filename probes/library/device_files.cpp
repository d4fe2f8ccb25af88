// SPDX-License-Identifier: Apache-2.0
#include "probes/library/device_files.hpp"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "probes/library/elf.hpp"
#include "probes/library/library.hpp"

namespace assay {

namespace {

/// Most likely one first; of several toolkits the newest, which a reversed sort puts first.
struct Place {
  std::string_view role;
  const char* pattern;
};
constexpr Place places[] = {
    {"cuda", "/usr/lib/x86_64-linux-gnu/libcuda.so.1"},
    {"cuda", "/usr/lib64/libcuda.so.1"},
    {"cuda", "/usr/lib/wsl/lib/libcuda.so.1"},
    {"cuda", "/usr/local/nvidia/lib64/libcuda.so.1"},
    {"cuda", "/run/opengl-driver/lib/libcuda.so.1"},
    {"nvrtc", "/usr/local/cuda/lib64/libnvrtc.so.[0-9]*"},
    {"nvrtc", "/usr/local/cuda-*/lib64/libnvrtc.so.[0-9]*"},
    {"nvrtc", "/usr/lib/x86_64-linux-gnu/libnvrtc.so.[0-9]*"},
    {"nvrtc", "/usr/lib64/libnvrtc.so.[0-9]*"},
    {"ptxas", "/usr/local/cuda/bin/ptxas"},
    {"ptxas", "/usr/local/cuda-*/bin/ptxas"},
    {"nvcc", "/usr/local/cuda/bin/nvcc"},
    {"nvcc", "/usr/local/cuda-*/bin/nvcc"},
};

/// The real file: links resolved, so that a record names what was opened.
std::string real_path(const std::string& path) {
  std::error_code failed;
  const std::string real = std::filesystem::canonical(path, failed).string();
  return failed ? "" : real;
}

std::string first_match(const char* pattern) {
  glob_t found{};
  std::string out;
  if (::glob(pattern, 0, nullptr, &found) == 0)
    for (std::size_t i = found.gl_pathc; i-- > 0 && out.empty();) out = real_path(found.gl_pathv[i]);
  ::globfree(&found);
  return out;
}

}  // namespace

bool names_device_file(std::string_view value) {
  return std::ranges::any_of(device_roles, [&](std::string_view role) {
    return value.size() > role.size() && value.starts_with(role) && value[role.size()] == '=';
  });
}

std::map<std::string, std::string> find_device_files(const std::vector<std::string>& choice) {
  std::map<std::string, std::string> out;
  for (const std::string& value : choice) {
    if (!names_device_file(value)) continue;
    const std::size_t equals = value.find('=');
    const std::string role = value.substr(0, equals), path = value.substr(equals + 1);
    out[role] = read_library_without_digest(path).path;  // says what is wrong with a file that cannot be it
  }
  for (const Place& p : places)
    if (!out.contains(std::string(p.role)))
      if (std::string path = first_match(p.pattern); !path.empty()) out.emplace(p.role, std::move(path));
  return out;
}

}  // namespace assay
