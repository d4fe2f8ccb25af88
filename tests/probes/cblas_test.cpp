// SPDX-License-Identifier: Apache-2.0
// Opening a CBLAS by path: names, integer width, refusals, and the calls themselves.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>

#include "fakes.hpp"
#include "probes/library/library.hpp"

using namespace assay;

namespace {

CblasNaming naming(const std::string& name) {
  return cblas_naming(read_library(fake(name)));
}

constexpr int column_major = 102, row_major = 101, plain = 111, transposed = 112;

/// 2x3 times 3x2 with small integers, by hand: {1 2 3; 4 5 6} * {1 2; 3 4; 5 6} = {22 28; 49 64}.
template <class T>
void check_products(const std::function<void(int, int, int, T, const T*, int, const T*, int, T, T*, int)>& gemm) {
  const std::array<T, 6> a_rows = {1, 2, 3, 4, 5, 6}, a_columns = {1, 4, 2, 5, 3, 6};
  const std::array<T, 6> b_rows = {1, 2, 3, 4, 5, 6}, b_columns = {1, 3, 5, 2, 4, 6};
  const std::array<T, 4> rows = {22, 28, 49, 64}, columns = {22, 49, 28, 64};
  std::array<T, 4> c{};
  gemm(row_major, plain, plain, 1, a_rows.data(), 3, b_rows.data(), 2, 0, c.data(), 2);
  CHECK(c == rows);
  gemm(column_major, plain, plain, 1, a_columns.data(), 2, b_columns.data(), 3, 0, c.data(), 2);
  CHECK(c == columns);
  gemm(row_major, transposed, transposed, 1, a_columns.data(), 2, b_columns.data(), 3, 0, c.data(), 2);
  CHECK(c == rows);
  c = {1, 1, 1, 1};
  gemm(row_major, plain, plain, 2, a_rows.data(), 3, b_rows.data(), 2, -1, c.data(), 2);
  CHECK(c == std::array<T, 4>{43, 55, 97, 127});
}

void check_products(const Cblas& lib) {
  check_products<float>([&](int o, int ta, int tb, float alpha, const float* a, int lda, const float* b, int ldb, float beta,
                            float* c, int ldc) { lib.sgemm(o, ta, tb, 2, 2, 3, alpha, a, lda, b, ldb, beta, c, ldc); });
  check_products<double>([&](int o, int ta, int tb, double alpha, const double* a, int lda, const double* b, int ldb,
                             double beta, double* c,
                             int ldc) { lib.dgemm(o, ta, tb, 2, 2, 3, alpha, a, lda, b, ldb, beta, c, ldc); });
}

}  // namespace

TEST_CASE("names and family of a CBLAS come from what it exports") {
  CHECK(naming("fake_lp64").prefix == "");
  CHECK(naming("fake_lp64").suffix == "");
  CHECK(naming("fake_lp64").family == "cblas");
  CHECK(naming("fake_reference").family == "refblas");
  CHECK(naming("fake_openblas").family == "openblas");
  CHECK(naming("fake_scipy64").prefix == "scipy_");
  CHECK(naming("fake_scipy64").suffix == "64_");
  CHECK(naming("fake_scipy64").family == "openblas");
}

TEST_CASE("families are told apart by symbols and dependencies") {
  const auto family = [](std::vector<std::string> exports, std::vector<std::string> needed) {
    LibraryFile file;
    file.exports = std::move(exports);
    file.needed = std::move(needed);
    return cblas_naming(file).family;
  };
  CHECK(family({"cblas_sgemm", "bli_info_get_version_str"}, {}) == "blis");
  CHECK(family({"cblas_sgemm", "mkl_blas_sgemm"}, {}) == "mkl");
  CHECK(family({"cblas_sgemm", "MKL_Get_Version"}, {}) == "mkl");
  CHECK(family({"cblas_sgemm"}, {"libopenblas.so.0", "libm.so.6"}) == "openblas");
  CHECK(family({"cblas_sgemm"}, {"libblis.so.4"}) == "blis");
  CHECK(family({"cblas_sgemm", "cblas_xerbla"}, {}) == "cblas");
  CHECK(family({"cblas_sgemm64_", "openblas_get_config64_"}, {}) == "openblas");
}

TEST_CASE("a file without cblas_sgemm is refused and says what it has instead") {
  CHECK(contains(refusal([] { naming("fake_no_sgemm"); }), "exports no cblas_sgemm"));
  CHECK(contains(refusal([] { naming("fake_no_sgemm"); }), "cblas_dgemm"));
  CHECK(contains(refusal([] { naming("fake_unknown_prefix"); }), "other_cblas_sgemm"));
  CHECK(contains(refusal([] { naming("fake_foreign"); }), "fake_answer"));
  CHECK(contains(refusal([] { Cblas::open(fake("fake_foreign")); }), "exports no cblas_sgemm"));
}

TEST_CASE("the integer width is found out, not assumed, and calls use it") {
  const Cblas& narrow = Cblas::open(fake("fake_lp64"));
  CHECK_FALSE(narrow.ilp64());
  check_products(narrow);
  const Cblas& wide = Cblas::open(fake("fake_ilp64"));  // exports the very same names
  CHECK(wide.ilp64());
  check_products(wide);
  const Cblas& decorated = Cblas::open(fake("fake_scipy64"));
  CHECK(decorated.ilp64());
  check_products(decorated);
}

TEST_CASE("an undecidable integer width is refused") {
  CHECK(contains(refusal([] { Cblas::open(fake("fake_wrong_sdot")); }), "cannot decide the integer width"));
  CHECK(contains(refusal([] { Cblas::open(fake("fake_wrong_sdot")); }), "answered 7"));
  CHECK(contains(refusal([] { Cblas::open(fake("fake_liar")); }), "its configuration says"));
}

TEST_CASE("a CBLAS without dgemm is refused by name of the missing function") {
  CHECK(contains(refusal([] { Cblas::open(fake("fake_no_dgemm")); }), "has no cblas_dgemm"));
}

TEST_CASE("what an OpenBLAS says of itself is asked under its own prefix and suffix") {
  const Cblas& lib = Cblas::open(fake("fake_scipy64"));
  CHECK(lib.version() == "OpenBLAS 0.0.1");
  CHECK(lib.core() == "Fakewell");
  CHECK(lib.threads() == 3);
  CHECK(lib.has_bf16());
  const Cblas& silent = Cblas::open(fake("fake_lp64"));
  CHECK(silent.version() == "");
  CHECK(silent.core() == "");
  CHECK(silent.threads() == 0);
  CHECK_FALSE(silent.has_bf16());
}

TEST_CASE("bf16 products run where the library has them and are refused where it has not") {
  const std::array<std::uint16_t, 2> a = {0x4000, 0x4040}, b = {0x40A0, 0x40E0};  // 2 3, 5 7
  float c = 1;
  Cblas::open(fake("fake_scipy64")).sbgemm(column_major, plain, plain, 1, 1, 2, 1, a.data(), 1, b.data(), 2, 1, &c, 1);
  CHECK(c == 32);
  CHECK(contains(
      refusal([&] {
        Cblas::open(fake("fake_lp64")).sbgemm(column_major, plain, plain, 1, 1, 2, 1, a.data(), 1, b.data(), 2, 1, &c, 1);
      }),
      "no cblas_sbgemm"));
}

TEST_CASE("a size beyond 32 bits is refused by a narrow library and passed by a wide one") {
  float x = 1, c = 5;
  const std::int64_t huge = std::int64_t{1} << 32;  // its low half is 0: a narrow call would do nothing and look like success
  CHECK(contains(
      refusal([&] { Cblas::open(fake("fake_lp64")).sgemm(column_major, plain, plain, 1, 1, 1, 1, &x, huge, &x, 1, 0, &c, 1); }),
      "does not fit the 32-bit integers"));
  CHECK(c == 5);
  Cblas::open(fake("fake_ilp64")).sgemm(column_major, plain, plain, 1, 1, 1, 1, &x, huge, &x, 1, 0, &c, 1);
  CHECK(c == 1);
}

TEST_CASE("a library is opened once, whatever link names it") {
  const auto link = std::filesystem::temp_directory_path() / "assay_cblas_test_link.so";
  std::filesystem::remove(link);
  std::filesystem::create_symlink(fake("fake_lp64"), link);
  CHECK(&Cblas::open(link.string()) == &Cblas::open(fake("fake_lp64")));
  std::filesystem::remove(link);
}

TEST_CASE("mapped libraries carry identity, and the CBLAS in use what it says of itself") {
  const Cblas& lib = Cblas::open(fake("fake_scipy64"));
  const auto mapped = mapped_libraries();
  const auto mine = std::ranges::find(mapped, lib.path(), &report::LibraryIdentity::path);
  REQUIRE(mine != mapped.end());
  const LibraryFile file = read_library(lib.path());
  CHECK(mine->sha256 == file.sha256);
  CHECK(mine->build_id == file.build_id);
  CHECK(mine->size_bytes == file.size_bytes);
  CHECK(mine->version == "OpenBLAS 0.0.1");
  CHECK(mine->core == "Fakewell");
  const auto libc = std::ranges::find(mapped, "libc.so.6", &report::LibraryIdentity::soname);
  REQUIRE(libc != mapped.end());
  CHECK(libc->sha256.size() == 64);
  CHECK(libc->version == "");
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  CHECK(std::ranges::count(mapped, self, &report::LibraryIdentity::path) == 0);
  CHECK(std::ranges::count(mapped, fake("fake_foreign"), &report::LibraryIdentity::path) == 0);
}

TEST_CASE("Debian's OpenBLAS opens, names itself and multiplies") {
  if (!std::filesystem::exists(debian_openblas)) {
    MESSAGE("not run: no ", debian_openblas);
    return;
  }
  const Cblas& lib = Cblas::open(debian_openblas);
  CHECK(lib.family() == "openblas");
  CHECK(lib.version().starts_with("OpenBLAS 0."));
  CHECK(lib.core() != "");
  CHECK(lib.threads() >= 1);
  CHECK_FALSE(lib.ilp64());
  check_products(lib);
}
