// SPDX-License-Identifier: Apache-2.0
// oneDNN's layer normalization is called right: every combination of scale, shift and statistics. Tight rows:
// releases so far ignore the stride of others (docs/found.md).
#include "onednn_trial.hpp"
#include "probes/ops/layernorm/layernorm.hpp"

using namespace assay;

TEST_CASE("oneDNN's layer normalization stays inside the bounds of all its outputs") {
  std::vector<std::string> ids;
  for (const char* format : {"", ",in=bf16", ",in=bf16,out=f32", ",in=f16"})
    for (const char* shape : {"rows=1,n=2", "rows=5,n=33,off=1", "rows=3,n=1025"})
      for (const char* rest :
           {"", ",gamma=1", ",gamma=1,beta=1", ",beta=1,stats=1,eps=1e-3", ",gamma=1,beta=1,stats=1,fill=offset"})
        ids.push_back(std::string("g1:layernorm:") + shape + format + rest);
  for (const char* fill : {"balanced", "two_level", "uniform"})
    ids.push_back(std::string("g1:layernorm:rows=4,n=64,gamma=1,beta=1,stats=1,fill=") + fill);
  if (!trial::onednn_files().empty()) CHECK(trial::require_bounded_everywhere(layernorm::onednn_target(), ids) > 20);
}

TEST_CASE("oneDNN's layer normalization refuses f64, and rms where the library has not got it") {
  const Target target = layernorm::onednn_target();
  CHECK(target.refuses(make_problem("g1:layernorm:rows=2,n=3,in=f64"), trial::onednn_spec("/nonexistent.so")));
  for (const std::string& path : trial::onednn_files()) {
    CHECK(contains(trial::refusal_of(target, "g1:layernorm:rows=2,n=3,kind=rms", trial::onednn_spec(path)), "unsupported: "));
    CHECK(contains(trial::refusal_of(target, "g1:layernorm:rows=2,n=3", trial::onednn_spec(path, "layout=packed")),
                   "chooses no layout"));
  }
}
