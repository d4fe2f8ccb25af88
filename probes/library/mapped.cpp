// SPDX-License-Identifier: Apache-2.0
// What this process really mapped: the loader's choice, not what was asked for.
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <sstream>

#include "probes/library/elf.hpp"
#include "probes/library/library.hpp"
#include "probes/library/onednn.hpp"
#include "probes/library/opened.hpp"

namespace assay {

namespace {

struct Mapping {
  std::string device;  // "fe:00"
  std::uint64_t inode = 0;
  std::string path;
  auto operator<=>(const Mapping&) const = default;
};

/// "start-end perms offset device inode   path"; the path may hold spaces.
bool parse_executable(const std::string& line, Mapping& out) {
  std::istringstream in(line);
  std::string range, permissions, offset;
  if (!(in >> range >> permissions >> offset >> out.device >> out.inode)) return false;
  std::getline(in >> std::ws, out.path);
  return permissions.size() == 4 && permissions[2] == 'x' && out.inode != 0 && out.path.starts_with('/');
}

struct Versions {
  std::mutex mutex;
  std::map<std::string, std::string> by_path;
};
Versions& versions() {
  static auto* const noted = new Versions;
  return *noted;
}

report::LibraryIdentity identify(const std::string& path, bool digest) {
  report::LibraryIdentity id;
  id.path = path;
  try {
    const LibraryFile file = digest ? read_library(path) : read_library_without_digest(path);
    id.soname = file.soname, id.build_id = file.build_id, id.sha256 = file.sha256, id.size_bytes = file.size_bytes;
  } catch (const LibraryError&) {
    // Deleted or replaced since it was mapped ("... (deleted)"), or not a library: the path is all that is known.
  }
  return id;
}

}  // namespace

void note_version(const std::string& path, std::string version) {
  std::error_code failed;
  const std::string real = std::filesystem::canonical(path, failed).string();
  const std::lock_guard lock(versions().mutex);
  versions().by_path[failed ? path : real] = std::move(version);
}

std::string noted_version(const std::string& path) {
  const std::lock_guard lock(versions().mutex);
  const auto found = versions().by_path.find(path);
  return found == versions().by_path.end() ? "" : found->second;
}

std::vector<report::LibraryIdentity> mapped_libraries(bool digest) {
  static std::mutex mutex;
  static auto& caches = *new std::array<std::map<Mapping, report::LibraryIdentity>, 2>;
  auto& cache = caches[digest ? 1 : 0];
  const std::lock_guard lock(mutex);

  std::error_code unknown;
  const std::string self = std::filesystem::read_symlink("/proc/self/exe", unknown).string();
  std::set<Mapping> seen;
  std::vector<report::LibraryIdentity> out;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Mapping m;
    if (!parse_executable(line, m) || m.path == self || !seen.insert(m).second) continue;
    auto known = cache.find(m);
    if (known == cache.end()) known = cache.emplace(m, identify(m.path, digest)).first;
    report::LibraryIdentity id = known->second;
    if (const Cblas* blas = opened_cblas(m.path); blas != nullptr) {
      id.version = blas->version();
      id.core = blas->core();
    }
    if (const onednn::Library* dnn = onednn::opened(m.path); dnn != nullptr) {
      id.version = dnn->version_text();
      id.core = dnn->isa();
    }
    if (id.version.empty()) id.version = noted_version(m.path);
    out.push_back(std::move(id));
  }
  return out;
}

}  // namespace assay
