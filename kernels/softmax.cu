// SPDX-License-Identifier: Apache-2.0
// softmax: what kernels/softmax.hpp describes, naive first. Exponentials and sums in fp32 (fp64 for fp64 data). NaN anywhere in
// a row makes the whole row NaN, and so does a row of nothing but -Inf.
#include "kernels/portable.cuh"
#include "kernels/softmax.hpp"

namespace assay::kernels {

/// y = exp(x - largest) / sum, or x - largest - ln(sum), for this thread's share of the row.
template <class T>
__device__ void softmax_write(const SoftmaxArgs& g, const T* x, Compute<T> largest, Compute<T> sum) {
  const Compute<T> log_sum = g.log ? logarithm(sum) : 0;
  for (long long j = threadIdx.x; j < g.n; j += softmax_threads) {
    const Compute<T> shifted = widen(x[j]) - largest;
    store<T>(g.y, blockIdx.x * g.ldy + j, g.log ? shifted - log_sum : exponential(shifted) / sum, g.y_is_f32);
  }
}

/// Reads the row three times. Shared: one number per thread.
template <class T>
__device__ void softmax_two_pass(const SoftmaxArgs& g) {
  using C = Compute<T>;
  ASSAY_SHARED(C, part, softmax_threads);
  const T* const x = static_cast<const T*>(g.x) + blockIdx.x * g.ldx;
  const unsigned t = threadIdx.x;

  C largest = -infinity(C());
  for (long long j = t; j < g.n; j += softmax_threads) largest = larger(largest, widen(x[j]));
  part[t] = largest;
  __syncthreads();
  for (unsigned half = softmax_threads / 2; half > 0; half /= 2) {
    if (t < half) part[t] = larger(part[t], part[t + half]);
    __syncthreads();
  }
  largest = part[0];
  __syncthreads();  // everyone has read part[0] before it becomes a sum

  C sum = 0;
  for (long long j = t; j < g.n; j += softmax_threads) sum += exponential(widen(x[j]) - largest);
  part[t] = sum;
  __syncthreads();
  for (unsigned half = softmax_threads / 2; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  softmax_write(g, x, largest, part[0]);
}

/// Largest element so far, and the sum of exponentials relative to it.
template <class C>
struct Running {
  C largest, sum;
};

/// A part that has seen nothing but -Inf has sum 0 and must not bring in exp(-Inf + Inf).
template <class C>
__device__ Running<C> merge(Running<C> a, Running<C> b) {
  const C largest = larger(a.largest, b.largest), nothing = -infinity(C());
  const C from_a = a.largest == nothing ? 0 : a.sum * exponential(a.largest - largest);
  const C from_b = b.largest == nothing ? 0 : b.sum * exponential(b.largest - largest);
  return {largest, from_a + from_b};
}

/// Reads the row twice. Shared: one pair per warp.
template <class T>
__device__ void softmax_online(const SoftmaxArgs& g) {
  using C = Compute<T>;
  constexpr unsigned warps = softmax_threads / 32;
  ASSAY_SHARED(C, largest_of, warps);
  ASSAY_SHARED(C, sum_of, warps);
  const T* const x = static_cast<const T*>(g.x) + blockIdx.x * g.ldx;

  Running<C> mine{-infinity(C()), 0};
  for (long long j = threadIdx.x; j < g.n; j += softmax_threads) mine = merge(mine, Running<C>{widen(x[j]), 1});
  for (int lanes = 16; lanes > 0; lanes /= 2)
    mine = merge(
        mine, Running<C>{__shfl_down_sync(0xffffffffu, mine.largest, lanes), __shfl_down_sync(0xffffffffu, mine.sum, lanes)});
  if (threadIdx.x % 32 == 0) largest_of[threadIdx.x / 32] = mine.largest, sum_of[threadIdx.x / 32] = mine.sum;
  __syncthreads();
  Running<C> all{largest_of[0], sum_of[0]};
  for (unsigned w = 1; w < warps; ++w) all = merge(all, Running<C>{largest_of[w], sum_of[w]});
  softmax_write(g, x, all.largest, all.sum);
}

}  // namespace assay::kernels

#define ASSAY_SOFTMAX(version, format, type)                                                     \
  extern "C" __global__ void softmax_##version##_##format(const assay::kernels::SoftmaxArgs g) { \
    assay::kernels::softmax_##version<type>(g);                                                  \
  }
ASSAY_SOFTMAX(two_pass, f32, float)
ASSAY_SOFTMAX(two_pass, f64, double)
ASSAY_SOFTMAX(two_pass, bf16, assay::kernels::bf16)
ASSAY_SOFTMAX(two_pass, f16, assay::kernels::f16)
ASSAY_SOFTMAX(online, f32, float)
ASSAY_SOFTMAX(online, f64, double)
ASSAY_SOFTMAX(online, bf16, assay::kernels::bf16)
ASSAY_SOFTMAX(online, f16, assay::kernels::f16)
