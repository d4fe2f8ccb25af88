// SPDX-License-Identifier: Apache-2.0
// From facts to verdicts: each fact alone, and which wins when several hold.
#include "probes/run/judge.hpp"

#include <doctest/doctest.h>

#include "probes/run/truth.hpp"

using namespace assay;
using report::Verdict;

namespace {

Problem problem_of(const char* id = "g1:gemm:m=8,n=8,k=8") {
  return make_problem(id);
}

/// 64 elements, all right, two identical runs, a right second call.
Measurement clean() {
  Measurement m;
  m.first.compared = 64;
  m.first.operand = 2;
  m.second = m.first;
  m.repeats = m.repeats_identical = 2;
  m.report.contract.beta_zero_ignores_c = m.report.contract.alpha_zero_ignores_ab = {true, "test"};
  return m;
}

void spoil(Finding& f) {
  f.bad = 3;
  f.first_bad = 9;
  f.worst.index = 9;
}

}  // namespace

TEST_CASE("judge: a clean measurement passes without a label") {
  const Judgement j = judge(problem_of(), clean());
  CHECK(j.verdict == Verdict::pass);
  CHECK(j.label.empty());
}

TEST_CASE("judge: wrong elements fail on the first call and on the second, and the sentence names the place") {
  Measurement first = clean(), second = clean();
  spoil(first.first);
  spoil(*second.second);
  const Judgement a = judge(problem_of(), first), b = judge(problem_of(), second);
  CHECK(a.verdict == Verdict::fail);
  CHECK(a.label == "WRONG");
  CHECK(a.reason.find("C[0,1,1]") != std::string::npos);
  CHECK(b.verdict == Verdict::fail);
  CHECK(b.reason.find("second call") != std::string::npos);
}

TEST_CASE("judge: unwritten elements and leaked NaN are named as such") {
  Measurement m = clean();
  spoil(m.first);
  m.first.nan_unexpected = 3;
  CHECK(judge(problem_of(), m).label == "NAN-LEAK");
  m.first.unwritten = 3;
  CHECK(judge(problem_of(), m).label == "UNWRITTEN");
}

TEST_CASE("judge: bytes outside the output and changed inputs fail even when every value is right") {
  Measurement m = clean();
  m.bytes_outside = 4;
  m.outside = "after the end of C";
  CHECK(judge(problem_of(), m).label == "OUT-OF-BOUNDS");
  m = clean();
  m.inputs_changed = true;
  CHECK(judge(problem_of(), m).verdict == Verdict::fail);
}

TEST_CASE("judge: an excess over the statistical gate asks for fresh seeds, one over the rigorous bound does not") {
  Measurement m = clean();
  m.first.compared = 640;
  m.first.over_iid = 1;
  const Judgement some = judge(problem_of(), m);
  CHECK(some.verdict == Verdict::fail);
  CHECK(some.label == "WRONG");
  CHECK(some.needs_fresh_seeds);
  m.first.over_iid = 40;
  CHECK(judge(problem_of(), m).label == "MODE");
  spoil(m.first);
  CHECK_FALSE(judge(problem_of(), m).needs_fresh_seeds);
}

TEST_CASE("judge: a case that could not have failed is mistrusted, unless it was judged bit for bit") {
  Measurement m = clean();
  m.first.blind_fraction = 0.5;
  CHECK(judge(problem_of(), m).verdict == Verdict::suspect);
  CHECK(judge(problem_of(), m).label == "MISTRUSTED");
  m.first.exact = true;
  CHECK(judge(problem_of(), m).verdict == Verdict::pass);
  m.first.exact = false;
  m.first.blind_fraction = 0.49;
  CHECK(judge(problem_of(), m).verdict == Verdict::pass);
}

TEST_CASE("judge: bits that differ between equal calls are suspect only where repeatability is promised") {
  Measurement m = clean();
  m.repeats_identical = 1;
  CHECK(judge(problem_of(), m).verdict == Verdict::pass);
  CHECK(judge(problem_of(), m).label == "NONDETERMINISTIC");
  m.report.contract.repeatable = {true, "test"};
  CHECK(judge(problem_of(), m).verdict == Verdict::suspect);
}

TEST_CASE("judge: a convention that nobody promised is policy, a promised one is a failure") {
  Measurement m = clean();
  spoil(m.first);
  m.first.nan_missing = m.first.bad;
  const Problem nan = problem_of("g1:gemm:m=8,n=8,k=8,fill=nan_one");
  CHECK(judge(nan, m).verdict == Verdict::pass);
  CHECK(judge(nan, m).label == "POLICY");
  m.report.contract.nan_propagates = {true, "test"};
  CHECK(judge(nan, m).verdict == Verdict::fail);
  // A case that does not lean on the convention is not excused by it.
  m.report.contract.nan_propagates = {};
  CHECK(judge(problem_of(), m).verdict == Verdict::fail);
}

TEST_CASE("judge: with alpha = 0 a NaN of A is a broken promise, not a matter of propagation") {
  Measurement m = clean();
  spoil(m.first);
  m.first.nan_unexpected = m.first.bad;
  const Problem zero = problem_of("g1:gemm:m=8,n=8,k=8,alpha=0,fill=nan_one");
  CHECK(judge(zero, m).label == "NAN-LEAK");
  m.report.contract.alpha_zero_ignores_ab = {};
  CHECK(judge(zero, m).label == "POLICY");
}

TEST_CASE("judge: policy does not excuse a wrong number beside it") {
  Measurement m = clean();
  spoil(m.first);
  m.first.nan_missing = m.first.bad - 1;
  CHECK(judge(problem_of("g1:gemm:m=8,n=8,k=8,fill=nan_one"), m).verdict == Verdict::fail);
}

TEST_CASE("judge: what did not run keeps its reason and never passes") {
  for (const Outcome o : {Outcome::unsupported, Outcome::unavailable, Outcome::fault, Outcome::interrupted}) {
    Measurement m;
    m.outcome = o;
    m.reason = "because";
    const Judgement j = judge(problem_of(), m);
    CHECK(j.verdict != Verdict::pass);
    CHECK_FALSE(j.reason.empty());
  }
}
