// SPDX-License-Identifier: Apache-2.0
// The "model" target: whole gemms of the correct accumulation models.
#include <set>

#include "gemm_trial.hpp"
#include "reference/models/accumulate.hpp"

using namespace assay;
using namespace assay::trial;

namespace {

std::optional<std::string> refusal(const std::string& id, const std::string& variant) {
  const TargetSpec spec{.target = "model", .variant = variant, .library = {}, .environment = {}};
  return gemm::model_target().refuses(make_problem(id), spec);
}

}  // namespace

TEST_CASE("every model gives the exact integer product in every layout and touches nothing else") {
  const Target target = gemm::model_target();
  for (const models::Model& m : models::all_models()) {
    const std::string name(m.name);
    if (m.arithmetic.accumulator == DType::f64) {
      require_exact_layouts(target, name, ",in=f64");
      continue;
    }
    if (m.arithmetic.operand == DType::e5m2) continue;  // no case has FP8 operands yet
    if (m.arithmetic.operand == DType::tf32) {
      require_exact_layouts(target, name, "");
      continue;
    }
    if (m.arithmetic.accumulation == Accumulation::nearest) require_exact_layouts(target, name, "");
    require_exact_layouts(target, name, ",in=f16,out=f32");
    require_exact_layouts(target, name, ",in=f16");
    if (name != "v100") require_exact_layouts(target, name, ",in=bf16");
  }
}

TEST_CASE("a model refuses operands that its unit cannot hold and takes those it can") {
  const std::string shape = "g1:gemm:m=2,n=2,k=2,fill=ones,in=";
  CHECK(refusal(shape + "f32", "v100"));
  CHECK(refusal(shape + "bf16,out=f32", "v100"));
  CHECK(refusal(shape + "f64", "h100"));
  CHECK(refusal(shape + "f64", "pairwise"));
  CHECK(refusal(shape + "f32", "pairwise_f64"));
  CHECK_FALSE(refusal(shape + "f16", "v100"));
  CHECK_FALSE(refusal(shape + "bf16,out=f32", "a100"));
  CHECK_FALSE(refusal(shape + "f16,out=f32", "h100"));
  CHECK_FALSE(refusal(shape + "bf16", "sequential"));
  CHECK_FALSE(refusal(shape + "f64", "lanes32_f64"));
  CHECK_FALSE(refusal(shape + "f32", "a100_tf32_rz"));
  CHECK(refusal(shape + "bf16", "a100_tf32_rz"));
  CHECK(refusal(shape + "f16", "h100_fp8"));
  REQUIRE(refusal(shape + "f32", "nosuch"));
  CHECK(refusal(shape + "f32", "nosuch")->find("sequential_fma") != std::string::npos);
  CHECK_THROWS_AS(Trial(gemm::model_target(), shape + "f32", "nosuch"), Unsupported);
}

TEST_CASE("a model declares the arithmetic it computes in") {
  Trial bf16(gemm::model_target(), "g1:gemm:m=2,n=2,k=2,in=bf16,fill=ones", "h100");
  const Arithmetic a = bf16.call->report().arithmetic;
  CHECK(a.operand == DType::bf16);
  CHECK(a.output == DType::bf16);
  CHECK(a.accumulation == Accumulation::tensor_core);
  CHECK(a.fraction_bits == 25);
  Trial f16(gemm::model_target(), "g1:gemm:m=2,n=2,k=2,in=f16,out=f32,fill=ones", "h100");
  CHECK(f16.call->report().arithmetic.operand == DType::f16);
  CHECK(f16.call->report().contract.repeatable.made);
}

TEST_CASE("different models differ in the last bits of a real product, so their names mean something") {
  std::set<std::vector<std::uint64_t>> results;
  int models = 0;
  for (const models::Model& m : models::all_models()) {
    if (refusal("g1:gemm:m=8,n=8,k=1000,in=f16,out=f32,fill=normal", std::string(m.name))) continue;
    Trial t(gemm::model_target(), "g1:gemm:m=8,n=8,k=1000,in=f16,out=f32,fill=normal", std::string(m.name));
    results.insert(t.run(1));
    ++models;
  }
  // Products of fp16 operands are exact in fp32, so fused and unfused sequential sums are the same.
  CHECK(results.size() == static_cast<std::size_t>(models - 1));
}

TEST_CASE("a NaN in A stays out of C when alpha is zero and fills its row otherwise") {
  Trial skipped(gemm::model_target(), "g1:gemm:m=4,n=4,k=16,fill=nan_one,alpha=0", "sequential");
  for (const std::uint64_t bits : skipped.run(1)) CHECK(bits == 0);
  Trial read(gemm::model_target(), "g1:gemm:m=4,n=4,k=16,fill=nan_one", "sequential");
  const std::vector<std::uint64_t> bits = read.run(1);
  CHECK(std::count_if(bits.begin(), bits.end(), [](std::uint64_t b) { return is_nan(DType::f32, b); }) == 4);
}

TEST_CASE("clean cases cover every family in fp32, with 16-bit operands and the smallest shapes") {
  std::set<std::pair<std::string, std::string>> seen;
  std::set<std::string> shapes;
  for (const std::string& id : gemm::clean_cases()) {
    const Problem p = make_problem(id);
    seen.emplace(std::to_string(format(p.operands[0].dtype).bits), p.id.word("fill"));
    shapes.insert(p.id.word("m") + "x" + p.id.word("n") + "x" + p.id.word("k"));
    CHECK(id.find("seed") == std::string::npos);
  }
  for (const Family f : product_families()) {
    CAPTURE(name(f));
    CHECK(seen.contains({"32", std::string(name(f))}));
    CHECK(seen.contains({"16", std::string(name(f))}));
  }
  CHECK(shapes.contains("1x1x1"));
}

TEST_CASE("no correct model is flagged on the clean cases") {
  const Target target = gemm::model_target();
  int judged = 0;
  for (const std::string& id : gemm::clean_cases())
    for (const models::Model& m : models::all_models()) {
      if (refusal(id, std::string(m.name))) continue;
      CAPTURE(id);
      CAPTURE(m.name);
      Trial t(target, id, std::string(m.name));
      for (std::uint64_t seed = 1; seed <= 2; ++seed) {
        CAPTURE(seed);
        t.run(seed);
        const Discrepancy d = judge(t, truth(t.problem, seed), t.call->report().arithmetic);
        REQUIRE(d.bad == 0);
        REQUIRE(d.over_iid == 0);
        REQUIRE_FALSE(d.rms_exceeded);
        ++judged;
      }
    }
  CHECK(judged > 500);
}
