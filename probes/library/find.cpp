// SPDX-License-Identifier: Apache-2.0
// Where libraries are: the system's directories, or what --libraries names.
#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string_view>

#include "probes/library/device_files.hpp"
#include "probes/library/elf.hpp"
#include "probes/library/library.hpp"

namespace assay {

namespace {

constexpr std::array<std::string_view, 6> known_families = {"openblas", "blis", "mkl", "refblas", "cblas", "onednn"};

// The files that hold kernels, most likely one first. Debian and Ubuntu keep one folder per implementation and let the
// alternatives system choose; libblas.so.3 in an OpenBLAS or BLIS folder is the same code under the system's name, so it is not
// listed again.
constexpr const char* system_files[] = {
    "/usr/lib/x86_64-linux-gnu/libopenblas.so*",
    "/usr/lib/x86_64-linux-gnu/openblas*-*/libopenblas*.so*",
    "/usr/lib64/libopenblas*.so*",
    "/usr/lib/libopenblas*.so*",
    "/usr/local/lib/libopenblas*.so*",
    "/usr/local/lib64/libopenblas*.so*",
    "/opt/OpenBLAS/lib/libopenblas*.so*",
    "/opt/intel/oneapi/mkl/latest/lib/libmkl_rt.so*",
    "/opt/intel/oneapi/mkl/latest/lib/intel64/libmkl_rt.so*",
    "/usr/lib/x86_64-linux-gnu/libmkl_rt.so*",
    "/usr/lib/x86_64-linux-gnu/blis*-*/libblis*.so*",
    "/usr/lib64/libblis*.so*",
    "/usr/lib/libblis*.so*",
    "/usr/local/lib/libblis*.so*",
    "/usr/lib/x86_64-linux-gnu/blas*/libblas*.so*",
    "/usr/lib64/libcblas.so*",
    "/usr/lib64/libblas*.so*",
    "/usr/local/lib/libcblas.so*",
    "/usr/local/lib/libblas.so*",
    "/usr/lib/x86_64-linux-gnu/libdnnl.so.[0-9]*",
    "/usr/lib64/libdnnl.so.[0-9]*",
    "/usr/lib/libdnnl.so.[0-9]*",
    "/usr/local/lib/libdnnl.so.[0-9]*",
    "/usr/local/lib64/libdnnl.so.[0-9]*",
    "/opt/intel/oneapi/dnnl/latest/lib/libdnnl.so.[0-9]*",
};

std::vector<std::string> expand(const char* pattern) {
  glob_t found{};
  std::vector<std::string> out;
  if (::glob(pattern, 0, nullptr, &found) == 0) out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return out;
}

/// Target name of the file; throws LibraryError when it is neither a CBLAS nor a oneDNN.
std::string family_of(const LibraryFile& file) {
  return is_onednn(file) ? "onednn" : cblas_naming(file).family;
}

/// Adds every library of the system's directories; what is not one is passed over in silence, for nobody asked for it.
void add_system(std::vector<FoundLibrary>& out) {
  std::set<std::string> seen;
  for (const char* pattern : system_files)
    for (const std::string& link : expand(pattern)) {
      std::error_code failed;
      const std::string path = std::filesystem::canonical(link, failed).string();
      if (failed || !seen.insert(path).second) continue;
      try {
        out.push_back({family_of(read_library_without_digest(path)), path, "system directory"});
      } catch (const LibraryError&) {
      }
    }
}

FoundLibrary named(std::string_view name, const std::string& path) {
  const LibraryFile file = read_library_without_digest(path);
  if (name == "onednn" && !is_onednn(file))
    throw LibraryError(
        fmt::format("--libraries onednn={}: that file exports no dnnl_version, so it is no oneDNN; name its libdnnl.so", path));
  const std::string family = family_of(file);
  // A plain CBLAS says nothing that would tell it from the reference one; "cblas" takes any.
  const bool fits =
      name.empty() || name == family || (name == "cblas" && family != "onednn") || (name == "refblas" && family == "cblas");
  if (!fits)
    throw LibraryError(fmt::format("--libraries {}={}: that file is {}, by what it exports; say {}={}", name, path,
                                   family == "cblas" ? "a CBLAS of unknown make" : family, family, path));
  return {name.empty() ? family : std::string(name), file.path, "--libraries"};
}

FoundLibrary from_choice(const std::string& value) {
  constexpr std::string_view forms =
      "auto, NAME=PATH with NAME one of openblas, blis, mkl, refblas, cblas, onednn, cuda, nvrtc, ptxas, nvcc, or the path of a library file";
  const auto refuse = [&](std::string_view why) -> FoundLibrary {
    throw LibraryError(fmt::format("--libraries {}: {}; expected {}", value, why, forms));
  };
  if (value.empty()) return refuse("the value is empty");
  if (value == "from-python" || value.starts_with("from-python ") || value.starts_with("from-python="))
    return refuse("reading a Python installation is not supported yet");
  const std::size_t slash = value.find('/'), equals = value.find('=');
  std::string_view name;
  std::string path = value;
  if (equals < slash) {
    name = std::string_view(value).substr(0, equals);
    path = value.substr(equals + 1);
    if (std::ranges::find(known_families, name) == known_families.end())
      return refuse(fmt::format("\"{}\" is not a known library name", name));
    if (path.empty()) return refuse("the path is empty");
  } else if (slash == std::string::npos) {
    return refuse("it is neither a name with a path nor a path (write ./ before a file of this folder)");
  }
  // Records write the home folder as ~, and not every shell expands it after an equals sign.
  if (const char* home = std::getenv("HOME"); home != nullptr && path.starts_with("~/")) path.replace(0, 1, home);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return refuse("searching a folder is not supported yet");
  return named(name, path);
}

}  // namespace

std::vector<FoundLibrary> find_cblas(const std::vector<std::string>& choice) {
  std::vector<FoundLibrary> out = find_libraries(choice);
  std::erase_if(out, [](const FoundLibrary& found) { return found.family == "onednn"; });
  return out;
}

std::vector<FoundLibrary> find_libraries(const std::vector<std::string>& choice) {
  std::vector<FoundLibrary> all;
  if (choice.empty()) add_system(all);
  bool cpu_named = false;
  for (const std::string& value : choice) cpu_named |= !names_device_file(value);
  if (!choice.empty() && !cpu_named) add_system(all);
  for (const std::string& value : choice) {
    if (names_device_file(value)) continue;
    if (value == "auto")
      add_system(all);
    else
      all.push_back(from_choice(value));
  }
  std::vector<FoundLibrary> out;
  for (FoundLibrary& found : all)
    if (std::ranges::none_of(out, [&](const FoundLibrary& o) { return o.path == found.path && o.family == found.family; }))
      out.push_back(std::move(found));
  return out;
}

}  // namespace assay
