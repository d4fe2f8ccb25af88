// SPDX-License-Identifier: Apache-2.0
// oneDNN's convolution is called right: exact results in every layout, plain and packed, so that no argument can hide.
#include "onednn_trial.hpp"
#include "probes/ops/conv1d/conv1d.hpp"
#include "probes/ops/conv1d/targets.hpp"

using namespace assay;

TEST_CASE("oneDNN's convolution is exact on integers in every layout, shape and format") {
  std::vector<std::string> ids;
  for (const char* format : {"", ",in=bf16,out=f32", ",in=bf16", ",in=f16,out=f32"})
    for (const char* layout : {"", ",layout=nlc", ",gapx=3,gapy=2,off=1", ",layout=nlc,gapx=3,gapy=2,off=1"})
      for (const char* shape :
           {"cin=5,cout=7,l=11,k=3", "n=3,cin=4,cout=6,l=13,k=4,stride=2,padl=2,padr=1,bias=1",
            "cin=6,cout=9,l=17,k=3,dilation=2,padl=4,groups=3,bias=1", "n=2,cin=8,cout=8,l=19,k=9,padl=4,padr=4,groups=8",
            "cin=3,cout=3,l=9,k=1", "cin=16,cout=32,l=20,k=3,stride=3,dilation=2,padl=1,padr=5,bias=1"})
        ids.push_back(std::string("g1:conv1d:") + shape + format + layout + ",fill=integer");
  ids.push_back("g1:conv1d:cin=5,cout=7,l=11,k=3,fill=position");
  if (!trial::onednn_files().empty()) CHECK(trial::require_exact_everywhere(conv1d::onednn_target(), ids) > 50);
}

TEST_CASE("oneDNN's convolution refuses f64 before it is touched, and says what it used") {
  const Target target = conv1d::onednn_target();
  CHECK(target.refuses(make_problem("g1:conv1d:cin=2,cout=2,l=3,k=2,in=f64"), trial::onednn_spec("/nonexistent.so")));
  for (const std::string& path : trial::onednn_files()) {
    trial::Trial t(trial::bound_to(target, path), "g1:conv1d:cin=16,cout=16,l=30,k=3", "layout=packed");
    t.run(1);
    const CallReport report = t.call->report();
    CHECK_FALSE(report.algorithm.empty());
    CHECK(report.arithmetic.transform == Transform::none);  // Winograd is for two spatial dims
    CHECK(report.contract.nan_confined.made);
    CHECK(report.facts.at("layout") == "packed by the library");
  }
}
