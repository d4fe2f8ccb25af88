// SPDX-License-Identifier: Apache-2.0
// The terminal table: a glyph and a word in every cell, with and without colour and UTF-8.
#include "report/terminal.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>

#include "fixtures.hpp"

using namespace assay::report;
using namespace assay::report::fixtures;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::vector<Record> mixed() {
  std::vector<Record> records(312, passing());
  for (int i = 0; i < 3; ++i) records[static_cast<std::size_t>(i)].verdict = Verdict::fail;
  Record fp64 = passing();
  fp64.formats = "fp64";
  records.insert(records.end(), 5, fp64);
  Record fault = failing();
  fault.verdict = Verdict::fault;
  records.push_back(fault);
  records.push_back(not_run(Verdict::unavailable, true));
  return records;
}

}  // namespace

TEST_CASE("the plain table is what a log shows") {
  CHECK(terminal_table(mixed(), {}) ==
        "gemm                   fp32          fp64\n"
        "openblas               x fail 3/312  + pass 5\n"
        "openblas:core=Haswell  ! fault 1/1\n"
        "- unavailable: openblas:core=Zen\n");
}

TEST_CASE("UTF-8 glyphs keep the columns aligned") {
  const std::string text = terminal_table(mixed(), {false, true, 80});
  CHECK(contains(text, "openblas               \u2717 fail 3/312  \u2713 pass 5\n"));
  CHECK(contains(text, "\u2013 unavailable: openblas:core=Zen\n"));
  CHECK(contains(text, "gemm                   fp32          fp64\n"));
}

TEST_CASE("colour is added around glyph and word, never instead of them") {
  const std::string plain = terminal_table(mixed(), {false, true, 80});
  std::string colored = terminal_table(mixed(), {true, true, 80});
  CHECK(contains(colored, "\x1b[31;1m\u2717 fail 3/312\x1b[0m"));
  for (std::size_t at; (at = colored.find('\x1b')) != std::string::npos;) colored.erase(at, colored.find('m', at) - at + 1);
  CHECK(colored == plain);
}

TEST_CASE("without colour and UTF-8 every byte is printable ASCII") {
  const std::string text = terminal_table(mixed(), {}) + terminal_failures(mixed(), {});
  CHECK(std::all_of(text.begin(), text.end(), [](char c) { return c == '\n' || (c >= ' ' && c < 0x7f); }));
}

TEST_CASE("what did not run is shown beside what passed") {
  std::vector<Record> records = {passing(), not_run(Verdict::unavailable, true), not_run(Verdict::unsupported, true)};
  for (Record& r : records) r.variant = "";
  CHECK(contains(terminal_table(records, {}), "openblas  + pass 1 - unavailable 1 - unsupported 1\n"));
}

TEST_CASE("a flaky result is neither pass nor fail") {
  Record r = failing();
  r.confirmation = {4, 1, 0, 0};
  CHECK(contains(terminal_table(std::vector<Record>{r}, {}), "~ flaky 1/1"));
}

TEST_CASE("a narrow terminal gets a list that says the same") {
  const std::string text = terminal_table(mixed(), {false, false, 40});
  CHECK(contains(text, "gemm\n  openblas fp32 x fail 3/312;\n      fp64 + pass 5\n  openblas:core=Haswell fp32 ! fault 1/1\n"));
  CHECK(contains(text, "- unavailable: openblas:core=Zen\n"));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 40);
}

TEST_CASE("control characters in names do not reach the terminal") {
  Record r = failing();
  r.target = "x\x1b[2J", r.reason = "a\nb\x07", r.op = "g\tm";
  const std::string text = terminal_table(std::vector<Record>{r}, {}) + terminal_failures(std::vector<Record>{r}, {});
  for (const char* control : {"\x1b", "\x07", "\t", "a\nb"}) CHECK_FALSE(contains(text, control));
}

TEST_CASE("failures are listed with reason and reproducer, the surplus counted") {
  std::vector<Record> records;
  for (int i = 0; i < 7; ++i) records.push_back(failing("g1:gemm:m=" + std::to_string(i)));
  for (int i = 0; i < 6; ++i) records[static_cast<std::size_t>(i)].variant = "core=" + std::to_string(i);
  records[6].variant = "core=0";
  const std::string text = terminal_failures(records, {}, 5);
  CHECK(contains(text, "x fail WRONG gemm fp32 on openblas:core=0, failed in 3 of 3 runs, 1 of 2 fresh seeds\n"));
  CHECK(contains(text, "    64 of 262144 elements lie outside the bound.\n"));
  CHECK(contains(text, "--case 'g1:gemm:m=4'\n"));
  CHECK_FALSE(contains(text, "g1:gemm:m=5"));
  CHECK(contains(text, "and 2 more, see report.md\n"));
  CHECK(terminal_failures(std::vector<Record>{passing()}, {}).empty());
}

TEST_CASE("UTF-8 is used when the locale says so, the first variable that is set deciding") {
  const ScopedVariable ctype("LC_CTYPE", nullptr), lang("LANG", "en_GB.UTF-8");
  {
    const ScopedVariable all("LC_ALL", nullptr);
    CHECK(terminal_options(-1).unicode);
  }
  {
    const ScopedVariable all("LC_ALL", "C");
    CHECK_FALSE(terminal_options(-1).unicode);
  }
  CHECK_FALSE(terminal_options(-1).color);  // not a terminal
}
