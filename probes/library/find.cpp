// SPDX-License-Identifier: Apache-2.0
// Where libraries are: the system's directories, or what --libraries names.
#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>

#include "probes/library/choice.hpp"
#include "probes/library/elf.hpp"
#include "probes/library/library.hpp"
#include "probes/library/library_set.hpp"
#include "probes/library/python.hpp"

namespace assay {

namespace {

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

/// Libraries in the folders that a named folder or a Python's packages keep them in. NumPy and SciPy bring an OpenBLAS each,
/// Paddle a oneDNN.
void add_folder(std::vector<FoundLibrary>& out, const std::string& root, const std::string& how) {
  for (const char* pattern :
       {"/libopenblas*.so*", "/libblis*.so*", "/libmkl_rt.so*", "/libcblas.so*", "/libblas.so*", "/libdnnl.so.[0-9]*",
        "/lib/libopenblas*.so*", "/lib/libblis*.so*", "/lib/libmkl_rt.so*", "/lib/libcblas.so*", "/lib/libblas.so*",
        "/lib/libdnnl.so.[0-9]*", "/lib64/libopenblas*.so*", "/lib64/libblis*.so*", "/lib64/libdnnl.so.[0-9]*",
        "/numpy.libs/*openblas*.so*", "/scipy.libs/*openblas*.so*", "/paddle/libs/libdnnl.so.[0-9]*"})
    for (const std::string& link : expand((root + pattern).c_str())) {
      try {
        const LibraryFile file = read_library_without_digest(link);
        out.push_back({family_of(file), file.path, how});
      } catch (const LibraryError&) {
      }
    }
}

}  // namespace

std::vector<FoundLibrary> find_cblas(const std::vector<std::string>& choice) {
  std::vector<FoundLibrary> out = find_libraries(choice);
  std::erase_if(out, [](const FoundLibrary& found) { return found.family == "onednn"; });
  return out;
}

std::vector<FoundLibrary> find_libraries(const std::vector<std::string>& choice) {
  using Kind = Choice::Kind;
  std::vector<FoundLibrary> all;
  const std::vector<Choice> choices = parse_choice(choice);
  const auto is_device_file = [](const Choice& c) { return c.kind == Kind::file && is_device_role(c.name); };
  bool named_files = false;
  for (const Choice& c : choices) {
    if (is_device_file(c)) continue;
    if (c.kind == Kind::automatic) add_system(all);
    if (c.kind == Kind::folder) add_folder(all, c.path, "folder " + c.path);
    if (c.kind == Kind::python)
      for (const std::string& folder : python_folders(c.path)) add_folder(all, folder, "wheels in " + folder);
    if (c.kind == Kind::file) all.push_back(named(c.name, c.path)), named_files = true;
  }
  if (all.empty() && !named_files) {
    // A choice that holds only what a GPU is worked with says nothing about the CPU's libraries.
    const bool device =
        std::ranges::any_of(choices, is_device_file) || std::ranges::any_of(find_library_sets(choice), [](const LibrarySet& s) {
          return s.kind == LibrarySet::Kind::folder || s.kind == LibrarySet::Kind::wheels;
        });
    if (!device && choices.front().kind != Kind::automatic)
      throw LibraryError(
          fmt::format("--libraries {}: nothing there is a library that assay knows; expected files such as "
                      "libopenblas.so.0, libdnnl.so.3, libcublasLt.so.13 or libnvrtc.so.13 in it",
                      choices.front().value));
    if (choices.front().kind != Kind::automatic) add_system(all);
  }
  std::vector<FoundLibrary> out;
  for (FoundLibrary& found : all)
    if (std::ranges::none_of(out, [&](const FoundLibrary& o) { return o.path == found.path && o.family == found.family; }))
      out.push_back(std::move(found));
  return out;
}

}  // namespace assay
