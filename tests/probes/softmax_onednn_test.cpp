// SPDX-License-Identifier: Apache-2.0
// oneDNN's softmax is called right: every layout and format, plain and packed, on every oneDNN of this machine.
#include "onednn_trial.hpp"
#include "probes/ops/softmax/softmax.hpp"

using namespace assay;

namespace {

std::string no(const std::string& id, const TargetSpec& who) {
  return trial::refusal_of(softmax::onednn_target(), id, who);
}

}  // namespace

// Without what docs/found.md holds against releases: rows whose log-sum is 0, and the 16-bit results of releases before 3.5,
// which are rounded twice (less than two bounds).
TEST_CASE("oneDNN's softmax stays inside the bound in every layout and format and touches nothing else") {
  for (const std::string& path : trial::onednn_files())
    for (const char* formats : {"", ",in=bf16", ",in=bf16,out=f32", ",in=f16"}) {
      CAPTURE(path);
      CAPTURE(formats);
      const std::string refused = no(std::string("g1:softmax:rows=2,n=3") + formats, trial::onednn_spec(path));
      if (!refused.empty()) {
        CHECK(contains(refused, "unsupported: dnnl_"));
        continue;
      }
      const bool narrow = std::string(formats).size() == 8 || std::string(formats) == ",in=f16";
      for (const char* kind : {"", ",kind=log"})
        for (const char* shape :
             {"rows=1,n=2", "rows=3,n=7", "rows=5,n=33,padx=3,pady=3", "rows=5,n=33,padx=3,pady=2,off=1", "rows=2,n=1025"})
          for (const char* fill : {"normal", "constant", "shifted"}) {
            const std::string id = std::string("g1:softmax:") + shape + kind + formats + ",fill=" + fill;
            CAPTURE(id);
            trial::Trial t(trial::bound_to(softmax::onednn_target(), path), id, "");
            for (const std::uint64_t seed : {1, 2}) {
              t.run(seed);
              const Discrepancy d = trial::judge(t, trial::truth(t.problem, seed), t.call->report().arithmetic);
              CHECK(d.max_over_iid <= (narrow ? 2 : 1));
              CHECK(trial::disturbed_bytes(t, seed) == 0);
            }
          }
    }
}

TEST_CASE("oneDNN's softmax reports its implementation and declares what its generated functions do") {
  CHECK(softmax::onednn_target().refuses(make_problem("g1:softmax:rows=2,n=3,in=f64"), trial::onednn_spec("/nonexistent.so")));
  CHECK(contains(no("g1:softmax:rows=2,n=3", trial::onednn_spec("")), "no oneDNN was found"));
  for (const std::string& path : trial::onednn_files()) {
    CAPTURE(path);
    CHECK(contains(no("g1:softmax:rows=2,n=3", trial::onednn_spec(path, "layout=packed")), "unsupported: oneDNN takes"));
    trial::Trial t(trial::bound_to(softmax::onednn_target(), path), "g1:softmax:rows=4,n=64,kind=log", "");
    t.run(1);
    const CallReport report = t.call->report();
    CHECK_FALSE(report.algorithm.empty());
    CHECK(report.arithmetic.function_ulps == (report.algorithm.starts_with("ref") ? 2 : 34));
    CHECK(report.contract.nan_confined.made);
    CHECK_FALSE(report.contract.nan_propagates.made);
  }
}
