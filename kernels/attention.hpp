// SPDX-License-Identifier: Apache-2.0
// attention on the device: O = softmax(scale Q K^T + bias) V per head, grouped heads, masks as ranges of keys.
#pragma once

#include "kernels/launch.hpp"

namespace assay::kernels {

/// Query head h uses key head h / (hq/hkv). Query i of batch entry e sees keys first <= j < last of its lengths[e] keys: its
/// diagonal is i, or with bottom_right i + lengths[e] - sq; causal: none beyond the diagonal; window w > 0: at most w up to it.
/// Hidden keys take no part, whatever they hold. A query that sees no key, or none but of score -Inf, has NaN for O and -Inf for L.
/// Strides in elements; vectors of d and dv elements, bias and L are packed.
struct AttentionArgs {
  const void* q;             // (b, hq, sq, d): q_b, q_h, q_s
  const void* k;             // (b, hkv, skv, d): k_b, k_h, k_s
  const void* v;             // (b, hkv, skv, dv): v_b, v_h, v_s
  const void* bias;          // (hq or 1, sq, skv): bias_h, 0 where heads share it; nullptr: none
  const long long* lengths;  // (b); nullptr: skv each
  void* o;                   // (b, hq, sq, dv): o_b, o_h, o_s
  void* lse;                 // L (b, hq, sq): ln of the sum of exponentials, fp32 or fp64; nullptr: not wanted
  void* workspace;           // attention_workspace_bytes
  long long b, hq, hkv, sq, skv, d, dv;
  long long q_b, q_h, q_s, k_b, k_h, k_s, v_b, v_h, v_s, o_b, o_h, o_s, bias_h;
  double scale;
  long long window;
  int causal, bottom_right;
  int o_is_f32;  // 1: O is fp32 whatever the inputs are; not for fp64
  int step;      // which of the version's launches this is, from 0
};

inline constexpr Version attention_versions[] = {
    {"materialised",
     "scores over d in order, fused, times scale, plus bias, stored in fp32 (fp64 for fp64 data); largest, then sum: each "
     "thread "
     "strides by 256 from the first key seen, then a tree; probabilities stored in place; O over keys in order, fused",
     "f32 f64 bf16 f16"},
    {"online",
     "scores as materialised; keys in tiles of 32 from key 0: a tile's largest and sum by exchanges with lanes 16, 8, 4, 2, 1 "
     "away, "
     "running sum and context rescaled, context over keys in order, fused, divided last",
     "f32 f64 bf16 f16"},
};
/// Places in attention_versions.
enum class AttentionVersion { materialised, online };

inline constexpr unsigned attention_threads = 256;
// online: one block takes 32 queries of one head (8 warps, 4 queries each) and 64 columns of V; keys and d in steps of 32.
inline constexpr unsigned attention_queries = 32, attention_columns = 64, attention_tile = 32;

/// Launches of one call, in order, the same entry with step = 0, 1, ...: scores, probabilities, context; or all at once.
constexpr int attention_steps(AttentionVersion v) {
  return v == AttentionVersion::materialised ? 3 : 1;
}

/// Scores and probabilities (b, hq, sq, skv) of the keys that are seen; `compute_bytes`: 4, or 8 for fp64 data.
constexpr long long attention_workspace_bytes(const AttentionArgs& g, AttentionVersion v, int compute_bytes) {
  return v == AttentionVersion::materialised ? g.b * g.hq * g.sq * g.skv * compute_bytes : 0;
}

/// For g.step; step 0 of materialised has nothing to do, and no grid, when skv is 0.
constexpr Launch attention_launch(const AttentionArgs& g, AttentionVersion v) {
  const long long heads = g.b * g.hq;
  const long long blocks = v == AttentionVersion::online
                               ? heads * ceil_div(g.sq, attention_queries) * ceil_div(g.dv, attention_columns)
                           : g.step == 0 ? ceil_div(heads * g.sq * g.skv, attention_threads)
                           : g.step == 1 ? heads * g.sq
                                         : ceil_div(heads * g.sq * g.dv, attention_threads);
  return {.grid_x = static_cast<unsigned>(blocks), .block_x = attention_threads};
}

}  // namespace assay::kernels
