// SPDX-License-Identifier: Apache-2.0
// The published schemas describe what is really written, failures included, and refuse what is not.
#include <doctest/doctest.h>
#include <sys/wait.h>

#include <cstdio>
#include <fstream>
#include <limits>

#include "fixtures.hpp"
#include "report/jsonl.hpp"

using namespace assay::report;
using namespace assay::report::fixtures;

namespace {

struct Outcome {
  int status = -1;
  std::string output;
};

Outcome validate(const std::filesystem::path& folder) {
  const std::string command =
      std::string("python3 '") + ASSAY_SOURCE_DIR + "/tests/e2e/validate_run.py' '" + folder.string() + "' 2>&1";
  Outcome o;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return o;
  for (int c; (c = std::fgetc(pipe)) != EOF;) o.output += static_cast<char>(c);
  const int status = pclose(pipe);
  o.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return o;
}

std::vector<Record> every_kind() {
  std::vector<Record> records = {passing(), failing(), not_run(Verdict::unsupported, true),
                                 not_run(Verdict::unavailable, false)};
  Record fault = failing(), suspect = failing(), nan = failing();
  fault.verdict = Verdict::fault, fault.reason = "The worker died of SIGSEGV.", fault.comparison.reset(), fault.second.reset();
  suspect.verdict = Verdict::suspect, suspect.label = "MISTRUSTED", suspect.reason = "bad \xff bytes";
  nan.comparison->worst_got = std::numeric_limits<double>::quiet_NaN();
  nan.comparison->max_over_hard = std::numeric_limits<double>::infinity();
  for (const Record& r : {fault, suspect, nan}) records.push_back(r);
  return records;
}

}  // namespace

TEST_CASE("real output of every verdict validates, and each planted violation is refused") {
  const TemporaryFolder folder;
  const auto run = folder.path / "run.jsonl";
  std::ofstream(folder.path / "environment.json") << to_json(read_environment());
  {
    JsonlWriter writer(run);
    for (const Record& r : every_kind()) writer.append(r);
  }
  const Outcome good = validate(folder.path);
  if (good.status == 3) {
    MESSAGE("NOT RUN: " << good.output);
    return;
  }
  CHECK_MESSAGE(good.status == 0, good.output);

  const std::string line = to_json(failing());
  const std::pair<const char*, const char*> violations[] = {
      {"\"verdict\":\"fail\"", "\"verdict\":\"failed\""},
      {"\"first_bad\":\"9007199254740993\"", "\"first_bad\":9007199254740993"},
      {"\"bias\":-0.5", "\"bias\":NaN"},
      {"\"bias\":-0.5", "\"bias\":\"tiny\""},
      {"\"tags\":", "\"undocumented\":1,\"tags\":"},
      {"\"bad\":\"64\"", "\"bad\":\"64\",\"undocumented\":1"},
      {"\"reason\":\"64 of 262144 elements lie outside the bound.\"", "\"reason\":\"\""},
      {"\"schema\":\"1.3\",", ""},
      {"\"schema\":\"1.3\"", "\"schema\":\"2.0\""},
      {"\"worst_got_bits\":\"0x3f800001\"", "\"worst_got_bits\":\"1065353217\""},
  };
  for (const auto& [from, to] : violations) {
    std::string bad = line;
    REQUIRE(bad.find(from) != std::string::npos);
    bad.replace(bad.find(from), std::string(from).size(), to);
    std::ofstream(run) << line << "\n" << bad << "\n";
    const Outcome o = validate(folder.path);
    INFO(to << " -> " << o.output);
    CHECK(o.status == 1);
    CHECK(o.output.find("line 2") != std::string::npos);
  }
  std::ofstream(run) << line;  // no newline
  CHECK(validate(folder.path).status == 1);
  std::ofstream(run) << line << "\n";
  CHECK(validate(folder.path).status == 0);
  std::ofstream(folder.path / "environment.json") << "{\"schema\":\"1.3\",\"hostname\":\"x\"}";
  CHECK(validate(folder.path).status == 1);
}
