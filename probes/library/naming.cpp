// SPDX-License-Identifier: Apache-2.0
// How a CBLAS file names its functions, and whose CBLAS it is, from its exported symbols alone.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "probes/library/library.hpp"

namespace assay {

namespace {

// Prefix: the BLAS inside SciPy's and NumPy's wheels bears scipy_. Suffix: 64_ (OpenBLAS with INTERFACE64 and SYMBOLSUFFIX,
// Julia, the wheels), _64 (MKL 2022 and later, NVPL, Accelerate-like interfaces). The plain name comes first: a file that has
// both, as MKL has, uses it for the width that the user configured.
constexpr std::array<std::string_view, 3> prefixes = {"", "scipy_", "openblas_"};
constexpr std::array<std::string_view, 4> suffixes = {"", "64_", "_64", "_64_"};

bool exports(const LibraryFile& file, std::string_view symbol) {
  return std::ranges::find(file.exports, symbol) != file.exports.end();
}

bool exports_prefix(const LibraryFile& file, std::string_view prefix) {
  return std::ranges::any_of(file.exports, [&](const std::string& s) { return s.starts_with(prefix); });
}

bool needs(const LibraryFile& file, std::string_view prefix) {
  return std::ranges::any_of(file.needed, [&](const std::string& s) { return s.starts_with(prefix); });
}

std::string family(const LibraryFile& file, const CblasNaming& naming) {
  if (exports_prefix(file, naming.prefix + "openblas_get_config")) return "openblas";
  if (exports(file, "bli_info_get_version_str")) return "blis";
  if (exports(file, "MKL_Get_Version") || exports_prefix(file, "mkl_")) return "mkl";
  // Debian's libblas.so.3 beside an OpenBLAS holds the interface only; the kernels are in the library it needs.
  if (needs(file, "libopenblas")) return "openblas";
  if (needs(file, "libblis")) return "blis";
  // Global variables of the reference CBLAS (its cblas_globals.c); nobody who writes another CBLAS has a use for them.
  if (exports(file, "CBLAS_CallFromC") && exports(file, "RowMajorStrg")) return "refblas";
  return "cblas";
}

/// A name out of a file nobody vouches for, as one short printable word.
std::string printable(std::string_view name) {
  constexpr std::size_t most = 80;
  std::string out(name.substr(0, most));
  for (char& c : out)
    if (c <= ' ' || c > '~') c = '?';
  return name.size() > most ? out + "..." : out;
}

/// What the file has instead, for the message.
std::string nearest_exports(const LibraryFile& file) {
  std::vector<std::string> near;
  for (const std::string_view wanted : {"sgemm", "cblas_", "gemm"})
    for (const std::string& s : file.exports)
      if (near.size() < 3 && s.find(wanted) != std::string::npos && std::ranges::find(near, printable(s)) == near.end())
        near.push_back(printable(s));
  if (file.exports.empty()) return "it exports nothing";
  if (near.empty())
    return fmt::format("none of its {} exported symbols looks like one (the first is {})", file.exports.size(),
                       printable(file.exports.front()));
  return fmt::format("the nearest of its {} exported symbols are {}", file.exports.size(), fmt::join(near, ", "));
}

}  // namespace

// Both are in every release since 1.0 of the name DNNL; dnnl_sgemm alone would also fit a wrapper around it.
bool is_onednn(const LibraryFile& file) {
  return exports(file, "dnnl_version") && exports(file, "dnnl_primitive_execute");
}

CblasNaming cblas_naming(const LibraryFile& file) {
  for (const std::string_view prefix : prefixes)
    for (const std::string_view suffix : suffixes) {
      CblasNaming naming{std::string(prefix), std::string(suffix), ""};
      if (!exports(file, naming.prefix + "cblas_sgemm" + naming.suffix)) continue;
      naming.family = family(file, naming);
      return naming;
    }
  throw LibraryError(
      fmt::format("{} exports no cblas_sgemm under any known prefix or suffix: {}; name a library with a CBLAS interface",
                  file.path, nearest_exports(file)));
}

}  // namespace assay
