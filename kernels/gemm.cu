// SPDX-License-Identifier: Apache-2.0
// gemm: what kernels/gemm.hpp describes, naive first. Products and sums in fp32 (fp64 for fp64 data), but for mma, whose
// rounding is the hardware's.
#include "kernels/gemm.hpp"
#include "kernels/mma.cuh"
#include "kernels/portable.cuh"

namespace assay::kernels {

/// One matrix of a batch.
template <class T>
struct Matrix {
  const T* at;
  long long row, column;
  __device__ T operator()(long long i, long long j) const { return at[i * row + j * column]; }
};
template <class T>
__device__ Matrix<T> gemm_a(const GemmArgs& g, long long entry) {
  return {static_cast<const T*>(g.a) + entry * g.a_batch, g.a_row, g.a_column};
}
template <class T>
__device__ Matrix<T> gemm_b(const GemmArgs& g, long long entry) {
  return {static_cast<const T*>(g.b) + entry * g.b_batch, g.b_row, g.b_column};
}

/// How many products there are: none with alpha = 0, whatever A and B hold.
template <class T>
__device__ long long gemm_terms(const GemmArgs& g) {
  return static_cast<Compute<T>>(g.alpha) == 0 ? 0 : g.k;
}

/// c(i,j) = alpha sum + beta c(i,j).
template <class T>
__device__ void gemm_write(const GemmArgs& g, long long entry, long long i, long long j, Compute<T> sum) {
  using C = Compute<T>;
  const C alpha = static_cast<C>(g.alpha), beta = static_cast<C>(g.beta);
  const long long at = entry * g.c_batch + i * g.c_row + j * g.c_column;
  C value = alpha * sum;
  if (beta != 0) {
    const C old = g.c_is_f32 ? static_cast<const float*>(g.c)[at] : widen(static_cast<const T*>(g.c)[at]);
    value = alpha == 0 ? beta * old : fused(beta, old, value);
  }
  store<T>(g.c, at, value, g.c_is_f32);
}

/// a(i,l) b(l,j) summed over first <= l < last.
template <class T>
__device__ Compute<T> gemm_dot(const GemmArgs& g, long long entry, long long i, long long j, long long first, long long last) {
  const Matrix<T> a = gemm_a<T>(g, entry), b = gemm_b<T>(g, entry);
  Compute<T> sum = 0;
  for (long long l = first; l < last; ++l) sum = fused(widen(a(i, l)), widen(b(l, j)), sum);
  return sum;
}

/// One thread per output.
template <class T>
__device__ void gemm_naive(const GemmArgs& g) {
  const long long threads = static_cast<long long>(gridDim.x) * gemm_threads;
  for (long long x = static_cast<long long>(blockIdx.x) * gemm_threads + threadIdx.x; x < g.batch * g.m * g.n; x += threads) {
    const long long j = x % g.n, i = x / g.n % g.m, entry = x / g.n / g.m;
    gemm_write<T>(g, entry, i, j, gemm_dot<T>(g, entry, i, j, 0, gemm_terms<T>(g)));
  }
}

/// A block computes 64 x 64 outputs, a thread 4 x 4 of them, 16 apart. Shared: 64 x 16 of A, 16 x 64 of B, already widened.
template <class T>
__device__ void gemm_tiled(const GemmArgs& g) {
  using C = Compute<T>;
  constexpr unsigned tile = gemm_tile, step = gemm_tile_terms, row = tile + 1;  // + 1: other banks
  ASSAY_SHARED(C, a_tile, step * row);                                          // (l, i)
  ASSAY_SHARED(C, b_tile, step * row);                                          // (l, j)
  const long long down = (g.m + tile - 1) / tile, across = (g.n + tile - 1) / tile, k = gemm_terms<T>(g);
  const unsigned t = threadIdx.x, r = t / 16, s = t % 16;
  for (long long x = blockIdx.x; x < g.batch * down * across; x += gridDim.x) {
    const long long first_j = x % across * tile, first_i = x / across % down * tile, entry = x / across / down;
    const Matrix<T> a = gemm_a<T>(g, entry), b = gemm_b<T>(g, entry);
    C sum[4][4] = {};
    for (long long first = 0; first < k; first += step) {
      for (unsigned e = t; e < step * tile; e += gemm_threads) {
        const long long l = first + e % step, i = first_i + e / step, j = first_j + e / step;
        a_tile[e % step * row + e / step] = l < k && i < g.m ? widen(a(i, l)) : C(0);
        b_tile[e % step * row + e / step] = l < k && j < g.n ? widen(b(l, j)) : C(0);
      }
      __syncthreads();
      const unsigned terms = k - first < step ? static_cast<unsigned>(k - first) : step;  // a product 0 * 0 could turn -0 to 0
      for (unsigned l = 0; l < terms; ++l)
        for (unsigned p = 0; p < 4; ++p)
          for (unsigned q = 0; q < 4; ++q)
            sum[p][q] = fused(a_tile[l * row + r + 16 * p], b_tile[l * row + s + 16 * q], sum[p][q]);
      __syncthreads();
    }
#pragma unroll
    for (unsigned p = 0; p < 4; ++p)
#pragma unroll
      for (unsigned q = 0; q < 4; ++q) {
        const long long i = first_i + r + 16 * p, j = first_j + s + 16 * q;
        if (i < g.m && j < g.n) gemm_write<T>(g, entry, i, j, sum[p][q]);
      }
  }
}

/// Step 0: one thread per output and slice. Step 1: one per output. Workspace (slice, batch, m, n).
template <class T>
__device__ void gemm_split_k(const GemmArgs& g) {
  using C = Compute<T>;
  C* const part = static_cast<C*>(g.workspace);
  const long long k = gemm_terms<T>(g), length = (k + gemm_slices - 1) / gemm_slices, outputs = g.batch * g.m * g.n;
  const long long threads = static_cast<long long>(gridDim.x) * gemm_threads;
  const long long mine = static_cast<long long>(blockIdx.x) * gemm_threads + threadIdx.x;
  for (long long x = mine; x < (g.step == 0 ? gemm_slices * outputs : outputs); x += threads) {
    const long long j = x % g.n, i = x / g.n % g.m, entry = x / g.n / g.m % g.batch;
    if (g.step == 0) {
      const long long first = x / outputs * length, last = first + length < k ? first + length : k;
      part[x] = gemm_dot<T>(g, entry, i, j, first, last);
    } else {
      C sum = 0;
      for (long long slice = 0; slice < gemm_slices; ++slice) sum += part[slice * outputs + x];
      gemm_write<T>(g, entry, i, j, sum);
    }
  }
}

// ---- tensor cores ----------------------------------------------------------------------------------------------------

/// Two neighbours along l, from l on; zeros outside `rows` x `k`.
template <class T>
__device__ unsigned gemm_pair(const Matrix<T>& x, long long i, long long l, long long rows, long long k) {
  const unsigned low = i < rows && l < k ? x(i, l).bits : 0, high = i < rows && l + 1 < k ? x(i, l + 1).bits : 0;
  return high << 16 | low;
}

/// One instruction's worth of products, and word `half` of row i of an operand, whose columns are l: lane t of four holds it.
template <class T>
struct Mma;
template <>
struct Mma<bf16> {
  static constexpr int terms = 16;
  static __device__ unsigned word(const Matrix<bf16>& x, long long i, long long l, int half, int t, long long rows,
                                  long long k) {
    return gemm_pair(x, i, l + 8 * half + 2 * t, rows, k);
  }
  static __device__ void add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { mma_m16n8k16_bf16(d, a, b, d); }
};
template <>
struct Mma<f16> {
  static constexpr int terms = 16;
  static __device__ unsigned word(const Matrix<f16>& x, long long i, long long l, int half, int t, long long rows,
                                  long long k) {
    return gemm_pair(x, i, l + 8 * half + 2 * t, rows, k);
  }
  static __device__ void add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { mma_m16n8k16_f16(d, a, b, d); }
};
template <>
struct Mma<float> {
  static constexpr int terms = 8;
  static __device__ unsigned word(const Matrix<float>& x, long long i, long long l, int half, int t, long long rows,
                                  long long k) {
    l += 4 * half + t;
    return i < rows && l < k ? cvt_rna_tf32(x(i, l)) : 0;
  }
  static __device__ void add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) { mma_m16n8k8_tf32(d, a, b, d); }
};

/// A warp computes 16 x 8 outputs, fragments straight from global memory. B is read transposed, row j and column l.
template <class T>
__device__ void gemm_mma(const GemmArgs& g) {
  constexpr unsigned warps = gemm_mma_threads / 32;
  const long long down = (g.m + 15) / 16, across = (g.n + 7) / 8, k = gemm_terms<T>(g);
  const int lane = static_cast<int>(threadIdx.x % 32), group = lane / 4, t = lane % 4;
  const long long mine = static_cast<long long>(blockIdx.x) * warps + threadIdx.x / 32;
  for (long long x = mine; x < g.batch * down * across; x += static_cast<long long>(gridDim.x) * warps) {
    const long long first_j = x % across * 8, first_i = x / across % down * 16, entry = x / across / down;
    const Matrix<T> a = gemm_a<T>(g, entry), b = gemm_b<T>(g, entry), b_transposed = {b.at, b.column, b.row};
    float d[4] = {};
    for (long long l = 0; l < k; l += Mma<T>::terms) {
      unsigned a_words[4], b_words[2];
      for (int r = 0; r < 4; ++r) a_words[r] = Mma<T>::word(a, first_i + group + 8 * (r % 2), l, r / 2, t, g.m, k);
      for (int r = 0; r < 2; ++r) b_words[r] = Mma<T>::word(b_transposed, first_j + group, l, r, t, g.n, k);
      Mma<T>::add(d, a_words, b_words);
    }
    for (int r = 0; r < 4; ++r) {
      const long long i = first_i + group + 8 * (r / 2), j = first_j + 2 * t + r % 2;
      if (i < g.m && j < g.n) gemm_write<T>(g, entry, i, j, d[r]);
    }
  }
}
template <class T>
__device__ void gemm_mma_tf32(const GemmArgs& g) {
  gemm_mma<T>(g);
}

}  // namespace assay::kernels

#define ASSAY_GEMM(version, format, type)                                                  \
  extern "C" __global__ void gemm_##version##_##format(const assay::kernels::GemmArgs g) { \
    assay::kernels::gemm_##version<type>(g);                                               \
  }
#define ASSAY_GEMM_FORMATS(version)               \
  ASSAY_GEMM(version, f32, float)                 \
  ASSAY_GEMM(version, f64, double)                \
  ASSAY_GEMM(version, bf16, assay::kernels::bf16) \
  ASSAY_GEMM(version, f16, assay::kernels::f16)
ASSAY_GEMM_FORMATS(naive)
ASSAY_GEMM_FORMATS(tiled)
ASSAY_GEMM_FORMATS(split_k)
ASSAY_GEMM(mma, bf16, assay::kernels::bf16)
ASSAY_GEMM(mma, f16, assay::kernels::f16)
ASSAY_GEMM(mma_tf32, f32, float)
