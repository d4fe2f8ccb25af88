// SPDX-License-Identifier: Apache-2.0
// Sets of CUDA files that were installed together, found as files: nothing is loaded. A worker works with one set.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "probes/library/choice.hpp"
#include "report/gpu.hpp"
#include "report/record.hpp"

namespace assay {

struct SetFile {
  std::string role;     // one of device_roles
  std::string path;     // absolute, links resolved
  std::string soname;   // "" for programs
  std::string version;  // of the wheel, of the toolkit's version.json, else what the file's own name says; may be ""
  std::string package;  // the wheel it came in: "nvidia_cudnn_cu12"
  std::string build_id;
  bool stub = false;  // the driver that toolkits ship for linking: every call answers error 34
};

struct LibrarySet {
  enum class Kind { driver, toolkit, system, conda, wheels, folder, search_path, named } kind = Kind::system;
  std::string origin;  // "toolkit /usr/local/cuda-13.0", "wheels in /opt/venv/lib/python3.11/site-packages"
  std::vector<SetFile> files;

  /// The file of a role that a worker would take: the first one. Null when there is none.
  const SetFile* file(std::string_view role) const;
};

/// Every set that `choice` allows, most likely one first; each real file once, in the first set that holds it. auto: driver,
/// CUDA_HOME, /usr/local/cuda*, conda, the wheels of the active environment, system folders, LD_LIBRARY_PATH. `every_python`
/// also starts each Python in PATH to ask where its packages are.
/// Throws LibraryError: a named file is not there or is something else, a named Python cannot be asked.
std::vector<LibrarySet> find_library_sets(const std::vector<std::string>& choice, bool every_python = false);

/// CUDA major that a file is for, from its soname or wheel; 0 when that says nothing (a driver serves several).
int cuda_major(const SetFile&);

/// What decides, besides the sets, which file a program really gets.
struct Surroundings {
  std::vector<std::string> library_path;  // folders of LD_LIBRARY_PATH
  bool preload = false;                   // LD_PRELOAD is set
  std::string kernel_driver;              // version of the loaded kernel module; "" when there is none
};
Surroundings surroundings();

/// One sentence per trap: mixed majors, two copies in one set, a stub or compatibility driver, a user-mode driver that is not
/// the kernel module's, folders that beat RUNPATH, an NVRTC of only one major.
std::vector<std::string> warnings(const std::vector<LibrarySet>&, const Surroundings&);

/// The same of what a worker really mapped: one soname from two places, one library in two majors.
std::vector<std::string> warnings(const std::vector<report::LibraryIdentity>& mapped);

/// What a container or a new card brings: a device that the opened libraries were not built for, a driver older than they are,
/// the shared memory of a container's default. `shared_bytes`: size of /dev/shm, 0 when there is none.
std::vector<std::string> warnings(const std::vector<report::LibraryIdentity>& opened, const std::vector<report::Gpu>&,
                                  std::int64_t shared_bytes);
/// Size of /dev/shm in bytes, 0 when there is none.
std::int64_t shared_memory_bytes();

}  // namespace assay
