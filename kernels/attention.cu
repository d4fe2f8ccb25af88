// SPDX-License-Identifier: Apache-2.0
// attention: what kernels/attention.hpp describes, naive first. Products, exponentials and sums in fp32 (fp64 for fp64 data). A
// score of NaN or +Inf makes its query's results NaN.
#include "kernels/attention.hpp"
#include "kernels/portable.cuh"

namespace assay::kernels {

/// Keys first <= j < last, first >= 0; none when last <= first.
struct KeyRange {
  long long first, last;
};

/// What query i of batch entry e sees.
__device__ inline KeyRange keys_seen(const AttentionArgs& g, long long e, long long i) {
  const long long length = g.lengths ? g.lengths[e] : g.skv, diagonal = i + (g.bottom_right ? length - g.sq : 0);
  KeyRange seen{0, length};
  if (g.causal && diagonal + 1 < length) seen.last = diagonal + 1;
  if (g.window > 0 && diagonal - g.window + 1 > 0) seen.first = diagonal - g.window + 1;
  return seen;
}

/// fl(q.k) scale + bias.
template <class T>
__device__ Compute<T> score(const AttentionArgs& g, Compute<T> dot, long long h, long long i, long long j) {
  dot *= static_cast<Compute<T>>(g.scale);
  if (g.bias) dot += widen(static_cast<const T*>(g.bias)[h * g.bias_h + i * g.skv + j]);
  return dot;
}

template <class T>
__device__ void write_log_sum_exp(const AttentionArgs& g, long long row, Compute<T> largest, Compute<T> sum) {
  if (g.lse) static_cast<Compute<T>*>(g.lse)[row] = largest == -infinity(sum) ? largest : largest + logarithm(sum);
}

// ---- materialised ----------------------------------------------------------------------------------------------------

/// Step 0, one thread per score.
template <class T>
__device__ void attention_scores(const AttentionArgs& g) {
  const long long index = static_cast<long long>(blockIdx.x) * attention_threads + threadIdx.x;
  if (index >= g.b * g.hq * g.sq * g.skv) return;
  const long long j = index % g.skv, i = index / g.skv % g.sq, h = index / g.skv / g.sq % g.hq, e = index / g.skv / g.sq / g.hq;
  const KeyRange seen = keys_seen(g, e, i);
  if (j < seen.first || j >= seen.last) return;
  const T* const q = static_cast<const T*>(g.q) + e * g.q_b + h * g.q_h + i * g.q_s;
  const T* const k = static_cast<const T*>(g.k) + e * g.k_b + h / (g.hq / g.hkv) * g.k_h + j * g.k_s;
  Compute<T> dot = 0;
  for (long long l = 0; l < g.d; ++l) dot = fused(widen(q[l]), widen(k[l]), dot);
  static_cast<Compute<T>*>(g.workspace)[index] = score<T>(g, dot, h, i, j);
}

/// Step 1, one block per query; probabilities replace scores. Shared: one number per thread.
template <class T>
__device__ void attention_probabilities(const AttentionArgs& g) {
  using C = Compute<T>;
  ASSAY_SHARED(C, part, attention_threads);
  const long long row = blockIdx.x;
  const KeyRange seen = keys_seen(g, row / g.sq / g.hq, row % g.sq);
  C* const p = static_cast<C*>(g.workspace) + row * g.skv;
  const unsigned t = threadIdx.x;

  C largest = -infinity(C());
  for (long long j = seen.first + t; j < seen.last; j += attention_threads) largest = larger(largest, p[j]);
  part[t] = largest;
  __syncthreads();
  for (unsigned half = attention_threads / 2; half > 0; half /= 2) {
    if (t < half) part[t] = larger(part[t], part[t + half]);
    __syncthreads();
  }
  largest = part[0];
  __syncthreads();  // everyone has read part[0] before it becomes a sum

  C sum = 0;
  for (long long j = seen.first + t; j < seen.last; j += attention_threads) sum += p[j] = exponential(p[j] - largest);
  part[t] = sum;
  __syncthreads();
  for (unsigned half = attention_threads / 2; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  sum = part[0];
  for (long long j = seen.first + t; j < seen.last; j += attention_threads) p[j] /= sum;
  if (t == 0) write_log_sum_exp<T>(g, row, largest, sum);
}

/// Step 2, one thread per element of O.
template <class T>
__device__ void attention_context(const AttentionArgs& g) {
  using C = Compute<T>;
  const long long index = static_cast<long long>(blockIdx.x) * attention_threads + threadIdx.x;
  if (index >= g.b * g.hq * g.sq * g.dv) return;
  const long long c = index % g.dv, row = index / g.dv, i = row % g.sq, h = row / g.sq % g.hq, e = row / g.sq / g.hq;
  const KeyRange seen = keys_seen(g, e, i);
  const C* const p = static_cast<const C*>(g.workspace) + row * g.skv;
  const T* const v = static_cast<const T*>(g.v) + e * g.v_b + h / (g.hq / g.hkv) * g.v_h + c;
  C sum = 0;
  for (long long j = seen.first; j < seen.last; ++j) sum = fused(p[j], widen(v[j * g.v_s]), sum);
  if (seen.last <= seen.first) sum /= sum;  // 0/0
  store<T>(g.o, e * g.o_b + h * g.o_h + i * g.o_s + c, sum, g.o_is_f32);
}

template <class T>
__device__ void attention_materialised(const AttentionArgs& g) {
  if (g.step == 0) attention_scores<T>(g);
  if (g.step == 1) attention_probabilities<T>(g);
  if (g.step == 2) attention_context<T>(g);
}

// ---- online ----------------------------------------------------------------------------------------------------------

/// What a warp knows of one query: the keys it sees; the largest score so far, and relative to it the sum of exponentials and
/// this lane's columns of the context.
template <class C>
struct Running {
  KeyRange seen;
  C largest, sum, context[attention_columns / 32];
};

/// Takes in keys start..start+31, lane l having the score of key start + l. The range is the same for the whole warp.
template <class C>
__device__ void take_tile(Running<C>& r, C score, long long start, const C* v_tile) {
  constexpr unsigned everyone = 0xffffffffu;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int from = r.seen.first > start ? static_cast<int>(r.seen.first - start) : 0;
  const int to = r.seen.last < start + 32 ? static_cast<int>(r.seen.last - start) : 32;
  if (from >= to) return;
  const bool visible = lane >= from && lane < to;
  C largest = visible ? score : -infinity(C());
  for (int lanes = 16; lanes > 0; lanes /= 2) largest = larger(largest, __shfl_xor_sync(everyone, largest, lanes));
  largest = larger(r.largest, largest);
  if (largest == -infinity(C())) return;  // nothing yet: exp(-Inf + Inf) must not come in
  const C p = visible ? exponential(score - largest) : C(0), before = exponential(r.largest - largest);
  C sum = p;
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(everyone, sum, lanes);
  r.sum = r.sum * before + sum;
  r.largest = largest;
  for (C& c : r.context) c *= before;
  for (int j = from; j < to; ++j) {
    const C weight = __shfl_sync(everyone, p, j);
    for (unsigned c = 0; c < attention_columns / 32; ++c)
      r.context[c] = fused(weight, v_tile[j * attention_columns + 32 * c + lane], r.context[c]);
  }
}

/// Rows first..first+count-1 below `rows`, columns start..start+width-1 below `columns`, into shared memory, zero elsewhere.
template <class T, class C>
__device__ void load_tile(C* to, unsigned pitch, const T* from, long long stride, long long first, long long rows,
                          unsigned count, long long start, long long columns, unsigned width) {
  for (unsigned e = threadIdx.x; e < count * width; e += attention_threads) {
    const long long row = first + e / width, column = start + e % width;
    to[e / width * pitch + e % width] = row < rows && column < columns ? widen(from[row * stride + column]) : C(0);
  }
}

/// Shared: tiles of Q, K and V, already widened.
template <class T>
__device__ void attention_online(const AttentionArgs& g) {
  using C = Compute<T>;
  constexpr unsigned tile = attention_tile, columns = attention_columns, queries = attention_queries, own = queries / 8;
  constexpr unsigned pitch = tile + 1;  // lanes read a column of K: other banks
  ASSAY_SHARED(C, q_tile, queries * tile);
  ASSAY_SHARED(C, k_tile, tile * pitch);
  ASSAY_SHARED(C, v_tile, tile * columns);
  const long long across = (g.dv + columns - 1) / columns, down = (g.sq + queries - 1) / queries;
  const long long first_column = blockIdx.x % across * columns, first_query = blockIdx.x / across % down * queries;
  const long long h = blockIdx.x / across / down % g.hq, e = blockIdx.x / across / down / g.hq;
  const T* const q = static_cast<const T*>(g.q) + e * g.q_b + h * g.q_h;
  const T* const k = static_cast<const T*>(g.k) + e * g.k_b + h / (g.hq / g.hkv) * g.k_h;
  const T* const v = static_cast<const T*>(g.v) + e * g.v_b + h / (g.hq / g.hkv) * g.v_h;
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;

  Running<C> running[own];
  for (unsigned r = 0; r < own; ++r) {
    const long long i = first_query + warp * own + r;
    running[r] = {i < g.sq ? keys_seen(g, e, i) : KeyRange{0, 0}, -infinity(C()), 0, {}};
  }
  // Ranges only move up with i: the block's keys lie between its first query's first and its last query's last.
  const long long last_query = first_query + queries < g.sq ? first_query + queries - 1 : g.sq - 1;
  const long long end = keys_seen(g, e, last_query).last;
  for (long long start = keys_seen(g, e, first_query).first / tile * tile; start < end; start += tile) {
    C dot[own] = {};
    for (long long l = 0; l < g.d; l += tile) {
      __syncthreads();
      load_tile(q_tile, tile, q, g.q_s, first_query, g.sq, queries, l, g.d, tile);
      load_tile(k_tile, pitch, k, g.k_s, start, end, tile, l, g.d, tile);
      __syncthreads();
      for (unsigned c = 0; c < tile; ++c)
        for (unsigned r = 0; r < own; ++r)
          dot[r] = fused(q_tile[(warp * own + r) * tile + c], k_tile[lane * pitch + c], dot[r]);
    }
    load_tile(v_tile, columns, v, g.v_s, start, end, tile, first_column, g.dv, columns);
    __syncthreads();
    for (unsigned r = 0; r < own; ++r) {
      const long long i = first_query + warp * own + r, j = start + lane;
      const bool visible = j >= running[r].seen.first && j < running[r].seen.last;
      take_tile(running[r], visible ? score<T>(g, dot[r], h, i, j) : C(0), start, v_tile);
    }
  }

  for (unsigned r = 0; r < own; ++r) {
    const long long i = first_query + warp * own + r;
    if (i >= g.sq) continue;
    for (unsigned c = 0; c < columns / 32; ++c) {
      const long long column = first_column + 32 * c + lane;
      if (column < g.dv)
        store<T>(g.o, e * g.o_b + h * g.o_h + i * g.o_s + column, running[r].context[c] / running[r].sum, g.o_is_f32);
    }
    if (lane == 0 && first_column == 0) write_log_sum_exp<T>(g, (e * g.hq + h) * g.sq + i, running[r].largest, running[r].sum);
  }
}

}  // namespace assay::kernels

#define ASSAY_ATTENTION(version, format, type)                                                       \
  extern "C" __global__ void attention_##version##_##format(const assay::kernels::AttentionArgs g) { \
    assay::kernels::attention_##version<type>(g);                                                    \
  }
ASSAY_ATTENTION(materialised, f32, float)
ASSAY_ATTENTION(materialised, f64, double)
ASSAY_ATTENTION(materialised, bf16, assay::kernels::bf16)
ASSAY_ATTENTION(materialised, f16, assay::kernels::f16)
ASSAY_ATTENTION(online, f32, float)
ASSAY_ATTENTION(online, f64, double)
ASSAY_ATTENTION(online, bf16, assay::kernels::bf16)
ASSAY_ATTENTION(online, f16, assay::kernels::f16)
