// SPDX-License-Identifier: Apache-2.0
// env: the conditions that a run would record, every library found, and what a worker really maps of the CUDA ones.
#include <fmt/format.h>

#include <algorithm>

#include "probes/cli/commands.hpp"
#include "probes/cli/known_defects.hpp"
#include "probes/library/device_files.hpp"
#include "probes/library/library.hpp"
#include "probes/library/library_set.hpp"
#include "probes/run/device_worker.hpp"
#include "report/environment.hpp"
#include "report/jsonl.hpp"
#include "report/redact.hpp"

namespace assay::cli {

namespace {

using Map = std::map<std::string, std::string>;

void section(const char* title, const Map& values) {
  fmt::print("{}\n", title);
  for (const auto& [key, value] : values) fmt::print("  {:<21} {}\n", key, value);
  if (values.empty()) fmt::print("  none\n");
}

/// The file as it lies there; nothing is loaded.
report::LibraryIdentity identity(const FoundLibrary& found) {
  const LibraryFile file = read_library(found.path);
  report::LibraryIdentity id;
  id.path = report::redact(file.path), id.soname = file.soname, id.build_id = file.build_id, id.sha256 = file.sha256,
  id.size_bytes = file.size_bytes;
  return id;
}

void print_cpu_libraries(const std::vector<FoundLibrary>& found, const std::vector<report::LibraryIdentity>& files) {
  fmt::print("CPU libraries found (read as files, not loaded)\n");
  for (std::size_t i = 0; i < found.size(); ++i) {
    const report::LibraryIdentity& l = files[i];
    fmt::print("  {:<9} {}\n            {}, build id {}, sha256 {:.12}, {} KiB, by {}\n", found[i].family, l.path, l.soname,
               l.build_id.empty() ? "none" : l.build_id, l.sha256, l.size_bytes >> 10, report::redact(found[i].how));
  }
  if (found.empty()) fmt::print("  none: name one with --libraries NAME=PATH, or install one, e.g. libopenblas0-pthread\n");
}

void print_sets(const std::vector<LibrarySet>& sets) {
  fmt::print("CUDA files found (read as files, not loaded)\n");
  for (const LibrarySet& set : sets) {
    fmt::print("  {}\n", report::redact(set.origin));
    for (const SetFile& f : set.files)
      fmt::print("    {:<9} {:<12} {}{}\n", f.role, f.version.empty() ? "-" : f.version, report::redact(f.path),
                 f.stub ? "  (stub)" : "");
  }
  if (sets.empty()) fmt::print("  none: no driver, toolkit, conda environment or wheel of NVIDIA's is here\n");
}

void print_opened(const Map& files, const OpenedSet& opened) {
  fmt::print("what a GPU worker maps of them\n");
  for (const auto& [role, path] : files) fmt::print("  asked for {:<9} {}\n", role, report::redact(path));
  for (const report::LibraryIdentity& l : opened.mapped)
    fmt::print("  mapped    {}{}{}\n", report::redact(l.path), l.version.empty() ? "" : ": ", l.version);
  for (const report::Gpu& g : opened.gpus)
    fmt::print("  device {}  {}, SM {}, {} multiprocessors, {} MiB, {}, kernel module {}\n", g.ordinal, g.name, g.sm,
               g.multiprocessors, g.memory_mib, g.user_driver, g.kernel_driver.empty() ? "unknown" : g.kernel_driver);
  for (const std::string& c : opened.complaints) fmt::print("  not opened: {}\n", report::redact(c));
}

/// What a worker would open: NVIDIA's libraries of one set, and what our kernels need. No program.
Map files_to_open(const std::vector<std::string>& libraries) {
  Map files = find_library_files(libraries);
  files.merge(find_device_files(libraries));
  std::erase_if(files, [](const auto& f) { return is_program(f.first); });
  return files;
}

/// What says of itself that it was opened, and what CUDA's libraries brought along; without libc and the like.
std::vector<report::LibraryIdentity> of_cuda(std::vector<report::LibraryIdentity> mapped) {
  std::erase_if(mapped, [](const report::LibraryIdentity& l) {
    return l.version.empty() &&
           std::ranges::none_of(std::initializer_list<const char*>{"libcuda", "libnv", "libcu"}, [&](const char* start) {
             return l.path.substr(l.path.find_last_of('/') + 1).starts_with(start);
           });
  });
  return mapped;
}

}  // namespace

int env(const std::vector<std::string>& libraries, bool json) {
  report::Environment e = conditions();
  e.command = "assay env";
  const std::vector<FoundLibrary> found = find_libraries(libraries);
  for (const FoundLibrary& f : found) e.libraries.push_back(identity(f));
  const std::vector<LibrarySet> sets = find_library_sets(libraries, true);
  const Map files = files_to_open(libraries);
  OpenedSet opened;
  if (!files.empty()) opened = open_in_worker(files);
  opened.mapped = of_cuda(std::move(opened.mapped));
  e.gpus = opened.gpus;
  if (json) {
    for (const report::LibraryIdentity& l : opened.mapped) e.libraries.push_back(l);
    fmt::print("{}\n", report::to_json(e));
    return 0;
  }
  section("assay", e.assay);
  section("system", e.system);
  section("variables that can change numbers", e.variables);
  print_cpu_libraries(found, {e.libraries.begin(), e.libraries.end()});
  print_sets(sets);
  if (!files.empty()) print_opened(files, opened);
  std::vector<std::string> traps = warnings(sets, surroundings());
  for (std::string& w : warnings(opened.mapped)) traps.push_back(std::move(w));
  for (std::string& w : warnings(opened.mapped, opened.gpus, shared_memory_bytes())) traps.push_back(std::move(w));
  const std::string sm = opened.gpus.empty() ? "" : opened.gpus.front().sm;
  for (std::string& w : notices(known_defects(), opened.mapped, sm)) traps.push_back(std::move(w));
  if (!traps.empty()) fmt::print("traps\n");
  for (const std::string& w : traps) fmt::print("  {}\n", report::redact(w));
  return 0;
}

}  // namespace assay::cli
