// SPDX-License-Identifier: Apache-2.0
#include "probes/library/library_set.hpp"

#include <fmt/format.h>
#include <glob.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>

#include "probes/library/elf.hpp"
#include "probes/library/library.hpp"
#include "probes/library/python.hpp"

namespace assay {

namespace {

namespace fs = std::filesystem;
using Kind = LibrarySet::Kind;

struct Pattern {
  std::string_view role, name;
};
// Of a driver only the run-time name counts: libcuda.so alone is what a toolkit's stub is called.
constexpr Pattern patterns[] = {
    {"cuda", "libcuda.so.1"},
    {"nvml", "libnvidia-ml.so.1"},
    {"nvrtc", "libnvrtc.so.[0-9]*"},
    {"cudart", "libcudart.so.[0-9]*"},
    {"cublasLt", "libcublasLt.so.[0-9]*"},
    {"cublas", "libcublas.so.[0-9]*"},
    {"cudnn", "libcudnn.so.[0-9]*"},
    {"ptxas", "ptxas"},
    {"nvcc", "nvcc"},
};
// Where they lie below a toolkit, a conda environment or any folder that was named.
constexpr std::string_view library_folders[] = {"", "/lib", "/lib64", "/targets/x86_64-linux/lib", "/compat"};
constexpr std::string_view program_folders[] = {"", "/bin"};
constexpr const char* driver_folders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib",
                                          "/usr/local/nvidia/lib64", "/run/opengl-driver/lib"};
constexpr const char* system_folders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64"};

std::vector<std::string> expand(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> out;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  std::ranges::reverse(out);  // the newest of several first
  return out;
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// "12.8.4.1" of libcublas.so.12.8.4.1; "13" of libcublas.so.13; "" of a program.
std::string version_in_name(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  const std::size_t at = name.find(".so.");
  return at == std::string::npos ? "" : name.substr(at + 4);
}

/// One file, looked at; nothing when it is not what its name says. A file that a person named refuses aloud.
std::optional<SetFile> look(std::string_view role, const std::string& path, bool named) {
  SetFile out{.role = std::string(role), .path = {}, .soname = {}, .version = {}, .package = {}, .build_id = {}};
  if (is_program(role)) {
    std::error_code failed;
    out.path = fs::canonical(path, failed).string();
    if (!failed && fs::is_regular_file(out.path, failed) && ::access(out.path.c_str(), X_OK) == 0) return out;
    if (named)
      throw LibraryError(fmt::format("{}={}: that is no program that can be started; name the file of {}", role, path, role));
    return std::nullopt;
  }
  try {
    const LibraryFile file = read_library_without_digest(path);
    out.path = file.path, out.build_id = file.build_id;
    out.soname = file.soname.empty() ? fs::path(path).filename().string() : file.soname;
    out.version = version_in_name(file.path);
    out.stub = role == "cuda" && file.path.find("/stubs/") != std::string::npos;
    return out;
  } catch (const LibraryError&) {
    if (named) throw;
    return std::nullopt;
  }
}

/// Collects sets; a real file that is in one already is not put into a later one.
class Collector {
 public:
  std::vector<LibrarySet> sets;

  void add(LibrarySet set) {
    std::erase_if(set.files, [&](const SetFile& f) { return !seen_.insert(f.role + f.path).second; });
    if (!set.files.empty()) sets.push_back(std::move(set));
  }

  /// Files of these roles in one folder; `folder` is appended to by the patterns.
  static void gather(LibrarySet& set, const std::string& folder, bool programs,
                     const std::set<std::string_view>& without = {}) {
    for (const Pattern& p : patterns) {
      if (is_program(p.role) != programs || without.contains(p.role)) continue;
      for (const std::string& path : expand(folder + "/" + std::string(p.name)))
        if (std::optional<SetFile> file = look(p.role, path, false);
            file &&
            std::ranges::none_of(set.files, [&](const SetFile& f) { return f.role == file->role && f.path == file->path; }))
          set.files.push_back(std::move(*file));
    }
  }

  void add_tree(Kind kind, const std::string& what, const std::string& root, const std::set<std::string_view>& without = {}) {
    std::error_code failed;
    const std::string real = fs::canonical(root, failed).string();
    if (failed) return;
    LibrarySet set{kind, what + real, {}};
    for (const std::string_view f : library_folders) gather(set, real + std::string(f), false, without);
    for (const std::string_view f : program_folders) gather(set, real + std::string(f), true, without);
    read_version_file(set, real + "/version.json");
    add(std::move(set));
  }

  /// nvidia/COMPONENT/lib of the cu12 wheels and the one tree nvidia/cu13 of the cu13 ones; Triton brings its own ptxas.
  bool add_wheels(const std::string& folder) {
    std::error_code failed;
    const std::string site = fs::canonical(folder, failed).string();
    if (failed) return false;
    LibrarySet set{Kind::wheels, "wheels in " + site, {}};
    for (const char* folder : {"/nvidia/*/lib", "/nvidia/*/bin", "/triton/backends/nvidia/bin"})
      for (const std::string& found : expand(site + folder)) gather(set, found, found.ends_with("/bin"));
    for (SetFile& f : set.files)
      if (const WheelFile wheel = wheel_of(site, f.path); !wheel.version.empty())
        f.version = wheel.version, f.package = wheel.distribution;
    const bool any = !set.files.empty();
    add(std::move(set));
    return any;
  }

 private:
  /// What a toolkit's version.json says of its parts.
  static void read_version_file(LibrarySet& set, const std::string& path) {
    std::ifstream in(path);
    if (!in) return;
    const nlohmann::json parts = nlohmann::json::parse(in, nullptr, false);
    const std::map<std::string_view, const char*> names = {{"nvrtc", "cuda_nvrtc"}, {"cudart", "cuda_cudart"},
                                                           {"cublas", "libcublas"}, {"cublasLt", "libcublas"},
                                                           {"ptxas", "cuda_nvcc"},  {"nvcc", "cuda_nvcc"}};
    for (SetFile& f : set.files)
      if (const auto name = names.find(f.role); name != names.end() && parts.is_object() && parts.contains(name->second)) {
        const nlohmann::json& part = parts[name->second];
        if (part.is_object() && part.contains("version") && part["version"].is_string()) f.version = part["version"];
      }
  }

  std::set<std::string> seen_;
};

void add_drivers(Collector& out) {
  for (const char* folder : driver_folders) {
    LibrarySet set{Kind::driver, fmt::format("driver in {}", folder), {}};
    Collector::gather(set, folder, false, {"nvrtc", "cudart", "cublasLt", "cublas", "cudnn"});
    out.add(std::move(set));
  }
}

/// Every python3 of PATH; several names of one installation give the same folders again, which adds nothing.
void add_pythons(Collector& out) {
  std::set<std::string> asked;
  std::istringstream path(variable("PATH"));
  for (std::string folder; std::getline(path, folder, ':');)
    for (const std::string& python : expand(folder + "/python3")) {
      if (!folder.starts_with('/') || !asked.insert(python).second) continue;
      try {
        for (const std::string& site : python_folders(python)) out.add_wheels(site);
      } catch (const LibraryError&) {  // a broken Python that nobody named
      }
    }
}

void add_automatic(Collector& out, bool every_python) {
  add_drivers(out);
  for (const char* name : {"CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"})
    if (const std::string root = variable(name); !root.empty()) out.add_tree(Kind::toolkit, "toolkit ", root);
  for (const char* pattern : {"/usr/local/cuda", "/usr/local/cuda-[0-9]*", "/opt/cuda", "/usr/lib/cuda"})
    for (const std::string& root : expand(pattern)) out.add_tree(Kind::toolkit, "toolkit ", root);
  if (const std::string root = variable("CONDA_PREFIX"); !root.empty()) out.add_tree(Kind::conda, "conda environment ", root);
  for (const char* name : {"VIRTUAL_ENV", "CONDA_PREFIX"})
    if (const std::string root = variable(name); !root.empty())
      for (const std::string& site : expand(root + "/lib/python3*/site-packages")) out.add_wheels(site);
  if (every_python) add_pythons(out);
  for (const char* folder : system_folders) {
    LibrarySet set{Kind::system, fmt::format("system folder {}", folder), {}};
    Collector::gather(set, folder, false, {"cuda", "nvml"});
    out.add(std::move(set));
  }
  for (const std::string& folder : surroundings().library_path) {
    LibrarySet set{Kind::search_path, fmt::format("LD_LIBRARY_PATH folder {}", folder), {}};
    Collector::gather(set, folder, false);
    out.add(std::move(set));
  }
}

}  // namespace

const SetFile* LibrarySet::file(std::string_view role) const {
  const auto found = std::ranges::find(files, role, &SetFile::role);
  return found == files.end() ? nullptr : &*found;
}

std::vector<LibrarySet> find_library_sets(const std::vector<std::string>& choice, bool every_python) {
  Collector out;
  LibrarySet named{Kind::named, "--libraries", {}};
  const std::vector<Choice> choices = parse_choice(choice);
  for (const Choice& c : choices)
    if (c.kind == Choice::Kind::file && is_device_role(c.name)) named.files.push_back(*look(c.name, c.path, true));
  out.add(std::move(named));
  bool automatic = true;
  for (const Choice& c : choices) {
    if (c.kind == Choice::Kind::folder) {
      out.add_tree(Kind::folder, "folder ", c.path);
      out.add_wheels(c.path);
    } else if (c.kind == Choice::Kind::python) {
      for (const std::string& site : python_folders(c.path)) out.add_wheels(site);
    } else {
      continue;
    }
    automatic = false;
  }
  for (const Choice& c : choices) automatic |= c.kind == Choice::Kind::automatic;
  if (automatic)
    add_automatic(out, every_python);
  else
    add_drivers(out);  // which no toolkit or wheel brings
  return std::move(out.sets);
}

}  // namespace assay
