// SPDX-License-Identifier: Apache-2.0
// Small kernels with one bug each, which a layer of the tests must find: entry planted_KERNEL_BUG, bug 0 is none.
#include "kernels/portable.cuh"
#include "tests/emulator/planted/planted.hpp"

namespace assay::emulator {

/// y (m,n) = a (m,k) b (k,n); one thread an element, tiles of 8x8, m and n multiples of 8, k any.
/// Bug 1: no barrier before the product. Bug 2: none after it.
template <int bug>
__device__ void planted_gemm(const PlantedArgs& g) {
  ASSAY_SHARED(float, left, 8][8);
  ASSAY_SHARED(float, right, 8][8);
  const int i = static_cast<int>(threadIdx.y), j = static_cast<int>(threadIdx.x);
  const int row = static_cast<int>(blockIdx.y) * 8 + i, column = static_cast<int>(blockIdx.x) * 8 + j;
  float sum = 0;
  for (int k = 0; k < g.k; k += 8) {
    left[i][j] = k + j < g.k ? g.a[row * g.k + k + j] : 0.f;
    right[i][j] = k + i < g.k ? g.b[(k + i) * g.n + column] : 0.f;
    if (bug != 1) __syncthreads();
    for (int l = 0; l < 8; ++l) sum += left[i][l] * right[l][j];
    if (bug != 2) __syncthreads();
  }
  g.y[row * g.n + column] = sum;
}

/// Softmax of one row of a a block of 64 threads, n at most 64.
/// Bug 3: no barrier inside the tree. Bug 4: none before the array is used again.
template <int bug>
__device__ void planted_softmax(const PlantedArgs& g) {
  ASSAY_SHARED(float, part, 64);
  const int t = static_cast<int>(threadIdx.x);
  const float x = t < g.n ? g.a[static_cast<int>(blockIdx.x) * g.n + t] : -kernels::infinity(0.f);
  part[t] = x;
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (t < half) part[t] = kernels::larger(part[t], part[t + half]);
    if (bug != 3) __syncthreads();
  }
  const float largest = part[0];
  if (bug != 4) __syncthreads();
  const float e = kernels::exponential(x - largest);
  part[t] = e;
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  if (t < g.n) g.y[static_cast<int>(blockIdx.x) * g.n + t] = e / part[0];
}

/// y = x - mean of a row of 64, two warps.
/// Bug 5: a barrier that only the first warp reaches. Bug 10: the sum over a warp begins at 8 lanes instead of 16.
template <int bug>
__device__ void planted_layernorm(const PlantedArgs& g) {
  ASSAY_SHARED(float, sum_of, 2);
  const int t = static_cast<int>(threadIdx.x), at = static_cast<int>(blockIdx.x) * 64 + t;
  float sum = g.a[at];
  for (int lanes = bug == 10 ? 8 : 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  if (t % 32 == 0) sum_of[t / 32] = sum;
  if (bug != 5 || t < 32) __syncthreads();
  g.y[at] = g.a[at] - (sum_of[0] + sum_of[1]) / 64.f;
}

/// One warp a query, one lane a key and a column of V: y = sum over keys of (q.k) v, n columns, 32 keys.
/// Bug 6: no __syncwarp between writing a score and reading the others'.
template <int bug>
__device__ void planted_attention(const PlantedArgs& g) {
  ASSAY_SHARED(float, score, 32);
  const int lane = static_cast<int>(threadIdx.x), query = static_cast<int>(blockIdx.x);
  float s = 0;
  for (int l = 0; l < g.k; ++l) s = fmaf(g.a[query * g.k + l], g.b[lane * g.k + l], s);
  score[lane] = s;
  if (bug != 6) __syncwarp();
  float sum = 0;
  for (int key = 0; key < 32; ++key) sum = fmaf(score[key], g.b[key * g.k + lane % g.k], sum);
  g.y[query * 32 + lane] = sum;
}

/// y[0] = sum of a.
/// Bug 7: a plain addition instead of an atomic one.
template <int bug>
__device__ void planted_sum(const PlantedArgs& g) {
  const float x = g.a[blockIdx.x * blockDim.x + threadIdx.x];
  if (bug == 7) {
    g.y[0] += x;
  } else {
    atomicAdd(&g.y[0], x);
  }
}

/// y = a + the element to its right, rows of 32, 0 beyond the last.
/// Bug 8: the tile has no place for that 0. Bug 9: one row too many is written.
template <int bug>
__device__ void planted_shift(const PlantedArgs& g) {
  ASSAY_SHARED(float, tile, bug == 8 ? 32 : 33);
  const int t = static_cast<int>(threadIdx.x), row = static_cast<int>(blockIdx.x);
  const bool inside = row < g.m;
  tile[t] = inside ? g.a[row * 32 + t] : 0.f;
  if constexpr (bug != 8)
    if (t == 0) tile[32] = 0.f;
  __syncthreads();
  const float* const from = tile;
  const float sum = from[t] + from[t + 1];
  if (row < g.m + (bug == 9)) g.y[row * 32 + t] = sum;
}

}  // namespace assay::emulator

#define ASSAY_PLANTED(kernel, bug)                                                            \
  extern "C" __global__ void planted_##kernel##_##bug(const assay::emulator::PlantedArgs g) { \
    assay::emulator::planted_##kernel<bug>(g);                                                \
  }
ASSAY_PLANTED(gemm, 0)
ASSAY_PLANTED(gemm, 1)
ASSAY_PLANTED(gemm, 2)
ASSAY_PLANTED(softmax, 0)
ASSAY_PLANTED(softmax, 3)
ASSAY_PLANTED(softmax, 4)
ASSAY_PLANTED(layernorm, 0)
ASSAY_PLANTED(layernorm, 5)
ASSAY_PLANTED(layernorm, 10)
ASSAY_PLANTED(attention, 0)
ASSAY_PLANTED(attention, 6)
ASSAY_PLANTED(sum, 0)
ASSAY_PLANTED(sum, 7)
ASSAY_PLANTED(shift, 0)
ASSAY_PLANTED(shift, 8)
ASSAY_PLANTED(shift, 9)
