// SPDX-License-Identifier: Apache-2.0
// Known defects: the reviewed list against the suite, conditions, ranges, and that a match changes no verdict.
#include "probes/diagnose/known.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "probes/ops/op.hpp"
#include "report/summary.hpp"

using namespace assay;

namespace {

const std::vector<KnownDefect>& shipped() {
  static const std::vector<KnownDefect> all = read_known_defects(embedded_known_defects(), "known_defects.json");
  return all;
}

bool holds(std::string_view when, std::string_view id) {
  return Predicate::parse(when).holds(facts_of(parse_case(id, find_op(case_op(id)).grammar)));
}

std::string refusal(std::string_view text) {
  try {
    read_known_defects(text, "list.json");
  } catch (const CaseError& e) {
    return e.what();
  }
  return "";
}

std::string refused_condition(std::string_view text) {
  try {
    Predicate::parse(text);
  } catch (const CaseError& e) {
    return e.what();
  }
  return "";
}

/// An entry with these fields in place of, or besides, those of a good one.
std::string entry(std::string_view more = "", std::string_view without = "") {
  std::string out = "[{";
  for (const auto& [key, value] :
       std::initializer_list<std::pair<std::string_view, std::string_view>>{{"id", "a-1"},
                                                                            {"component", "onednn"},
                                                                            {"from", "2.6"},
                                                                            {"fixed_in", "3.0.1"},
                                                                            {"when", "op=gemm m=1"},
                                                                            {"case", "g1:gemm:m=1,n=2,k=3"},
                                                                            {"what", "wrong"},
                                                                            {"source", "https://example.org/1"},
                                                                            {"confidence", "vendor"},
                                                                            {"reviewed", "2026-12-01"}})
    if (key != without) out += "\"" + std::string(key) + "\": \"" + std::string(value) + "\", ";
  return out.substr(0, out.size() - 2) + (more.empty() ? "" : ", ") + std::string(more) + "}]";
}

KnownDefect one(std::string_view more = "", std::string_view without = "") {
  return read_known_defects(entry(more, without), "list.json").front();
}

report::Record failing(std::string_view id) {
  report::Record r;
  r.case_id = id, r.op = case_op(id), r.target = "onednn", r.verdict = report::Verdict::fail, r.label = "WRONG";
  return r;
}

}  // namespace

TEST_CASE("every entry of the shipped list names a case of the suite that meets its own condition") {
  REQUIRE(shipped().size() >= 70);
  std::set<std::string> listed;
  for (const Op& op : all_ops())
    for (const ListedCase& c : read_case_list(op.cases, "deep", std::string(op.name))) listed.insert(canonical(c.id));
  int with_case = 0;
  for (const KnownDefect& d : shipped()) {
    CAPTURE(d.id);
    if (d.case_id.empty()) continue;
    ++with_case;
    CHECK(listed.contains(d.case_id));
    Facts facts = facts_of(parse_case(d.case_id, find_op(case_op(d.case_id)).grammar));
    // What only a result can tell is taken from the condition itself.
    for (const Predicate::Clause& clause : d.predicate.clauses())
      for (const Predicate::Term& t : clause)
        if (t.key == "core" || t.key == "algorithm") facts[t.key] = t.values.front();
    CHECK(d.predicate.holds(facts));
  }
  CHECK(with_case >= 35);
  CHECK_FALSE(listed.contains("g1:gemm:m=1,n=2,k=3,seed=77"));
}

TEST_CASE("conditions read as they are written") {
  CHECK(holds("op=gemm m=1 bias=1 or op=gemm n=1 bias=1", "g1:gemm:m=5,n=1,k=3,order=row,bias=1"));
  CHECK_FALSE(holds("op=gemm m=1 bias=1 or op=gemm n=1 bias=1", "g1:gemm:m=5,n=1,k=3"));
  CHECK_FALSE(holds("op=gemm m=1", "g1:softmax:rows=1,n=1"));
  CHECK(holds("op=attention skv%64!=0", "g1:attention:sq=65"));  // skv=0 is as many as sq
  CHECK_FALSE(holds("op=attention skv%64!=0", "g1:attention:sq=64"));
  CHECK(holds("op=attention hq!=@hkv", "g1:attention:hq=4,hkv=2,sq=1"));
  CHECK_FALSE(holds("op=attention hq!=@hkv", "g1:attention:hq=4,sq=1"));
  CHECK(holds("op=softmax out=bf16|f16", "g1:softmax:rows=1,n=1,in=f16"));  // out=same is as in
  CHECK(holds("op=conv1d padl!=@padr", "g1:conv1d:cin=1,cout=1,l=5,k=2,padr=1"));
  CHECK(holds("op=gemm k>=3 k<=3 k>2 k<4 alpha=-0.5", "g1:gemm:m=1,n=1,k=3,alpha=-0.5"));
  CHECK_FALSE(holds("op=gemm k>3", "g1:gemm:m=1,n=1,k=3"));
  CHECK_FALSE(holds("op=gemm core=Haswell", "g1:gemm:m=1,n=1,k=3"));
  Facts facts = facts_of(parse_case("g1:gemm:m=1,n=1,k=3", find_op("gemm").grammar));
  facts["algorithm"] = "id=66 tile=20";
  CHECK(Predicate::parse("op=gemm algorithm~id=66").holds(facts));
  facts["algorithm"] = "id=660 tile=20";
  CHECK_FALSE(Predicate::parse("op=gemm algorithm~id=66").holds(facts));
  CHECK_FALSE(Predicate().holds(facts));
}

TEST_CASE("a condition that cannot be read, or would hold for nothing, is refused in one sentence") {
  for (const char* bad : {"",
                          " ",
                          "m=1",
                          "op=gemm  m=1",
                          "op=gemm m",
                          "op=gemm =1",
                          "op=gemm m=",
                          "op=gemm m=one",
                          "op=gemm m!1",
                          "op=gemm kk=1",
                          "op=gemm in=f99",
                          "op=gemm in<f32",
                          "op=gemm m%0=1",
                          "op=gemm m%x=1",
                          "op=gemm in%2=1",
                          "op=gemm m<1|2",
                          "op=gemm m=@in",
                          "op=gemm m=@",
                          "op=gemm m~1",
                          "op=nothing m=1",
                          "op=gemm|conv1d m=1",
                          "op=gemm op=gemm",
                          "op=gemm m=1 or",
                          "op=gemm m=1 or n=1",
                          "op=gemm m=1\n"}) {
    CAPTURE(bad);
    const std::string said = refused_condition(bad);
    CHECK(said.size() > 20);
    CHECK(said.find('\n') == std::string::npos);
  }
}

TEST_CASE("an entry that cannot be used is refused in one sentence that names it") {
  CHECK(refusal(entry()) == "");
  for (const std::string& bad : {entry("", "id"),
                                 entry("", "component"),
                                 entry("", "what"),
                                 entry("", "source"),
                                 entry("", "confidence"),
                                 entry("", "reviewed"),
                                 entry("", "case"),
                                 entry("", "when"),
                                 entry(R"("no_case": "none")"),
                                 entry(R"("typo": "x")"),
                                 entry("\"t\\u0007o\": \"x\""),
                                 entry(R"("sm": ["9"])"),
                                 entry(R"("sm": "9.0")"),
                                 entry(R"("also_fixed": ["3.0"])"),
                                 entry(R"("last": "x")"),
                                 entry(R"("last": "2.5")"),
                                 entry(R"("component": "mkl")"),
                                 entry(R"("case": "g1:gemm:n=2,m=1,k=3")"),
                                 entry(R"("case": "g1:gemm:m=1")"),
                                 entry(R"("confidence": "perhaps")"),
                                 entry(R"("source": "somewhere")"),
                                 entry(R"("reviewed": "today")"),
                                 entry(R"("what": "two\nlines")"),
                                 entry(R"("id": 7)"),
                                 std::string("[7]"),
                                 std::string("{}"),
                                 std::string("[{]"),
                                 std::string(""),
                                 std::string("[1e999]"),
                                 std::string(100, '['),
                                 entry().substr(0, entry().size() - 1) + "," + entry().substr(1)}) {
    CAPTURE(bad);
    const std::string said = refusal(bad);
    CHECK(said.starts_with("list.json"));
    CHECK(said.find('\n') == std::string::npos);
  }
}

TEST_CASE("ranges end where they say") {
  const auto inside = [](const KnownDefect& d, const char* version, const char* sm = "") {
    return in_range(d, {.component = "onednn", .version = version, .sm = sm});
  };
  const KnownDefect until = one();
  CHECK_FALSE(inside(until, "2.5.9"));
  CHECK(inside(until, "2.6"));
  CHECK(inside(until, "2.10"));
  CHECK(inside(until, "3.0"));
  CHECK_FALSE(inside(until, "3.0.1"));
  CHECK_FALSE(inside(until, ""));
  CHECK_FALSE(inside(until, "unknown"));
  const KnownDefect last = one(R"("last": "2.9")");
  CHECK(inside(last, "2.9.7"));
  CHECK_FALSE(inside(last, "2.10.0"));
  const KnownDefect patched = one(R"("also_fixed": ["2.8.5"])");
  CHECK(inside(patched, "2.8.4"));
  CHECK_FALSE(inside(patched, "2.8.6"));
  CHECK(inside(patched, "2.9.0"));
  const KnownDefect devices = one(R"("sm": ["9.0", "10.x"])");
  CHECK(inside(devices, "2.6", "10.3"));
  CHECK(inside(devices, "2.6", "9.0"));
  CHECK_FALSE(inside(devices, "2.6", "1.0"));
  CHECK_FALSE(inside(devices, "2.6", "9.1"));
  CHECK_FALSE(inside(devices, "2.6"));
  CHECK(compare_versions("12.9", "12.10") < 0);
  CHECK(compare_versions("13", "13.0.0") == 0);
  CHECK_THROWS_AS(compare_versions("13.", "13"), CaseError);
}

TEST_CASE("a library's own words give component and version") {
  const LoadedLibrary lt = loaded_library("cuBLASLt 13.1.0 for CUDA 13.0", "120");
  CHECK(lt.component == "cublaslt");
  CHECK(lt.version == "13.1.0");
  CHECK(lt.sm == "12.0");
  CHECK(loaded_library("oneDNN 2.6.3").version == "2.6.3");
  CHECK(loaded_library("MKL").version == "");
  CHECK(loaded_library("").version == "");
  CHECK(sm_text("sm_103a") == "10.3");
  CHECK(sm_text("9.0") == "9.0");
  CHECK(sm_text("x") == "");
  KnownDefect d = one(R"("component": "cublasLt")", "component");
  CHECK(in_range(d, {.component = "cublas", .version = "2.7", .sm = {}}));  // which hands products to it
  CHECK_FALSE(in_range(d, {.component = "cudnn", .version = "2.7", .sm = {}}));
}

TEST_CASE("a match explains a failure, and changes neither its verdict nor the exit code") {
  const std::vector<KnownDefect> list = {one()};
  const report::Record plain = failing("g1:gemm:m=1,n=2,k=3");
  CHECK(known_defect_of(list, plain, "oneDNN 2.6.3") == "a-1: known, fixed in 3.0.1 (https://example.org/1)");
  CHECK(known_defect_of(list, plain, "oneDNN 3.0.1") == "");
  CHECK(known_defect_of(list, plain, "") == "");
  CHECK(known_defect_of(list, failing("g1:gemm:m=2,n=2,k=3"), "oneDNN 2.6.3") == "");
  report::Record passed = plain;
  passed.verdict = report::Verdict::pass, passed.label = "";
  CHECK(known_defect_of(list, passed, "oneDNN 2.6.3") == "");
  report::Record explained = plain;
  explained.known_defect = known_defect_of(list, plain, "oneDNN 2.6.3");
  REQUIRE(!explained.known_defect.empty());
  const report::Record a[] = {plain}, b[] = {explained};
  CHECK(report::exit_code(report::summarise(a), {}) == 1);
  CHECK(report::exit_code(report::summarise(b), {}) == 1);
  CHECK(report::standing(explained) == report::Standing::fail);
}

TEST_CASE("one line per entry says which library is inside which range, and which case meets it") {
  report::LibraryIdentity dnn;
  dnn.path = "/usr/lib/libdnnl.so.2.6", dnn.version = "oneDNN 2.6.3";
  const std::vector<std::string> lines = notices({one()}, {dnn, dnn}, "");
  REQUIRE(lines.size() == 1);
  CHECK(lines.front() == "your oneDNN 2.6.3 is inside the range of a-1 (wrong; fixed in 3.0.1), see case g1:gemm:m=1,n=2,k=3");
  dnn.version = "oneDNN 9.9.9";
  CHECK(notices({one()}, {dnn}, "").empty());
}
