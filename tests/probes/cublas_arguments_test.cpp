// SPDX-License-Identifier: Apache-2.0
// A gemm problem as arguments of cuBLAS: computed as the column-major library would, they give the true product; and the
// arithmetic declared for each mode lets every documented way to add pass, and no other.
#include "probes/ops/gemm/cublas_arguments.hpp"

#include <doctest/doctest.h>

#include "gemm_trial.hpp"
#include "probes/ops/gemm/blas.hpp"

using namespace assay;
using gemm::CublasMode;
using gemm::CublasRoutine;

namespace {

/// What cuBLAS documents of its arguments, in the dumbest way, on host memory.
class Column final : public assay::Call {
 public:
  Column(const Problem& p, CublasMode mode) : problem_(p), call_(gemm::call_of(p)), g_(gemm::cublas_arguments(p, mode)) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  CallReport report() override { return {}; }

  void execute() override {
    for (std::int64_t i = 0; i < g_.batch; ++i) {
      const std::int64_t entry = g_.routine == CublasRoutine::pointers ? gemm::pointer_order(i, g_.batch) : i;
      g_.routine == CublasRoutine::gemv ? vector() : matrix(entry);
    }
  }

 private:
  double get(std::size_t operand, std::int64_t at) const {
    const Operand& o = problem_.operands[operand];
    return decode(o.dtype, load_bits(o.dtype, gemm::element(o.dtype, images_[operand].storage, o.offset + at)));
  }
  void put(std::int64_t at, double sum) const {
    const Operand& o = problem_.operands[2];
    const double c = call_.beta == 0 ? 0 : call_.beta * get(2, at);
    store_bits(o.dtype, gemm::element(o.dtype, images_[2].storage, o.offset + at),
               encode(o.dtype, (call_.alpha == 0 ? 0 : call_.alpha * sum) + c));
  }
  void matrix(std::int64_t e) const {
    for (std::int64_t i = 0; i < g_.m; ++i)
      for (std::int64_t j = 0; j < g_.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < g_.k; ++l)
          sum += get(g_.a, e * g_.stride_a + (g_.op_a == cuda::CUBLAS_OP_N ? i + l * g_.lda : l + i * g_.lda)) *
                 get(g_.b, e * g_.stride_b + (g_.op_b == cuda::CUBLAS_OP_N ? l + j * g_.ldb : j + l * g_.ldb));
        put(e * g_.stride_c + i + j * g_.ldc, sum);
      }
  }
  void vector() const {
    const bool plain = g_.op_a == cuda::CUBLAS_OP_N;
    for (std::int64_t i = 0; i < (plain ? g_.m : g_.n); ++i) {
      double sum = 0;
      for (std::int64_t l = 0; l < (plain ? g_.n : g_.m); ++l)
        sum += get(g_.a, plain ? i + l * g_.lda : l + i * g_.lda) * get(g_.b, l * g_.ldb);
      put(i * g_.ldc, sum);
    }
  }

  Problem problem_;
  gemm::Call call_;
  gemm::CublasArguments g_;
  std::vector<Image> images_;
};

Target column(CublasMode mode) {
  return {"column", "", [](const Problem&, const TargetSpec&) { return std::optional<std::string>(); },
          [mode](const Problem& p, const TargetSpec&) -> std::unique_ptr<assay::Call> {
            return std::make_unique<Column>(p, mode);
          }};
}

std::string why_not(const std::string& id, CublasMode mode) {
  return gemm::refuses(make_problem(id), mode).value_or("");
}

Arithmetic declared(const std::string& id, CublasMode mode, int sm) {
  return gemm::cublas_arithmetic(gemm::call_of(make_problem(id)), mode, sm);
}

/// What a judge finds when this model has computed the case and this arithmetic was declared.
Discrepancy judged(const std::string& id, const std::string& model, const Arithmetic& arithmetic) {
  trial::Trial t(gemm::model_target(), id, model);
  t.run(1);
  return trial::judge(t, trial::truth(t.problem, 1), arithmetic);
}

}  // namespace

TEST_CASE("arguments of cuBLAS give the true product in every order, transposition, batch and leading dimension") {
  for (const char* formats : {"", ",in=f64", ",in=bf16,out=f32", ",in=f16"})
    trial::require_exact_layouts(column(CublasMode::standard), "", formats);
  trial::require_exact(column(CublasMode::standard), "",
                       "g1:gemm:m=8,n=4,k=12,ta=t,alpha=-3,beta=2,in=i8,out=i32,fill=integer");
}

TEST_CASE("arguments of gemv give the true product of a row and of a column in every layout") {
  for (const char* shape : {"m=7,n=1,k=9", "m=1,n=5,k=9", "m=1,n=1,k=4", "m=3,n=1,k=1", "m=0,n=1,k=4"})
    for (const char* order : {"col", "row"})
      for (const char* ta : {"n", "t"})
        for (const char* tb : {"n", "t"})
          for (const char* rest : {"", ",in=f64,pada=3,padb=2,padc=1,off=1", ",alpha=-2,beta=3,pada=1,padb=4,padc=2"}) {
            const std::string id =
                std::string("g1:gemm:") + shape + ",order=" + order + ",ta=" + ta + ",tb=" + tb + rest + ",fill=integer";
            REQUIRE(why_not(id, CublasMode::gemv).empty());
            trial::require_exact(column(CublasMode::gemv), "", id);
          }
}

TEST_CASE("one pointer per batch entry or a stride decides the routine, and scalars come in the format that is computed in") {
  const auto routine = [](const std::string& rest) {
    const Problem p = make_problem("g1:gemm:m=3,n=4,k=5" + rest);
    return gemm::name(gemm::cublas_arguments(p, CublasMode::standard).routine, p.operands[0].dtype);
  };
  CHECK(routine("") == "cublasGemmEx");
  CHECK(routine(",batch=2") == "cublasGemmStridedBatchedEx");
  CHECK(routine(",batch=0") == "cublasGemmStridedBatchedEx");
  CHECK(routine(",batch=1,mode=pointers") == "cublasGemmBatchedEx");
  CHECK(gemm::name(CublasRoutine::gemv, DType::f64) == "cublasDgemv");

  const auto scalars = [](const std::string& rest, CublasMode mode) {
    const Problem p = make_problem("g1:gemm:m=3,n=4,k=5,alpha=-2,beta=0.5" + rest);
    const DType t = gemm::cublas_arguments(p, mode).scalar;
    const std::vector<std::byte> bytes = gemm::cublas_scalars(gemm::call_of(p), t);
    REQUIRE(bytes.size() == 2 * size_bytes(t));
    CHECK(decode(t, load_bits(t, bytes.data())) == -2);
    CHECK(decode(t, load_bits(t, bytes.data() + size_bytes(t))) == 0.5);
    return t;
  };
  CHECK(scalars("", CublasMode::standard) == DType::f32);
  CHECK(scalars(",in=bf16", CublasMode::standard) == DType::f32);
  CHECK(scalars(",in=f64", CublasMode::standard) == DType::f64);
  CHECK(scalars(",in=f16", CublasMode::f16acc) == DType::f16);
}

TEST_CASE("a mode refuses in one sentence what it is not for") {
  const std::string tiny = "g1:gemm:m=8,n=6,k=16";
  CHECK(why_not(tiny, CublasMode::standard).empty());
  CHECK(why_not(tiny + ",bias=1", CublasMode::standard).find("cuBLASLt does") != std::string::npos);
  CHECK(why_not(tiny, CublasMode::no_reduced) != "");
  CHECK(why_not(tiny + ",in=bf16,out=f32", CublasMode::no_reduced) != "");
  CHECK(why_not(tiny + ",in=bf16", CublasMode::no_reduced).empty());
  CHECK(why_not(tiny + ",in=f64", CublasMode::tf32) != "");
  CHECK(why_not(tiny + ",fill=cancel", CublasMode::tf32) != "");
  CHECK(why_not(tiny + ",fill=cancel", CublasMode::bf16x9).empty());
  CHECK(why_not(tiny + ",fill=wide", CublasMode::fast16f) != "");
  CHECK(why_not(tiny + ",fill=wide", CublasMode::fast16bf).empty());
  CHECK(why_not(tiny + ",in=f16", CublasMode::f16acc).empty());
  CHECK(why_not(tiny + ",in=f16,alpha=0.7", CublasMode::f16acc).find("does not hold both") != std::string::npos);
  CHECK(why_not(tiny, CublasMode::gemv).find("neither a row nor a column") != std::string::npos);
  CHECK(why_not("g1:gemm:m=8,n=1,k=0", CublasMode::gemv) != "");
  CHECK(why_not(tiny + ",in=f64", CublasMode::fixed_point).empty());
  CHECK(why_not(tiny, CublasMode::fixed_point) != "");
  // Pointers: k a multiple of 8 asks for 16 bytes in the modes that use tensor cores.
  const std::string pointers = tiny + ",batch=3,mode=pointers";
  CHECK(why_not(pointers + ",in=f16,off=8", CublasMode::standard).empty());
  CHECK(why_not(pointers + ",in=f16,off=1", CublasMode::standard).find("aligned") != std::string::npos);
  CHECK(why_not(pointers + ",in=f16,off=1", CublasMode::pedantic).empty());
  CHECK(why_not(pointers + ",in=f16,gap=1", CublasMode::standard) != "");
  CHECK(why_not(pointers + ",off=1", CublasMode::standard).empty());
  CHECK(why_not(pointers + ",off=1", CublasMode::tf32) != "");
  // int8: leading dimensions of A and B are multiples of 4.
  CHECK(why_not("g1:gemm:m=8,n=8,k=4,in=i8,out=i32,fill=integer", CublasMode::standard).empty());
  CHECK(why_not("g1:gemm:m=8,n=8,k=4,in=i8,out=i32,fill=integer,pada=2", CublasMode::standard).find("multiples of 4") !=
        std::string::npos);
  CHECK(why_not("g1:gemm:m=8,n=8,k=4,in=i8,out=i32,fill=integer", CublasMode::tf32) != "");
  CHECK(why_not(tiny + ",in=e4m3,out=f32,fill=integer", CublasMode::standard).find("cuBLASLt does") != std::string::npos);
  CHECK(gemm::find_cublas_mode("")->mode == CublasMode::standard);
  CHECK(gemm::find_cublas_mode("fast") == nullptr);
}

TEST_CASE("every documented way to add stays inside the arithmetic that its mode declares") {
  const std::string shape = "g1:gemm:m=24,n=20,alpha=1.25,beta=0.75";
  for (const char* k : {",k=1", ",k=3", ",k=17", ",k=300"})
    for (const char* fill : {",fill=normal", ",fill=uniform", ",fill=heavy", ",fill=two_level", ",fill=ones"}) {
      const auto passes = [&](const std::string& formats, const std::string& model, CublasMode mode, int sm) {
        const std::string id = shape + k + fill + formats;
        CAPTURE(id);
        CAPTURE(model);
        CAPTURE(sm);
        const Discrepancy d = judged(id, model, declared(id, mode, sm));
        CHECK(d.bad == 0);
        CHECK(d.over_iid == 0);
        CHECK_FALSE(d.rms_exceeded);
      };
      for (const char* model : {"sequential_fma", "pairwise", "split_k4"})
        for (const CublasMode mode : {CublasMode::standard, CublasMode::pedantic, CublasMode::bf16x9, CublasMode::tf32})
          passes("", model, mode, 90);
      passes(",in=f64", "sequential_fma_f64", CublasMode::fixed_point, 90);
      for (const char* formats : {",in=bf16,out=f32", ",in=bf16", ",in=f16,out=f32"})
        for (const CublasMode mode : {CublasMode::standard, CublasMode::no_reduced}) {
          for (const int sm : {80, 89, 90, 120}) passes(formats, "sequential_fma", mode, sm);  // no tensor cores
          for (const int sm : {80, 89}) passes(formats, "a100", mode, sm);
          for (const int sm : {90, 100, 120}) passes(formats, "h100", mode, sm);
        }
      for (const char* model : {"a100_tf32_rz", "a100_tf32_rna"}) passes("", model, CublasMode::tf32, 80);
      passes("", "h100_tf32_rne", CublasMode::tf32, 90);
    }
}

TEST_CASE("less precision than its mode declares is seen") {
  const std::string id = "g1:gemm:m=64,n=48,k=512";
  const auto seen = [](const Discrepancy& d) { return d.bad + d.over_iid > 0 || d.rms_exceeded; };
  for (const CublasMode mode :
       {CublasMode::standard, CublasMode::pedantic, CublasMode::device_scalars, CublasMode::no_workspace})
    for (const char* fill : {",fill=reveal", ",fill=normal"}) {
      CHECK(seen(judged(id + fill, "h100_tf32_rne", declared(id, mode, 90))));
      CHECK(seen(judged(id + fill, "a100_tf32_rna", declared(id, mode, 80))));
    }
  const std::string f64 = id + ",in=f64";
  CHECK(declared(f64, CublasMode::fixed_point, 100).accumulator == DType::f64);
  CHECK_FALSE(seen(judged(id + ",fill=normal", "h100_tf32_rne", declared(id, CublasMode::tf32, 90))));
  // Reduced-precision reduction is legal unless it is disallowed.
  const std::string narrow = "g1:gemm:m=4,n=5,k=100,in=bf16";
  CHECK(declared(narrow, CublasMode::standard, 90).splits == 4);
  CHECK(declared(narrow, CublasMode::standard, 90).split_format == DType::bf16);
  CHECK(declared(narrow, CublasMode::no_reduced, 90).splits == 1);
  CHECK(declared(narrow + ",out=f32", CublasMode::standard, 90).splits == 1);
}

TEST_CASE("what is promised is what is documented") {
  for (const gemm::CublasModeRow& row : gemm::cublas_modes()) {
    CAPTURE(row.name);
    const Contract c = gemm::cublas_contract(row.mode);
    CHECK(c.beta_zero_ignores_c.made);
    CHECK(c.repeatable.made);
    CHECK_FALSE(c.alpha_zero_ignores_ab.made);
    CHECK(c.nan_propagates.made == (row.mode == CublasMode::pedantic));
  }
  CHECK(gemm::cublas_workspace_bytes(CublasMode::standard, 90) == std::size_t{32} << 20);
  CHECK(gemm::cublas_workspace_bytes(CublasMode::standard, 120) == std::size_t{12} << 20);
  CHECK(gemm::cublas_workspace_bytes(CublasMode::standard, 86) == std::size_t{4} << 20);
  CHECK(gemm::cublas_workspace_bytes(CublasMode::no_workspace, 90) == 0);
}
