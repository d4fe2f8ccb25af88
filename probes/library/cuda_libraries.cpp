// SPDX-License-Identifier: Apache-2.0
#include "probes/library/cuda_libraries.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "probes/library/opened.hpp"

namespace assay::cuda {

namespace {

/// One opened file, whose functions are taken by name.
struct Opened {
  std::string path, what;
  void* handle = nullptr;

  template <class Function>
  void need(const char* name, Function& to) const {
    to = reinterpret_cast<Function>(::dlsym(handle, name));
    if (to == nullptr)
      throw LibraryError(fmt::format("{} has no {}: it is no {} of CUDA 12 or 13; name another file", path, name, what));
  }
};

std::string real_path(const std::string& path) {
  std::error_code failed;
  const std::string real = std::filesystem::canonical(path, failed).string();
  return failed ? path : real;
}

/// "13.1.0", from the three properties.
std::string version(int (*property)(int, int*)) {
  int part[3] = {};
  for (int i = 0; i < 3; ++i) property(i, &part[i]);
  return fmt::format("{}.{}.{}", part[0], part[1], part[2]);
}

std::string for_cuda(std::size_t runtime) {
  return fmt::format("for CUDA {}.{}", runtime / 1000, runtime % 1000 / 10);
}

/// The file that this function of a loaded library lies in.
std::string file_of(void* function) {
  Dl_info info{};
  return ::dladdr(function, &info) != 0 && info.dli_fname != nullptr ? real_path(info.dli_fname) : "";
}

}  // namespace

std::map<std::string, std::string> open_libraries(const std::map<std::string, std::string>& files) {
  std::map<std::string, std::string> said;
  LibraryFunctions fn;
#define ASSAY_RESOLVE(name, result, arguments) file.need(#name, fn.name);
  const auto open = [&](const std::string& role, const char* what) {
    const auto found = files.find(role);
    return found == files.end() ? Opened{} : Opened{found->second, what, open_exactly(found->second)};
  };
  const auto note = [&](const Opened& file, const std::string& role, std::string text) {
    note_version(file.path, text);
    said[role] = std::move(text);
  };
  const auto lt = [&] {
    Opened file = open("cublasLt", "cuBLASLt");
    if (file.handle == nullptr) return file;
    ASSAY_CUBLASLT_SYMBOLS(ASSAY_RESOLVE)
    note(file, "cublasLt",
         fmt::format("cuBLASLt {} {}", version(fn.cublasLtGetProperty), for_cuda(fn.cublasLtGetCudartVersion())));
    return file;
  }();
  if (const Opened file = open("cublas", "cuBLAS"); file.handle != nullptr) {
    ASSAY_CUBLAS_SYMBOLS(ASSAY_RESOLVE)
    note(file, "cublas", fmt::format("cuBLAS {} {}", version(fn.cublasGetProperty), for_cuda(fn.cublasGetCudartVersion())));
    // A library that is already mapped answers to its soname, so this one wins over every search path; two majors do not.
    const std::string taken = file_of(::dlsym(file.handle, "cublasLtGetVersion"));
    if (lt.handle != nullptr && !taken.empty() && taken != real_path(lt.path))
      throw LibraryError(fmt::format("{} works with {}, not with {}, which was opened first; name two files of one release",
                                     file.path, taken, lt.path));
    if (lt.handle != nullptr && version(fn.cublasGetProperty) != version(fn.cublasLtGetProperty))
      throw LibraryError(fmt::format("{} says it is {}, but its {} is {}; name two files of one release", file.path,
                                     said["cublas"], lt.path, said["cublasLt"]));
  }
  if (const Opened file = open("cudnn", "cuDNN"); file.handle != nullptr) {
    ASSAY_CUDNN_SYMBOLS(ASSAY_RESOLVE)
    fn.cudnnGetMaxDeviceVersion =
        reinterpret_cast<decltype(fn.cudnnGetMaxDeviceVersion)>(::dlsym(file.handle, "cudnnGetMaxDeviceVersion"));
    std::string text = fmt::format("cuDNN {} {}", version(fn.cudnnGetProperty), for_cuda(fn.cudnnGetCudartVersion()));
    // Above it cuDNN compiles for the device it meets: other code than what was tested.
    if (const std::size_t newest = fn.cudnnGetMaxDeviceVersion != nullptr ? fn.cudnnGetMaxDeviceVersion() : 0; newest != 0)
      text += fmt::format(", built for devices up to SM {}.{}", newest / 100, newest % 100 / 10);
    note(file, "cudnn", std::move(text));
  }
#undef ASSAY_RESOLVE
  return said;
}

}  // namespace assay::cuda
