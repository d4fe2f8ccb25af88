// SPDX-License-Identifier: Apache-2.0
#include "probes/library/device_files.hpp"

#include <algorithm>
#include <filesystem>

#include "probes/library/library_set.hpp"

namespace assay {

namespace {

void take_first(const std::vector<LibrarySet>& sets, std::string_view role, std::map<std::string, std::string>& out) {
  // What the user names by role wins; of two such files the last.
  for (const LibrarySet& set : sets)
    if (set.kind == LibrarySet::Kind::named)
      for (const SetFile& f : set.files)
        if (f.role == role) out[f.role] = f.path;
  if (out.contains(std::string(role))) return;
  for (const bool stubs : {false, true})  // a stub only where nothing else is: the worker then says what it is
    for (const LibrarySet& set : sets)
      for (const SetFile& f : set.files)
        if (f.role == role && (stubs || !f.stub || set.kind == LibrarySet::Kind::named)) {
          out.emplace(f.role, f.path);
          return;
        }
}

/// A cuBLAS that was named alone works with the cuBLASLt beside it, never with that of another installation.
void use_own_cublaslt(const std::vector<LibrarySet>& sets, std::map<std::string, std::string>& out) {
  const auto named = std::ranges::find(sets, LibrarySet::Kind::named, &LibrarySet::kind);
  if (named == sets.end()) return;
  const SetFile* const cublas = named->file("cublas");
  if (cublas == nullptr || named->file("cublasLt") != nullptr) return;
  out.erase("cublasLt");
  const std::filesystem::path path = cublas->path;
  for (std::string name : {cublas->soname, path.filename().string()}) {
    if (!name.starts_with("libcublas.so")) continue;
    const std::filesystem::path beside = path.parent_path() / name.insert(9, "Lt");
    if (std::error_code failed; std::filesystem::exists(beside, failed))
      out["cublasLt"] = std::filesystem::canonical(beside, failed).string();
  }
}

}  // namespace

std::map<std::string, std::string> find_device_files(const std::vector<std::string>& choice) {
  std::map<std::string, std::string> out;
  const std::vector<LibrarySet> sets = find_library_sets(choice);
  for (const std::string_view role : {"cuda", "nvml", "nvrtc", "ptxas", "nvcc"}) take_first(sets, role, out);
  if (!out.contains("ptxas") || !out.contains("nvcc")) {
    const std::vector<LibrarySet> automatic = find_library_sets({});
    for (const std::string_view role : {"ptxas", "nvcc"}) take_first(automatic, role, out);
  }
  return out;
}

std::map<std::string, std::string> find_library_files(const std::vector<std::string>& choice) {
  constexpr std::string_view roles[] = {"cublasLt", "cublas", "cudnn", "cudart"};
  const std::vector<LibrarySet> sets = find_library_sets(choice);
  const auto has = [&](auto... wanted) {
    return std::ranges::find_if(
        sets, [&](const LibrarySet& s) { return s.kind != LibrarySet::Kind::named && ((s.file(wanted) != nullptr) || ...); });
  };
  auto from = has("cublasLt");
  if (from == sets.end()) from = has("cublas", "cudnn");
  std::map<std::string, std::string> out;
  for (const LibrarySet& set : sets)
    if (set.kind == LibrarySet::Kind::named || (from != sets.end() && &set == &*from))
      for (const SetFile& f : set.files)
        if (std::ranges::find(roles, f.role) != std::end(roles)) out.emplace(f.role, f.path);
  use_own_cublaslt(sets, out);
  return out;
}

}  // namespace assay
