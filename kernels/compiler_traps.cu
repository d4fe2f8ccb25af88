// SPDX-License-Identifier: Apache-2.0
// What kernels/compiler_traps.hpp lists, each written the way that went wrong. Not simplified on purpose: the shape is the
// test.
#include "kernels/compiler_traps.hpp"
#include "kernels/portable.cuh"

namespace assay::kernels {

constexpr unsigned all_lanes = 0xffffffffu;

__device__ inline long long trap_index() {
  return static_cast<long long>(blockIdx.x) * trap_threads + threadIdx.x;
}
__device__ inline unsigned trap_word(const TrapArgs& g, long long i) {
  return i < g.n ? static_cast<const unsigned*>(g.in)[i] : 0;
}
__device__ inline void trap_store(const TrapArgs& g, long long i, unsigned value) {
  if (i < g.n) static_cast<unsigned*>(g.out)[i] = value;
}
__device__ inline float trap_small(const TrapArgs& g, long long i) {
  return static_cast<float>(static_cast<int>((trap_word(g, i) & 0xfffu) | 1u) - 2048);
}

/// |x| as the report has it; from max(x, -x) in C++ the front end makes abs.
__device__ inline int absolute_by_max(int x) {
#ifdef ASSAY_EMULATOR
  return max(x, static_cast<int>(0u - static_cast<unsigned>(x)));
#else
  int y;
  asm("{\n\t.reg .s32 negated;\n\tneg.s32 negated, %1;\n\tmax.s32 %0, %1, negated;\n\t}" : "=r"(y) : "r"(x));
  return y;
#endif
}
__device__ inline unsigned trap_abs_max(const TrapArgs& g, long long i) {
  const int x = static_cast<int>(trap_word(g, i)), y = static_cast<int>(trap_word(g, i ^ 1));
  return static_cast<unsigned>(max(absolute_by_max(x), absolute_by_max(y)));
}

__device__ inline unsigned trap_negated_max(const TrapArgs& g, long long i) {
  const float a = trap_small(g, i), b = trap_small(g, i ^ 1), c = trap_small(g, i ^ 2);
  return static_cast<unsigned>(static_cast<int>(fmaxf(-fmaxf(-a, -b), c)));
}

/// The order of fp32 numbers as integers.
__device__ inline unsigned sort_key(float x) {
  const unsigned bits = __float_as_uint(x);
  return bits ^ ((bits & 0x80000000u) != 0 ? 0xffffffffu : 0x80000000u);
}
__device__ inline unsigned trap_sign_flip(const TrapArgs& g, long long i) {
  const float x = __uint_as_float(trap_word(g, i)), y = __uint_as_float(trap_word(g, i ^ 1));
  return min(sort_key(__uint_as_float(__float_as_uint(x) ^ 0x80000000u)), sort_key(y));
}

/// Of a group of lanes: the largest value by |value|, and where it is found.
struct Extreme {
  short value;
  int lowest, highest;
};
union ExtremeWords {
  unsigned word[3];
  Extreme extreme;
};
__device__ inline unsigned magnitude(short x) {
  return x < 0 ? 0u - static_cast<unsigned>(x) : static_cast<unsigned>(x);  // 32768 is no short
}
__device__ inline Extreme larger_of(const Extreme& a, const Extreme& b) {
  if (magnitude(a.value) != magnitude(b.value)) return magnitude(a.value) > magnitude(b.value) ? a : b;
  return {a.value, min(a.lowest, b.lowest), max(a.highest, b.highest)};
}
__device__ inline unsigned trap_argmax_ties(const TrapArgs& g, long long i) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  ExtremeWords mine = {{0, 0, 0}};
  mine.extreme = {static_cast<short>(trap_word(g, i) & 0xffffu), lane, lane};
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    ExtremeWords other;
    for (int k = 0; k < 3; ++k) other.word[k] = __shfl_down_sync(all_lanes, mine.word[k], lanes);
    mine.extreme = larger_of(mine.extreme, other.extreme);
  }
  const int lowest = __shfl_sync(all_lanes, mine.extreme.lowest, 0), highest = __shfl_sync(all_lanes, mine.extreme.highest, 0);
  return static_cast<unsigned>(lane % 2 == 0 ? lowest : highest);
}

/// Both lanes of a pair take the same way.
__device__ inline unsigned trap_divergent_shuffle(const TrapArgs& g, long long i) {
  unsigned x = trap_word(g, i);
  const unsigned control = __shfl_sync(all_lanes, x, static_cast<int>(threadIdx.x % 32 & ~1u));
  const unsigned outer = __ballot_sync(all_lanes, (control & 1) != 0);
  if (control & 1) {
    x += __shfl_xor_sync(outer, x, 1);
    const unsigned inner = __ballot_sync(outer, (control & 2) != 0);
    if (control & 2) {
      unsigned active = inner;
      for (unsigned k = 0;; ++k) {
        const bool more = k < (control >> 2 & 3);
        const unsigned next = __ballot_sync(active, more);
        if (!more) break;
        active = next;
        x = 3 * x + __shfl_xor_sync(active, x, 1);
      }
    } else {
      x ^= __shfl_xor_sync(outer & ~inner, x, 1) >> 1;
    }
  } else {
    x -= 5 * __shfl_xor_sync(~outer, x, 1);
  }
  __syncwarp();
  return x + 7 * __shfl_xor_sync(all_lanes, x, 2);
}

/// Stores by itself, for it has several exits.
__device__ inline void trap_early_exit_all(const TrapArgs& g) {
  constexpr unsigned warps = trap_threads / 32;
  ASSAY_SHARED(unsigned, part, warps);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned sum = trap_word(g, trap_index());
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(all_lanes, sum, lanes);
  if (lane == 0) {
    if (warp >= warps) __trap();
    part[warp] = sum;
  }
  __syncthreads();
  sum = __shfl_sync(all_lanes, sum, 0);
  if (lane != 0) {
    trap_store(g, trap_index(), sum ^ lane);
    return;
  }
  trap_store(g, trap_index(), part[0] + 3 * part[1] + 5 * part[2] + 7 * part[3]);
}

__device__ inline unsigned trap_bit_select(const TrapArgs& g, long long i) {
  const unsigned a = trap_word(g, i), b = trap_word(g, i ^ 1);
  const unsigned merged = (a & 0x00ff00ffu) | (b & 0xff00ff00u);
  if (((a & 0x00ff00ffu) | (b & 0xff00ff00u)) == 0) return 0xdeadu;
  if ((merged ^ b) == 0) return merged + 1;
  return merged;
}

/// Both halves, each modulo 2^16.
__device__ inline unsigned add_pairs(unsigned a, unsigned b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  unsigned sum;
  asm("add.s16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
#else
  return ((a + b) & 0xffffu) | (((a >> 16) + (b >> 16)) << 16);
#endif
}
__device__ inline unsigned trap_packed_add(const TrapArgs&, long long i) {
  unsigned value[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int at = static_cast<int>(i % 4096) * 4 + k;
    value[k] = static_cast<unsigned>(at / 8 % 2 == 1 ? (at * 9 + 1) % 1000 : at);
  }
  const unsigned one = 0x00010001u;
  return add_pairs(value[0] | value[1] << 16, one) + 5 * add_pairs(value[2] | value[3] << 16, one);
}

__device__ inline short saturated_negation(short x) {
  const short negated = static_cast<short>(0 - x);
  return x < 0 && negated < 0 ? static_cast<short>(32767) : negated;
}
__device__ inline unsigned trap_saturated_negation(const TrapArgs& g, long long i) {
  const short x = saturated_negation(static_cast<short>(trap_word(g, i) & 0xffffu));
  const short y = saturated_negation(static_cast<short>(trap_word(g, i ^ 1) & 0xffffu));
  return static_cast<unsigned>(x + y);
}

__device__ inline unsigned trap_packed_f32(const TrapArgs& g, long long i) {
  const long long even = i - i % 2;
  const float2 p = {trap_small(g, even), trap_small(g, even + 1)}, q = {p.y, p.x};
  const float2 product = {p.x * q.x, p.y * q.y}, sum = {product.x + p.x, product.y + p.y};
  const float2 third = {fmaf(3, q.x, -p.x), fmaf(3, q.y, -p.y)}, difference = {sum.x - third.x, sum.y - third.y};
  return static_cast<unsigned>(static_cast<int>(i % 2 == 0 ? difference.x : difference.y));
}

struct Complex {
  double re, im;
};
__device__ inline Complex operator*(const Complex& a, const Complex& b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
__device__ inline unsigned trap_complex_product(const TrapArgs& g, long long i) {
  Complex factor[4];
  for (int k = 0; k < 4; ++k) {
    const Complex local = {trap_small(g, i ^ k), trap_small(g, i ^ k ^ 4)};
    factor[k] = local;
  }
  Complex product = {1, 0};
  for (int k = 0; k < 4; ++k) product = product * factor[k];
  return static_cast<unsigned>(static_cast<long long>(i % 2 == 0 ? product.re : product.im));
}

__device__ inline unsigned trap_wide_index(const TrapArgs& g, long long i) {
  const int stride = 0x30000001 + static_cast<int>(trap_word(g, i) & 0xffu);
  unsigned long long sum = 0;
#pragma unroll
  for (int row = 0; row < 8; ++row) {
    const long long at = static_cast<long long>(row + 5) * stride + i - (1ll << 35);
    sum += (static_cast<unsigned long long>(at) >> 32) * 0x10001u ^ static_cast<unsigned long long>(at);
  }
  const long long fifth = 5ll * stride + i;
  return static_cast<unsigned>(sum) + trap_word(g, fifth % 32);
}

__device__ inline unsigned trap_signed_division(const TrapArgs& g, long long i) {
  const int x = static_cast<int>(trap_word(g, i) | 1u);
  const int shift = 31 - static_cast<int>(g.n >> 62);  // 31, but not known when this is compiled
  const int minus_one = static_cast<int>(0x80000000u) >> shift;
  return static_cast<unsigned>(x / 8) + 3 * static_cast<unsigned>(x >> 4) + 5 * static_cast<unsigned>(x % 7) +
         11 * static_cast<unsigned>(x / minus_one);
}

/// Stores by itself: 16 threads, 8 words each.
__device__ inline void trap_predicated_store_all(const TrapArgs& g) {
  ASSAY_SHARED(unsigned, staged, trap_threads);
  const unsigned t = threadIdx.x;
  staged[t] = trap_word(g, trap_index());
  __syncthreads();
  if (t >= 16) return;
  const unsigned control = staged[t];
  unsigned* const out = static_cast<unsigned*>(g.out);
  const long long first = static_cast<long long>(blockIdx.x) * trap_threads;
#pragma unroll
  for (unsigned k = 0; k < 8; ++k) {
    const unsigned at = t + 16 * k;
    if (first + at < g.n && (control >> k & 1) != 0) out[first + at] = staged[at] * 3;
    if (first + at < g.n && (control >> k & 1) == 0) out[first + at] = staged[at] + 1;
  }
}

struct Run {
  int first, last;
};
__device__ inline bool operator==(const Run& a, const Run& b) {
  return a.first == b.first && a.last == b.last;
}
__device__ inline Run join(const Run& x, const Run& y) {
  constexpr Run empty = {-1, -1}, broken = {-2, -2};
  return x == empty                   ? y
         : y == empty                 ? x
         : x == broken || y == broken ? broken
         : x.last + 1 == y.first      ? Run{x.first, y.last}
                                      : broken;
}
__device__ inline unsigned trap_nested_selects(const TrapArgs& g, long long i) {
  Run all = {-1, -1};
  for (int k = 0; k < 8; ++k) {
    const unsigned kind = trap_word(g, i ^ k) % 8;
    all = join(all, kind == 0 ? Run{-1, -1} : kind == 1 ? Run{-2, -2} : Run{k, k + (kind == 2)});
  }
  return static_cast<unsigned>(all.first & 0xffff) << 16 | static_cast<unsigned>(all.last & 0xffff);
}

}  // namespace assay::kernels

#define ASSAY_TRAP(name)                                                     \
  extern "C" __global__ void trap_##name(const assay::kernels::TrapArgs g) { \
    const long long i = assay::kernels::trap_index();                        \
    assay::kernels::trap_store(g, i, assay::kernels::trap_##name(g, i));     \
  }
ASSAY_TRAP(abs_max)
ASSAY_TRAP(negated_max)
ASSAY_TRAP(sign_flip)
ASSAY_TRAP(argmax_ties)
ASSAY_TRAP(divergent_shuffle)
ASSAY_TRAP(bit_select)
ASSAY_TRAP(packed_add)
ASSAY_TRAP(saturated_negation)
ASSAY_TRAP(packed_f32)
ASSAY_TRAP(complex_product)
ASSAY_TRAP(wide_index)
ASSAY_TRAP(signed_division)
ASSAY_TRAP(nested_selects)

#define ASSAY_TRAP_WHOLE(name)                                               \
  extern "C" __global__ void trap_##name(const assay::kernels::TrapArgs g) { \
    assay::kernels::trap_##name##_all(g);                                    \
  }
ASSAY_TRAP_WHOLE(early_exit)
ASSAY_TRAP_WHOLE(predicated_store)
