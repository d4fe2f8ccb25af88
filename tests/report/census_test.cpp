// SPDX-License-Identifier: Apache-2.0
#include "report/census.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "fixtures.hpp"

using namespace assay::report;

namespace {

Record chosen(const std::string& case_id, const std::string& variant, const std::string& algorithm, const std::string& plan) {
  Record r = fixtures::passing(case_id);
  r.target = "cublaslt", r.variant = variant, r.algorithm = algorithm, r.plan = plan;
  r.library.path = "/opt/a/libcublasLt.so.13", r.library.version = "13.1.0";
  return r;
}

}  // namespace

TEST_CASE("the census has a line for each choice of a library, in an order that does not depend on the run") {
  std::vector<Record> records = {
      chosen("g1:gemm:m=8", "heuristic", "id=66 tile=20", R"({"id":66,"workspace":4096})"),
      chosen("g1:gemm:m=7", "workspace=0", "id=1", R"({"id":1,"workspace":0})"),
      chosen("g1:gemm:m=7", "heuristic", "id=6", R"({"id":6})"),
  };
  records[2].conditions["library kernel"] = "gemm_64x64";
  const std::string expected =
      R"({"case":"g1:gemm:m=7","target":"cublaslt:heuristic","algorithm":"id=6","kernel":"gemm_64x64"})"
      "\n"
      R"({"case":"g1:gemm:m=7","target":"cublaslt:workspace=0","algorithm":"id=1","workspace":0})"
      "\n"
      R"({"case":"g1:gemm:m=8","target":"cublaslt:heuristic","algorithm":"id=66 tile=20","workspace":4096})"
      "\n";
  CHECK(algorithm_census(records) == expected);
  std::ranges::reverse(records);
  CHECK(algorithm_census(records) == expected);
}

TEST_CASE("two builds that choose alike have equal censuses, and one other choice is one other line") {
  std::vector<Record> before = {chosen("g1:gemm:m=8", "heuristic", "id=66", ""),
                                chosen("g1:gemm:m=9", "heuristic", "id=1", "")};
  std::vector<Record> after = before;
  for (Record& r : after) {
    r.library.path = "/opt/b/libcublasLt.so.13", r.library.version = "13.2.0", r.started = "2030-01-01T00:00:00Z";
    r.verdict = Verdict::fail, r.execute_ms = 3;
  }
  CHECK(algorithm_census(before) == algorithm_census(after));
  after[1].algorithm = "id=6";
  CHECK(algorithm_census(before) != algorithm_census(after));
}

TEST_CASE("the census leaves out what is no choice of a library") {
  Record silent = chosen("g1:gemm:m=8", "", "", ""), kernel = chosen("g1:gemm:m=8", "online@nvrtc-cubin", "softmax_online", ""),
         built_in = chosen("g1:gemm:m=8", "h100", "blocks of 16", "");
  kernel.target = "kernel";
  built_in.library.path.clear();
  CHECK(algorithm_census({silent, kernel, built_in}).empty());
}
