// SPDX-License-Identifier: Apache-2.0
// Planted faults of the epilogue: bias and activation, as reports on fused products describe them.
#include "probes/ops/gemm/planted.hpp"

namespace assay::gemm {

namespace {

double bias(const Work& w, std::int64_t entry, std::int64_t column) {
  return bias_of(w.problem, w.images, entry, column);
}

/// f of a sum with another bias.
double with(const Work& w, double z, double other_bias) {
  return finished(w.call, with_bias(w.call, z, other_bias));
}

}  // namespace

std::vector<Fault> epilogue_faults() {
  const std::string op = "g1:gemm:", plain = op + "m=48,n=40,k=64,bias=1",
                    batched = op + "m=9,n=12,k=16,batch=3,bias=1,act=relu";
  return {
      {.name = "bias_lost",
       .what = "the bias is not added where C has one row",
       .cases = {op + "m=1,n=40,k=64,bias=1", op + "m=1,n=40,k=64,bias=1,fill=integer", op + "m=1,n=40,k=64,in=bf16,bias=1"},
       .epilogue = [](const Work& w, double z, std::int64_t e, std::int64_t,
                      std::int64_t j) { return with(w, z, w.call.m == 1 ? 0 : bias(w, e, j)); }},
      {.name = "bias_of_first_entry",
       .what = "every batch entry gets the bias of the first",
       .cases = {batched, batched + ",fill=integer"},
       .epilogue = [](const Work& w, double z, std::int64_t, std::int64_t,
                      std::int64_t j) { return with(w, z, bias(w, 0, j)); }},
      {.name = "bias_along_rows",
       .what = "the bias is indexed by row instead of column",
       .cases = {plain, plain + ",fill=integer,order=row"},
       .epilogue = [](const Work& w, double z, std::int64_t e, std::int64_t i,
                      std::int64_t) { return with(w, z, bias(w, e, i % w.call.n)); }},
      {.name = "bias_scaled",
       .what = "the bias is multiplied by alpha",
       .cases = {plain + ",alpha=2", plain + ",alpha=2,beta=3,fill=integer"},
       .epilogue = [](const Work& w, double z, std::int64_t e, std::int64_t,
                      std::int64_t j) { return with(w, z, w.call.alpha * bias(w, e, j)); }},
      {.name = "bias_twice",
       .what = "the bias is added once per half of k",
       .cases = {plain, plain + ",fill=integer"},
       .epilogue = [](const Work& w, double z, std::int64_t e, std::int64_t,
                      std::int64_t j) { return with(w, z, 2 * bias(w, e, j)); }},
      {.name = "relu_skipped",
       .what = "negative results pass through the ReLU of the last rows",
       .cases = {plain + ",act=relu", plain + ",act=relu,fill=integer"},
       .epilogue =
           [](const Work& w, double z, std::int64_t e, std::int64_t i, std::int64_t j) {
             Call c = w.call;
             if (i >= c.m / 2) c.activation = Activation::none;
             return finished(c, with_bias(c, z, bias(w, e, j)));
           }},
      {.name = "relu_before_bias",
       .what = "the ReLU is applied before the bias is added",
       .cases = {plain + ",act=relu", plain + ",act=relu,fill=integer"},
       .epilogue = [](const Work& w, double z, std::int64_t e, std::int64_t,
                      std::int64_t j) { return with_bias(w.call, finished(w.call, z), bias(w, e, j)); }},
      {.name = "gelu_tanh_for_erf",
       .what = "the tanh form stands in for the GELU of erf",
       .cases = {plain + ",act=gelu_erf", op + "m=48,n=40,k=8,act=gelu_erf"},
       .epilogue =
           [](const Work& w, double z, std::int64_t e, std::int64_t, std::int64_t j) {
             Call c = w.call;
             if (c.activation == Activation::gelu_erf) c.activation = Activation::gelu_tanh;
             return finished(c, with_bias(c, z, bias(w, e, j)));
           }},
      {.name = "sum_stored_before_gelu",
       .what = "the sum is rounded to the format of C before the GELU",
       .cases = {op + "m=48,n=40,k=64,in=bf16,bias=1,act=gelu_erf", op + "m=48,n=40,k=64,in=f16,bias=1,act=gelu_tanh"},
       .epilogue = [](const Work& w, double z, std::int64_t e, std::int64_t,
                      std::int64_t j) { return finished(w.call, round_to(w.call.out, with_bias(w.call, z, bias(w, e, j)))); }},
  };
}

}  // namespace assay::gemm
