// SPDX-License-Identifier: Apache-2.0
// The cuBLAS double on the simulated device: its conventions against a real CBLAS, its status codes, its modes, its faults.
#include "probes/library/cublas.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "reference/dtype.hpp"
#include "tests/sim/simulated.hpp"

using namespace assay::cuda;
using assay::DType;
using assay::sim_test::Address;
using assay::sim_test::Device;
using assay::sim_test::Environment;

namespace {

/// The double beside a device of its own, with a handle on a stream.
struct Double {
  explicit Double(Environment environment = {})
      : device(environment), library(dlopen(ASSAY_SIM_CUBLAS, RTLD_NOW | RTLD_LOCAL)) {
    REQUIRE_MESSAGE(library, dlerror());
#define ASSAY_FIND(name, arguments)                                                   \
  fn.name = reinterpret_cast<decltype(CublasFunctions::name)>(dlsym(library, #name)); \
  REQUIRE((fn.name != nullptr));
    ASSAY_CUBLAS_FUNCTIONS(ASSAY_FIND)
    ASSAY_CUBLAS_GEMMS(ASSAY_FIND)
    ASSAY_CUBLAS_EMULATION_129_FUNCTIONS(ASSAY_FIND)
    ASSAY_CUBLAS_EMULATION_131_FUNCTIONS(ASSAY_FIND)
#undef ASSAY_FIND
    created = fn.cublasCreate_v2(&handle);
    stream = device.stream();
    if (created == 0) REQUIRE(fn.cublasSetStream_v2(handle, stream) == 0);
  }
  ~Double() {
    device.call("cuStreamSynchronize", stream);  // what is queued is code of the library
    if (handle != nullptr) CHECK(fn.cublasDestroy_v2(handle) == 0);
    dlclose(library);
  }
  Double(const Double&) = delete;
  Double& operator=(const Double&) = delete;

  template <class T>
  T* upload(const std::vector<T>& data) const {
    const Address at = device.allocate(data.size() * sizeof(T));
    REQUIRE(device.upload(at, data.data(), data.size() * sizeof(T), stream) == 0);
    REQUIRE(device.call("cuStreamSynchronize", stream) == 0);  // the data may be a temporary
    return reinterpret_cast<T*>(at);
  }
  template <class T>
  std::vector<T> download(const T* at, std::size_t count) const {
    std::vector<T> out(count);
    REQUIRE(device.download(out.data(), reinterpret_cast<Address>(at), count * sizeof(T), stream) == 0);
    REQUIRE(device.call("cuStreamSynchronize", stream) == 0);
    return out;
  }

  Device device;
  void* library;
  CublasFunctions fn;
  cublasHandle_t handle = nullptr;
  int created = -1;
  void* stream = nullptr;
};

template <class T>
std::vector<T> integers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> out(count);
  for (T& x : out) x = static_cast<T>(static_cast<int>(random() % 17) - 8);
  return out;
}

/// One product of fp32 or fp64 matrices, each in a buffer with a leading dimension of its own.
template <class T>
struct Trial {
  int op_a, op_b, m = 5, n = 7, k = 3, lda, ldb, ldc = 11;
  T alpha = 2, beta = -3;
  std::vector<T> a, b, c;

  Trial(int oa, int ob) : op_a(oa), op_b(ob), lda(oa == CUBLAS_OP_N ? 8 : 6), ldb(ob == CUBLAS_OP_N ? 4 : 9) {
    a = integers<T>(200, 1), b = integers<T>(200, 2), c = integers<T>(200, 3);
  }
  static constexpr int type = sizeof(T) == 8 ? CUDA_R_64F : CUDA_R_32F;
  static constexpr int compute = sizeof(T) == 8 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;

  int call(const Double& d, const T* at_a, const T* at_b, T* at_c) const {
    return d.fn.cublasGemmEx(d.handle, op_a, op_b, m, n, k, &alpha, at_a, type, lda, at_b, type, ldb, &beta, at_c, type, ldc,
                             compute, CUBLAS_GEMM_DEFAULT);
  }
  std::vector<T> run(const Double& d) const {
    T* const at_c = d.upload(c);
    REQUIRE(call(d, d.upload(a), d.upload(b), at_c) == 0);
    return d.download(at_c, c.size());
  }
};

/// A real CBLAS, found by the ordinary loader.
struct Cblas {
  template <class T>
  using Gemm = void (*)(int, int, int, int, int, int, T, const T*, int, const T*, int, T, T*, int);
  template <class T>
  using Gemv = void (*)(int, int, int, int, T, const T*, int, const T*, int, T, T*, int);
  static constexpr int column_major = 102;
  static int op(int cublas) { return cublas == CUBLAS_OP_N ? 111 : 112; }

  static void* library() {
    static void* const handle = [] {
      void* found = nullptr;
      for (const char* name : {"libopenblas.so.0", "libopenblas.so", "libblas.so.3"})
        if (void* const h = found ? nullptr : dlopen(name, RTLD_NOW | RTLD_LOCAL); h && dlsym(h, "cblas_sgemm")) found = h;
      return found;
    }();
    return handle;
  }
  template <class F>
  static F get(const char* single, const char* twice, std::size_t size) {
    return reinterpret_cast<F>(dlsym(library(), size == 8 ? twice : single));
  }
  template <class T>
  static std::vector<T> run(const Trial<T>& t) {
    std::vector<T> c = t.c;
    get<Gemm<T>>("cblas_sgemm", "cblas_dgemm", sizeof(T))(column_major, op(t.op_a), op(t.op_b), t.m, t.n, t.k, t.alpha,
                                                          t.a.data(), t.lda, t.b.data(), t.ldb, t.beta, c.data(), t.ldc);
    return c;
  }
};

bool there_is_a_cblas() {
  if (Cblas::library() == nullptr) MESSAGE("not run: no CBLAS here");
  return Cblas::library() != nullptr;
}

const int operations[] = {CUBLAS_OP_N, CUBLAS_OP_T};

template <class T>
void compare_gemm() {
  if (!there_is_a_cblas()) return;
  const Double d;
  for (const int op_a : operations)
    for (const int op_b : operations) {
      const Trial<T> t(op_a, op_b);
      CAPTURE(op_a);
      CAPTURE(op_b);
      const std::vector<T> real = Cblas::run(t);
      CHECK(t.run(d) == real);
      // The sizes and steps are such that any two arguments exchanged give another product.
      int seen = 0;
      const auto differs = [&](auto change) {
        Trial<T> other = t;
        change(other);
        seen += other.run(d) != real;
      };
      differs([](Trial<T>& o) { std::swap(o.alpha, o.beta); });
      differs([](Trial<T>& o) { std::swap(o.a, o.b); });
      differs([](Trial<T>& o) { o.m = 4; });
      differs([](Trial<T>& o) { o.n = 6; });
      differs([](Trial<T>& o) { o.k = 2; });
      differs([](Trial<T>& o) { o.lda += 1; });
      differs([](Trial<T>& o) { o.ldb += 1; });
      differs([](Trial<T>& o) { o.ldc += 1; });
      differs([](Trial<T>& o) { o.op_a = 1 - o.op_a, o.lda = 8; });
      differs([](Trial<T>& o) { o.op_b = 1 - o.op_b, o.ldb = 9; });
      CHECK(seen == 10);
    }
}

template <class T>
void compare_batches() {
  if (!there_is_a_cblas()) return;
  const Double d;
  constexpr int batch = 3;
  constexpr std::size_t step_a = 61, step_b = 67, step_c = 83;
  for (const int op_a : operations)
    for (const bool shared : {false, true}) {
      Trial<T> t(op_a, CUBLAS_OP_T);
      t.a = integers<T>(400, 4), t.b = integers<T>(400, 5), t.c = integers<T>(400, 6);
      const std::size_t stride_b = shared ? 0 : step_b;
      std::vector<T> real = t.c;
      for (std::size_t e = 0; e < batch; ++e) {
        Trial<T> one = t;
        one.a.erase(one.a.begin(), one.a.begin() + static_cast<std::ptrdiff_t>(e * step_a));
        one.b.erase(one.b.begin(), one.b.begin() + static_cast<std::ptrdiff_t>(e * stride_b));
        one.c.assign(real.begin() + static_cast<std::ptrdiff_t>(e * step_c), real.end());
        const std::vector<T> c = Cblas::run(one);
        std::copy(c.begin(), c.end(), real.begin() + static_cast<std::ptrdiff_t>(e * step_c));
      }
      const T *const a = d.upload(t.a), *const b = d.upload(t.b);
      T* c = d.upload(t.c);
      REQUIRE(d.fn.cublasGemmStridedBatchedEx(d.handle, t.op_a, t.op_b, t.m, t.n, t.k, &t.alpha, a, t.type, t.lda, step_a, b,
                                              t.type, t.ldb, static_cast<long long>(stride_b), &t.beta, c, t.type, t.ldc,
                                              step_c, batch, t.compute, CUBLAS_GEMM_DEFAULT) == 0);
      CHECK(d.download(c, t.c.size()) == real);
      c = d.upload(t.c);
      std::vector<const void*> as, bs;
      std::vector<void*> cs;
      for (const std::size_t e : {2u, 0u, 1u})
        as.push_back(a + e * step_a), bs.push_back(b + e * stride_b), cs.push_back(c + e * step_c);
      REQUIRE(d.fn.cublasGemmBatchedEx(d.handle, t.op_a, t.op_b, t.m, t.n, t.k, &t.alpha, d.upload(as), t.type, t.lda,
                                       d.upload(bs), t.type, t.ldb, &t.beta, d.upload(cs), t.type, t.ldc, batch, t.compute,
                                       CUBLAS_GEMM_DEFAULT) == 0);
      CHECK(d.download(c, t.c.size()) == real);
    }
}

template <class T>
void compare_gemv() {
  if (!there_is_a_cblas()) return;
  const Double d;
  const auto real = Cblas::get<Cblas::Gemv<T>>("cblas_sgemv", "cblas_dgemv", sizeof(T));
  for (const int op : operations) {
    const std::vector<T> a = integers<T>(200, 7), x = integers<T>(100, 8), y = integers<T>(100, 9);
    const T alpha = 3, beta = -2;
    const int m = 5, n = 4, lda = 7, incx = 2, incy = 3;
    std::vector<T> expected = y;
    real(Cblas::column_major, Cblas::op(op), m, n, alpha, a.data(), lda, x.data(), incx, beta, expected.data(), incy);
    T* const at = d.upload(y);
    int status = -1;
    if constexpr (sizeof(T) == 8)
      status = d.fn.cublasDgemv_v2(d.handle, op, m, n, &alpha, d.upload(a), lda, d.upload(x), incx, &beta, at, incy);
    else
      status = d.fn.cublasSgemv_v2(d.handle, op, m, n, &alpha, d.upload(a), lda, d.upload(x), incx, &beta, at, incy);
    REQUIRE(status == 0);
    CHECK(d.download(at, y.size()) == expected);
  }
}

/// A 16x16x64 product of whole numbers in bf16 or fp16, C in the same format.
struct Narrow {
  DType format;
  int type, compute = CUBLAS_COMPUTE_32F;
  static constexpr int size = 16, depth = 64;
  std::vector<std::uint16_t> a, b;

  Narrow(DType f, double first, double rest) : format(f), type(f == DType::f16 ? CUDA_R_16F : CUDA_R_16BF) {
    const auto bits = [&](double x) { return static_cast<std::uint16_t>(assay::encode(format, x)); };
    a.assign(size * depth, bits(rest)), b.assign(size * depth, bits(1));
    for (int i = 0; i < size; ++i) a[static_cast<std::size_t>(i * depth)] = bits(first);
  }
  /// Element (0,0) as fp32; every operand transposed, so that a row of A is contiguous.
  double run(const Double& d) const {
    const float alpha = 1, beta = 0;
    float* const c = d.upload(std::vector<float>(size * size));
    REQUIRE(d.fn.cublasGemmEx(d.handle, CUBLAS_OP_T, CUBLAS_OP_N, size, size, depth, &alpha, d.upload(a), type, depth,
                              d.upload(b), type, depth, &beta, c, CUDA_R_32F, size, compute, CUBLAS_GEMM_DEFAULT) == 0);
    return d.download(c, size * size)[0];
  }
};

}  // namespace

TEST_SUITE("cblas") {
  TEST_CASE("gemm has the conventions of a real CBLAS") {
    compare_gemm<float>();
    compare_gemm<double>();
  }
  TEST_CASE("gemm of a batch, by stride and by pointer, has the conventions of a real CBLAS") {
    compare_batches<float>();
    compare_batches<double>();
  }
  TEST_CASE("gemv has the conventions of a real CBLAS") {
    compare_gemv<float>();
    compare_gemv<double>();
  }
}

TEST_CASE("wrong arguments get the status codes that cuBLAS documents") {
  const Double d;
  using F = Trial<float>;
  const F good(CUBLAS_OP_N, CUBLAS_OP_N);
  float *const a = d.upload(good.a), *const b = d.upload(good.b), *const c = d.upload(good.c);
  const auto status = [&](auto change) {
    F t = good;
    change(t);
    return t.call(d, a, b, c);
  };
  CHECK(status([](F&) {}) == CUBLAS_STATUS_SUCCESS);
  CHECK(status([](F& t) { t.m = -1; }) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(status([](F& t) { t.lda = 4; }) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(status([](F& t) { t.ldb = 2; }) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(status([](F& t) { t.ldc = 4; }) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(status([](F& t) { t.op_a = 7; }) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(status([](F& t) { t.m = 0, t.n = 0; }) == CUBLAS_STATUS_SUCCESS);
  const auto with_types = [&](int type_c, int compute) {
    return d.fn.cublasGemmEx(d.handle, 0, 0, 2, 2, 2, &good.alpha, a, CUDA_R_32F, 2, b, CUDA_R_32F, 2, &good.beta, c, type_c, 2,
                             compute, CUBLAS_GEMM_DEFAULT);
  };
  CHECK(with_types(CUDA_R_16F, CUBLAS_COMPUTE_32F) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(with_types(CUDA_R_32F, CUBLAS_COMPUTE_64F) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(with_types(CUDA_R_32F, 12345) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(d.fn.cublasSetWorkspace_v2(d.handle, reinterpret_cast<char*>(a) + 16, 1024) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(d.fn.cublasSetMathMode(d.handle, 99) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(d.fn.cublasSetPointerMode_v2(d.handle, 2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(d.fn.cublasSetMathMode(nullptr, 0) == CUBLAS_STATUS_NOT_INITIALIZED);
}

TEST_CASE("a matrix that leaves its allocation is an illegal address when its turn comes, no sooner") {
  const Double d;
  const Trial<float> t(CUBLAS_OP_N, CUBLAS_OP_N);
  float* const small = d.upload(std::vector<float>(20));
  CHECK(t.call(d, d.upload(t.a), d.upload(t.b), small) == CUBLAS_STATUS_SUCCESS);
  CHECK(d.device.call("cuStreamSynchronize", d.stream) == 700);
}

TEST_CASE("pointers that are not aligned as cublasGemmBatchedEx asks are a misaligned address") {
  const Double d;
  const std::vector<std::uint16_t> zeros(600);
  std::uint16_t *const a = d.upload(zeros), *const b = d.upload(zeros), *const c = d.upload(zeros);
  const float alpha = 1, beta = 0;
  const auto run = [&](std::size_t offset) {
    const std::vector<void*> as = {a + offset}, bs = {b}, cs = {c};
    REQUIRE(d.fn.cublasGemmBatchedEx(d.handle, 0, 0, 8, 8, 8, &alpha, d.upload(as), CUDA_R_16BF, 8, d.upload(bs), CUDA_R_16BF,
                                     8, &beta, d.upload(cs), CUDA_R_16BF, 8, 1, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT) == 0);
    return d.device.call("cuStreamSynchronize", d.stream);
  };
  CHECK(run(8) == 0);
  CHECK(run(1) == 716);
}

TEST_CASE("scalars are read from where the pointer mode says, in stream order") {
  const Double d;
  Trial<float> t(CUBLAS_OP_N, CUBLAS_OP_N);
  const std::vector<float> expected = t.run(d);
  REQUIRE(d.fn.cublasSetPointerMode_v2(d.handle, CUBLAS_POINTER_MODE_DEVICE) == 0);
  float *const scalars = d.upload(std::vector<float>{99, 99}), *const c = d.upload(t.c);
  const std::vector<float> values = {t.alpha, t.beta};
  REQUIRE(d.device.upload(reinterpret_cast<Address>(scalars), values.data(), 8, d.stream) == 0);
  REQUIRE(d.fn.cublasGemmEx(d.handle, 0, 0, t.m, t.n, t.k, scalars, d.upload(t.a), t.type, t.lda, d.upload(t.b), t.type, t.ldb,
                            scalars + 1, c, t.type, t.ldc, t.compute, CUBLAS_GEMM_DEFAULT) == 0);
  const std::vector<float> later = {0, 0};
  REQUIRE(d.device.upload(reinterpret_cast<Address>(scalars), later.data(), 8, d.stream) == 0);
  CHECK(d.download(c, t.c.size()) == expected);
  CHECK(t.call(d, d.upload(t.a), d.upload(t.b), c) == 0);  // the host's own scalars are none of the device's
  CHECK(d.device.call("cuStreamSynchronize", d.stream) == 700);
}

TEST_CASE("setting the stream takes the workspace away") {
  const Double d;
  const Trial<float> t(CUBLAS_OP_N, CUBLAS_OP_N);
  char* const workspace = d.upload(std::vector<char>(1024, 1));
  REQUIRE(d.fn.cublasSetWorkspace_v2(d.handle, workspace, 1024) == 0);
  REQUIRE(d.fn.cublasSetStream_v2(d.handle, d.stream) == 0);
  t.run(d);
  CHECK(d.download(workspace, 1024) == std::vector<char>(1024, 1));
  REQUIRE(d.fn.cublasSetWorkspace_v2(d.handle, workspace, 1024) == 0);
  t.run(d);
  CHECK(d.download(workspace, 1024) != std::vector<char>(1024, 1));
}

TEST_CASE("compute types and math modes compute as they say") {
  const Double d;
  // 1 + 2^-12 is no TF32 number; 257 is no bf16 one; 2^-25 is lost beside 2^-12 in fp16.
  const auto of = [&](int compute, float x) {
    const float alpha = 1, beta = 0, one = 1;
    float* const c = d.upload(std::vector<float>{0});
    REQUIRE(d.fn.cublasGemmEx(d.handle, 0, 0, 1, 1, 1, &alpha, d.upload(std::vector<float>{x}), CUDA_R_32F, 1,
                              d.upload(std::vector<float>{one}), CUDA_R_32F, 1, &beta, c, CUDA_R_32F, 1, compute, -1) == 0);
    return d.download(c, 1)[0];
  };
  constexpr float fine = 1 + 0x1p-12f;
  CHECK(of(CUBLAS_COMPUTE_32F, fine) == fine);
  CHECK(of(CUBLAS_COMPUTE_32F_PEDANTIC, fine) == fine);
  CHECK(of(CUBLAS_COMPUTE_32F_FAST_TF32, fine) == 1);
  CHECK(of(CUBLAS_COMPUTE_32F_FAST_16BF, 257) == 256);
  CHECK(of(CUBLAS_COMPUTE_32F_FAST_16F, 257) == 257);
  CHECK(of(CUBLAS_COMPUTE_32F_EMULATED_16BFX9, 1 + 0x1p-23f) == 1 + 0x1p-23f);
  REQUIRE(d.fn.cublasSetMathMode(d.handle, CUBLAS_TF32_TENSOR_OP_MATH) == 0);
  CHECK(of(CUBLAS_COMPUTE_32F, fine) == 1);
}

TEST_CASE("16-bit operands are added on the device's tensor cores, or in plain fp32 when pedantic") {
  const Double d;
  // 2^24 and 63 ones: fp32 rounded to nearest loses every one, a tensor core keeps what meets others in a step.
  const auto narrow = [&](int compute) {
    Narrow n(DType::bf16, 0x1p24, 1);
    n.compute = compute;
    return n.run(d);
  };
  CHECK(narrow(CUBLAS_COMPUTE_32F_PEDANTIC) == 0x1p24);
  CHECK(narrow(CUBLAS_COMPUTE_32F) > 0x1p24);
}

TEST_CASE("reduced-precision reduction happens unless it is disallowed") {
  const Double d;
  // Partial sums of 257 and 31 are 256 and 31 in bf16, 287 as a whole: 288 at best, 288 by way of 256 + 31 = 287.
  const auto run = [&](int math) {
    REQUIRE(d.fn.cublasSetMathMode(d.handle, math) == 0);
    const auto bits = [](double x) { return static_cast<std::uint16_t>(assay::encode(DType::bf16, x)); };
    std::vector<std::uint16_t> a(64, bits(0)), b(64, bits(1));
    a[0] = bits(256), a[1] = bits(1), a[32] = bits(1);
    const float alpha = 1, beta = 0;
    std::uint16_t* const c = d.upload(std::vector<std::uint16_t>{0});
    REQUIRE(d.fn.cublasGemmEx(d.handle, CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, 64, &alpha, d.upload(a), CUDA_R_16BF, 64, d.upload(b),
                              CUDA_R_16BF, 64, &beta, c, CUDA_R_16BF, 1, CUBLAS_COMPUTE_32F, -1) == 0);
    return assay::decode(DType::bf16, d.download(c, 1)[0]);
  };
  CHECK(run(CUBLAS_DEFAULT_MATH) == 256);  // 257 became 256, and 257 again
  CHECK(run(CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) == 258);
}

TEST_CASE("fixed-point emulation is exact where its bits suffice, says how many it used, and -1 where they do not") {
  const Double d;
  int* const bits = d.upload(std::vector<int>{77});
  REQUIRE(d.fn.cublasSetFixedPointEmulationMantissaBitCountPointer(d.handle, bits) == 0);
  const auto dot = [&](double x) {
    const double alpha = 1, beta = 0;
    double* const c = d.upload(std::vector<double>{0});
    REQUIRE(d.fn.cublasGemmEx(d.handle, CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, 2, &alpha, d.upload(std::vector<double>{x, 1}),
                              CUDA_R_64F, 2, d.upload(std::vector<double>{3, 1}), CUDA_R_64F, 2, &beta, c, CUDA_R_64F, 1,
                              CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT, -1) == 0);
    return d.download(c, 1)[0];
  };
  CHECK(dot(0x1p20) == 3 * 0x1p20 + 1);
  CHECK(d.download(bits, 1)[0] == 21);
  CHECK(dot(0.1) == std::fma(0.1, 3.0, 0.0) + 1);
  CHECK(d.download(bits, 1)[0] == -1);
}

TEST_CASE("without a context there is no handle") {
  void* const library = dlopen(ASSAY_SIM_CUBLAS, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library);
  cublasHandle_t handle = nullptr;
  CHECK(reinterpret_cast<int (*)(cublasHandle_t*)>(dlsym(library, "cublasCreate_v2"))(&handle) ==
        CUBLAS_STATUS_NOT_INITIALIZED);
  dlclose(library);
}

TEST_CASE("a fault is bound to the routine, the shape and the version that its keys name") {
  const auto wrong = [](const char* fault, const char* version, int op_b) {
    const Double d({{"ASSAY_SIM_CUBLAS_FAULT", fault}, {"ASSAY_SIM_CUBLAS_VERSION", version}});
    const Trial<float> faulty(CUBLAS_OP_N, op_b);
    const std::vector<float> got = faulty.run(d);
    std::vector<float> c = faulty.c;
    for (int i = 0; i < faulty.m; ++i)
      for (int j = 0; j < faulty.n; ++j) {
        float sum = 0;
        for (int l = 0; l < faulty.k; ++l)
          sum += faulty.a[static_cast<std::size_t>(i + l * faulty.lda)] *
                 faulty.b[static_cast<std::size_t>(op_b == CUBLAS_OP_N ? l + j * faulty.ldb : j + l * faulty.ldb)];
        float& to = c[static_cast<std::size_t>(i + j * faulty.ldc)];
        to = faulty.alpha * sum + faulty.beta * to;
      }
    return got != c;
  };
  CHECK_FALSE(wrong("", "130100", 0));
  CHECK(wrong("k_tail:version=130100:m=5:k=3", "130100", 0));
  CHECK(wrong("k_tail:routine=cublasGemmEx:n=7", "130100", 1));
  CHECK_FALSE(wrong("k_tail:version=130100:m=5:k=3", "120800", 0));
  CHECK_FALSE(wrong("k_tail:m=6", "130100", 0));
  CHECK_FALSE(wrong("k_tail:routine=*Batched*", "130100", 0));
  CHECK(wrong("edge_tile,beta_ignored:sm=120", "130100", 0));
  CHECK_FALSE(wrong("beta_zero_reads_c", "130100", 0));  // beta is not 0 here
}

TEST_CASE("a fault without a known name ends the process") {
  const int status = assay::sim_test::status_in_child([] {
    setenv("ASSAY_SIM_CUBLAS_FAULT", "k_tial", 1);
    const Double d;
  });
  CHECK(status != 0);
}
