// SPDX-License-Identifier: Apache-2.0
// Profiles: what they say, each way to be wrong in one sentence with its line, waivers by date, promised conditions.
#include "probes/cli/profile.hpp"

#include <doctest/doctest.h>

#include <utility>

#include "report/summary.hpp"

using namespace assay;
using namespace assay::cli;

namespace {

Profile parsed(const std::string& rest) {
  return parse_profile("profile = 1\n" + rest, "gate.toml", "/etc/assay");
}
std::string refusal(const std::string& text) {
  try {
    parse_profile(text, "gate.toml", ".");
  } catch (const CaseError& e) {
    return e.what();
  }
  return "accepted";
}

constexpr const char* waiver =
    "[[waiver]]\ntarget = \"openblas*\"\nwhen = \"op=gemm alpha=0\"\nreason = \"known here\"\nexpires = 2027-03-01\n";

report::Record failure(const std::string& target = "openblas", const std::string& case_id = "g1:gemm:m=1,n=1,k=1,alpha=0") {
  report::Record r;
  r.case_id = case_id, r.op = "gemm", r.target = target, r.verdict = report::Verdict::fail;
  return r;
}

}  // namespace

TEST_CASE("a profile says what it says, and case files lie beside it") {
  const Profile p = parsed(
      "name = \"gate\"\nstrict = true\nrequire = [\"gpu\", \"blis\"]\n[cases]\nlevel = \"standard\"\nop = [\"gemm\"]\ntag = "
      "[\"T01\"]\n"
      "id = [\"g1:gemm:m=1,n=1,k=1\"]\nfile = [\"mine.cases\", \"/abs.cases\"]\n[targets]\ntarget = [\"openblas*\"]\nlibraries "
      "= [\"auto\"]\n"
      "kernel_builds = [\"all\"]\nkeep_variables = true\n[environment.gpu]\nname = "
      "\"NVIDIA*\"\n[environment.library.openblas]\nversion = \"OpenBLAS "
      "0.3*\"\n");
  CHECK(p.name == "gate");
  CHECK(p.strict);
  CHECK(p.require == std::vector<std::string>{"gpu", "blis"});
  CHECK(p.level == "standard");
  CHECK(p.cases.front() == "g1:gemm:m=1,n=1,k=1");
  CHECK(p.case_files == std::vector<std::string>{"/etc/assay/mine.cases", "/abs.cases"});
  CHECK(p.targets.front() == "openblas*");
  CHECK(p.environment.size() == 2);
  CHECK(p.environment[1].what == "library.openblas.version");
  CHECK(p.keep_variables);
  CHECK(identity(parsed("")) == "gate.toml (sha256 4eec6b1d4ef71b38)");
}

TEST_CASE("what is wrong with a profile is one sentence with its line") {
  const std::pair<std::string, std::string> wrong[] = {
      {"", "line 1: it does not begin with profile = 1"},
      {"profile = 2\n", "line 1: it does not begin with profile = 1"},
      {"profile = 1\nname = \n", "line 2: it is no TOML"},
      {"profile = 1\nname = \"a\"\nname = \"b\"\n", "line 3: it is no TOML"},
      {"profile = 1\n[cases]\n[cases]\n", "line 3: it is no TOML"},
      {"profile = 1\n[[waiver]]\nexpires = 2027-02-30\n", "line 3: it is no TOML"},
      {"profile = 1\nname = 3\n", "line 2: name is not a text"},
      {"profile = 1\nrequires = []\n", "line 2: the key requires is unknown, expected one of profile, name"},
      {"profile = 1\nrequire = \"gpu\"\n", "line 2: require is not a list of texts"},
      {"profile = 1\nrequire = [1]\n", "line 2: require is not a list of texts"},
      {"profile = 1\nstrict = 1\n", "line 2: strict is not true or false"},
      {"profile = 1\n[cases]\nlevel = \"slow\"\n", "line 3: cases.level is 'slow', expected quick"},
      {"profile = 1\n[cases]\nops = []\n", "line 3: the key cases.ops is unknown"},
      {"profile = 1\ncases = 1\n", "line 2: cases is not a table"},
      {"profile = 1\n[waiver]\n", "waiver is not a list of tables, expected [[waiver]]"},
      {"profile = 1\n[[waiver]]\ntarget = \"*\"\n", "line 2: waiver.reason is missing"},
      {"profile = 1\n[[waiver]]\ntarget = \"*\"\nreason = \"r\"\nwhen = \"op=gemm\"\n",
       "line 2: waiver.expires is missing or no date"},
      {"profile = 1\n[[waiver]]\ntarget = \"*\"\nreason = \"r\"\nwhen = \"op=gemm\"\nexpires = \"2027\"\n",
       "line 6: waiver.expires"},
      {"profile = 1\n[[waiver]]\ntarget = \"*\"\nreason = \"r\"\nwhen = \"op=gemmm\"\nexpires = 2027-03-01\n",
       "line 5: waiver.when:"},
      {"profile = 1\n[[waiver]]\ntarget = \"*\"\nreason = \"r\"\nwhen = \"op=gemm\"\nverdict = [\"wrong\"]\nexpires = "
       "2027-03-01\n",
       "line 6: waiver.verdict has 'wrong', expected fail, fault, flaky or suspect"},
      {"profile = 1\n[environment.variables]\nOMP_NUM_TREADS = \"\"\n", "line 3: the variable OMP_NUM_TREADS is none that"},
      {"profile = 1\n[environment]\nlibrary.openblas = \"0.3*\"\n", "line 3: environment.library.openblas is nothing"},
      {"profile = 1\n[environment]\ngpu = 1\n", "line 3: environment.gpu is not a text"},
      {"profile = 1\n[environment.gpu]\nserial = \"x\"\n", "line 3: environment.gpu.serial is nothing that a run records"},
      {"profile = 1\n[environment.host]\nname = \"x\"\n", "line 3: environment.host.name is nothing that a run records"},
  };
  for (const auto& [text, expected] : wrong) {
    CAPTURE(text);
    const std::string said = refusal(text);
    CAPTURE(said);
    CHECK(said.find("profile gate.toml") == 0);
    CHECK(said.find(expected) != std::string::npos);
    CHECK(said.find('\n') == std::string::npos);
  }
  CHECK_THROWS_WITH_AS(load_profile("/nonexistent.toml"), doctest::Contains("built in: node, speech"), CaseError);
  CHECK_THROWS_WITH_AS(load_profile("/"), doctest::Contains("cannot read the profile /"), CaseError);
}

TEST_CASE("a waiver excuses what it names until its last day, and nothing that did not fail") {
  Profile p = parsed(waiver);
  CHECK(waive(p, failure(), "2027-03-01") == "until 2027-03-01: known here");
  CHECK(waive(p, failure("openblas:core"), "2026-12-01") != "");
  CHECK(p.waivers[0].used == 2);
  CHECK(waive(p, failure(), "2027-03-02") == "");
  CHECK(waive(p, failure("blis"), "2026-12-01") == "");
  CHECK(waive(p, failure("openblas", "g1:gemm:m=1,n=1,k=1"), "2026-12-01") == "");
  report::Record passed = failure();
  passed.verdict = report::Verdict::pass;
  CHECK(waive(p, passed, "2026-12-01") == "");
  passed.verdict = report::Verdict::unavailable;
  CHECK(waive(p, passed, "2026-12-01") == "");
}

TEST_CASE("a waiver of wrong numbers does not excuse a crash") {
  Profile p = parsed(std::string(waiver) + "verdict = [\"fail\", \"suspect\"]\n");
  report::Record r = failure();
  CHECK(waive(p, r, "2026-12-01") != "");
  r.verdict = report::Verdict::suspect;
  CHECK(waive(p, r, "2026-12-01") != "");
  r.verdict = report::Verdict::fault;
  CHECK(waive(p, r, "2026-12-01") == "");
  r.verdict = report::Verdict::fail, r.confirmation = {3, 1, 0, 0};
  CHECK(report::standing(r) == report::Standing::flaky);
  CHECK(waive(p, r, "2026-12-01") == "");
  CHECK(p.waivers[0].used == 2);
}

TEST_CASE("waivers that expired, are about to, or excused nothing are named") {
  Profile p = parsed(waiver);
  CHECK(waiver_notes(p, "2026-12-01").size() == 1);
  CHECK(waiver_notes(p, "2026-12-01")[0].find("excused nothing") != std::string::npos);
  p.waivers[0].used = 1;
  CHECK(waiver_notes(p, "2026-12-01").empty());
  CHECK(waiver_notes(p, "2027-02-14").empty());
  CHECK(waiver_notes(p, "2027-02-15")[0].find("line 2 (known here) expires on 2027-03-01") != std::string::npos);
  CHECK(waiver_notes(p, "2027-03-02")[0].find("has expired on 2027-03-01 and excuses nothing") != std::string::npos);
}

TEST_CASE("promised conditions are shell patterns on what a run records") {
  report::Environment e;
  e.system["kernel"] = "6.1.0", e.variables["OMP_NUM_THREADS"] = "4";
  e.libraries = {{"/usr/lib/libopenblas.so.0", "libopenblas.so.0", "b1", "aa", "OpenBLAS 0.3.21", "Haswell", 1}};
  const auto broken = [&](const std::string& text) { return broken_promises(parsed("[environment]\n" + text), e); };
  CHECK(
      broken("system.kernel = \"6.1*\"\nlibrary.openblas.version = \"OpenBLAS 0.3.21\"\nlibrary.libopenblas.sha256 = \"aa\"\n")
          .empty());
  CHECK(broken("variables.OMP_NUM_THREADS = \"4\"\nvariables.OPENBLAS_CORETYPE = \"\"\n").empty());
  CHECK(broken("system.kernel = \"5*\"\n") ==
        std::vector<std::string>{"the profile promises system.kernel = '5*', this run has '6.1.0'"});
  CHECK(broken("library.blis.version = \"*\"\n")[0].find("this run has none") != std::string::npos);
  CHECK(broken("gpu.name = \"*\"\n")[0].find("this run has none") != std::string::npos);
  // Neither cuBLASLt nor the parts of cuDNN are what the short name stands for.
  e.libraries = {{"/l/libcublas.so.13", "libcublas.so.13", "b1", "aa", "", "", 1},
                 {"/l/libcublasLt.so.13", "libcublasLt.so.13", "b2", "bb", "", "", 1},
                 {"/l/libcudnn.so.9.19.0", "libcudnn.so.9", "b3", "cc", "", "", 1},
                 {"/l/libcudnn_ops.so.9", "libcudnn_ops.so.9", "b4", "dd", "", "", 1}};
  CHECK(broken("library.cublas.sha256 = \"aa\"\nlibrary.cublasLt.sha256 = \"bb\"\nlibrary.cudnn.sha256 = \"cc\"\n").empty());
  CHECK(broken("library.cublas.sha256 = \"bb\"\n").size() == 1);
  report::Gpu g;
  g.name = "NVIDIA H200";
  e.gpus = {g};
  CHECK(broken("gpu.name = \"NVIDIA H*\"\n").empty());
  CHECK(broken("gpu.sm = \"9.0\"\n").size() == 1);
}

TEST_CASE("every profile that is built in can be read") {
  REQUIRE(built_in_profiles().size() >= 2);
  for (const BuiltInProfile& p : built_in_profiles()) CHECK(load_profile(std::string(p.name)).name != "");
}
