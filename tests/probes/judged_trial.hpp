// SPDX-License-Identifier: Apache-2.0
// What the tests of an op's targets share: what a case is refused with, what the judge says of an execution, the sweep over the
// planted faults.
#pragma once

#include "gemm_trial.hpp"
#include "probes/run/judge.hpp"

namespace assay::trial {

/// Why an id is refused; empty when it is not.
inline std::string message(const std::string& id) {
  try {
    make_problem(id);
  } catch (const CaseError& e) {
    return e.what();
  }
  return {};
}

/// What the judge says of the outputs as they are: the first of them that does not pass decides.
inline Judgement verdict_now(const Trial& t, std::uint64_t seed) {
  Buffers inputs(t.problem);
  inputs.fill(t.problem, seed);
  const Op& op = find_op(t.problem.id.op);
  const std::vector<Expected> expected = op.expect(t.problem, inputs.all(), {});
  const std::vector<std::size_t> outputs = t.problem.outputs();
  REQUIRE(expected.size() == outputs.size());
  Judgement worst{report::Verdict::pass, "", ""};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    Measurement m;
    m.report = t.call->report();
    m.repeats = m.repeats_identical = 1;
    const Operand& o = t.problem.operands[outputs[i]];
    const Bound bound = op.bound(t.problem, i, expected[i], m.report.arithmetic);
    m.first = Finding{compare(o, t.buffers.storage(outputs[i]), expected[i], bound, m.report.arithmetic,
                              ~std::uint64_t{0} >> (64 - format(o.dtype).bits), true),
                      outputs[i], bound.exact};
    const Judgement j = assay::judge(t.problem, m);
    if (worst.verdict == report::Verdict::pass) worst = j;
  }
  return worst;
}

/// What the judge says of one execution.
inline Judgement verdict(Trial& t, std::uint64_t seed) {
  t.run(seed);
  return verdict_now(t, seed);
}

/// Each fault shows in one of its cases on every seed, in its values, around them, or in a second call with other data; without
/// a fault the same cases pass.
inline void check_every_fault_is_seen(const Target& planted, const std::vector<PlantedFault>& faults, std::uint64_t seeds) {
  for (const PlantedFault& f : faults)
    for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
      std::int64_t bad = 0;
      for (const std::string& id : f.cases) {
        CAPTURE(id);
        Trial right(planted, id, "none"), wrong(planted, id, std::string(f.name));
        CHECK(verdict(right, seed).verdict == report::Verdict::pass);
        bad += verdict(wrong, seed).verdict != report::Verdict::pass;
        bad += disturbed_bytes(wrong, seed) > 0;
        bad += verdict(wrong, seed + 1000).verdict != report::Verdict::pass;
      }
      CAPTURE(f.name);
      CAPTURE(seed);
      CHECK(bad > 0);
    }
}

}  // namespace assay::trial
