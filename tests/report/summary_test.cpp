// SPDX-License-Identifier: Apache-2.0
// Exit codes, precedence, and the last line.
#include "report/summary.hpp"

#include <doctest/doctest.h>

#include "fixtures.hpp"

using namespace assay::report;
using namespace assay::report::fixtures;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

int code(const std::vector<Record>& records, const RunFacts& facts = {}) {
  return exit_code(summarise(records), facts);
}

Record confirmed_failure() {
  return failing("g1:gemm:m=1,n=1,k=1,seed=1");
}
Record flaky() {
  Record r = failing("g1:gemm:m=2,n=2,k=2,seed=1");
  r.confirmation = {5, 2, 0, 0};
  return r;
}
Record suspect() {
  Record r = passing("g1:gemm:m=3,n=3,k=3,seed=1");
  r.verdict = Verdict::suspect, r.reason = "The errors lean one way.";
  return r;
}
Record pass() {
  return passing("g1:gemm:m=4,n=4,k=4,seed=1");
}
Record missing(bool required) {
  return not_run(Verdict::unavailable, required, "g1:gemm:m=5,n=5,k=5,seed=1");
}
Record unsupported() {
  return not_run(Verdict::unsupported, true, "g1:gemm:m=6,n=6,k=6,seed=1");
}

RunFacts interrupted() {
  RunFacts f;
  f.interrupted = true;
  return f;
}

}  // namespace

TEST_CASE("each exit code has its own cause") {
  CHECK(code({pass()}) == 0);
  CHECK(code({pass(), confirmed_failure()}) == 1);
  CHECK(code({}) == 2);
  CHECK(code({missing(true)}) == 2);
  CHECK(code({unsupported()}) == 2);
  CHECK(code({pass(), missing(true)}) == 3);
  CHECK(code({pass()}, interrupted()) == 3);
  CHECK(code({}, interrupted()) == 3);
  RunFacts unfinished;
  unfinished.not_started = 1;
  CHECK(code({pass()}, unfinished) == 3);
  CHECK(code({pass(), flaky()}) == 4);
  RunFacts elsewhere;
  elsewhere.environment_differs = true;
  CHECK(code({pass()}, elsewhere) == 5);
}

TEST_CASE("precedence is failure, flaky, incomplete, other environment, pass") {
  RunFacts all = interrupted();
  all.environment_differs = true;
  CHECK(code({pass(), confirmed_failure(), flaky(), missing(true)}, all) == 1);
  CHECK(code({pass(), flaky(), missing(true)}, all) == 4);
  CHECK(code({pass(), missing(true)}, all) == 3);
  all.interrupted = false;
  CHECK(code({pass(), missing(true)}, all) == 3);
  CHECK(code({pass()}, all) == 5);
}

TEST_CASE("unsupported never counts as missing, unavailable only when required") {
  CHECK(code({pass(), unsupported()}) == 0);
  CHECK(code({pass(), missing(false)}) == 0);
  CHECK(summarise(std::vector<Record>{missing(true), missing(false)}).ran() == 0);
}

TEST_CASE("a waived failure counts as run and fails nothing, however it failed") {
  Record waived = confirmed_failure(), again = flaky(), doubtful = suspect();
  waived.waived = again.waived = doubtful.waived = "until 2030-01-01: known here";
  RunFacts strict;
  strict.strict = true;
  CHECK(code({pass(), waived, again, doubtful}, strict) == 0);
  CHECK(code({waived}) == 0);
  CHECK(code({waived, confirmed_failure()}) == 1);
  CHECK(standing(waived) == Standing::waived);
  CHECK_FALSE(confirmed(waived));
  CHECK(contains(verdict_sentence(std::vector<Record>{pass(), waived}, {}), "1 waived by the profile"));
  Record missed = missing(true);
  missed.waived = waived.waived;
  CHECK(standing(missed) == Standing::unavailable);
  CHECK(unexcused(waived) == Standing::fail);
  Record right = pass();
  right.waived = waived.waived;
  CHECK(standing(right) == Standing::pass);
}

TEST_CASE("what was required and gave no result makes a run incomplete, after failures and before another environment") {
  RunFacts facts;
  facts.unmet = {"gpu", "cublas"}, facts.environment_differs = true;
  CHECK(code({pass()}, facts) == 3);
  CHECK(code({pass(), confirmed_failure()}, facts) == 1);
  CHECK(code({pass(), flaky()}, facts) == 4);
  CHECK(code({missing(true)}, facts) == 2);
  CHECK(contains(verdict_sentence(std::vector<Record>{pass()}, facts), "no result of the required gpu, cublas; 1 of 1"));
}

TEST_CASE("a suspect result fails only a strict run") {
  RunFacts strict;
  strict.strict = true;
  CHECK(code({pass(), suspect()}) == 0);
  CHECK(code({pass(), suspect()}, strict) == 1);
  CHECK(code({pass()}, strict) == 0);
  CHECK(contains(verdict_sentence(std::vector<Record>{pass(), suspect()}, {}), "1 suspect"));
}

TEST_CASE("a fault, or a failure of a variant nobody required, fails the run") {
  Record fault = confirmed_failure();
  fault.verdict = Verdict::fault, fault.label = "", fault.comparison.reset(), fault.required = false;
  CHECK(code({pass(), fault}) == 1);
}

TEST_CASE("a failure that was not re-run fails the run but is not called confirmed") {
  Record once = confirmed_failure();
  once.confirmation = {1, 1, 0, 0};
  CHECK(code({once}) == 1);
  CHECK_FALSE(confirmed(once));
  CHECK(contains(headline(std::vector<Record>{once}, {}), "not confirmed"));
  CHECK(confirmed(confirmed_failure()));
}

TEST_CASE("fresh seeds decide below the rigorous bound only") {
  Record r = confirmed_failure();
  r.confirmation = {3, 3, 2, 1};
  CHECK(standing(r) == Standing::fail);  // elements beyond the rigorous bound: the data matter, the failure stands
  r.comparison->bad = 0, r.second->bad = 0;
  CHECK(standing(r) == Standing::flaky);
  r.confirmation.fresh_seed_failed = 2;
  CHECK(standing(r) == Standing::fail);
}

TEST_CASE("a record that passed here and failed in its repeats is flaky whatever its verdict") {
  Record r = pass();
  r.confirmation = {3, 1, 0, 0};
  CHECK(standing(r) == Standing::flaky);
  r.verdict = Verdict::suspect;
  CHECK(standing(r) == Standing::flaky);
}

TEST_CASE("of two records with one key the later counts, and a pass with a failure is flaky") {
  Record first = missing(true), second = pass();
  second.case_id = first.case_id, second.variant = first.variant;
  CHECK(code({first, second}) == 0);
  Record passed = confirmed_failure();
  passed.verdict = Verdict::pass, passed.confirmation = {};
  CHECK(code({passed, confirmed_failure()}) == 4);
  CHECK(code({confirmed_failure(), passed, passed}) == 4);
  CHECK(code({confirmed_failure(), confirmed_failure()}) == 1);
}

TEST_CASE("the last line says the verdict, that no GPU was probed, and what to type next") {
  const std::vector<Record> failed = {pass(), confirmed_failure()};
  const std::string line = verdict_sentence(failed, {});
  CHECK(line.find('\n') == std::string::npos);
  CHECK(contains(line, "FAIL: gemm fp32 is wrong on openblas:core=Haswell in 1 of 2 results (confirmed)"));
  CHECK(contains(line, "no GPU was probed"));
  CHECK(contains(line, "Next: " + reproducer(confirmed_failure())));

  RunFacts quick;
  quick.level = "quick";
  CHECK(verdict_sentence(std::vector<Record>{pass()}, quick) ==
        "PASS: 1 result within bound: gemm fp32 on openblas; no GPU was probed. Next: assay run --level standard");
  quick.device = "NVIDIA H200";
  CHECK_FALSE(contains(verdict_sentence(std::vector<Record>{pass()}, quick), "no GPU"));

  RunFacts stopped = interrupted();
  stopped.folder = "my runs/1";
  CHECK(contains(verdict_sentence(std::vector<Record>{pass()}, stopped), "Next: assay run --resume --out 'my runs/1'"));
  CHECK(contains(verdict_sentence(std::vector<Record>{unsupported()}, {}), "NOTHING RAN"));
  CHECK(
      contains(verdict_sentence(std::vector<Record>{pass(), missing(true)}, {}), "INCOMPLETE: 1 required result unavailable"));
  CHECK(contains(verdict_sentence(std::vector<Record>{flaky()}, {}), "FLAKY: "));
}

TEST_CASE("the headline says whether results were wrong or calls faulted, and in which formats") {
  Record fault = confirmed_failure(), fp64 = confirmed_failure();
  fault.verdict = Verdict::fault, fault.case_id += "0";
  fp64.formats = "fp64", fp64.case_id += "1";
  CHECK(contains(headline(std::vector<Record>{fault}, {}), "gemm fp32 faults on"));
  CHECK(contains(headline(std::vector<Record>{confirmed_failure(), fp64}, {}), "gemm fp32, gemm fp64 are wrong on"));
  CHECK(contains(headline(std::vector<Record>{confirmed_failure(), fault}, {}), "gemm fp32 is wrong or faults on"));
}

TEST_CASE("the reproducer names target, library file, environment and case, quoted for a shell") {
  Record r = failing();
  CHECK(reproducer(r) ==
        "assay run --target openblas:core=Haswell --libraries "
        "openblas=/usr/lib/libopenblasp-r0.3.21.so "
        "--case 'g1:gemm:m=512,n=512,k=4096,seed=3'");
  r.conditions.clear(), r.library.path = "~/my lib/x.so";
  CHECK(contains(reproducer(r), "--libraries openblas=~/'my lib/x.so' "));
  r.library.path = "", r.case_id = "it's;rm";
  CHECK(reproducer(r) == "assay run --target openblas:core=Haswell --case 'it'\\''s;rm'");
}

TEST_CASE("the reproducer of a kernel names driver, compilers, build and device") {
  Record r = failing();
  r.target = "kernel", r.variant = "online@nvrtc-ptxas-O1", r.library.path = "/usr/lib64/libcuda.so.1";
  r.conditions = {{"device", "2"}, {"file nvrtc", "~/x y/libnvrtc.so.12"}, {"file ptxas", "/opt/bin/ptxas"}};
  CHECK(reproducer(r) ==
        "assay run --target kernel:online@nvrtc-ptxas-O1 --libraries cuda=/usr/lib64/libcuda.so.1 "
        "--libraries nvrtc=~/'x y/libnvrtc.so.12' --libraries ptxas=/opt/bin/ptxas --kernel-builds nvrtc-ptxas-O1 --device 2 "
        "--case 'g1:gemm:m=512,n=512,k=4096,seed=3'");
  r.conditions = {{"device", "0"}};
  CHECK_FALSE(contains(reproducer(r), "--device"));
}

TEST_CASE("k of n is always said") {
  CHECK(k_of_n({3, 3, 0, 0}) == "3 of 3 runs");
  CHECK(k_of_n({1, 1, 0, 0}) == "1 of 1 run");
  CHECK(k_of_n({3, 3, 2, 1}) == "3 of 3 runs, 1 of 2 fresh seeds");
  CHECK(k_of_n({}) == "not re-run");
}
