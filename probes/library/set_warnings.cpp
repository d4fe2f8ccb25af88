// SPDX-License-Identifier: Apache-2.0
// The ways in which a program gets another library than the one it was installed with.
#include <fmt/format.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "probes/library/library_set.hpp"
#include "report/environment.hpp"

namespace assay {

namespace {

namespace fs = std::filesystem;

std::string leading_digits(std::string_view text) {
  return std::string(text.substr(0, text.find_first_not_of("0123456789")));
}

/// "13" of libcublas.so.13.
std::string soname_major(const std::string& soname) {
  const std::size_t at = soname.find(".so.");
  return at == std::string::npos ? "" : leading_digits(std::string_view(soname).substr(at + 4));
}

void mixed_majors(const LibrarySet& set, std::vector<std::string>& out) {
  std::map<int, std::string> by_major;
  for (const SetFile& f : set.files)
    if (const int major = cuda_major(f); major != 0) by_major.emplace(major, f.role);
  if (by_major.size() < 2) return;
  std::string list;
  for (const auto& [major, role] : by_major) list += fmt::format("{}{} of CUDA {}", list.empty() ? "" : ", ", role, major);
  out.push_back(fmt::format("{} mixes CUDA majors: {}", set.origin, list));
}

void two_copies(const LibrarySet& set, std::vector<std::string>& out) {
  std::map<std::string, const SetFile*> by_soname;
  for (const SetFile& f : set.files)
    if (!f.soname.empty())
      if (const auto [first, inserted] = by_soname.emplace(f.soname, &f); !inserted)
        out.push_back(fmt::format("{} has two files of {}: {} and {}; which one a program gets depends on who asks first",
                                  set.origin, f.soname, first->second->path, f.path));
}

void driver_traps(const SetFile& f, const Surroundings& around, std::vector<std::string>& out) {
  if (f.role != "cuda") return;
  if (f.stub) {
    out.push_back(
        fmt::format("{} is the stub that toolkits ship for linking, not a driver: every call answers error 34", f.path));
    return;
  }
  if (f.path.find("/compat/") != std::string::npos || f.path.find("/cuda-compat") != std::string::npos)
    out.push_back(
        fmt::format("{} is a compatibility driver: newer user-mode code on an older kernel module, with its own compiler; "
                    "only some data-centre cards support it",
                    f.path));
  else if (!around.kernel_driver.empty() && f.version.find('.') != std::string::npos && f.version != around.kernel_driver)
    out.push_back(
        fmt::format("{} is version {}, but the loaded kernel module is {}: reboot after an update, or a container "
                    "brought its own",
                    f.path, f.version, around.kernel_driver));
}

void library_path_traps(const LibrarySet& set, const SetFile& f, const Surroundings& around, std::vector<std::string>& out) {
  if (f.soname.empty() || set.kind == LibrarySet::Kind::search_path) return;
  for (const std::string& folder : around.library_path) {
    std::error_code failed;
    const std::string there = fs::canonical(folder + "/" + f.soname, failed).string();
    if (failed || there == f.path) continue;
    out.push_back(
        fmt::format("LD_LIBRARY_PATH: {}/{} is loaded in place of {} by whatever asks for it by name, RUNPATH or not; take "
                    "the folder out",
                    folder, f.soname, f.path));
    return;
  }
}

void missing_compiler(const std::vector<LibrarySet>& sets, std::vector<std::string>& out) {
  std::set<int> compilers, needed;
  for (const LibrarySet& set : sets)
    for (const SetFile& f : set.files) {
      if (f.role == "nvrtc") compilers.insert(cuda_major(f));
      if (f.role == "cudart" || f.role == "cublas" || f.role == "cudnn") needed.insert(cuda_major(f));
    }
  needed.erase(0);
  if (compilers.empty() && needed.empty()) return;
  for (const int major : {12, 13})
    if (!compilers.contains(major))
      out.push_back(fmt::format("no libnvrtc.so.{} was found: {} built for CUDA {} cannot compile kernels here", major,
                                needed.contains(major) ? "the libraries above that are" : "what is", major));
}

}  // namespace

int cuda_major(const SetFile& f) {
  std::string digits;
  if (f.role == "nvrtc" || f.role == "cudart" || f.role == "cublas" || f.role == "cublasLt")
    digits = soname_major(f.soname);
  else if (const std::size_t at = f.package.rfind("_cu"); f.role == "cudnn" && at != std::string::npos)
    digits = leading_digits(std::string_view(f.package).substr(at + 3));
  return digits.empty() || digits.size() > 3 ? 0 : std::stoi(digits);
}

Surroundings surroundings() {
  Surroundings out;
  const char* const path = std::getenv("LD_LIBRARY_PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string f; std::getline(folders, f, ':');)
    if (f.starts_with('/')) out.library_path.push_back(f);
  const char* const preload = std::getenv("LD_PRELOAD");
  out.preload = preload != nullptr && *preload != '\0';
  out.kernel_driver = report::kernel_driver().version;
  return out;
}

std::vector<std::string> warnings(const std::vector<LibrarySet>& sets, const Surroundings& around) {
  std::vector<std::string> out;
  for (const LibrarySet& set : sets) {
    mixed_majors(set, out);
    two_copies(set, out);
    for (const SetFile& f : set.files) {
      driver_traps(f, around, out);
      library_path_traps(set, f, around, out);
    }
  }
  missing_compiler(sets, out);
  if (around.preload) out.push_back("LD_PRELOAD is set: its libraries come before every other one, in workers too");
  return out;
}

std::vector<std::string> warnings(const std::vector<report::LibraryIdentity>& mapped) {
  std::vector<std::string> out;
  std::map<std::string, std::string> by_name;  // without version: a process must not have two majors either
  for (const report::LibraryIdentity& l : mapped) {
    if (l.soname.empty()) continue;
    const auto [first, inserted] = by_name.emplace(l.soname.substr(0, l.soname.find(".so")), l.path);
    if (!inserted && first->second != l.path)
      out.push_back(fmt::format("one process has {} and {}: two copies of one library", first->second, l.path));
  }
  return out;
}

namespace {

/// 1208 of "... for CUDA 12.8 ...": major * 100 + minor; 0 when the text does not say. The same of "SM 12.1".
int number_after(std::string_view text, std::string_view words) {
  const std::size_t at = text.find(words);
  if (at == text.npos) return 0;
  const std::string digits(text.substr(at + words.size(), 8));
  const std::size_t dot = digits.find('.');
  if (dot == 0 || dot == digits.npos || digits.find_first_not_of("0123456789") != dot) return 0;
  const std::string minor = leading_digits(std::string_view(digits).substr(dot + 1));
  return minor.empty() ? 0 : std::stoi(digits.substr(0, dot)) * 100 + std::stoi(minor);
}

/// The first CUDA release whose compilers knew this SM (release notes of CUDA 11.8, 12.8, 12.9 and 13.0); 0: older than 11.8.
int first_cuda(int sm) {
  switch (sm) {
    case 809:
    case 900:
      return 1108;
    case 1000:
    case 1200:
      return 1208;
    case 1003:
    case 1201:
      return 1209;
    case 1100:
      return 1300;
    default:
      return 0;
  }
}

std::string dotted(int number) {
  return fmt::format("{}.{}", number / 100, number % 100);
}

void against_device(const report::LibraryIdentity& l, const report::Gpu& gpu, std::vector<std::string>& out) {
  const int sm = number_after("SM " + gpu.sm, "SM "), newest = number_after(l.version, "up to SM ");
  const int cuda = number_after(l.version, "for CUDA "), driver = number_after(gpu.user_driver, "CUDA ");
  if (l.version.starts_with("driver")) return;
  if (newest != 0 && sm > newest)
    out.push_back(
        fmt::format("{} was built for devices up to SM {}, and {} is SM {}: it compiles for what it meets, code that "
                    "nobody tested on it; take a newer one",
                    l.path, dotted(newest), gpu.name, dotted(sm)));
  else if (newest == 0 && cuda != 0 && cuda < first_cuda(sm))
    out.push_back(
        fmt::format("{} is for CUDA {}, and {} (SM {}) is known since CUDA {}: at best the driver compiles its PTX, code "
                    "that nobody tested on it; take a newer one",
                    l.path, dotted(cuda), gpu.name, dotted(sm), dotted(first_cuda(sm))));
  if (cuda / 100 > driver / 100 && driver != 0)
    out.push_back(
        fmt::format("{} is for CUDA {}, and the driver is for CUDA {}: install a newer driver, or on a data-centre card "
                    "the compatibility package",
                    l.path, dotted(cuda), dotted(driver)));
}

}  // namespace

std::vector<std::string> warnings(const std::vector<report::LibraryIdentity>& opened, const std::vector<report::Gpu>& gpus,
                                  std::int64_t shared_bytes) {
  std::vector<std::string> out;
  for (const report::LibraryIdentity& l : opened)
    for (const report::Gpu& gpu : gpus) against_device(l, gpu, out);
  constexpr std::int64_t default_of_containers = 64 << 20;
  if (shared_bytes != 0 && shared_bytes <= default_of_containers)
    out.push_back(
        fmt::format("/dev/shm holds {} MiB, a container's default: NCCL and data loaders of frameworks die of it (assay "
                    "does not use it); start the container with --ipc=host or --shm-size",
                    shared_bytes >> 20));
  return out;
}

std::int64_t shared_memory_bytes() {
  struct statvfs s {};
  return statvfs("/dev/shm", &s) == 0 ? static_cast<std::int64_t>(s.f_blocks) * static_cast<std::int64_t>(s.f_frsize) : 0;
}

}  // namespace assay
