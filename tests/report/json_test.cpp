// SPDX-License-Identifier: Apache-2.0
// Records and environments as JSON: nothing is lost on the way, nothing dangerous comes back.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "fixtures.hpp"
#include "report/jsonl.hpp"

using namespace assay::report;
using namespace assay::report::fixtures;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, "the record holds no " << from);
  return text.replace(at, from.size(), to);
}

std::string refusal(const std::string& line) {
  try {
    record_from_json(line);
  } catch (const FileError& e) {
    return e.what();
  }
  return "accepted";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a record comes back from JSON with every field as it was") {
  const Record r = failing();
  const std::string line = to_json(r);
  CHECK(line.find('\n') == std::string::npos);
  const Record back = record_from_json(line);
  CHECK(to_json(back) == line);
  // to_json == to_json would also hold if a field were left out of both directions, so each member is named once.
  CHECK(back.case_id == r.case_id);
  CHECK(back.op == r.op);
  CHECK(back.formats == r.formats);
  CHECK(back.tags == r.tags);
  CHECK(back.target == r.target);
  CHECK(back.variant == r.variant);
  CHECK(back.required == r.required);
  CHECK(back.verdict == r.verdict);
  CHECK(back.label == r.label);
  CHECK(back.reason == r.reason);
  CHECK(back.library.path == r.library.path);
  CHECK(back.library.soname == r.library.soname);
  CHECK(back.library.build_id == r.library.build_id);
  CHECK(back.library.sha256 == r.library.sha256);
  CHECK(back.library.version == r.library.version);
  CHECK(back.library.core == r.library.core);
  CHECK(back.library.size_bytes == r.library.size_bytes);
  CHECK(back.algorithm == r.algorithm);
  CHECK(back.arithmetic == r.arithmetic);
  CHECK(back.plan == r.plan);
  CHECK(back.known_defect == r.known_defect);
  CHECK(back.waived == r.waived);
  CHECK(back.tensors == r.tensors);
  CHECK(back.contract == r.contract);
  CHECK(back.conditions == r.conditions);
  CHECK(back.confirmation.runs == 3);
  CHECK(back.confirmation.failed == 3);
  CHECK(back.confirmation.fresh_seed_runs == 2);
  CHECK(back.confirmation.fresh_seed_failed == 1);
  CHECK(back.repeats == 4);
  CHECK(back.repeats_identical == 3);
  CHECK(back.input_digest == r.input_digest);
  CHECK(back.reference_digest == r.reference_digest);
  CHECK(back.output_digest == r.output_digest);
  CHECK(back.output_tiles == r.output_tiles);
  CHECK(back.bad_indices == r.bad_indices);
  CHECK(back.output_dims == r.output_dims);
  CHECK(back.execute_ms == r.execute_ms);
  CHECK(back.reference_ms == r.reference_ms);
  CHECK(back.started == r.started);
  for (const auto member : {&Record::comparison, &Record::second}) {
    REQUIRE((back.*member).has_value());
    const Comparison &a = *(back.*member), &b = *(r.*member);
    for (const auto field :
         {&Comparison::compared, &Comparison::bad, &Comparison::over_iid, &Comparison::nan_unexpected, &Comparison::nan_missing,
          &Comparison::inf_mismatch, &Comparison::unwritten, &Comparison::subnormal_flushed, &Comparison::overflow_open,
          &Comparison::first_bad, &Comparison::worst_index, &Comparison::worst_ulp})
      CHECK(a.*field == b.*field);
    for (const auto field : {&Comparison::worst_got, &Comparison::worst_expected, &Comparison::max_over_hard,
                             &Comparison::max_over_iid, &Comparison::rms_over_statistic, &Comparison::rms_over_rounding,
                             &Comparison::bias, &Comparison::smallest_fault, &Comparison::blind_fraction})
      CHECK(a.*field == b.*field);
    CHECK(a.worst_got_bits == b.worst_got_bits);
    CHECK(a.worst_expected_bits == b.worst_expected_bits);
    CHECK(a.sampled == b.sampled);
    CHECK(a.verification == b.verification);
  }
}

TEST_CASE("every verdict has a name that is parsed back") {
  for (const Verdict v :
       {Verdict::pass, Verdict::fail, Verdict::fault, Verdict::suspect, Verdict::unsupported, Verdict::unavailable})
    CHECK(parse_verdict(name(v)) == v);
  CHECK_FALSE(parse_verdict("passed").has_value());
}

TEST_CASE("64-bit integers and non-finite numbers are strings, and doubles read back bit for bit") {
  Record r = failing();
  r.comparison->worst_got = std::numeric_limits<double>::quiet_NaN();
  r.comparison->worst_expected = -std::numeric_limits<double>::infinity();
  r.comparison->max_over_hard = std::numeric_limits<double>::infinity();
  const std::string line = to_json(r);
  CHECK(contains(line, "\"first_bad\":\"9007199254740993\""));
  CHECK(contains(line, "\"worst_got\":\"nan\""));
  CHECK(contains(line, "\"worst_expected\":\"-inf\""));
  CHECK(contains(line, "\"max_over_hard\":\"inf\""));
  const Record back = record_from_json(line);
  CHECK(std::isnan(back.comparison->worst_got));
  CHECK(back.comparison->worst_expected == -std::numeric_limits<double>::infinity());
  CHECK(back.comparison->max_over_hard == std::numeric_limits<double>::infinity());

  std::mt19937_64 random(1);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t bits = random();
    double x;
    std::memcpy(&x, &bits, sizeof x);
    if (!std::isfinite(x)) continue;
    r.execute_ms = x;
    const double y = record_from_json(to_json(r)).execute_ms;
    std::uint64_t again;
    std::memcpy(&again, &y, sizeof again);
    CHECK(again == bits);
  }
}

TEST_CASE("keys come in the order of the documentation") {
  const std::string line = to_json(failing());
  std::size_t last = 0;
  for (const char* key :
       {"\"schema\"", "\"case\"", "\"op\"", "\"target\"", "\"verdict\"", "\"library\"", "\"comparison\"", "\"started\""}) {
    const std::size_t at = line.find(key);
    REQUIRE(at != std::string::npos);
    CHECK(at >= last);
    last = at;
  }
}

TEST_CASE("bytes that are not UTF-8 are replaced, not thrown over") {
  Record r = failing();
  r.reason = "bad \xff\xc3( bytes\x01\n\"quoted\"";
  r.contract["\xfe"] = "\x80";
  const Record back = record_from_json(to_json(r));
  CHECK(back.reason == "bad \xef\xbf\xbd\xef\xbf\xbd( bytes\x01\n\"quoted\"");
}

TEST_CASE("a record without comparison has none when it is read") {
  const Record back = record_from_json(to_json(not_run(Verdict::unavailable, true)));
  CHECK_FALSE(back.comparison.has_value());
  CHECK_FALSE(back.second.has_value());
  CHECK(back.verdict == Verdict::unavailable);
}

TEST_CASE("unknown fields and a later minor version are accepted") {
  const std::string line = replaced(to_json(failing()), "\"schema\":\"1.3\"", "\"schema\":\"1.7\",\"new\":{\"a\":[1,2]}");
  CHECK(record_from_json(line).case_id == failing().case_id);
}

TEST_CASE("a newer major version is refused in one sentence that says what to do") {
  const std::string line = to_json(failing());
  CHECK(contains(refusal(replaced(line, "\"1.3\"", "\"2.0\"")),
                 "was written by a newer Assay (schema 2.0), this one reads 1.x; use a newer assay"));
  CHECK(contains(refusal(replaced(line, "\"1.3\"", "\"0.9\"")), "older Assay (schema 0.9)"));
  for (const char* version :
       {"\"\"", "\"1\"", "\"x.y\"", "\"1.0beta\"", "\"1.\"", "1.0", "null", "\"99999999999.0\"", "\"-1.0\""})
    CHECK(contains(refusal(replaced(line, "\"1.3\"", version)), "schema"));
}

TEST_CASE("a field of the wrong type is refused by name") {
  const std::string line = to_json(failing());
  const std::array<std::array<const char*, 3>, 14> wrong = {{
      {"\"op\":\"gemm\"", "\"op\":7", "op"},
      {"\"required\":false", "\"required\":\"false\"", "required"},
      {"\"verdict\":\"fail\"", "\"verdict\":\"failed\"", "verdict"},
      {"\"first_bad\":\"9007199254740993\"", "\"first_bad\":9007199254740993", "first_bad"},
      {"\"first_bad\":\"9007199254740993\"", "\"first_bad\":\"9223372036854775808\"", "first_bad"},
      {"\"first_bad\":\"9007199254740993\"", "\"first_bad\":\"12x\"", "first_bad"},
      {"\"first_bad\":\"9007199254740993\"", "\"first_bad\":\"\"", "first_bad"},
      {"\"bias\":-0.5", "\"bias\":\"small\"", "bias"},
      {"\"runs\":3", "\"runs\":3.5", "runs"},
      {"\"runs\":3", "\"runs\":18446744073709551615", "runs"},
      {"\"output_dims\":[\"1\"", "\"output_dims\":[1", "output_dims"},
      {"\"contract\":{", "\"contract\":{\"x\":1,", "contract"},
      {"\"library\":{", "\"library\":3,\"unused\":{", "library"},
      {"\"case\":", "\"casus\":", "case"},
  }};
  for (const auto& [from, to, key] : wrong) {
    const std::string sentence = refusal(replaced(line, from, to));
    INFO(to << " -> " << sentence);
    CHECK(contains(sentence, std::string("\"") + key + "\""));
  }
}

TEST_CASE("absurd nesting is refused without exhausting the stack") {
  const std::string deep = "{\"schema\":\"1.3\",\"x\":" + std::string(1000000, '[');
  CHECK(contains(refusal(deep), "nested"));
  CHECK(contains(refusal(std::string(1000000, '{')), "the record"));
  std::string closed = deep + std::string(1000000, ']') + "}";
  CHECK(contains(refusal(closed), "nested"));
}

TEST_CASE("twenty thousand mutations of a record either parse or are refused in a sentence") {
  const std::string seeds[] = {to_json(failing()), to_json(not_run(Verdict::unsupported, true)), "{\"schema\":\"1.3\"}"};
  std::mt19937 random(7);
  const auto below = [&](std::size_t n) { return random() % n; };
  const std::string interesting = "{}[]\",:0123456789.eE+-\\ntf\x00\xff";
  int accepted = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = seeds[below(3)];
    for (std::size_t n = 1 + below(3); n > 0 && !text.empty(); --n) {
      const std::size_t at = below(text.size());
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text[at] = interesting[below(interesting.size())];
          break;
        case 2:
          text.erase(at, 1 + below(20));
          break;
        case 3:
          text.insert(at, text.substr(below(text.size()), 1 + below(20)));
          break;
        default:
          text.resize(at);
          break;
      }
    }
    try {
      const Record r = record_from_json(text);
      record_from_json(to_json(r));  // what was accepted can be written and read again
      ++accepted;
    } catch (const FileError& e) {
      CHECK(std::string(e.what()).size() > 20);
      ++refused;
    }
    try {
      environment_from_json(text);
    } catch (const FileError&) {
    }
  }
  CHECK(accepted > 100);
  CHECK(refused > 1000);
}

TEST_CASE("an environment comes back from JSON as it was") {
  Environment e;
  e.assay = {{"version", "0.1.0"}, {"grammar", "g1"}};
  e.system = {{"kernel", "6.1"}, {"logical_cpus", "2"}};
  e.variables = {{"OMP_NUM_THREADS", "2"}, {"LD_PRELOAD", "set"}};
  e.libraries = {failing().library};
  e.command = "run --level quick";
  const std::string text = to_json(e);
  const Environment back = environment_from_json(text);
  CHECK(to_json(back) == text);
  CHECK(back.assay == e.assay);
  CHECK(back.system == e.system);
  CHECK(back.variables == e.variables);
  REQUIRE(back.libraries.size() == 1);
  CHECK(back.libraries[0].sha256 == e.libraries[0].sha256);
  CHECK(back.libraries[0].size_bytes == e.libraries[0].size_bytes);
  CHECK(back.command == e.command);
  CHECK_THROWS_AS(environment_from_json("{\"schema\":\"2.0\"}"), FileError);
  CHECK_THROWS_AS(environment_from_json("[]"), FileError);
  CHECK_THROWS_AS(environment_from_json("{\"schema\":\"1.3\",\"libraries\":{}}"), FileError);
}
