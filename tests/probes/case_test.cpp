// SPDX-License-Identifier: Apache-2.0
// The case id and case lists: round trips, canonical form, and one clear sentence for every kind of bad input.

#include "probes/ops/case.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>

#include "reference/inputs.hpp"

using namespace assay;

namespace {

const std::vector<Parameter> grammar = {
    {"m", ParameterKind::integer, "", 0, 1 << 20, {}, "rows of C"},
    {"n", ParameterKind::integer, "", 0, 1 << 20, {}, "columns of C"},
    {"lda", ParameterKind::integer, "0", 0, 1 << 20, {}, "leading dimension of A"},
    {"alpha", ParameterKind::real, "1", -1e30, 1e30, {}, "scale of the product"},
    {"ta", ParameterKind::word, "n", 0, 0, {"n", "t"}, "transpose A"},
};

std::string canonical_text(std::string_view id) {
  return to_string(parse_case(id, grammar), grammar);
}

/// The message of the CaseError that `act` must throw.
std::string message(const std::function<void()>& act) {
  try {
    act();
  } catch (const CaseError& error) {
    return error.what();
  }
  return "(no error)";
}
std::string parse_message(std::string_view id) {
  return message([&] { parse_case(id, grammar); });
}
std::string list_message(std::string_view text) {
  return message([&] { read_case_list(text, "", "my.cases"); });
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

std::vector<std::string> ids(const std::vector<ListedCase>& cases) {
  std::vector<std::string> out;
  for (const ListedCase& listed : cases) out.push_back(listed.id);
  return out;
}

}  // namespace

TEST_CASE("a case id round-trips to its canonical form, in grammar order with defaults left out") {
  CHECK(canonical_text("g1:gemm:m=8,n=9") == "g1:gemm:m=8,n=9");
  CHECK(canonical_text("g1:gemm:seed=3,fill=ones,ta=t,n=9,m=8") == "g1:gemm:m=8,n=9,ta=t,fill=ones,seed=3");
  CHECK(canonical_text("g1:gemm:m=8,n=9,lda=0,alpha=1.0,ta=n,fill=normal,seed=1,off=0,place=start,repeat=2,callers=1") ==
        "g1:gemm:m=8,n=9");
  const std::string full =
      "g1:gemm:m=0,n=1048576,lda=16,alpha=-0.5,ta=t,fill=wide,seed=9007199254740992,off=64,place=end,repeat=1000,callers=16";
  CHECK(canonical_text(full) == full);
}

TEST_CASE("numbers have one spelling, the shortest that round-trips") {
  CHECK(canonical_text("g1:gemm:m=007,n=-0") == "g1:gemm:m=7,n=0");
  CHECK(canonical_text("g1:gemm:m=1,n=1,alpha=0.50") == "g1:gemm:m=1,n=1,alpha=0.5");
  CHECK(canonical_text("g1:gemm:m=1,n=1,alpha=1e0") == "g1:gemm:m=1,n=1");
  CHECK(canonical_text("g1:gemm:m=1,n=1,alpha=0.1000000000000000055511151231257827") == "g1:gemm:m=1,n=1,alpha=0.1");
  CHECK(canonical_text("g1:gemm:m=1,n=1,alpha=-0.0") == "g1:gemm:m=1,n=1,alpha=-0");
  for (const char* text : {"0.1", "-2.5", "5e-324", "1e+29", "0.333333333333333315"}) {
    const std::string once = canonical_text(std::string("g1:gemm:m=1,n=1,alpha=") + text);
    CHECK(canonical_text(once) == once);
    CHECK(parse_case(once, grammar).real("alpha") == std::strtod(text, nullptr));
  }
}

TEST_CASE("a parsed case gives back its values and takes new ones") {
  CaseId id = parse_case("g1:gemm:m=8,n=9,alpha=0.25,place=end", grammar);
  CHECK(id.op == "gemm");
  CHECK(id.integer("m") == 8);
  CHECK(id.real("alpha") == 0.25);
  CHECK(id.word("place") == "end");
  CHECK(id.integer("seed") == 1);
  CHECK(id.integer("repeat") == 2);
  CHECK(id.values.size() == grammar.size() + common_parameters().size());
  CHECK(id.values.front().first == "m");
  CHECK(id.values.back().first == "queue");
  id.set("seed", "007");
  CHECK(to_string(id, grammar) == "g1:gemm:m=8,n=9,alpha=0.25,seed=7,place=end");
  CHECK(has(message([&] { id.set("sed", "1"); }), "no key 'sed'"));
  CHECK(has(message([&] { (void)id.word("sed"); }), "no key 'sed'"));
  CHECK(has(message([&] { (void)id.integer("place"); }), "expected an integer"));
  id.set("seed", "-1");
  CHECK(has(message([&] { (void)to_string(id, grammar); }), "from 0 to 9007199254740992"));
}

TEST_CASE("a grammar that already holds the common keys reads the same ids") {
  std::vector<Parameter> all = grammar;
  all.insert(all.end(), common_parameters().begin(), common_parameters().end());
  const CaseId short_one = parse_case("g1:gemm:m=8,n=9,seed=4", grammar), long_one = parse_case("g1:gemm:m=8,n=9,seed=4", all);
  CHECK(short_one.values == long_one.values);
  CHECK(to_string(long_one, all) == "g1:gemm:m=8,n=9,seed=4");
}

TEST_CASE("every input family is a word of fill") {
  REQUIRE(!all_families().empty());
  for (Family family : all_families()) {
    const std::string id = "g1:gemm:m=1,n=1,fill=" + std::string(name(family));
    CHECK(parse_case(id, grammar).word("fill") == name(family));
  }
}

TEST_CASE("a bad value names the key, the value and the range") {
  CHECK(parse_message("g1:gemm:m=eight,n=9") ==
        "case id 'g1:gemm:m=eight,n=9': key m has the value 'eight', expected an integer from 0 to 1048576");
  for (const char* bad : {"-1", "1048577", "99999999999999999999", "1.5", "1e3", "0x10", "+5", ""}) {
    const std::string said = parse_message(std::string("g1:gemm:m=") + bad + ",n=9");
    CHECK(has(said, std::string("key m has the value '") + bad + "'"));
    CHECK(has(said, "an integer from 0 to 1048576"));
  }
  for (const char* bad : {"nan", "inf", "-inf", "NAN", "infinity", "1e31", "-1e31", "1e999", "0x1p3", "1..2", ""}) {
    const std::string said = parse_message(std::string("g1:gemm:m=1,n=1,alpha=") + bad);
    CHECK(has(said, std::string("key alpha has the value '") + bad + "'"));
    CHECK(has(said, "a decimal number from -1e+30 to 1e+30"));
  }
  CHECK(has(parse_message("g1:gemm:m=1,n=1,seed=9007199254740993"), "from 0 to 9007199254740992"));
  CHECK(has(parse_message("g1:gemm:m=1,n=1,off=65"), "key off has the value '65', expected an integer from 0 to 64"));
  CHECK(has(parse_message("g1:gemm:m=1,n=1,repeat=0"), "from 1 to 1000"));
  CHECK(has(parse_message("g1:gemm:m=1,n=1,callers=17"), "from 1 to 16"));
}

TEST_CASE("an unknown key or word names the nearest known one") {
  const std::string key = parse_message("g1:gemm:m=1,n=1,apha=2");
  CHECK(has(key, "key 'apha' with value '2' is unknown"));
  CHECK(has(key, "nearest known one is 'alpha'"));
  CHECK(has(parse_message("g1:gemm:m=1,n=1,M=2"), "key 'M' with value '2' is unknown"));
  const std::string word = parse_message("g1:gemm:m=1,n=1,fill=nrmal");
  CHECK(has(word, "key fill has the value 'nrmal'"));
  CHECK(has(word, "nearest known one is 'normal'"));
}

TEST_CASE("missing, doubled and shapeless items are each refused in one sentence") {
  CHECK(has(parse_message("g1:gemm:m=1"), "required key n (columns of C) is missing, expected n=an integer from 0 to 1048576"));
  CHECK(has(parse_message("g1:gemm:"), "required key m"));
  CHECK(has(parse_message("g1:gemm:m=1,n=2,m=3"), "key m is given twice, as '1' and as '3'"));
  CHECK(has(parse_message("g1:gemm:m=1,n=2,seed=1,seed=1"), "key seed is given twice"));
  CHECK(has(parse_message("g1:gemm:m=1,,n=2"), "'' has no '='"));
  CHECK(has(parse_message("g1:gemm:m=1,n"), "'n' has no '='"));
  CHECK(has(parse_message("g1:gemm:m=1,n=2,"), "ends in ','"));
  CHECK(has(parse_message("g1:gemm:m=1,n=2=3"), "key n has the value '2=3'"));
}

TEST_CASE("the grammar version and the op name are checked before anything else") {
  CHECK(case_op("g1:gemm:m=1") == "gemm");
  CHECK(case_op("g1:layer_norm2:") == "layer_norm2");
  for (const char* newer : {"g2:gemm:m=1", "g10:gemm", "g2", "g99999999999999999999:gemm:"}) {
    CHECK(has(message([&] { case_op(newer); }), "was written for a newer Assay"));
  }
  for (const char* bad : {"", "gemm", "g", "g:", "g0:gemm:", "g01:gemm:", "G1:gemm:", "1:gemm:", "g1x:gemm:m=1"}) {
    CHECK(has(message([&] { case_op(bad); }), "grammar version 'g1:'"));
  }
  CHECK(has(message([] { case_op("g1"); }), "g1:OP:key=value"));
  CHECK(has(message([] { case_op("g1:gemm"); }), "second ':'"));
  CHECK(has(message([] { case_op("g1::m=1"); }), "op name"));
  CHECK(has(message([] { case_op("g1:Gemm:m=1"); }), "op name"));
}

TEST_CASE("over-long ids and odd bytes are refused and the message stays short and printable") {
  const std::string longest = "g1:gemm:m=" + std::string(4096 - 10, '0');
  CHECK(has(parse_message(longest), "required key n"));
  CHECK(has(parse_message(longest + "0"), "4097 characters long, expected at most 4096"));
  CHECK(has(parse_message("g1:gemm:m=1,n=2 "), "byte 0x20 at position 16"));
  for (char odd : {'\0', '\n', '\t', '\x1b', '\x7f', '\xff', '\xc3'}) {
    std::string id = "g1:gemm:m=1,n=2";
    id[10] = odd;
    const std::string said = parse_message(id);
    CHECK(has(said, "at position 11"));
    CHECK(said.size() < 400);
    CHECK(std::all_of(said.begin(), said.end(), [](char c) { return c >= ' ' && c < '\x7f'; }));
  }
  CHECK(parse_message("g1:gemm:" + std::string(3000, 'x') + "=1").size() < 500);
}

TEST_CASE("a case list has sections, comments, tags and brace sets, first set slowest") {
  const std::string_view text =
      "# header\n"
      "g1:gemm:m=0,n=7\n"
      "[quick]\r\n"
      "g1:gemm:m={1, 2},n={3,4} | T01 tiny  # why\r\n"
      "[standard]\n"
      "  g1:gemm:m=5,n=6|T02\n"
      "\n"
      "[deep]\n"
      "g1:gemm:m=9,n=9";
  const std::vector<std::string> quick = {"g1:gemm:m=0,n=7", "g1:gemm:m=1,n=3", "g1:gemm:m=1,n=4", "g1:gemm:m=2,n=3",
                                          "g1:gemm:m=2,n=4"};
  std::vector<std::string> standard = quick, deep;
  standard.push_back("g1:gemm:m=5,n=6");
  deep = standard;
  deep.push_back("g1:gemm:m=9,n=9");
  CHECK(ids(read_case_list(text, "quick", "x")) == quick);
  CHECK(ids(read_case_list(text, "standard", "x")) == standard);
  CHECK(ids(read_case_list(text, "deep", "x")) == deep);
  CHECK(ids(read_case_list(text, "", "x")) == deep);
  CHECK(read_case_list(text, "quick", "x")[1].tags == "T01 tiny");
  CHECK(read_case_list(text, "standard", "x").back().tags == "T02");
  CHECK(read_case_list("", "quick", "x").empty());
}

TEST_CASE("a bad line of a case list names the file and the line, at whatever level it stands") {
  CHECK(list_message("g1:a:m=1\ng1:a:m={1,2\n") == "my.cases line 2: a '{' is not closed: add the missing '}'");
  CHECK(has(list_message("g1:a:m=1}"), "line 1: a '}' has no '{' before it"));
  CHECK(has(list_message("g1:a:m={1,{2}}"), "inside another"));
  CHECK(has(list_message("g1:a:m={}"), "empty entry"));
  CHECK(has(list_message("g1:a:m={1,}"), "empty entry"));
  CHECK(has(list_message("[quik]"), "level 'quik' is unknown; the nearest known one is 'quick'"));
  CHECK(has(list_message("[quick"), "no closing ']'"));
  CHECK(has(list_message("hello"), "grammar version 'g1:'"));
  CHECK(has(list_message("g2:gemm:m=1"), "newer Assay"));
  CHECK(has(list_message("g1:gemm:m=1 n=2"), "byte 0x20"));
  CHECK(has(list_message("g1:gemm:m=1 | \x1b[2J"), "not printable"));
  CHECK(has(list_message("g1:gemm:m=" + std::string(4096, '1')), "split it"));
  CHECK(has(message([] { read_case_list("[deep]\nnonsense\n", "quick", "f"); }), "f line 2"));
  CHECK(has(message([] { read_case_list("", "fast", "f"); }), "level 'fast' is unknown"));
}

TEST_CASE("a brace set may hold ranges") {
  std::vector<std::string> ids;
  for (const ListedCase& c : read_case_list("g1:a:m={1,3..5,9..9},n={0..1}", "", "x")) ids.push_back(c.id);
  CHECK(ids == std::vector<std::string>{"g1:a:m=1,n=0", "g1:a:m=1,n=1", "g1:a:m=3,n=0", "g1:a:m=3,n=1", "g1:a:m=4,n=0",
                                        "g1:a:m=4,n=1", "g1:a:m=5,n=0", "g1:a:m=5,n=1", "g1:a:m=9,n=0", "g1:a:m=9,n=1"});
  CHECK(has(list_message("g1:a:m={5..3}"), "5..3"));
  CHECK(has(list_message("g1:a:m={1..9999999}"), "1..64"));
  CHECK(has(list_message("g1:a:m={1..999999,1..999999}"), "more than 1000000 cases"));
  CHECK(read_case_list("g1:a:m={a..c}", "", "x").front().id == "g1:a:m=a..c");
}

TEST_CASE("brace sets are capped at a million cases per list, before memory is taken") {
  const std::string ten = "{0,1,2,3,4,5,6,7,8,9}";
  std::string thousand = "g1:a:" + ten + ten + ten;
  CHECK(read_case_list(thousand, "", "x").size() == 1000);
  std::string huge = "g1:a:";
  for (int i = 0; i < 100; ++i) huge += ten;
  CHECK(has(list_message(huge), "line 1: the brace sets expand to more than 1000000 cases"));
  std::string wide = "g1:a:" + ten + ten + ten + ten + ten + std::string(3500, 'x');
  CHECK(has(list_message(wide), "256 MiB"));
}
