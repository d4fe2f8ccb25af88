// SPDX-License-Identifier: Apache-2.0
// conv1d: what kernels/conv1d.hpp describes, naive first. Products and sums in fp32 (fp64 for fp64 data).
#include "kernels/conv1d.hpp"
#include "kernels/portable.cuh"

namespace assay::kernels {

/// y[b,o,j] = sum + bias[o].
template <class T>
__device__ void conv1d_write(const Conv1dArgs& g, long long b, long long o, long long j, Compute<T> sum) {
  if (g.bias) sum += widen(static_cast<const T*>(g.bias)[o]);
  store<T>(g.y, b * g.y_n + o * g.y_channel + j * g.y_position, sum, g.y_is_f32);
}

/// The first input channel of output channel o's group, in batch entry b.
template <class T>
__device__ const T* conv1d_signal(const Conv1dArgs& g, long long b, long long o) {
  return static_cast<const T*>(g.x) + b * g.x_n + o / (g.cout / g.groups) * (g.cin / g.groups) * g.x_channel;
}

/// One thread per output.
template <class T>
__device__ void conv1d_direct(const Conv1dArgs& g) {
  const long long index = static_cast<long long>(blockIdx.x) * conv1d_threads + threadIdx.x;
  if (index >= g.n * g.cout * g.lout) return;
  const long long j = index % g.lout, o = index / g.lout % g.cout, b = index / g.lout / g.cout;
  const T* const x = conv1d_signal<T>(g, b, o);
  const T* const w = static_cast<const T*>(g.w) + o * g.w_output;
  Compute<T> sum = 0;
  for (long long i = 0; i < g.cin / g.groups; ++i)
    for (long long t = 0; t < g.k; ++t) {
      const long long at = j * g.stride - g.padl + t * g.dilation;
      if (at < 0 || at >= g.l) continue;
      sum = fused(widen(w[i * g.w_input + t * g.w_tap]), widen(x[i * g.x_channel + at * g.x_position]), sum);
    }
  conv1d_write<T>(g, b, o, j, sum);
}

/// Of one group: W as (cout/groups, cin/groups k) times the unrolled signal (cin/groups k, n lout), which exists in tiles only.
/// A block computes 64 channels x 64 columns, a thread 4 x 4 of them: channels 4 r .. 4 r + 3 and columns c, c + 16, c + 32,
/// c + 48; column b lout + j is position j of batch entry b. Shared: both tiles, already widened.
template <class T>
__device__ void conv1d_implicit_gemm(const Conv1dArgs& g) {
  using C = Compute<T>;
  constexpr unsigned tile = conv1d_tile, step = conv1d_tile_terms, row = tile + 1;  // + 1: other banks
  ASSAY_SHARED(C, w_tile, step * row);                                              // (term, channel)
  ASSAY_SHARED(C, x_tile, step * tile);                                             // (term, column)
  const long long channels = g.cout / g.groups, terms = g.cin / g.groups * g.k, columns = g.n * g.lout;
  const long long across = (columns + tile - 1) / tile, down = (channels + tile - 1) / tile;
  const long long first_column = blockIdx.x % across * tile, first_channel = blockIdx.x / across % down * tile;
  const long long group = blockIdx.x / across / down;
  const T* const w = static_cast<const T*>(g.w) + group * channels * g.w_output;
  const unsigned t = threadIdx.x, r = t / 16, c = t % 16;
  // This thread loads one column of x_tile, always the same.
  const long long column = first_column + t % tile, start_at = column % g.lout * g.stride - g.padl;
  const T* const x = conv1d_signal<T>(g, column / g.lout, group * channels);

  C sum[4][4] = {};
  for (long long start = 0; start < terms; start += step) {
    for (unsigned e = t; e < step * tile; e += conv1d_threads) {
      const long long term = start + e % step, channel = first_channel + e / step;
      const bool inside = term < terms && channel < channels;
      w_tile[e % step * row + e / step] =
          inside ? widen(w[channel * g.w_output + term / g.k * g.w_input + term % g.k * g.w_tap]) : C(0);
    }
    for (unsigned e = t / tile; e < step; e += conv1d_threads / tile) {
      const long long term = start + e, at = start_at + term % g.k * g.dilation;
      const bool inside = term < terms && column < columns && at >= 0 && at < g.l;
      x_tile[e * tile + t % tile] = inside ? widen(x[term / g.k * g.x_channel + at * g.x_position]) : C(0);
    }
    __syncthreads();
    for (unsigned term = 0; term < step; ++term)
      for (unsigned i = 0; i < 4; ++i)
        for (unsigned j = 0; j < 4; ++j)
          sum[i][j] = fused(w_tile[term * row + 4 * r + i], x_tile[term * tile + c + 16 * j], sum[i][j]);
    __syncthreads();
  }
#pragma unroll  // sums stay in registers
  for (unsigned i = 0; i < 4; ++i)
#pragma unroll
    for (unsigned j = 0; j < 4; ++j) {
      const long long channel = first_channel + 4 * r + i, to = first_column + c + 16 * j;
      if (channel < channels && to < columns)
        conv1d_write<T>(g, to / g.lout, group * channels + channel, to % g.lout, sum[i][j]);
    }
}

/// groups = cin: a block computes 256 positions of one output channel. Shared: 256 taps at a time.
template <class T>
__device__ void conv1d_depthwise(const Conv1dArgs& g) {
  using C = Compute<T>;
  ASSAY_SHARED(C, taps, conv1d_threads);
  const long long across = (g.lout + conv1d_threads - 1) / conv1d_threads;
  const long long j = blockIdx.x % across * conv1d_threads + threadIdx.x, line = blockIdx.x / across;
  const long long o = line % g.cout, b = line / g.cout;
  const T* const x = conv1d_signal<T>(g, b, o);
  const T* const w = static_cast<const T*>(g.w) + o * g.w_output;
  C sum = 0;
  for (long long start = 0; start < g.k; start += conv1d_threads) {
    const long long count = g.k - start < conv1d_threads ? g.k - start : conv1d_threads;
    if (threadIdx.x < count) taps[threadIdx.x] = widen(w[(start + threadIdx.x) * g.w_tap]);
    __syncthreads();
    if (j < g.lout)
      for (long long t = 0; t < count; ++t) {
        const long long at = j * g.stride - g.padl + (start + t) * g.dilation;
        if (at >= 0 && at < g.l) sum = fused(taps[t], widen(x[at * g.x_position]), sum);
      }
    __syncthreads();
  }
  if (j < g.lout) conv1d_write<T>(g, b, o, j, sum);
}

}  // namespace assay::kernels

#define ASSAY_CONV1D(version, format, type)                                                    \
  extern "C" __global__ void conv1d_##version##_##format(const assay::kernels::Conv1dArgs g) { \
    assay::kernels::conv1d_##version<type>(g);                                                 \
  }
#define ASSAY_CONV1D_FORMATS(version)               \
  ASSAY_CONV1D(version, f32, float)                 \
  ASSAY_CONV1D(version, f64, double)                \
  ASSAY_CONV1D(version, bf16, assay::kernels::bf16) \
  ASSAY_CONV1D(version, f16, assay::kernels::f16)
ASSAY_CONV1D_FORMATS(direct)
ASSAY_CONV1D_FORMATS(implicit_gemm)
ASSAY_CONV1D_FORMATS(depthwise)
