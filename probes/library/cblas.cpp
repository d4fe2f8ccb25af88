// SPDX-License-Identifier: Apache-2.0
// A CBLAS opened by path: which file was really mapped, how wide its integers are, what it says of itself, and its gemm calls.
#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <mutex>

#include "probes/library/elf.hpp"
#include "probes/library/library.hpp"
#include "probes/library/opened.hpp"

namespace assay {

namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const Cblas>> by_path;
};
/// Never destroyed: library threads may still run while the process ends.
Registry& registry() {
  static auto* const opened = new Registry;
  return *opened;
}

bool same_file(const char* a, const char* b) {
  struct stat x {
  }, y{};
  return ::stat(a, &x) == 0 && ::stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/// Integers of the interface by a call that both widths survive. In n's register: low half 2, whole -4294967294. 32-bit
/// integers (LP64) read 2 and return x0*y0 + x1*y1; 64-bit ones (ILP64) read a negative length and return 0. The psABI leaves
/// the upper half of a register undefined for a 32-bit argument, so no callee may look at it.
bool has_wide_integers(void* sdot, const std::string& path) {
  constexpr std::int64_t both = static_cast<std::int64_t>(0xFFFFFFFF00000002u);
  const float x[] = {2, 3}, y[] = {5, 7};
  const float got =
      reinterpret_cast<float (*)(std::int64_t, const float*, std::int64_t, const float*, std::int64_t)>(sdot)(both, x, 1, y, 1);
  if (got == 31) return false;
  if (got == 0) return true;
  throw LibraryError(
      fmt::format("cannot decide the integer width of {}: its cblas_sdot answered {} where 32-bit integers give 31 and "
                  "64-bit ones 0; the library is not a usable CBLAS, name another file",
                  path, got));
}

template <class Int, class Scalar, class Element>
void call_gemm(void* function, int order, int ta, int tb, std::int64_t m, std::int64_t n, std::int64_t k, Scalar alpha,
               const Element* a, std::int64_t lda, const Element* b, std::int64_t ldb, Scalar beta, Scalar* c,
               std::int64_t ldc) {
  using Gemm = void (*)(int, int, int, Int, Int, Int, Scalar, const Element*, Int, const Element*, Int, Scalar, Scalar*, Int);
  const auto narrow = [](std::int64_t v) { return static_cast<Int>(v); };
  reinterpret_cast<Gemm>(function)(order, ta, tb, narrow(m), narrow(n), narrow(k), alpha, a, narrow(lda), b, narrow(ldb), beta,
                                   c, narrow(ldc));
}

template <class Scalar, class Element>
void gemm(void* function, bool wide, const std::string& path, int order, int ta, int tb, std::int64_t m, std::int64_t n,
          std::int64_t k, Scalar alpha, const Element* a, std::int64_t lda, const Element* b, std::int64_t ldb, Scalar beta,
          Scalar* c, std::int64_t ldc) {
  if (wide) return call_gemm<std::int64_t>(function, order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  for (const std::int64_t v : {m, n, k, lda, ldb, ldc})
    if (v > std::numeric_limits<std::int32_t>::max())
      throw LibraryError(fmt::format("{} does not fit the 32-bit integers of {}; use a library with 64-bit integers", v, path));
  call_gemm<std::int32_t>(function, order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

template <class Int, class Scalar>
void call_gemv(void* function, int order, int ta, std::int64_t m, std::int64_t n, Scalar alpha, const Scalar* a,
               std::int64_t lda, const Scalar* x, Scalar beta, Scalar* y) {
  using Gemv = void (*)(int, int, Int, Int, Scalar, const Scalar*, Int, const Scalar*, Int, Scalar, Scalar*, Int);
  const auto narrow = [](std::int64_t v) { return static_cast<Int>(v); };
  reinterpret_cast<Gemv>(function)(order, ta, narrow(m), narrow(n), alpha, a, narrow(lda), x, 1, beta, y, 1);
}

template <class Scalar>
void gemv(const std::map<std::string, void*>& symbols, const char* name, bool wide, const std::string& path, int order, int ta,
          std::int64_t m, std::int64_t n, Scalar alpha, const Scalar* a, std::int64_t lda, const Scalar* x, Scalar beta,
          Scalar* y) {
  const auto function = symbols.find(name);
  if (function == symbols.end())
    throw LibraryError(fmt::format("{} has no {}, which a CBLAS should have; use a complete library", path, name));
  if (wide) return call_gemv<std::int64_t>(function->second, order, ta, m, n, alpha, a, lda, x, beta, y);
  for (const std::int64_t v : {m, n, lda})
    if (v > std::numeric_limits<std::int32_t>::max())
      throw LibraryError(fmt::format("{} does not fit the 32-bit integers of {}; use a library with 64-bit integers", v, path));
  call_gemv<std::int32_t>(function->second, order, ta, m, n, alpha, a, lda, x, beta, y);
}

}  // namespace

void* open_exactly(const std::string& path) {
  // Lazy binding would put a missing symbol off to the first call, where it ends the process.
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    throw LibraryError(fmt::format("cannot load {}: {}; install what it needs, or name another file", path,
                                   why == nullptr ? "no reason given" : why));
  }
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr || !same_file(map->l_name, path.c_str()))
    throw LibraryError(
        fmt::format("asked for {} but the loader answered with {}, which was already mapped; probe it in a process of its own",
                    path, map == nullptr ? "another file" : map->l_name));
  return handle;
}

const Cblas* opened_cblas(const std::string& path) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().by_path.find(path);
  return found == registry().by_path.end() ? nullptr : found->second.get();
}

const Cblas& Cblas::open(const std::string& path) {
  std::error_code missing;  // read_library says it better
  const std::string real = std::filesystem::canonical(path, missing).string();
  const std::lock_guard lock(registry().mutex);
  auto& by_path = registry().by_path;
  if (const auto found = by_path.find(real); found != by_path.end()) return *found->second;

  const LibraryFile file = read_library_without_digest(path);
  std::unique_ptr<Cblas> lib(new Cblas);
  lib->path_ = file.path;
  lib->naming_ = cblas_naming(file);
  lib->handle_ = open_exactly(file.path);
  const auto resolve = [&](const std::string& middle) {
    const std::string symbol = lib->naming_.prefix + middle + lib->naming_.suffix;
    void* address = ::dlsym(lib->handle_, symbol.c_str());
    if (address != nullptr) lib->symbols_[middle] = address;
    return address != nullptr;
  };
  for (const char* required : {"cblas_sgemm", "cblas_dgemm", "cblas_sdot"})
    if (!resolve(required))
      throw LibraryError(fmt::format("{} has no {}{}{}, which a CBLAS must have; name a complete library", file.path,
                                     lib->naming_.prefix, required, lib->naming_.suffix));
  // BLIS and MKL do not decorate the names of their own functions.
  for (const char* optional : {"cblas_sbgemm", "cblas_sgemv", "cblas_dgemv", "openblas_get_config", "openblas_get_corename",
                               "openblas_get_num_threads"})
    resolve(optional);
  for (const char* plain : {"bli_info_get_version_str", "bli_arch_query_id", "bli_arch_string", "bli_thread_get_num_threads",
                            "mkl_get_version_string", "MKL_Get_Version_String", "MKL_Get_Max_Threads"})
    if (void* address = ::dlsym(lib->handle_, plain); address != nullptr) lib->symbols_[plain] = address;

  lib->ilp64_ = has_wide_integers(lib->symbols_["cblas_sdot"], file.path);
  if (const auto config = lib->symbols_.find("openblas_get_config"); config != lib->symbols_.end()) {
    const std::string text = reinterpret_cast<const char* (*)()>(config->second)();
    if ((text.find("USE64BITINT") != std::string::npos) != lib->ilp64_)
      throw LibraryError(
          fmt::format("cannot decide the integer width of {}: a call behaves like {}-bit integers but its configuration "
                      "says \"{}\"; name another file",
                      file.path, lib->ilp64_ ? 64 : 32, text));
  }
  return *(by_path[file.path] = std::move(lib));
}

namespace {

/// Calls an optional function of a library; `otherwise` when it has none.
template <class R>
R ask(const std::map<std::string, void*>& symbols, const char* name, R otherwise) {
  const auto f = symbols.find(name);
  return f == symbols.end() ? otherwise : reinterpret_cast<R (*)()>(f->second)();
}

}  // namespace

bool Cblas::has_bf16() const {
  return symbols_.contains("cblas_sbgemm");
}

bool Cblas::has_gemv() const {
  return symbols_.contains("cblas_sgemv") && symbols_.contains("cblas_dgemv");
}

std::string Cblas::version() const {
  if (const char* config = ask<const char*>(symbols_, "openblas_get_config", nullptr); config != nullptr) {
    // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": name and number; releases before 0.3 gave the options only.
    const std::string text = config;
    return text.starts_with("OpenBLAS ") ? text.substr(0, text.find(' ', 9)) : text;
  }
  if (const char* text = ask<const char*>(symbols_, "bli_info_get_version_str", nullptr); text != nullptr)
    return std::string("BLIS ") + text;
  for (const char* name : {"MKL_Get_Version_String", "mkl_get_version_string"})
    if (const auto f = symbols_.find(name); f != symbols_.end()) {
      char text[256] = {};
      reinterpret_cast<void (*)(char*, int)>(f->second)(text, sizeof text - 1);
      const std::string padded = text;
      return padded.substr(0, padded.find_last_not_of(' ') + 1);
    }
  return "";
}

std::string Cblas::core() const {
  if (const char* name = ask<const char*>(symbols_, "openblas_get_corename", nullptr); name != nullptr) return name;
  const auto id = symbols_.find("bli_arch_query_id"), text = symbols_.find("bli_arch_string");
  if (id == symbols_.end() || text == symbols_.end()) return "";
  // arch_t is an enumeration: int in the C ABI.
  const char* name = reinterpret_cast<const char* (*)(int)>(text->second)(reinterpret_cast<int (*)()>(id->second)());
  return name == nullptr ? "" : name;
}

int Cblas::threads() const {
  int n = ask<int>(symbols_, "openblas_get_num_threads", 0);
  // dim_t of BLIS is 64 bits wide; -1 stands for "not set".
  if (n == 0) n = static_cast<int>(ask<std::int64_t>(symbols_, "bli_thread_get_num_threads", 0));
  if (n == 0) n = ask<int>(symbols_, "MKL_Get_Max_Threads", 0);
  return n > 0 ? n : 0;
}

void Cblas::sgemm(int order, int ta, int tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a,
                  std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) const {
  gemm(symbols_.at("cblas_sgemm"), ilp64_, path_, order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void Cblas::dgemm(int order, int ta, int tb, std::int64_t m, std::int64_t n, std::int64_t k, double alpha, const double* a,
                  std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc) const {
  gemm(symbols_.at("cblas_dgemm"), ilp64_, path_, order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void Cblas::sgemv(int order, int ta, std::int64_t m, std::int64_t n, float alpha, const float* a, std::int64_t lda,
                  const float* x, float beta, float* y) const {
  gemv(symbols_, "cblas_sgemv", ilp64_, path_, order, ta, m, n, alpha, a, lda, x, beta, y);
}

void Cblas::dgemv(int order, int ta, std::int64_t m, std::int64_t n, double alpha, const double* a, std::int64_t lda,
                  const double* x, double beta, double* y) const {
  gemv(symbols_, "cblas_dgemv", ilp64_, path_, order, ta, m, n, alpha, a, lda, x, beta, y);
}

void Cblas::sbgemm(int order, int ta, int tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha,
                   const std::uint16_t* a, std::int64_t lda, const std::uint16_t* b, std::int64_t ldb, float beta, float* c,
                   std::int64_t ldc) const {
  if (!has_bf16())
    throw LibraryError(path_ + " has no cblas_sbgemm: it cannot multiply bf16; use a library that was built with it");
  gemm(symbols_.at("cblas_sbgemm"), ilp64_, path_, order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

}  // namespace assay
