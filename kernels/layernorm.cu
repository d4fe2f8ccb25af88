// SPDX-License-Identifier: Apache-2.0
// layernorm and RMSNorm: what kernels/layernorm.hpp describes, naive first. Computed in fp32 (fp64 for fp64 data). NaN anywhere
// in a row makes the whole row NaN.
#include "kernels/layernorm.hpp"
#include "kernels/portable.cuh"

namespace assay::kernels {

__device__ inline float square_root(float x) {
  return sqrtf(x);
}
__device__ inline double square_root(double x) {
  return sqrt(x);
}

/// This thread's share of the row, and the statistics of the row; `squares` is a sum.
template <class T>
__device__ void layernorm_write(const LayernormArgs& g, const T* x, Compute<T> mean, Compute<T> squares) {
  using C = Compute<T>;
  const C rstd = C(1) / square_root(squares / static_cast<C>(g.n) + static_cast<C>(g.eps));
  const C* const gamma = static_cast<const C*>(g.gamma);
  const C* const beta = static_cast<const C*>(g.beta);
  for (long long j = threadIdx.x; j < g.n; j += layernorm_threads) {
    C y = (widen(x[j]) - mean) * rstd;
    if (gamma) y *= gamma[j];
    if (beta) y += beta[j];
    store<T>(g.y, blockIdx.x * g.ldy + j, y, g.y_is_f32);
  }
  if (threadIdx.x != 0) return;
  if (g.mean) static_cast<C*>(g.mean)[blockIdx.x] = mean;
  if (g.rstd) static_cast<C*>(g.rstd)[blockIdx.x] = rstd;
}

/// Sum over the threads of a block; `part` has one number per thread.
template <class C>
__device__ C tree_sum(C* part, C mine) {
  const unsigned t = threadIdx.x;
  part[t] = mine;
  __syncthreads();
  for (unsigned half = layernorm_threads / 2; half > 0; half /= 2) {
    if (t < half) part[t] += part[t + half];
    __syncthreads();
  }
  const C sum = part[0];
  __syncthreads();  // everyone has read it before part is used again
  return sum;
}

/// Reads the row three times (rms: twice). Shared: one number per thread.
template <class T>
__device__ void layernorm_two_pass(const LayernormArgs& g) {
  using C = Compute<T>;
  ASSAY_SHARED(C, part, layernorm_threads);
  const T* const x = static_cast<const T*>(g.x) + blockIdx.x * g.ldx;
  C mean = 0;
  if (!g.rms) {
    C sum = 0;
    for (long long j = threadIdx.x; j < g.n; j += layernorm_threads) sum += widen(x[j]);
    mean = tree_sum(part, sum) / static_cast<C>(g.n);
  }
  C squares = 0;
  for (long long j = threadIdx.x; j < g.n; j += layernorm_threads) {
    const C deviation = widen(x[j]) - mean;
    squares += deviation * deviation;
  }
  layernorm_write(g, x, mean, tree_sum(part, squares));
}

/// Of the elements seen so far: how many (exact: n is at most 2^24), their mean (rms: 0), the sum of squares of distances from
/// it.
template <class C>
struct Moments {
  C count, mean, squares;
};

/// Chan, Golub & LeVeque 1979. The mean of the part with more elements is the one that is moved: `a` has no fewer than `b`.
template <class C>
__device__ Moments<C> merge(Moments<C> a, Moments<C> b) {
  if (b.count == 0) return a;
  const C count = a.count + b.count, delta = b.mean - a.mean, share = b.count / count;
  return {count, a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share};
}

/// Reads the row twice. Shared: one triple per warp. Earlier lanes and warps hold no fewer elements than later ones.
template <class T>
__device__ void layernorm_welford(const LayernormArgs& g) {
  using C = Compute<T>;
  constexpr unsigned warps = layernorm_threads / 32;
  ASSAY_SHARED(C, count_of, warps);
  ASSAY_SHARED(C, mean_of, warps);
  ASSAY_SHARED(C, squares_of, warps);
  const T* const x = static_cast<const T*>(g.x) + blockIdx.x * g.ldx;

  Moments<C> mine{0, 0, 0};
  for (long long j = threadIdx.x; j < g.n; j += layernorm_threads) {
    const C value = widen(x[j]);
    mine.count += 1;
    if (g.rms) {
      mine.squares = fused(value, value, mine.squares);
    } else {
      const C delta = value - mine.mean;
      mine.mean += delta / mine.count;
      mine.squares += delta * (value - mine.mean);
    }
  }
  for (int lanes = 16; lanes > 0; lanes /= 2)
    mine = merge(mine,
                 Moments<C>{__shfl_down_sync(0xffffffffu, mine.count, lanes), __shfl_down_sync(0xffffffffu, mine.mean, lanes),
                            __shfl_down_sync(0xffffffffu, mine.squares, lanes)});
  if (threadIdx.x % 32 == 0) {
    const unsigned w = threadIdx.x / 32;
    count_of[w] = mine.count, mean_of[w] = mine.mean, squares_of[w] = mine.squares;
  }
  __syncthreads();
  Moments<C> all{count_of[0], mean_of[0], squares_of[0]};
  for (unsigned w = 1; w < warps; ++w) all = merge(all, Moments<C>{count_of[w], mean_of[w], squares_of[w]});
  layernorm_write(g, x, all.mean, all.squares);
}

}  // namespace assay::kernels

#define ASSAY_LAYERNORM(version, format, type)                                                       \
  extern "C" __global__ void layernorm_##version##_##format(const assay::kernels::LayernormArgs g) { \
    assay::kernels::layernorm_##version<type>(g);                                                    \
  }
ASSAY_LAYERNORM(two_pass, f32, float)
ASSAY_LAYERNORM(two_pass, f64, double)
ASSAY_LAYERNORM(two_pass, bf16, assay::kernels::bf16)
ASSAY_LAYERNORM(two_pass, f16, assay::kernels::f16)
ASSAY_LAYERNORM(welford, f32, float)
ASSAY_LAYERNORM(welford, f64, double)
ASSAY_LAYERNORM(welford, bf16, assay::kernels::bf16)
ASSAY_LAYERNORM(welford, f16, assay::kernels::f16)
