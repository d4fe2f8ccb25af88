// SPDX-License-Identifier: Apache-2.0
// oneDNN's elementwise functions are called right: each of them, with and without bias, loose rows.
#include "onednn_trial.hpp"
#include "probes/ops/activation/activation.hpp"

using namespace assay;

TEST_CASE("oneDNN's elementwise functions stay inside the bound and touch nothing else") {
  std::vector<std::string> ids;
  for (const char* kind : {"gelu_erf", "gelu_tanh", "silu", "relu"})
    for (const char* format : {"", ",in=bf16", ",in=bf16,out=f32", ",in=f16"})
      for (const char* shape : {"rows=1,n=1", "rows=5,n=33,padx=3,pady=3", "rows=5,n=33,padx=3,pady=2,off=1", "rows=2,n=1025"})
        for (const char* rest : {"", ",bias=1", ",sigma=4"})
          ids.push_back(std::string("g1:activation:kind=") + kind + "," + shape + format + rest);
  if (!trial::onednn_files().empty()) CHECK(trial::require_bounded_everywhere(activation::onednn_target(), ids) > 50);
}

TEST_CASE("oneDNN's elementwise functions refuse f64, and have no layout of their own") {
  const Target target = activation::onednn_target();
  CHECK(target.refuses(make_problem("g1:activation:rows=2,n=3,in=f64"), trial::onednn_spec("/nonexistent.so")));
  for (const std::string& path : trial::onednn_files())
    CHECK(contains(trial::refusal_of(target, "g1:activation:rows=2,n=3", trial::onednn_spec(path, "layout=packed")),
                   "chooses no layout"));
}
