// SPDX-License-Identifier: Apache-2.0
// report.md and its picture: everything a reader needs, below the limit, whatever the records hold.
#include "report/markdown.hpp"

#include <doctest/doctest.h>

#include <limits>

#include "fixtures.hpp"
#include "report/picture.hpp"

using namespace assay::report;
using namespace assay::report::fixtures;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

Environment environment() {
  Environment e;
  e.assay = {{"version", "0.1.0"}};
  e.system = {{"cpu", "Some CPU"}};
  e.variables = {{"OPENBLAS_CORETYPE", "Haswell"}};
  e.libraries = {failing().library};
  e.command = "run --level quick";
  return e;
}

}  // namespace

TEST_CASE("a failure is reported with everything needed to believe and repeat it") {
  const std::vector<Record> records = {passing(), failing(), not_run(Verdict::unavailable, false)};
  const std::string text = markdown_report(records, environment(), {});
  CHECK(text.compare(0, 9, "# Assay: ") == 0);
  const std::string title = text.substr(0, text.find('\n'));
  CHECK(contains(title, "gemm fp32 is wrong on openblas:core=Haswell in 1 of 2 results (confirmed)"));
  for (const char* part : {"**What to do next:** `assay run",
                           "No GPU was probed",
                           "| gemm | openblas:core=Haswell | fp32 |",
                           "64 of 262144 elements lie outside the bound.",
                           "case: `g1:gemm:m=512,n=512,k=4096,seed=3`",
                           "`/usr/lib/libopenblasp-r0.3.21.so`",
                           "OpenBLAS 0.3.21",
                           "core Haswell",
                           "sha256 `aaaaaaaaaaaaaaaa`",
                           "index 1536",
                           "1.0000001192092896",
                           "`0x3f800001`",

                           "12.5 of the rigorous bound",
                           "first at index 9007199254740993",
                           "66 of 262144",
                           "failed in 3 of 3 runs, 1 of 2 fresh seeds",
                           "3 of 4 repeats",
                           "row 3, columns 448 to 511 of 512 x 512",
                           "--libraries openblas=/usr/lib/libopenblasp-r0.3.21.so --case 'g1:gemm:m=512,n=512,k=4096,seed=3'",
                           "## What did not run",
                           "1 x unavailable gemm fp32 on openblas:core=Zen: This CPU has no AVX-512",
                           "Some CPU",
                           "OPENBLAS\\_CORETYPE: Haswell (S)",
                           "`run --level quick`",
                           "## Reporter's own comment\n"})
    CHECK_MESSAGE(contains(text, part), part);
  const std::string end = "## Reporter's own comment\n\n";
  CHECK(text.substr(text.size() - end.size()) == end);
}

TEST_CASE("a distance in ulp is printed only where there is one") {
  Record r = failing();
  const auto text = [&] { return markdown_report(std::vector<Record>{r}, environment(), {}); };
  CHECK_FALSE(contains(text(), "ulp apart"));
  r.comparison->worst_ulp = 17;
  CHECK(contains(text(), ", 17 ulp apart"));
}

TEST_CASE("a clean run says so and lists no failure") {
  const std::string text = markdown_report(std::vector<Record>{passing()}, environment(), {});
  CHECK(contains(text, "None.\n"));
  CHECK_FALSE(contains(text, "### 1."));
}

TEST_CASE("the same failure in many cases is shown once in full and the rest as a table") {
  std::vector<Record> records;
  for (int i = 0; i < 30; ++i) {
    records.push_back(failing("g1:gemm:m=" + std::to_string(i + 1) + ",n=1,k=1"));
    records.back().comparison->max_over_hard = i == 17 ? 99 : 2;
  }
  const std::string text = markdown_report(records, environment(), {});
  CHECK(occurrences(text, "\n### ") == 1);
  CHECK(contains(text, "- case: `g1:gemm:m=18,n=1,k=1`"));  // the worst one
  CHECK(occurrences(text, "<details>") == occurrences(text, "</details>"));
  for (int i = 0; i < 30; ++i) CHECK(contains(text, "`g1:gemm:m=" + std::to_string(i + 1) + ",n=1,k=1`"));
}

TEST_CASE("the report stays below its limit and well formed however much failed") {
  std::vector<Record> records;
  const std::string junk(5000, '|');
  for (int i = 0; i < 3000; ++i) {
    Record r = failing("g1:gemm:m=" + std::to_string(i) + ",n=1,k=1");
    r.variant = "core=" + std::to_string(i % 150), r.formats = i % 2 == 0 ? "fp32" : "fp64";
    r.reason = junk, r.algorithm = junk, r.arithmetic = junk, r.library.version = junk, r.conditions["x"] = junk;
    if (i % 5 == 0) r.verdict = Verdict::unavailable, r.reason = std::to_string(i) + junk;
    if (i % 7 == 0) r.label = "POLICY", r.verdict = Verdict::pass, r.reason = std::to_string(i) + junk;
    records.push_back(r);
  }
  Environment e = environment();
  for (int i = 0; i < 500; ++i) e.libraries.push_back(failing().library), e.system["k" + std::to_string(i)] = junk;
  e.command = junk;
  const std::string text = markdown_report(records, e, {});
  CHECK(text.size() <= markdown_limit);
  CHECK(text.size() > markdown_limit / 2);
  CHECK(occurrences(text, "<details>") == occurrences(text, "</details>"));
  CHECK(occurrences(text, "```") % 2 == 0);
  CHECK(contains(text, "all are in `run.jsonl`"));
  CHECK(contains(text, "## Reporter's own comment"));
}

TEST_CASE("text from a library cannot break out of the report") {
  Record r = failing();
  r.reason = "bad | <script>alert(1)</script> `code` @someone #12\n# heading";
  r.case_id = "g1:gemm:`x`|y";
  r.library.version = "1\n## injected";
  const std::string text = markdown_report(std::vector<Record>{r}, environment(), {});
  CHECK_FALSE(contains(text, "<script>"));
  CHECK_FALSE(contains(text, "@someone"));
  CHECK_FALSE(contains(text, "#12"));
  CHECK_FALSE(contains(text, "\n# heading"));
  CHECK_FALSE(contains(text, "\n## injected"));
  CHECK_FALSE(contains(text, "`x`"));
}

TEST_CASE("conventions, nondeterminism and mistrusted cases are noted apart from failures") {
  Record policy = passing("g1:gemm:m=1"), random = passing("g1:gemm:m=2"), blind = passing("g1:gemm:m=3");
  policy.label = "POLICY", policy.reason = "C is read at beta = 0.";
  random.label = "NONDETERMINISTIC", random.verdict = Verdict::suspect, random.reason = "Repeats differ.";
  blind.label = "MISTRUSTED", blind.verdict = Verdict::suspect, blind.reason = "The bound exceeds the signal.";
  const std::string text = markdown_report(std::vector<Record>{policy, random, blind}, environment(), {});
  const std::string notes = text.substr(text.find("## Notes"));
  CHECK(contains(notes, "1 x POLICY, pass gemm fp32 on openblas: C is read at beta = 0. For example `g1:gemm:m=1`."));
  CHECK(contains(text, "### 1. gemm fp32 on openblas: suspect NONDETERMINISTIC (1 case)"));
  CHECK(contains(text, "assay run --target openblas --case 'g1:gemm:m=2'"));
  CHECK(contains(notes, "1 x MISTRUSTED, suspect"));
}

TEST_CASE("the report says what a profile found missing or otherwise, and nothing where it found nothing") {
  RunFacts facts;
  const std::vector<Record> records = {passing()};
  CHECK_FALSE(contains(markdown_report(records, {}, facts), "## Required, promised, waived"));
  facts.notes = {"the profile promises system.kernel = '5*', this run has '6.1.0'"};
  CHECK(contains(markdown_report(records, {}, facts), "- the profile promises system.kernel = '5\\*', this run has '6.1.0'\n"));
}

TEST_CASE("the report holds no home path") {
  const ScopedVariable home("HOME", "/opt/zaphod"), user("USER", "zaphod");
  Record r = failing();
  r.library.path = "/opt/zaphod/libx.so", r.reason = "zaphod's library is wrong";
  Environment e = environment();
  e.command = "run --out /opt/zaphod/runs";
  RunFacts facts;
  facts.folder = "/opt/zaphod/runs", facts.interrupted = true;
  const std::string text =
      markdown_report(std::vector<Record>{r}, e, facts) + markdown_report(std::vector<Record>{passing()}, e, facts);
  CHECK_FALSE(contains(text, "zaphod"));
  CHECK(contains(text, "openblas=~/libx.so"));
}

TEST_CASE("the picture shows the rows and columns that are bad") {
  Record r = failing();
  const std::string drawn = picture(r);
  CHECK(drawn.substr(0, 65) == std::string(56, '.') + std::string(8, '#') + "\n");  // row 3 of 512 falls into line 0 of 16
  CHECK(occurrences(drawn, "\n") == 17);
  CHECK(contains(drawn, "one character = 32 x 8 elements"));
  CHECK(contains(drawn, "the first 64 of 66 bad elements"));

  r.output_dims = {2, 3, 4}, r.bad_indices = {12 + 4 + 1}, r.comparison->bad = 1, r.comparison->over_iid = 0;
  CHECK(picture(r).substr(0, 15) == "....\n.#..\n....\n");
  CHECK(bad_region(r) == "batch entry 1, row 1, column 1 of 3 x 4, batch 2");
}

TEST_CASE("a picture of impossible indices or shapes is empty or safe") {
  Record r = failing();
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  r.bad_indices = {-1, huge, 1 << 20};
  CHECK(picture(r).empty());
  for (const std::vector<std::int64_t>& dims : {std::vector<std::int64_t>{}, {0, 4}, {-3, 4}, {huge, huge}, {huge, 2}}) {
    r.output_dims = dims, r.bad_indices = {0};
    CHECK(picture(r).empty());
  }
  r.output_dims = {1, huge}, r.bad_indices = {huge - 1};
  CHECK(contains(picture(r), "#\n"));
  r.output_dims = {7}, r.bad_indices = {6};
  CHECK(picture(r).substr(0, 8) == "......#\n");
}
