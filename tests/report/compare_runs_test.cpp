// SPDX-License-Identifier: Apache-2.0
// Two runs: what is a difference, what is none, in which order, and what is refused.
#include "report/compare_runs.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "fixtures.hpp"
#include "report/summary.hpp"

using namespace assay::report;
using namespace assay::report::fixtures;
using Kind = Difference::Kind;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// A result on a library, with digests.
Record result(const std::string& case_id = "g1:gemm:m=8,n=8,k=8,seed=1") {
  Record r = failing(case_id);
  r.verdict = Verdict::pass, r.label = "", r.reason = "", r.confirmation = {}, r.variant = "", r.repeats_identical = r.repeats;
  r.plan = "", r.known_defect = "";
  return r;
}

RunData run(std::vector<Record> records, const std::string& folder = "A") {
  RunData out;
  out.folder = folder, out.records = std::move(records);
  out.environment.emplace();
  out.environment->system = {{"cpu", "one"}, {"kernel", "6.1"}, {"boot", "12345678"}};
  out.environment->assay = {{"version", "0.1.0"}};
  out.environment->gpus.resize(1);
  return out;
}

/// The comparison of one result with itself after `change`.
template <class Change>
RunComparison after(Change change) {
  Record b = result();
  change(b);
  return compare_runs(run({result()}), run({b}, "B"));
}

const Difference& only(const RunComparison& c) {
  REQUIRE(c.differences.size() == 1);
  return c.differences.front();
}

}  // namespace

TEST_CASE("a run differs in nothing from itself") {
  const RunData a = run({result(), result("g1:gemm:m=9,n=9,k=9")});
  const RunComparison c = compare_runs(a, a);
  CHECK(c.compared == 2);
  CHECK(c.differences.empty());
  CHECK(exit_code(c) == 0);
  CHECK(contains(comparison_text(c, a, a), "SAME: 2 results with equal verdicts, bits and algorithms; the same conditions\n"));
}

TEST_CASE("times, the state of a GPU and the command are no differences") {
  RunData a = run({result()}), b = a;
  a.records[0].conditions["library device ms"] = "1.25", b.records[0].conditions["library device ms"] = "1.5";
  b.records[0].execute_ms *= 2, b.records[0].reference_ms *= 2, b.records[0].started = "2026-01-01T00:00:00Z";
  b.environment->gpus[0].before.temperature_c = 80, b.environment->gpus[0].after.sm_clock_mhz = 300;
  b.environment->command = "assay run --out B";
  const RunComparison c = compare_runs(a, b);
  CHECK(c.differences.empty());
  CHECK(exit_code(c) == 0);
}

TEST_CASE("a changed verdict comes with the reason, the bits, and the command for the worse result") {
  const RunComparison c = after([](Record& r) {
    r.verdict = Verdict::fail, r.label = "WRONG", r.reason = "64 elements lie outside the bound", r.confirmation = {3, 3, 0, 0};
    r.output_digest = std::string(32, '9');
  });
  CHECK(exit_code(c) == 1);
  CHECK(c.verdicts == 1);
  CHECK(c.outputs == 1);
  REQUIRE(c.differences.size() == 2);
  const Difference& d = c.differences[0];
  CHECK(d.kind == Kind::verdict);
  CHECK(d.what == "gemm fp32 on openblas");
  CHECK(d.a == "pass");
  CHECK(d.b == "fail WRONG");
  CHECK(d.detail == "64 elements lie outside the bound; other bits");
  CHECK(d.again == reproducer(result()));
  CHECK(c.differences[1].kind == Kind::output);
}

TEST_CASE("a result that became right is explained and repeated by the run in which it was wrong") {
  Record a = result();
  a.verdict = Verdict::fail, a.label = "WRONG", a.reason = "64 elements lie outside the bound", a.library.path = "/opt/old.so";
  const RunComparison c = compare_runs(run({a}), run({result()}, "B"));
  CHECK(c.differences[0].b == "pass");
  CHECK(contains(c.differences[0].detail, "64 elements"));
  CHECK(contains(c.differences[0].again, "/opt/old.so"));
}

TEST_CASE("another label is another verdict") {
  Record a = result(), b = result();
  a.verdict = b.verdict = Verdict::fail, a.label = "WRONG", b.label = "UNWRITTEN";
  const Difference d = only(compare_runs(run({a}), run({b}, "B")));
  CHECK(d.kind == Kind::verdict);
  CHECK(d.a == "fail WRONG");
  CHECK(d.b == "fail UNWRITTEN");
}

TEST_CASE("that a profile excuses a failure is no difference, and that the failure is new is one") {
  Record excused = failing();
  excused.waived = "until 2030-01-01: known here";
  CHECK(compare_runs(run({failing()}), run({excused}, "B")).differences.empty());
  const RunComparison c = after([&](Record& r) { r.verdict = Verdict::fail, r.label = "WRONG", r.waived = excused.waived; });
  CHECK(only(c).b == "fail WRONG (waived)");
  CHECK(exit_code(c) == 1);
}

TEST_CASE("the same bits under another verdict are said to be judged otherwise") {
  const RunComparison c = after([](Record& r) { r.verdict = Verdict::suspect, r.label = "MISTRUSTED"; });
  CHECK(only(c).detail == "the same bits, judged otherwise");
}

TEST_CASE("other bits, another algorithm, plan or arithmetic make runs differ") {
  CHECK(only(after([](Record& r) { r.output_digest = std::string(32, '9'); })).kind == Kind::output);
  for (std::string Record::*member : {&Record::algorithm, &Record::plan, &Record::arithmetic}) {
    Record a = result(), b = result();
    a.*member = "one", b.*member = "other";
    const RunComparison c = compare_runs(run({a}), run({b}, "B"));
    CHECK(only(c).kind == Kind::algorithm);
    CHECK(c.algorithms == 1);
    CHECK(exit_code(c) == 1);
    b.*member = "";  // not recorded there: nothing is known to differ
    CHECK(compare_runs(run({a}), run({b}, "B")).differences.empty());
  }
}

TEST_CASE("bits that a target does not repeat within a run are no difference between runs") {
  const RunComparison c = after([](Record& r) { r.output_digest = std::string(32, '9'), r.repeats_identical = 1; });
  CHECK(c.outputs == 0);
  CHECK(c.unrepeatable == 1);
  CHECK(exit_code(c) == 0);
}

TEST_CASE("changed conditions are listed and leave the exit code alone") {
  const RunComparison c = after([](Record& r) { r.library.core = "SkylakeX"; });
  CHECK(only(c).kind == Kind::condition);
  CHECK(only(c).what == "library of openblas: core");
  CHECK(only(c).a == "Haswell");
  CHECK(only(c).b == "SkylakeX");
  CHECK(exit_code(c) == 0);
}

TEST_CASE("the most telling difference comes first") {
  RunData a = run({result("g1:gemm:m=1,n=1,k=1"), result("g1:gemm:m=2,n=2,k=2"), result("g1:gemm:m=3,n=3,k=3")}), b = a;
  a.records[0].verdict = Verdict::fail, a.records[0].label = "WRONG";  // right in B
  b.records[1].verdict = Verdict::fault, b.records[1].label = "";      // wrong in B
  b.records[2].output_digest = std::string(32, '9');
  b.records[2].algorithm = "kernel 8";
  for (Record& r : b.records) {
    r.library.version = "OpenBLAS 0.3.26", r.library.path = "/opt/lib/libopenblas.so",
    r.reference_digest = std::string(32, '8');
    r.conditions["threads"] = "1";
  }
  b.environment->variables = {{"OMP_NUM_THREADS", "1"}, {"MALLOC_PERTURB_", "5"}, {"CUBLASLT_LOG_LEVEL", "5"}};
  b.environment->system = {{"cpu", "two"}, {"kernel", "6.2"}, {"boot", "87654321"}};
  b.environment->gpus[0].user_driver = "CUDA 13.0";
  b.environment->assay["version"] = "0.2.0";
  a.environment->libraries = b.environment->libraries = {{"/usr/lib/libgomp.so.1", "libgomp.so.1", "", "aaaa", "", "", 1}};
  b.environment->libraries[0].sha256 = "bbbb";
  std::vector<std::string> order;
  for (const Difference& d : compare_runs(a, b).differences) order.push_back(d.what + " " + d.b);
  const std::vector<std::string> expected = {"gemm fp32 on openblas fault",
                                             "gemm fp32 on openblas pass",
                                             "gemm fp32 on openblas ",
                                             "gemm fp32 on openblas kernel 8",
                                             "expected values of gemm fp32, computed by assay ",
                                             "library of openblas: version OpenBLAS 0.3.26",
                                             "threads of openblas 1",
                                             "OMP_NUM_THREADS 1",
                                             "MALLOC_PERTURB_ 5",
                                             "GPU 0: user_driver CUDA 13.0",
                                             "cpu two",
                                             "mapped libgomp.so.1 sha256 bbbb",
                                             "kernel 6.2",
                                             "assay version 0.2.0",
                                             "library of openblas: path /opt/lib/libopenblas.so",
                                             "CUBLASLT_LOG_LEVEL 5",
                                             "boot 87654321"};
  CHECK(order == expected);
}

TEST_CASE("equal differences are one line with a count, and lines are limited") {
  RunData a = run({}), b = run({}, "B");
  for (int i = 1; i <= 40; ++i) {
    a.records.push_back(result("g1:gemm:m=" + std::to_string(i) + ",n=1,k=1"));
    b.records.push_back(a.records.back());
    if (i > 10) b.records.back().output_digest = std::string(32, '9');
  }
  const RunComparison c = compare_runs(a, b);
  CHECK(only(c).results == 30);
  CHECK(only(c).of == 40);
  CHECK(contains(comparison_text(c, a, b),
                 "output     gemm fp32 on openblas: other bits in 30 of 40 results, first g1:gemm:m=11,"));
  CHECK(contains(only(c).again, "g1:gemm:m=11,"));
  for (int i = 0; i < 25; ++i) b.environment->system["key" + std::to_string(i)] = "x";
  const std::string text = comparison_text(compare_runs(a, b), a, b);
  CHECK(contains(text, "and 5 more of this kind\n"));
}

TEST_CASE("other inputs, or nothing in common, are refused in one sentence") {
  Record other = result();
  other.input_digest = std::string(32, '7');
  CHECK_THROWS_WITH_AS(compare_runs(run({result()}), run({other}, "B")), doctest::Contains("the inputs of g1:gemm:m=8"),
                       FileError);
  other.target = "blis";  // the inputs belong to the case, whoever computes it
  CHECK_THROWS_AS(compare_runs(run({result()}), run({other, result()}, "B")), FileError);
  Record elsewhere = result();
  elsewhere.variant = "core=Zen";
  CHECK_THROWS_WITH_AS(compare_runs(run({result()}), run({elsewhere}, "B")), doctest::Contains("nothing to compare"),
                       FileError);
  CHECK_THROWS_AS(compare_runs(run({}), run({}, "B")), FileError);
  const Record skipped = not_run(Verdict::unavailable, true);
  CHECK_THROWS_AS(compare_runs(run({skipped}), run({skipped}, "B")), FileError);
}

TEST_CASE("a result that one run lacks, or did not get to, is never the same") {
  const Record second = result("g1:gemm:m=9,n=9,k=9");
  const RunComparison fewer = compare_runs(run({result(), second}), run({result()}, "B"));
  CHECK(fewer.only_a == 1);
  CHECK(exit_code(fewer) == 3);
  CHECK(exit_code(compare_runs(run({result()}), run({result(), second}, "B"))) == 3);
  RunData torn = run({result()}, "B");
  torn.broken_off = true;
  CHECK(exit_code(compare_runs(run({result()}), torn)) == 3);
  const RunComparison gone = after([](Record& r) { r.verdict = Verdict::unavailable, r.output_digest = "", r.algorithm = ""; });
  CHECK(only(gone).b == "unavailable");
  CHECK(exit_code(gone) == 1);
}

TEST_CASE("files under one target name are paired by path, then in order") {
  Record first = result(), second = result();
  first.library.path = "/opt/1.so", second.library.path = "/opt/2.so", second.output_digest = std::string(32, '5');
  CHECK(compare_runs(run({first, second}), run({second, first}, "B")).differences.empty());
  Record moved = result();
  moved.library.path = "/opt/3.so";
  const RunComparison c = compare_runs(run({first}), run({moved}, "B"));
  CHECK(only(c).what == "library of openblas: path");
  CHECK(c.compared == 1);
}

TEST_CASE("texts from libraries do not steer the terminal") {
  const RunData a = run({result()});
  RunData b = a;
  b.folder = "B\x1b[2J", b.records[0].verdict = Verdict::fail, b.records[0].reason = "bad\n\x1b]0;x\x07 \xff";
  b.records[0].label = "WRONG\r";
  const std::string text = comparison_text(compare_runs(a, b), a, b);
  for (const char c : text) CHECK((c == '\n' || static_cast<unsigned char>(c) >= ' '));
  CHECK_FALSE(contains(text, "\xff"));
}

TEST_CASE("a run is read from its folder, with what is missing or damaged said") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(read_run(folder.path), FileError);
  JsonlWriter(folder.path / "run.jsonl").append(result());
  RunData read = read_run(folder.path);
  CHECK(read.records.size() == 1);
  CHECK_FALSE(read.environment);
  CHECK(read.broken_off);  // no report.md
  std::ofstream(folder.path / "report.md") << "x";
  std::ofstream(folder.path / "environment.json") << to_json(Environment{});
  read = read_run(folder.path);
  CHECK(read.environment);
  CHECK_FALSE(read.broken_off);
  std::ofstream(folder.path / "run.jsonl", std::ios::app) << "{\"schema\"";
  CHECK(read_run(folder.path).broken_off);
  std::ofstream(folder.path / "environment.json") << "{";
  CHECK_THROWS_WITH_AS(read_run(folder.path), doctest::Contains("environment.json"), FileError);
}
