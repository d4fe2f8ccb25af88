// SPDX-License-Identifier: Apache-2.0
// The cuBLASLt double against a real CBLAS and a real cuBLASLt. No code that builds the product's arguments takes part: a
// swapped argument there and the same one here cannot cancel out.
#include <dlfcn.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>
#include <span>
#include <vector>

#include "probes/device/context.hpp"
#include "probes/library/cublaslt.hpp"
#include "probes/library/library.hpp"

using namespace assay;
using namespace assay::cuda;

namespace {

const device::Context& context() {
  return device::Context::get(ASSAY_SIM_LIBRARY, 0);
}
const CublasLt& simulated() {
  context().make_current();
  return CublasLt::open(ASSAY_SIM_CUBLASLT);
}

/// A CBLAS that the ordinary loader finds; nullptr when there is none.
const Cblas* real_cblas() {
  for (const char* name : {"libopenblas.so.0", "libcblas.so.3", "libblas.so.3"}) {
    void* const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    Dl_info info{};
    if (handle == nullptr || dladdr(dlsym(handle, "cblas_sgemm"), &info) == 0 || info.dli_fname == nullptr) continue;
    return &Cblas::open(std::filesystem::canonical(info.dli_fname));
  }
  return nullptr;
}

struct Shape {
  std::int64_t m, n, k, lda, ldb, ldc;
  bool ta = false, tb = false, by_rows = false;
  double alpha = 1, beta = 0;
};

/// Small integers, another one at every place: sums are exact, so that the two results must be equal.
template <class T>
std::vector<T> numbers(std::int64_t rows, std::int64_t columns, std::int64_t ld, bool by_rows, int salt) {
  const std::int64_t outer = by_rows ? rows : columns;
  std::vector<T> v(static_cast<std::size_t>(outer * ld), std::numeric_limits<T>::quiet_NaN());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      v[static_cast<std::size_t>(by_rows ? i * ld + j : i + j * ld)] =
          static_cast<T>((i * 5 + j * 3 + salt * (i ^ j)) % 11 - 5);
  return v;
}

template <class T>
device::Buffer on_device(const device::Stream& stream, const std::vector<T>& v) {
  device::Buffer b(context(), v.size() * sizeof(T));
  b.upload(stream, std::as_bytes(std::span(v)));
  return b;
}

lt::Layout stored(const CublasLt& library, cudaDataType type, std::int64_t rows, std::int64_t columns, std::int64_t ld,
                  bool by_rows) {
  lt::Layout l = lt::make_layout(library, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns), ld);
  l.set(CUBLASLT_MATRIX_LAYOUT_ORDER, by_rows ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL);
  return l;
}

void call_cblas(const Cblas& cblas, const Shape& s, const std::vector<float>& a, const std::vector<float>& b,
                std::vector<float>& c) {
  cblas.sgemm(s.by_rows ? 101 : 102, s.ta ? 112 : 111, s.tb ? 112 : 111, s.m, s.n, s.k, static_cast<float>(s.alpha), a.data(),
              s.lda, b.data(), s.ldb, static_cast<float>(s.beta), c.data(), s.ldc);
}
void call_cblas(const Cblas& cblas, const Shape& s, const std::vector<double>& a, const std::vector<double>& b,
                std::vector<double>& c) {
  cblas.dgemm(s.by_rows ? 101 : 102, s.ta ? 112 : 111, s.tb ? 112 : 111, s.m, s.n, s.k, s.alpha, a.data(), s.lda, b.data(),
              s.ldb, s.beta, c.data(), s.ldc);
}

/// NaN lies between columns or rows. The sign of a zero depends on where alpha = -0.5 is applied.
template <class T>
bool equal(const std::vector<T>& x, const std::vector<T>& y) {
  return std::ranges::equal(x, y, [](T p, T q) { return p == q || (std::isnan(p) && std::isnan(q)); });
}

/// Every algorithm of the enumeration gives the CBLAS's C, and leaves what lies between its columns or rows.
template <class T>
std::size_t compare(const Cblas& cblas, const Shape& s, cublasComputeType_t compute, cudaDataType type) {
  const CublasLt& library = simulated();
  const auto a = numbers<T>(s.ta ? s.k : s.m, s.ta ? s.m : s.k, s.lda, s.by_rows, 1);
  const auto b = numbers<T>(s.tb ? s.n : s.k, s.tb ? s.k : s.n, s.ldb, s.by_rows, 2);
  const auto c = numbers<T>(s.m, s.n, s.ldc, s.by_rows, 4);
  std::vector<T> expected = c;
  call_cblas(cblas, s, a, b, expected);
  const device::Stream stream(context());
  const device::Buffer da = on_device(stream, a), db = on_device(stream, b);
  lt::Operation o{.description = lt::make_description(library, compute, type),
                  .a = stored(library, type, s.ta ? s.k : s.m, s.ta ? s.m : s.k, s.lda, s.by_rows),
                  .b = stored(library, type, s.tb ? s.n : s.k, s.tb ? s.k : s.n, s.ldb, s.by_rows),
                  .c = stored(library, type, s.m, s.n, s.ldc, s.by_rows),
                  .compute = compute,
                  .scale = type,
                  .type_a = type,
                  .type_b = type,
                  .type_c = type};
  o.description.set(CUBLASLT_MATMUL_DESC_TRANSA, s.ta ? CUBLAS_OP_T : CUBLAS_OP_N);
  o.description.set(CUBLASLT_MATMUL_DESC_TRANSB, s.tb ? CUBLAS_OP_T : CUBLAS_OP_N);
  const std::vector<lt::Choice> all =
      lt::enumerate(library, o, {.workspace_bytes = std::size_t{1} << 20, .alignment = {256, 256, 256, 256}});
  const T alpha = static_cast<T>(s.alpha), beta = static_cast<T>(s.beta);
  for (const lt::Choice& choice : all) {
    CAPTURE(lt::describe(choice.configuration));
    const device::Buffer dc = on_device(stream, c), workspace(context(), choice.workspace_bytes + 16);
    const auto at = [](const device::Buffer& buffer) { return device::device_pointer(buffer.address()); };
    library.check(library.fn().cublasLtMatmul(library.handle(), o.description.get(), &alpha, at(da), o.a.get(), at(db),
                                              o.b.get(), &beta, at(dc), o.c.get(), at(dc), o.c.get(), &choice.algo,
                                              at(workspace), choice.workspace_bytes, stream.get()),
                  "multiplying");
    std::vector<T> got(c.size());
    dc.download(stream, std::as_writable_bytes(std::span(got)));
    CHECK(equal(got, expected));
  }
  return all.size();
}

struct RealLibrary {
  const CublasLt* library = nullptr;
  RealLibrary() {
    for (const char* path : {"/usr/local/cuda/lib64/libcublasLt.so.13", "/usr/local/cuda/lib/libcublasLt.so.13",
                             "/usr/local/cuda/targets/x86_64-linux/lib/libcublasLt.so.13"})
      if (std::filesystem::exists(path)) {
        library = &CublasLt::open(std::filesystem::canonical(path));
        return;
      }
    MESSAGE("not run: no cuBLASLt");
  }
};

}  // namespace

TEST_SUITE_BEGIN("cblas");

TEST_CASE("the double's orders, transpositions, leading dimensions and scalars are a real CBLAS's, in every algorithm") {
  const Cblas* const cblas = real_cblas();
  if (cblas == nullptr) {
    MESSAGE("not run: no CBLAS");
    return;
  }
  std::size_t algorithms = 0;
  for (const bool by_rows : {false, true})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const auto& [alpha, beta] : {std::pair{1.0, 0.0}, {2.0, 1.0}, {-0.5, -3.0}}) {
          Shape s{.m = 5, .n = 7, .k = 11, .lda = 19, .ldb = 23, .ldc = 13};
          s.ta = ta, s.tb = tb, s.by_rows = by_rows, s.alpha = alpha, s.beta = beta;
          CAPTURE(by_rows);
          CAPTURE(ta);
          CAPTURE(tb);
          CAPTURE(alpha);
          algorithms += compare<float>(*cblas, s, CUBLAS_COMPUTE_32F, CUDA_R_32F);
          algorithms += compare<double>(*cblas, s, CUBLAS_COMPUTE_64F, CUDA_R_64F);
          s.lda = 20, s.ldb = 24, s.ldc = 16;  // what tensor cores take
          algorithms += compare<float>(*cblas, s, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F);
        }
  CHECK(algorithms > 1000);
}

TEST_SUITE_END();
TEST_SUITE_BEGIN("real");

TEST_CASE("a real cuBLASLt opens, says its version, makes descriptors without a device and does not start") {
  const RealLibrary real;
  if (real.library == nullptr) return;
  CHECK(real.library->version_text().starts_with("cuBLASLt 1"));
  const lt::Description d = lt::make_description(*real.library, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  d.set(CUBLASLT_MATMUL_DESC_EPILOGUE, std::uint32_t{9999});  // any value: it is looked at later
  const lt::Layout l = lt::make_layout(*real.library, CUDA_R_32F, 5, 3, 7);
  l.set(CUBLASLT_MATRIX_LAYOUT_ORDER, std::int32_t{CUBLASLT_ORDER_ROW});
  CHECK_THROWS_AS(l.set(CUBLASLT_MATRIX_LAYOUT_ORDER, std::int64_t{1}), LtError);
  const lt::Preference p = lt::make_preference(*real.library);
  p.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{1} << 20);
}

TEST_CASE("the double knows the attributes that a real cuBLASLt knows, of the same sizes") {
  const RealLibrary real;
  if (real.library == nullptr) return;
  const auto sizes = [](const CublasLt& library) {
    std::vector<std::size_t> out;
    const lt::Description d = lt::make_description(library, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const lt::Layout l = lt::make_layout(library, CUDA_R_32F, 5, 3, 7);
    const lt::Preference p = lt::make_preference(library);
    const auto size = [](auto get, auto handle, int attribute) {
      std::size_t bytes = 0;
      return get(handle, attribute, nullptr, 0, &bytes) == CUBLAS_STATUS_SUCCESS ? bytes : 0;
    };
    for (int a = 0; a < 40; ++a) out.push_back(size(library.fn().cublasLtMatmulDescGetAttribute, d.get(), a));
    for (int a = 0; a < 12; ++a) out.push_back(size(library.fn().cublasLtMatrixLayoutGetAttribute, l.get(), a));
    for (int a = 0; a < 16; ++a) out.push_back(size(library.fn().cublasLtMatmulPreferenceGetAttribute, p.get(), a));
    return out;
  };
  CHECK(sizes(*real.library) == sizes(simulated()));
}

TEST_SUITE_END();

TEST_CASE("the double takes a nonsense epilogue and refuses it when it is used, as a wrong shape and a wrong reduction") {
  const CublasLt& library = simulated();
  const auto operation = [&](std::uint64_t k_of_b, std::uint32_t epilogue) {
    lt::Operation o{.description = lt::make_description(library, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                    .a = lt::make_layout(library, CUDA_R_32F, 8, 4, 8),
                    .b = lt::make_layout(library, CUDA_R_32F, k_of_b, 6, 8),
                    .c = lt::make_layout(library, CUDA_R_32F, 8, 6, 8)};
    o.description.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
    return o;
  };
  const auto status = [&](const lt::Operation& o) {
    const lt::Preference p = lt::make_preference(library);
    p.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{1} << 20);
    try {
      return lt::heuristic(library, o, p, 3).empty() ? -1 : CUBLAS_STATUS_SUCCESS;
    } catch (const LtError& e) {
      return e.status;
    }
  };
  CHECK(status(operation(4, CUBLASLT_EPILOGUE_DEFAULT)) == CUBLAS_STATUS_SUCCESS);
  CHECK(status(operation(4, 9999)) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(status(operation(4, CUBLASLT_EPILOGUE_BIAS)) == CUBLAS_STATUS_INVALID_VALUE);  // without a pointer
  CHECK(status(operation(4, CUBLASLT_EPILOGUE_GELU_AUX)) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(status(operation(5, CUBLASLT_EPILOGUE_DEFAULT)) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("the enumeration is in order, has no algorithm twice, and keeps to the workspace and the alignment at hand") {
  const CublasLt& library = simulated();
  lt::Operation o{.description = lt::make_description(library, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                  .a = lt::make_layout(library, CUDA_R_16BF, 16, 64, 16),
                  .b = lt::make_layout(library, CUDA_R_16BF, 64, 24, 64),
                  .c = lt::make_layout(library, CUDA_R_16BF, 16, 24, 16),
                  .compute = CUBLAS_COMPUTE_32F,
                  .scale = CUDA_R_32F,
                  .type_a = CUDA_R_16BF,
                  .type_b = CUDA_R_16BF,
                  .type_c = CUDA_R_16BF};
  const auto list = [&](std::size_t workspace, std::uint32_t alignment) {
    std::vector<std::string> out;
    for (const lt::Choice& c :
         lt::enumerate(library, o, {.workspace_bytes = workspace, .alignment = {alignment, alignment, alignment, alignment}}))
      out.push_back(lt::describe(c.configuration));
    return out;
  };
  const std::vector<std::string> all = list(1 << 20, 256);
  CHECK(all == list(1 << 20, 256));
  CHECK(std::set<std::string>(all.begin(), all.end()).size() == all.size());
  CHECK(all.at(0).starts_with("id=1 "));
  CHECK(all.at(1).starts_with("id=6 "));
  CHECK(all.at(2).starts_with("id=66 "));
  const auto having = [](const std::vector<std::string>& in, const char* part) {
    return std::ranges::count_if(in, [&](const std::string& s) { return s.find(part) != std::string::npos; });
  };
  CHECK(having(all, "splitk=3 reduction=4") == 2);
  CHECK(having(all, "swizzle=1") == 2);
  CHECK(having(all, "custom=2") == 1);
  CHECK(having(list(0, 256), "splitk=1 ") == static_cast<std::ptrdiff_t>(list(0, 256).size()));
  CHECK(having(list(1 << 20, 2), "id=66 ") == 0);
  CHECK(having(all, "id=66 ") > 5);
}
