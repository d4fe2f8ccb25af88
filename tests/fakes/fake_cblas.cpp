// SPDX-License-Identifier: Apache-2.0
// A CBLAS for tests of the loader: plain loops under the names, prefix, suffix and integer width that the build sets, and
// wrong on purpose where a FAKE_ macro says so. It names itself "fake" wherever it can, so no record can pass for a real
// library's.
#include <cstdint>
#include <cstring>

#define GLUE3(a, b, c) a##b##c
#define GLUE(a, b, c) GLUE3(a, b, c)
#define NAME(middle) GLUE(FAKE_PREFIX, middle, FAKE_SUFFIX)
#define EXPORT extern "C" __attribute__((visibility("default")))

using Int = FAKE_INT;

namespace {

template <class Scalar, class Element>
Scalar value(Element e) {
  return e;
}
template <>
[[maybe_unused]] float value<float, std::uint16_t>(std::uint16_t e) {  // bf16
  const std::uint32_t bits = std::uint32_t{e} << 16;
  float f;
  std::memcpy(&f, &bits, sizeof f);
  return f;
}

template <class Scalar, class Element>
void gemm(int order, int ta, int tb, Int m, Int n, Int k, Scalar alpha, const Element* a, Int lda, const Element* b, Int ldb,
          Scalar beta, Scalar* c, Int ldc) {
  const auto at = [](bool by_rows, Int ld, Int i, Int j) { return by_rows ? i * ld + j : i + j * ld; };
  const bool rows = order == 101;
  for (Int i = 0; i < m; ++i)
    for (Int j = 0; j < n; ++j) {
      Scalar sum = 0;
      for (Int l = 0; alpha != 0 && l < k; ++l)
        sum += value<Scalar>(a[at(rows != (ta == 112), lda, i, l)]) * value<Scalar>(b[at(rows != (tb == 112), ldb, l, j)]);
      Scalar& out = c[at(rows, ldc, i, j)];
      out = beta == 0 ? alpha * sum : alpha * sum + beta * out;
    }
}

}  // namespace

#ifndef FAKE_NO_SGEMM
EXPORT void NAME(cblas_sgemm)(int order, int ta, int tb, Int m, Int n, Int k, float alpha, const float* a, Int lda,
                              const float* b, Int ldb, float beta, float* c, Int ldc) {
  gemm(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
#endif

#ifndef FAKE_NO_DGEMM
EXPORT void NAME(cblas_dgemm)(int order, int ta, int tb, Int m, Int n, Int k, double alpha, const double* a, Int lda,
                              const double* b, Int ldb, double beta, double* c, Int ldc) {
  gemm(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
#endif

#define GEMV(name, Scalar)                                                                                              \
  EXPORT void NAME(name)(int order, int ta, Int m, Int n, Scalar alpha, const Scalar* a, Int lda, const Scalar* x, Int, \
                         Scalar beta, Scalar* y, Int) {                                                                 \
    gemm<Scalar>(order, ta, 111, ta == 112 ? n : m, Int{1}, ta == 112 ? m : n, alpha, a, lda, x,                        \
                 order == 101 ? Int{1} : (ta == 112 ? m : n), beta, y, order == 101 ? Int{1} : (ta == 112 ? n : m));    \
  }
GEMV(cblas_sgemv, float)
GEMV(cblas_dgemv, double)

EXPORT float NAME(cblas_sdot)(Int n, const float* x, Int incx, const float* y, Int incy) {
#ifdef FAKE_WRONG_SDOT
  return 7;
#endif
  float sum = 0;
  for (Int i = 0; i < n; ++i) sum += x[i * incx] * y[i * incy];
  return sum;
}

#ifdef FAKE_BF16
EXPORT void NAME(cblas_sbgemm)(int order, int ta, int tb, Int m, Int n, Int k, float alpha, const std::uint16_t* a, Int lda,
                               const std::uint16_t* b, Int ldb, float beta, float* c, Int ldc) {
  gemm(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
#endif

#ifdef FAKE_CONFIG
EXPORT const char* NAME(openblas_get_config)() {
  return FAKE_CONFIG;
}
EXPORT const char* NAME(openblas_get_corename)() {
  return "Fakewell";
}
EXPORT int NAME(openblas_get_num_threads)() {
  return 3;
}
#endif

#ifdef FAKE_REFERENCE
// Global variables of the reference CBLAS, by which it is told from other plain ones.
EXPORT int CBLAS_CallFromC, RowMajorStrg;
int CBLAS_CallFromC = 0, RowMajorStrg = 0;
#endif
