// SPDX-License-Identifier: Apache-2.0
// attention: O = softmax(scale Q K^T + bias) V per head, and its three steps alone. What every attention target reads instead
// of parsing the case again.
#pragma once

#include <cstdint>
#include <vector>

#include "probes/ops/op.hpp"
#include "reference/ops/attention.hpp"

namespace assay::attention {

/// Which step a case asks for. The steps take reference inputs, so that a composed target's parts get verdicts of their own.
enum class Part : std::uint8_t {
  whole,          // "Q" (b,hq,sq,d), "K" (b,hkv,skv,d), "V" (b,hkv,skv,dv), ["bias"] -> "O" (b,hq,sq,dv), ["L"] (b,hq,sq,1)
  scores,         // "Q", "K", ["bias"]       -> "S" (b,hq,sq,skv) = scale Q K^T + bias, -Inf where a key is hidden
  probabilities,  // "S" (b,hq,sq,skv)        -> "P" (b,hq,sq,skv) = softmax of the visible keys, 0 where a key is hidden
  context,        // "P" (b,hq,sq,skv), "V"   -> "O" (b,hq,sq,dv) = P V; P holds no negative number; no masks
};

/// Operands lie in that order; "bias" is (1 or hq, sq, skv), "L" the natural log-sum-exp of the scores, in compute_format.
/// Masks are not operands: what a query sees is one range of keys, given by visible().
struct Call {
  Part part = Part::whole;
  std::int64_t b = 1, hq = 1, hkv = 1, sq = 0, skv = 0, d = 0, dv = 0;
  double scale = 1;  // already rounded to compute_format
  DType in = DType::f32, out = DType::f32;
  bool bshd = false;  // heads inside positions in memory; Operand::strides say the same
  bool causal = false, bottom_right = false;
  std::int64_t window = 0;           // a query sees this many keys up to its diagonal; 0: no limit
  std::vector<std::int64_t> length;  // keys of each batch entry, at most skv
  std::int64_t bias_heads = 0;       // 0: no bias
  bool lse = false;

  bool masks() const;  // whether anything hides a key
  std::int64_t kv_head(std::int64_t h) const { return h / (hq / hkv); }
};

Call call_of(const Problem&);

/// The keys that query `i` of batch entry `e` sees: first <= j < last; empty when last <= first.
/// The diagonal of query i is key i, or with bottom_right i + length - sq: the last query then sees the last key.
struct Keys {
  std::int64_t first = 0, last = 0;
};
Keys visible(const Call&, std::int64_t e, std::int64_t i);

/// Scores, sums and log-sum-exp: fp64 for fp64 data, else fp32.
inline DType compute_format(const Call& c) {
  return c.in == DType::f64 ? DType::f64 : DType::f32;
}

Op make();

/// Targets, one file each; a library's file adds its target to make().
Target eigen_target();  // "eigen": the control
/// A CBLAS opened by path under the name of its family: its products around a softmax of ours.
Target cblas_target(std::string name, std::string summary);
Target model_target();    // "model": correct variants, variant = name
Target planted_target();  // "planted": one fault per variant
Target onednn_target();   // "onednn": its matmul, softmax and matmul, by path
Target kernel_target();   // "kernel": kernels/attention.cu
Target cudnn_target();    // "cudnn": its graph API
cudnn::Description cudnn_graph(const Problem&);
std::vector<PlantedFault> planted_faults();
std::vector<std::string> clean_cases();

}  // namespace assay::attention
