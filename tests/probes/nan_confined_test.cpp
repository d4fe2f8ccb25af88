// SPDX-License-Identifier: Apache-2.0
// NaN where no operand is NaN: a leak where the contract confines NaN, a convention elsewhere.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "gemm_trial.hpp"
#include "probes/ops/gemm/cpu_targets.hpp"
#include "probes/run/judge.hpp"

using namespace assay;

TEST_CASE("NaN in a result of finite operands is a leak where the contract confines NaN, and a convention elsewhere") {
  // The NaN of A lies in one row; another row of C is given a NaN of its own.
  trial::Trial t(gemm::eigen_target(), "g1:gemm:m=4,n=3,k=5,fill=nan_one,in=bf16,out=f32", "");
  t.run(1);
  const Expected expected = trial::truth(t.problem, 1);
  const auto clean = std::find_if(expected.value.begin(), expected.value.end(), [](double v) { return !std::isnan(v); });
  REQUIRE(clean != expected.value.end());
  const Operand& c = t.problem.operands[2];
  Measurement m;
  m.report = t.call->report();
  m.repeats = m.repeats_identical = 1;
  m.report.contract = {};
  m.report.contract.beta_zero_ignores_c.made = true;  // else a NaN could come of reading C
  static_cast<Discrepancy&>(m.first) = trial::judge(t, expected, m.report.arithmetic);
  CHECK(m.first.nan_leaked == 0);
  CHECK(judge(t.problem, m).verdict == report::Verdict::pass);

  store_bits(DType::f32, t.buffers.images[2].storage + 4 * storage_index(c, clean - expected.value.begin()), 0x7FC00000);
  static_cast<Discrepancy&>(m.first) = trial::judge(t, expected, m.report.arithmetic);
  CHECK(m.first.nan_leaked == 1);
  CHECK(judge(t.problem, m).label == "POLICY");
  m.report.contract.nan_confined.made = true;
  CHECK(judge(t.problem, m).verdict == report::Verdict::fail);
  CHECK(judge(t.problem, m).label == "NAN-LEAK");
}
