// SPDX-License-Identifier: Apache-2.0
// Epilogues of gemm on oneDNN: bias as its own or as a post-op, relu exact on integers, gelu inside its bound.
#include "onednn_trial.hpp"
#include "probes/ops/gemm/cpu_targets.hpp"

using namespace assay;

TEST_CASE("bias and relu on oneDNN's matmul are exact on integers in every layout, with alpha, beta and batches") {
  std::vector<std::string> ids;
  for (const char* format : {"", ",in=bf16,out=f32", ",in=bf16"})
    for (const char* order : {",order=row", ",order=col"})
      for (const char* epilogue : {",bias=1", ",act=relu", ",bias=1,act=relu"})
        for (const char* rest :
             {"", ",alpha=-2,beta=1,padc=2", ",batch=3,gap=5", ",batch=4,mode=pointers,gap=2,beta=-1", ",ta=t,off=1"})
          ids.push_back(std::string("g1:gemm:m=7,n=5,k=9") + order + format + epilogue + rest + ",fill=integer");
  if (!trial::onednn_files().empty()) CHECK(trial::require_exact_everywhere(gemm::onednn_target(), ids) > 60);
}

TEST_CASE("gelu on oneDNN's matmul stays inside its bound, and the report says how the bias was given") {
  std::vector<std::string> ids;
  for (const char* format : {"", ",in=bf16", ",in=f16"})
    for (const char* act : {"gelu_erf", "gelu_tanh"})
      ids.push_back(std::string("g1:gemm:m=17,n=20,k=33,order=row,bias=1,act=") + act + format);
  if (!trial::onednn_files().empty()) CHECK(trial::require_bounded_everywhere(gemm::onednn_target(), ids) > 3);
  for (const std::string& path : trial::onednn_files())
    for (const bool plain : {false, true}) {
      trial::Trial t(trial::bound_to(gemm::onednn_target(), path),
                     std::string("g1:gemm:m=3,n=4,k=5,order=row,bias=1") + (plain ? "" : ",beta=1"), "");
      t.run(1);
      CHECK(t.call->report().facts.at("bias") == (plain ? "as the library's own" : "as a post-op"));
    }
}
