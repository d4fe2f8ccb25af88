// SPDX-License-Identifier: Apache-2.0
// From a gemm problem to cuBLASLt's arguments, and the arithmetic that follows from an algorithm. No library is touched.
#include "probes/ops/gemm/cublaslt_arguments.hpp"

#include <doctest/doctest.h>

#include "probes/ops/op.hpp"

using namespace assay;
using namespace assay::gemm;
using namespace assay::cuda;

namespace {

LtArguments arguments(const std::string& id, const std::string& variant = "") {
  return lt_arguments(make_problem(id), parse_lt_mode(variant).value());
}
std::string refusal(const std::string& id, const std::string& variant = "") {
  return lt_refuses(make_problem(id), parse_lt_mode(variant).value()).value_or("");
}

/// Element (i,j) of op(X) as cuBLASLt's documentation has it: cublasLtOrder_t, CUBLASLT_MATMUL_DESC_TRANSA.
std::int64_t element(const LtMatrix& x, int order, std::int64_t i, std::int64_t j) {
  if (x.op == CUBLAS_OP_T) std::swap(i, j);
  return order == CUBLASLT_ORDER_COL ? i + j * x.ld : i * x.ld + j;
}
std::int64_t rows(const LtMatrix& x) {
  return static_cast<std::int64_t>(x.op == CUBLAS_OP_T ? x.columns : x.rows);
}
std::int64_t columns(const LtMatrix& x) {
  return static_cast<std::int64_t>(x.op == CUBLAS_OP_T ? x.rows : x.columns);
}

/// The arguments name the elements that Operand::strides names, as a product D = C or D = C'.
void check_elements(const std::string& id, const std::string& variant) {
  CAPTURE(id);
  CAPTURE(variant);
  const Problem p = make_problem(id);
  const LtArguments g = arguments(id, variant);
  const bool transposed = g.a.operand == 1;
  CHECK(g.b.operand == (transposed ? 0 : 1));
  CHECK(columns(g.a) == rows(g.b));
  CHECK(g.c.op == CUBLAS_OP_N);
  for (const LtMatrix* x : {&g.a, &g.b, &g.c}) {
    const Operand& o = p.operands[x->operand];
    REQUIRE(rows(*x) == o.dims[transposed ? 2 : 1]);
    REQUIRE(columns(*x) == o.dims[transposed ? 1 : 2]);
    CHECK(x->batch_stride == o.strides[0]);
    for (std::int64_t i = 0; i < rows(*x); ++i)
      for (std::int64_t j = 0; j < columns(*x); ++j)
        REQUIRE(element(*x, g.order, i, j) == (transposed ? j : i) * o.strides[1] + (transposed ? i : j) * o.strides[2]);
  }
}

lt::Choice choice(int splits, int reduction, std::uint64_t flags = 0) {
  lt::Choice c;
  c.configuration.splits = splits, c.configuration.reduction = static_cast<std::uint32_t>(reduction);
  c.numerical_flags = flags;
  return c;
}
Arithmetic arithmetic(const std::string& id, const lt::Choice& c, const std::string& variant = "", int sm = 90) {
  return lt_arithmetic(call_of(make_problem(id)), parse_lt_mode(variant).value(), c, sm);
}

}  // namespace

TEST_CASE("cuBLASLt is told the same elements that the problem names, in every order, transposition and variant") {
  for (const char* order : {"col", "row"})
    for (const char* ta : {"n", "t"})
      for (const char* tb : {"n", "t"})
        for (const char* bias : {"0", "1"})
          for (const char* variant : {"heuristic", "order=row"}) {
            const std::string id = std::string("g1:gemm:m=5,n=7,k=3,batch=2,gap=3,pada=2,padb=4,padc=1,order=") + order +
                                   ",ta=" + ta + ",tb=" + tb + ",bias=" + bias;
            if (refusal(id, variant).empty()) check_elements(id, variant);
          }
  check_elements("g1:gemm:m=1,n=7,k=3,order=row,share=b,batch=3", "heuristic");
}

TEST_CASE("a column-major problem goes to cuBLASLt as it is, a row-major one as its transpose, or in row order when asked") {
  const LtArguments col = arguments("g1:gemm:m=5,n=7,k=3");
  CHECK(col.order == CUBLASLT_ORDER_COL);
  CHECK(col.a == LtMatrix{.operand = 0, .type = CUDA_R_32F, .rows = 5, .columns = 3, .ld = 5, .batch_stride = 15});
  CHECK(col.c == LtMatrix{.operand = 2, .type = CUDA_R_32F, .rows = 5, .columns = 7, .ld = 5, .batch_stride = 35});
  const LtArguments row = arguments("g1:gemm:m=5,n=7,k=3,order=row");
  CHECK(row.order == CUBLASLT_ORDER_COL);
  CHECK(row.a == LtMatrix{.operand = 1, .type = CUDA_R_32F, .rows = 7, .columns = 3, .ld = 7, .batch_stride = 21});
  const LtArguments as_rows = arguments("g1:gemm:m=5,n=7,k=3,order=row", "order=row");
  CHECK(as_rows.order == CUBLASLT_ORDER_ROW);
  CHECK(as_rows.a == LtMatrix{.operand = 0, .type = CUDA_R_32F, .rows = 5, .columns = 3, .ld = 3, .batch_stride = 15});
}

TEST_CASE("a bias per column of C makes D the transpose, whose rows cuBLASLt adds it to") {
  for (const char* order : {"row", "col"}) {
    const LtArguments g = arguments(std::string("g1:gemm:m=5,n=7,k=3,batch=2,bias=1,act=relu,order=") + order);
    CHECK(g.c.rows == 7);
    CHECK(g.bias_stride == 7);
    CHECK(g.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS);
  }
  CHECK(refusal("g1:gemm:m=5,n=7,k=3,bias=1,order=row", "order=row").find("column order") != std::string::npos);
}

TEST_CASE("epilogues, compute types and scalars follow the case and the variant") {
  CHECK(arguments("g1:gemm:m=5,n=7,k=3").epilogue == CUBLASLT_EPILOGUE_DEFAULT);
  CHECK(arguments("g1:gemm:m=5,n=7,k=3,act=relu").epilogue == CUBLASLT_EPILOGUE_RELU);
  CHECK(arguments("g1:gemm:m=5,n=7,k=3,act=gelu_tanh").epilogue == CUBLASLT_EPILOGUE_GELU);
  CHECK(arguments("g1:gemm:m=5,n=7,k=3,bias=1,act=gelu_tanh").epilogue == CUBLASLT_EPILOGUE_GELU_BIAS);
  CHECK(arguments("g1:gemm:m=5,n=7,k=3,bias=1").epilogue == CUBLASLT_EPILOGUE_BIAS);
  const LtArguments f64 = arguments("g1:gemm:m=5,n=7,k=3,in=f64");
  CHECK((f64.compute == CUBLAS_COMPUTE_64F && f64.scale == CUDA_R_64F && f64.scalar == DType::f64));
  const LtArguments bf16 = arguments("g1:gemm:m=5,n=7,k=3,in=bf16,out=f32");
  CHECK((bf16.compute == CUBLAS_COMPUTE_32F && bf16.scale == CUDA_R_32F));
  CHECK((bf16.a.type == CUDA_R_16BF && bf16.c.type == CUDA_R_32F));
  const LtArguments half = arguments("g1:gemm:m=5,n=7,k=3,in=f16", "f16acc");
  CHECK((half.compute == CUBLAS_COMPUTE_16F && half.scale == CUDA_R_16F && half.scalar == DType::f16));
  CHECK(arguments("g1:gemm:m=5,n=7,k=3", "tf32").compute == CUBLAS_COMPUTE_32F_FAST_TF32);
  CHECK(arguments("g1:gemm:m=5,n=7,k=3,in=f64", "pedantic").compute == CUBLAS_COMPUTE_64F_PEDANTIC);
}

TEST_CASE("fp8 operands have scales that leave the product as it is, int8 is summed and scaled in int32") {
  const std::string fp8 = "g1:gemm:m=16,n=32,k=64,ta=t,alpha=3,in=e4m3,out=bf16";
  const LtArguments plain = arguments(fp8), scaled = arguments(fp8, "scales");
  CHECK((plain.a.type == CUDA_R_8F_E4M3 && plain.c.type == CUDA_R_16BF && plain.compute == CUBLAS_COMPUTE_32F));
  CHECK((plain.a.op == CUBLAS_OP_T && plain.b.op == CUBLAS_OP_N));
  CHECK((plain.scale_a == 1 && plain.scale_b == 1 && plain.alpha == 3));
  CHECK(scaled.scale_a != 1);
  CHECK(scaled.alpha * scaled.scale_a * scaled.scale_b == 3);
  CHECK(refusal("g1:gemm:m=16,n=32,k=64,in=bf16", "scales").find("fp8") != std::string::npos);
  CHECK(refusal("g1:gemm:m=16,n=32,k=64,in=e5m2,out=f32").find("E4M3") != std::string::npos);
  CHECK(arithmetic(fp8, choice(1, 0)).fraction_bits == 13);
  const std::string i8 = "g1:gemm:m=16,n=32,k=64,ta=t,in=i8,out=i32,fill=integer";
  const LtArguments whole = arguments(i8);
  CHECK((whole.compute == CUBLAS_COMPUTE_32I && whole.scale == CUDA_R_32I && whole.scalar == DType::i32));
  CHECK(arithmetic(i8, choice(4, CUBLASLT_REDUCTION_SCHEME_INPLACE)).accumulator == DType::i32);
  CHECK(arithmetic(i8, choice(4, CUBLASLT_REDUCTION_SCHEME_INPLACE)).splits == 1);
}

TEST_CASE("what cuBLASLt has no words for is refused with a reason") {
  CHECK(refusal("g1:gemm:m=5,n=7,k=3,act=gelu_erf").find("tanh") != std::string::npos);
  CHECK(refusal("g1:gemm:m=5,n=7,k=0").find("no meaning") != std::string::npos);
  CHECK(refusal("g1:gemm:m=5,n=7,k=3,batch=2,mode=pointers,bias=1").find("stride") != std::string::npos);
  CHECK(refusal("g1:gemm:m=5,n=7,k=3,in=f64", "tf32").find("f32") != std::string::npos);
  CHECK(refusal("g1:gemm:m=5,n=7,k=3,fill=cancel", "tf32").find("11 bits") != std::string::npos);
  CHECK(refusal("g1:gemm:m=5,n=7,k=3,in=f16,alpha=0.7", "f16acc").find("fp16") != std::string::npos);
  CHECK(refusal("g1:gemm:m=5,n=7,k=300,in=f16,fill=integer", "f16acc").find("short sums") != std::string::npos);
  CHECK(refusal("g1:gemm:m=5,n=7,k=3,in=bf16", "f16acc").find("f16 into f16") != std::string::npos);
  CHECK(refusal("g1:gemm:m=5,n=7,k=3").empty());
}

TEST_CASE("every variant parses, and nothing else does") {
  for (const std::vector<std::string>& list : {lt_variants(), lt_deep_variants()})
    for (const std::string& variant : list) CHECK(parse_lt_mode(variant).has_value());
  CHECK(parse_lt_mode("rank=3")->rank == 3);
  CHECK(parse_lt_mode("algorithm=0")->algorithm == 0);
  for (const char* wrong : {"rank=0", "rank=8", "rank=", "algorithm=-1", "algorithm=64", "algorithm=1x", "fast", "rank=1 "})
    CHECK_FALSE(parse_lt_mode(wrong).has_value());
}

TEST_CASE("a workspace cap is the one that the variant names, 32 MiB where it names none, and changes no argument") {
  const std::size_t mib = std::size_t{1} << 20;
  CHECK(parse_lt_mode("")->workspace_bytes == 32 * mib);
  CHECK(parse_lt_mode("algorithm=3")->workspace_bytes == 32 * mib);
  CHECK(parse_lt_mode("workspace=0")->workspace_bytes == 0);
  CHECK(parse_lt_mode("workspace=1MiB")->workspace_bytes == mib);
  CHECK(parse_lt_mode("workspace=4MiB")->workspace_bytes == 4 * mib);
  CHECK(parse_lt_mode("workspace=256MiB")->workspace_bytes == 256 * mib);
  for (const char* const wrong : {"workspace=", "workspace=1", "workspace=2MiB", "workspace=32MiB"})
    CHECK_FALSE(parse_lt_mode(wrong).has_value());
  const std::string id = "g1:gemm:m=24,n=16,k=600,in=bf16";
  CHECK(arguments(id, "workspace=1MiB").a == arguments(id).a);
  CHECK(arguments(id, "workspace=1MiB").compute == arguments(id).compute);
}

TEST_CASE("the declared arithmetic follows compute type and reduction scheme: a legal split-K in the output type is declared") {
  const std::string bf16 = "g1:gemm:m=8,n=8,k=512,in=bf16";
  const Arithmetic whole = arithmetic(bf16, choice(1, CUBLASLT_REDUCTION_SCHEME_NONE));
  CHECK(whole.splits == 1);
  CHECK(whole.accumulator == DType::f32);
  for (const int in_output : {CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, CUBLASLT_REDUCTION_SCHEME_INPLACE}) {
    const Arithmetic split = arithmetic(bf16, choice(4, in_output));
    CHECK((split.splits == 4 && split.split_format == DType::bf16));
  }
  const Arithmetic in_fp32 = arithmetic(bf16, choice(4, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  CHECK((in_fp32.splits == 4 && in_fp32.split_format == DType::f32));
  CHECK(arithmetic(bf16, choice(-2, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)).splits == 16);
  CHECK(arithmetic("g1:gemm:m=8,n=8,k=512,in=bf16,out=f32", choice(4, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)).split_format ==
        DType::f32);
}

TEST_CASE("fp32 is declared as fp32 whatever an algorithm says of itself, TF32 only where it was asked for") {
  const std::string f32 = "g1:gemm:m=8,n=8,k=8";
  const lt::Choice says_tf32 = choice(1, 0, lt_flags::HMMA | lt_flags::INPUT_TF32);
  CHECK(arithmetic(f32, says_tf32).operand == DType::f32);
  CHECK(arithmetic(f32, says_tf32).accumulation == Accumulation::nearest);
  const Arithmetic tf32 = arithmetic(f32, says_tf32, "tf32");
  CHECK((tf32.operand == DType::tf32 && tf32.operand_rounding == Rounding::toward_zero));
  CHECK(arithmetic("g1:gemm:m=8,n=8,k=8,in=f64", choice(1, 0)).accumulator == DType::f64);
  CHECK(arithmetic("g1:gemm:m=8,n=8,k=8,in=f16", choice(1, 0), "f16acc").accumulator == DType::f16);
}

TEST_CASE("16-bit operands are declared with tensor cores unless the algorithm says it has none") {
  const std::string f16 = "g1:gemm:m=8,n=8,k=8,in=f16";
  CHECK(arithmetic(f16, choice(1, 0)).accumulation == Accumulation::tensor_core);
  CHECK(arithmetic(f16, choice(1, 0, lt_flags::HMMA | lt_flags::FMA)).accumulation == Accumulation::tensor_core);
  CHECK(arithmetic(f16, choice(1, 0, lt_flags::FMA)).accumulation == Accumulation::nearest);
}

TEST_CASE("an address promises its largest power of two, up to 256 bytes") {
  CHECK(lt_alignment(0x1000) == 256);
  CHECK(lt_alignment(0x1010) == 16);
  CHECK(lt_alignment(0x1002) == 2);
  CHECK(lt_alignment(0x1001) == 1);
  CHECK(lt_alignment(0) == 256);
}
