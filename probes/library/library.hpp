// SPDX-License-Identifier: Apache-2.0
// Library files: what they are (read as ELF, without loading), where they are found, and what a worker really mapped.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "report/record.hpp"

namespace assay {

/// A file that cannot serve as the library asked for. what(): one sentence with path, what was expected, what to do.
struct LibraryError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Read from the file itself; nothing is loaded or executed. Bounds-checked: any byte string is safe to read.
struct LibraryFile {
  std::string path;  // absolute, links resolved
  std::string soname, build_id, sha256;
  std::int64_t size_bytes = 0;
  std::string machine;               // "x86_64"
  std::vector<std::string> exports;  // defined dynamic symbols
  std::vector<std::string> needed;   // sonames it depends on
};
/// Throws LibraryError: missing, unreadable, not ELF, wrong machine, truncated.
LibraryFile read_library(const std::string& path);

/// How a CBLAS names its functions: cblas_sgemm, scipy_cblas_sgemm64_, ...
struct CblasNaming {
  std::string prefix, suffix;  // symbol = prefix + "cblas_sgemm" + suffix
  std::string family;          // "openblas", "blis", "mkl", "refblas", "cblas"
};
/// Throws LibraryError when the file exports no cblas_sgemm under any known prefix and suffix (says what it does export).
CblasNaming cblas_naming(const LibraryFile&);

/// Whether the file is a oneDNN, by what it exports.
bool is_onednn(const LibraryFile&);

/// One library found on this machine, most likely one first; each real file once.
struct FoundLibrary {
  std::string family;  // target name: openblas, blis, refblas, mkl, onednn
  std::string path;
  std::string how;  // "system directory", "--libraries", "wheel of /usr/bin/python3"
};
/// `choice`: the values of --libraries: "auto", "NAME=PATH". Empty means auto. Throws LibraryError.
std::vector<FoundLibrary> find_libraries(const std::vector<std::string>& choice);
/// Those of them that are a CBLAS.
std::vector<FoundLibrary> find_cblas(const std::vector<std::string>& choice);

/// Instruction-set levels of a family that can be forced, best last, with what the CPU must have.
struct CoreLevel {
  std::string name;         // "Haswell": value of OPENBLAS_CORETYPE, and what the library must report back
  bool cpu_has_it = false;  // by cpuid
};
std::vector<CoreLevel> openblas_levels();
/// The same for oneDNN: the values of ONEDNN_MAX_CPU_ISA that change floating-point kernels (VNNI levels only add int8).
std::vector<CoreLevel> onednn_levels();

/// Every mapped file-backed shared object of this process with its identity (cached by path and inode).
/// Without digests it does not read them whole: those of a GPU have 500 MB and more.
std::vector<report::LibraryIdentity> mapped_libraries(bool digest = true);

/// An opened CBLAS. Stays mapped until the process ends (unloading a BLAS with live threads is not survivable).
class Cblas {
 public:
  /// Opens by absolute path, resolves names, finds out the integer width by a call that is safe under both answers.
  /// Throws LibraryError (foreign, missing symbol, undecidable integer width).
  static const Cblas& open(const std::string& path);

  bool has_bf16() const;  // cblas_sbgemm
  bool has_gemv() const;  // cblas_sgemv and cblas_dgemv
  bool ilp64() const { return ilp64_; }
  std::string version() const;  // as the library reports it, "" when it does not
  std::string core() const;     // openblas_get_corename and the like, "" when it does not say
  int threads() const;          // 0 when it does not say
  const std::string& family() const { return naming_.family; }
  const std::string& path() const { return path_; }

  /// cblas_?gemm with the library's own integer width. order 101 row, 102 column; transpose 111 no, 112 yes.
  void sgemm(int order, int ta, int tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const float* a,
             std::int64_t lda, const float* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) const;
  void dgemm(int order, int ta, int tb, std::int64_t m, std::int64_t n, std::int64_t k, double alpha, const double* a,
             std::int64_t lda, const double* b, std::int64_t ldb, double beta, double* c, std::int64_t ldc) const;
  void sbgemm(int order, int ta, int tb, std::int64_t m, std::int64_t n, std::int64_t k, float alpha, const std::uint16_t* a,
              std::int64_t lda, const std::uint16_t* b, std::int64_t ldb, float beta, float* c, std::int64_t ldc) const;
  /// cblas_?gemv, y = alpha op(A) x + beta y; contiguous x and y. Throws LibraryError where the library has none.
  void sgemv(int order, int ta, std::int64_t m, std::int64_t n, float alpha, const float* a, std::int64_t lda, const float* x,
             float beta, float* y) const;
  void dgemv(int order, int ta, std::int64_t m, std::int64_t n, double alpha, const double* a, std::int64_t lda,
             const double* x, double beta, double* y) const;

 private:
  Cblas() = default;
  std::string path_;
  CblasNaming naming_;
  bool ilp64_ = false;
  void* handle_ = nullptr;
  std::map<std::string, void*> symbols_;
};

}  // namespace assay
