// SPDX-License-Identifier: Apache-2.0
// Attention composed from oneDNN's parts is called right: products exact on integers, the whole inside its bounds.
#include "onednn_trial.hpp"
#include "probes/ops/attention/attention.hpp"

using namespace assay;

TEST_CASE("both products of attention on oneDNN are exact on integers in every layout and format, heads shared or not") {
  std::vector<std::string> ids;
  for (const char* format : {"", ",in=bf16,out=f32"})
    for (const char* layout : {"", ",layout=bshd", ",pad=3,off=1"})
      for (const char* heads : {"hq=2", "b=2,hq=4,hkv=2", "b=2,hq=6,hkv=1"}) {
        for (const char* rest : {"", ",bias=shared", ",bias=head", ",mask=causal", ",mask=causal_br,lens=varied"})
          ids.push_back(std::string("g1:attention:part=scores,sq=5,skv=7,d=16,") + heads + format + layout + rest +
                        ",fill=integer");
        ids.push_back(std::string("g1:attention:part=context,sq=5,skv=7,d=16,dv=9,") + heads + format + layout +
                      ",fill=integer");
      }
  if (!trial::onednn_files().empty()) CHECK(trial::require_exact_everywhere(attention::onednn_target(), ids) > 100);
}

TEST_CASE("attention composed from oneDNN's parts stays inside its bounds") {
  std::vector<std::string> ids;
  for (const char* format : {"", ",in=bf16,out=f32", ",in=f16"})
    for (const char* rest :
         {"", ",hq=4,hkv=2,b=2", ",mask=causal,window=3", ",mask=causal_br,lens=varied,b=3", ",bias=head,hq=2",
          ",part=probabilities,mask=causal", ",layout=bshd,hq=2,fill=one_hot", ",fill=extreme"}) {
      const bool twice_rounded = std::string(format) == ",in=f16" && contains(rest, "probabilities");  // docs/found.md
      if (!twice_rounded) ids.push_back(std::string("g1:attention:sq=9,skv=11,d=16,dv=8") + format + rest);
    }
  if (!trial::onednn_files().empty()) CHECK(trial::require_bounded_everywhere(attention::onednn_target(), ids) > 10);
}

TEST_CASE("attention on oneDNN refuses f64 and log-sum-exp, and names all its parts") {
  const Target target = attention::onednn_target();
  CHECK(target.refuses(make_problem("g1:attention:sq=3,d=8,in=f64"), trial::onednn_spec("/nonexistent.so")));
  CHECK(target.refuses(make_problem("g1:attention:sq=3,d=8,lse=1"), trial::onednn_spec("/nonexistent.so")));
  for (const std::string& path : trial::onednn_files()) {
    trial::Trial t(trial::bound_to(target, path), "g1:attention:sq=9,d=16,mask=causal", "");
    t.run(1);
    const CallReport report = t.call->report();
    CHECK(std::count(report.algorithm.begin(), report.algorithm.end(), ',') == 2);
    CHECK(report.facts.at("masks") == "written as -Inf between the parts");
  }
}
