// SPDX-License-Identifier: Apache-2.0
// Bias and activation of gemm: the truth by hand, correct targets inside the bound, every planted fault outside it.
#include <cmath>

#include "gemm_trial.hpp"
#include "probes/ops/gemm/epilogue.hpp"
#include "probes/ops/gemm/planted.hpp"

using namespace assay;
using namespace assay::trial;

namespace {

const std::vector<std::string> clean = {
    "g1:gemm:m=5,n=7,k=33,bias=1",
    "g1:gemm:m=5,n=7,k=33,bias=1,act=relu,fill=integer",
    "g1:gemm:m=1,n=1,k=1,bias=1,act=gelu_erf",
    "g1:gemm:m=4,n=9,k=64,bias=1,act=gelu_tanh,order=row,padc=2,off=1",
    "g1:gemm:m=3,n=4,k=16,batch=3,bias=1,act=relu,alpha=2,beta=3,fill=integer",
    "g1:gemm:m=3,n=4,k=100,in=bf16,bias=1,act=gelu_erf,fill=uniform",
    "g1:gemm:m=3,n=4,k=50,in=f16,act=gelu_tanh,fill=two_level",
    "g1:gemm:m=3,n=5,k=40,in=f64,bias=1,act=gelu_erf,fill=heavy",
    "g1:gemm:m=3,n=5,k=0,bias=1,act=gelu_tanh,beta=0.5",
    "g1:gemm:m=4,n=3,k=17,bias=1,act=relu,fill=nan_one",
    "g1:gemm:m=4,n=3,k=17,bias=1,act=relu,fill=inf_one",
    "g1:gemm:m=4,n=3,k=20,in=f64,bias=1,act=relu,fill=cancel",
};

Discrepancy run(const Target& target, const std::string& variant, const std::string& id, std::uint64_t seed) {
  Trial t(target, id, variant);
  t.run(seed);
  const CallReport report = t.call->report();
  CHECK(disturbed_bytes(t, seed) == 0);
  return judge(t, truth(t.problem, seed), report.arithmetic);
}

bool flagged(const Discrepancy& d) {
  return d.bad + d.over_iid > 0 || d.rms_exceeded;
}

}  // namespace

TEST_CASE("the truth of an epilogue is f of the sum and its bias, by hand") {
  const Problem p = make_problem("g1:gemm:m=1,n=2,k=1,batch=2,order=row,alpha=2,beta=1,bias=1,act=relu,fill=ones");
  Buffers b(p);
  b.fill(p, 1);
  const auto put = [&](std::size_t operand, std::vector<float> values) {
    std::memcpy(b.images[operand].storage, values.data(), values.size() * sizeof(float));
  };
  put(0, {3, 5});                 // A
  put(1, {1, -1, 2, 0.5f});       // B
  put(2, {1, 1, -30, 0});         // C
  put(3, {-10, 100, 4, -5.25f});  // bias
  const Expected e = find_op("gemm").expect(p, b.all(), {}).at(0);
  CHECK(e.value == std::vector<double>{0, 95, 0, 0});  // 6+1-10, -6+1+100, 20-30+4, 5+0-5.25
  const Expected g = find_op("gemm")
                         .expect(make_problem("g1:gemm:m=1,n=2,k=1,batch=2,order=row,alpha=2,beta=1,bias=1,"
                                              "act=gelu_erf,fill=ones"),
                                 b.all(), {})
                         .at(0);
  CHECK(g.value[3] == doctest::Approx(-0.25 * 0.5 * std::erfc(0.25 / std::sqrt(2.0))).epsilon(1e-15));
  const Expected second = find_op("gemm").expect(p, b.all(), {1}).at(0);
  CHECK(second.value == std::vector<double>{0, 0});
}

TEST_CASE("correct targets pass every epilogue") {
  std::vector<std::string> models = gemm::model_target().variants;
  for (const std::string& id : clean)
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      CAPTURE(id);
      CHECK_FALSE(flagged(run(gemm::cpu_targets().front(), "", id, seed)));
      CHECK_FALSE(flagged(run(gemm::planted_target(), "none", id, seed)));
      for (const std::string& model : models)
        if (!gemm::model_target().refuses(make_problem(id),
                                          {.target = "model", .variant = model, .library = {}, .environment = {}})) {
          CAPTURE(model);
          CHECK_FALSE(flagged(run(gemm::model_target(), model, id, seed)));
        }
    }
}

TEST_CASE("every planted fault of the epilogue is flagged in each of its cases") {
  for (const gemm::Fault& fault : gemm::epilogue_faults())
    for (const std::string& id : fault.cases)
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        CAPTURE(fault.name);
        CAPTURE(id);
        CHECK(flagged(run(gemm::planted_target(), std::string(fault.name), id, seed)));
      }
}

TEST_CASE("an epilogue that a target does not have is refused, a meaningless one too") {
  const Problem p = make_problem("g1:gemm:m=2,n=2,k=2,bias=1");
  for (const Target& t : gemm::cpu_targets())
    if (t.name == "openblas") CHECK(t.refuses(p, {.target = "openblas", .variant = {}, .library = {}, .environment = {}}));
  CHECK_THROWS_AS(make_problem("g1:gemm:m=2,n=2,k=2,act=gelu_erf,fill=inf_one"), CaseError);
}
