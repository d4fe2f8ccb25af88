// SPDX-License-Identifier: Apache-2.0
// JUnit XML: which result becomes which element, counts, and texts that would break the file. That readers open it is tested
// end to end, by parsers that are not ours.
#include "report/junit.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "fixtures.hpp"

using namespace assay::report;
using namespace assay::report::fixtures;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Record with(Verdict verdict, const std::string& label = "") {
  Record r = passing("g1:gemm:m=3,n=3,k=3");
  r.verdict = verdict, r.label = label, r.reason = "a reason";
  return r;
}

std::string junit(std::vector<Record> records, bool strict = false, bool broken_off = false) {
  RunData run;
  run.folder = "A", run.records = std::move(records), run.broken_off = broken_off;
  return junit_report(run, strict);
}

/// "tests failures errors skipped" of the whole file.
std::string counts(const std::string& xml) {
  const auto value = [&](const std::string& name) {
    const std::size_t at = xml.find(" " + name + "=\"") + name.size() + 3;
    return xml.substr(at, xml.find('"', at) - at);
  };
  return value("tests") + " " + value("failures") + " " + value("errors") + " " + value("skipped");
}

}  // namespace

TEST_CASE("wrong is a failure, a fault an error, what did not run is skipped") {
  CHECK(counts(junit({with(Verdict::pass)})) == "1 0 0 0");
  CHECK(counts(junit({with(Verdict::fail, "WRONG")})) == "1 1 0 0");
  CHECK(counts(junit({with(Verdict::fault)})) == "1 0 1 0");
  CHECK(counts(junit({with(Verdict::unsupported)})) == "1 0 0 1");
  CHECK(counts(junit({with(Verdict::unavailable)})) == "1 0 0 1");
  CHECK(contains(junit({with(Verdict::fail, "WRONG")}), "<failure type=\"WRONG\" message=\"a reason\">"));
  CHECK(contains(junit({with(Verdict::fault)}), "<error type=\"fault\" message=\"a reason\">"));
  CHECK(contains(junit({with(Verdict::unavailable)}), "<skipped message=\"unavailable: a reason\"/>"));
  CHECK_FALSE(contains(junit({with(Verdict::pass)}), "a reason"));
}

TEST_CASE("a suspect result is a failure only when strict") {
  const Record r = with(Verdict::suspect, "NONDETERMINISTIC");
  CHECK(counts(junit({r})) == "1 0 0 0");
  CHECK(contains(junit({r}), "<system-out>suspect NONDETERMINISTIC: a reason"));
  CHECK(counts(junit({r}, true)) == "1 1 0 0");
  CHECK(contains(junit({r}, true), "<failure type=\"NONDETERMINISTIC\""));
  CHECK(counts(junit({with(Verdict::pass, "POLICY")}, true)) == "1 0 0 0");
  CHECK(contains(junit({with(Verdict::pass, "POLICY")}), "<system-out>POLICY: a reason</system-out>"));
}

TEST_CASE("what both passed and failed is a failure, and the later of two records counts") {
  Record flaky = with(Verdict::fail);
  flaky.confirmation = {3, 1, 0, 0};
  CHECK(contains(junit({flaky}), "<failure type=\"flaky\""));
  CHECK(counts(junit({with(Verdict::unavailable), with(Verdict::pass)})) == "1 0 0 0");
  CHECK(contains(junit({with(Verdict::pass), with(Verdict::fail)}), "<failure type=\"flaky\""));
}

TEST_CASE("suites are operations and counts add up") {
  Record other = with(Verdict::fault), failed = failing();
  other.op = "softmax", other.case_id = "g1:softmax:n=3";
  const std::string xml = junit({with(Verdict::pass), other, failed});
  CHECK(counts(xml) == "3 1 1 0");
  CHECK(contains(xml, "<testsuite name=\"gemm\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\" time=\"0.012750\""));
  CHECK(contains(xml, "<testsuite name=\"softmax\" tests=\"1\" failures=\"0\" errors=\"1\" skipped=\"0\" time=\"0.000000\""));
  CHECK(contains(xml, "name=\"g1:gemm:m=512,n=512,k=4096,seed=3\" classname=\"gemm.openblas:core=Haswell\" time=\"0.012750\""));
  CHECK(contains(junit({failed}), " timestamp=\"2025-01-02T03:04:05\">"));
  CHECK(contains(xml, "repeated: failed in 3 of 3 runs, 1 of 2 fresh seeds\n"));
}

TEST_CASE("two files under one target name keep names of their own") {
  Record first = with(Verdict::pass), second = first;
  first.library.path = "/opt/1.so", second.library.path = "/opt/2.so";
  const std::string xml = junit({first, second});
  CHECK(contains(xml, "name=\"g1:gemm:m=3,n=3,k=3\""));
  CHECK(contains(xml, "name=\"g1:gemm:m=3,n=3,k=3 on /opt/2.so\""));
}

TEST_CASE("a run that was broken off has an error, one without results is refused") {
  CHECK(counts(junit({with(Verdict::pass)}, false, true)) == "2 0 1 0");
  CHECK_THROWS_AS(junit({}), FileError);
  CHECK_THROWS_AS(junit({}, false, true), FileError);
}

TEST_CASE("texts that would break XML are escaped or replaced") {
  Record r = with(Verdict::fail, "<\"&>");
  r.reason = "]]> \x1b[31m \xff \xEF\xBF\xBE \xED\xA0\x80";
  r.reason += '\0';
  r.reason += "\n</failure>";
  const std::string xml = junit({r});
  CHECK(contains(xml, "type=\"&lt;&quot;&amp;&gt;\""));
  CHECK(contains(xml, "message=\"]]&gt;  [31m \xEF\xBF\xBD \xEF\xBF\xBD \xEF\xBF\xBD"));
  CHECK(contains(xml, "  &lt;/failure&gt;\">"));
  for (const char c : xml) CHECK((c == '\n' || static_cast<unsigned char>(c) >= ' '));
}

TEST_CASE("a time that is no number is zero") {
  for (const double ms : {std::nan(""), HUGE_VAL, -1.0}) {
    Record r = with(Verdict::pass);
    r.execute_ms = ms;
    CHECK(contains(junit({r}), "time=\"0.000000\"/>"));
  }
}
