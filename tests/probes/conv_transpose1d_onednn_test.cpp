// SPDX-License-Identifier: Apache-2.0
// oneDNN's deconvolution is called right: exact results in every layout, plain and packed, so that no argument can hide.
#include "onednn_trial.hpp"
#include "probes/ops/conv_transpose1d/conv_transpose1d.hpp"

using namespace assay;

TEST_CASE("oneDNN's deconvolution is exact on integers in every layout, shape and format") {
  std::vector<std::string> ids;
  for (const char* format : {"", ",in=bf16,out=f32", ",in=bf16", ",in=f16,out=f32"})
    for (const char* layout : {"", ",layout=nlc", ",gapx=3,gapy=2,off=1"})
      for (const char* shape :
           {"cin=5,cout=7,l=11,k=3", "n=3,cin=4,cout=6,l=13,k=4,stride=2,padl=1,padr=1,bias=1",
            "cin=6,cout=9,l=7,k=3,stride=2,outpad=1,groups=3,bias=1", "cin=4,cout=4,l=9,k=3,padl=1,padr=1,groups=4",
            "cin=16,cout=32,l=6,k=4,stride=3,padl=2,bias=1", "cin=3,cout=3,l=5,k=1"})
        if (!contains(shape, "bias") || !contains(layout, "gapy"))  // both: the scratchpad overflows (docs/found.md)
          ids.push_back(std::string("g1:conv_transpose1d:") + shape + format + layout + ",fill=integer");
  for (const char* shape : {"cin=5,cout=7,l=11,k=3,dilation=2", "cin=2,cout=3,l=5,k=2,dilation=3,outpad=2"})
    ids.push_back(std::string("g1:conv_transpose1d:") + shape + ",fill=integer");
  if (!trial::onednn_files().empty()) CHECK(trial::require_exact_everywhere(conv_transpose1d::onednn_target(), ids) > 40);
}

TEST_CASE("oneDNN's deconvolution refuses f64 before it is touched") {
  CHECK(conv_transpose1d::onednn_target().refuses(make_problem("g1:conv_transpose1d:cin=2,cout=2,l=3,k=2,in=f64"),
                                                  trial::onednn_spec("/nonexistent.so")));
}
