// SPDX-License-Identifier: Apache-2.0
// The CUDA language for g++: included before a kernel file, it makes the file's entries functions that launch() can run.
// Instructions that hardware approximates (ex2, rsqrt, tanh, __expf) are left out on purpose: they have no exact twin.
#pragma once

#include <math.h>
#include <stddef.h>

#include "tests/emulator/runtime.hpp"
#include "tests/emulator/tensor_core.hpp"

#define ASSAY_EMULATOR

#ifdef ASSAY_LIST_ENTRIES  // preprocessed only, to learn the names of the entries
#define __global__ ASSAY_ENTRY
#else
#define __global__
#endif
#define __device__
#define __host__
#define __shared__ static_assert(false, "declare shared arrays with ASSAY_SHARED");
#define __constant__ const
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define ASSAY_UNCHECKED __attribute__((noinline, no_sanitize("thread")))

#define ASSAY_SHARED(type, name, count) \
  static const char name##_key = 0;     \
  type(&name)[count] =                  \
      *static_cast<type(*)[count]>(::assay::emulator::shared_array(&name##_key, sizeof(type[count]), alignof(type), #name))
#define ASSAY_DYNAMIC_SHARED(type, name) type* const name = static_cast<type*>(::assay::emulator::dynamic_shared())

#define threadIdx (::assay::emulator::position.thread)
#define blockIdx (::assay::emulator::position.block)
#define blockDim (::assay::emulator::position.block_dim)
#define gridDim (::assay::emulator::position.grid_dim)
inline constexpr int warpSize = 32;

// ---- entries ---------------------------------------------------------------------------------------------------------

namespace assay::emulator {

template <class A>
A argument_of(void (*)(A));

/// Copies the arguments to the thread's own stack, as hardware gives each thread constant parameters.
template <auto entry>
ASSAY_UNCHECKED void run_entry(const void* args) {
  using Args = decltype(argument_of(entry));
  entry(*static_cast<const Args*>(args));
}

}  // namespace assay::emulator
#define ASSAY_ENTRY_ROW(name) \
  { #name, ::assay::emulator::run_entry < name>, sizeof(decltype(::assay::emulator::argument_of(name))) }

// ---- barriers and warps ----------------------------------------------------------------------------------------------

inline void __syncthreads(assay::emulator::CodePlace at = assay::emulator::code_here()) {
  assay::emulator::barrier(0, at);
}
inline int __syncthreads_count(int predicate, assay::emulator::CodePlace at = assay::emulator::code_here()) {
  return assay::emulator::barrier(predicate != 0, at);
}
inline int __syncthreads_or(int predicate, assay::emulator::CodePlace at = assay::emulator::code_here()) {
  return assay::emulator::barrier(predicate != 0, at) != 0;
}
inline int __syncthreads_and(int predicate, assay::emulator::CodePlace at = assay::emulator::code_here()) {
  return assay::emulator::barrier(predicate == 0, at) == 0;
}

inline void __syncwarp(unsigned mask = 0xffffffffu, assay::emulator::CodePlace at = assay::emulator::code_here()) {
  static constexpr assay::emulator::Collective kind{"__syncwarp", assay::emulator::order_lanes};
  char nothing = 0;
  assay::emulator::collective(mask, kind, &nothing, at);
}

/// A legal answer is any set of lanes that are together; fibers run alone. Code that needs more is wrong on hardware too.
inline unsigned __activemask() {
  return 1u << assay::emulator::position.lane;
}

namespace assay::emulator {

template <class T>
struct Shuffled {
  T value, result;
  int from;  // lane
};

template <class T>
ASSAY_UNCHECKED void finish_shuffle(void* const (&lanes)[32]) {
  for (int lane = 0; lane < 32; ++lane) {
    if (!lanes[lane]) continue;
    auto& mine = *static_cast<Shuffled<T>*>(lanes[lane]);
    if (const auto* const source = static_cast<const Shuffled<T>*>(lanes[mine.from])) {
      mine.result = source->value;
    } else {
      report_absent_source(lane, mine.from);
      __builtin_memset(&mine.result, 0xff, sizeof(T));
    }
  }
}

template <class T>
T shuffle(unsigned mask, T value, int from, const Collective& kind, CodePlace at) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  Shuffled<T> mine{value, value, from};
  collective(mask, kind, &mine, at);
  return mine.result;
}

inline int lane() {
  return static_cast<int>(position.lane);
}

}  // namespace assay::emulator

// As PTX shfl.sync: lanes are confined to segments of `width`, a power of two; a lane that would read beyond reads itself.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              assay::emulator::CodePlace at = assay::emulator::code_here()) {
  static constexpr assay::emulator::Collective kind{"__shfl_sync", assay::emulator::finish_shuffle<T>};
  const int lane = assay::emulator::lane();
  return assay::emulator::shuffle(mask, value, (lane & -width) | (source & (width - 1)), kind, at);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 assay::emulator::CodePlace at = assay::emulator::code_here()) {
  static constexpr assay::emulator::Collective kind{"__shfl_up_sync", assay::emulator::finish_shuffle<T>};
  const int lane = assay::emulator::lane(), from = lane - static_cast<int>(delta);
  return assay::emulator::shuffle(mask, value, from < (lane & -width) ? lane : from, kind, at);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   assay::emulator::CodePlace at = assay::emulator::code_here()) {
  static constexpr assay::emulator::Collective kind{"__shfl_down_sync", assay::emulator::finish_shuffle<T>};
  const int lane = assay::emulator::lane(), from = lane + static_cast<int>(delta);
  return assay::emulator::shuffle(mask, value, from > (lane | (width - 1)) ? lane : from, kind, at);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                  assay::emulator::CodePlace at = assay::emulator::code_here()) {
  static constexpr assay::emulator::Collective kind{"__shfl_xor_sync", assay::emulator::finish_shuffle<T>};
  const int lane = assay::emulator::lane(), from = lane ^ (bits & 31);
  return assay::emulator::shuffle(mask, value, from > (lane | (width - 1)) ? lane : from, kind, at);
}

namespace assay::emulator {

template <class T>
struct Reduced {
  T value, result;
};

/// Every lane gets the values of all that take part, joined two by two.
template <class T, T (*join)(T, T)>
ASSAY_UNCHECKED void finish_reduce(void* const (&lanes)[32]) {
  const Reduced<T>* first = nullptr;
  T all{};
  for (void* const lane : lanes) {
    if (!lane) continue;
    const auto* const one = static_cast<const Reduced<T>*>(lane);
    all = first ? join(all, one->value) : one->value;
    if (!first) first = one;
  }
  for (void* const lane : lanes)
    if (lane) static_cast<Reduced<T>*>(lane)->result = all;
}

template <class T>
T reduce(unsigned mask, T value, const Collective& kind, CodePlace at) {
  Reduced<T> mine{value, value};
  collective(mask, kind, &mine, at);
  return mine.result;
}

template <class T>
T join_add(T a, T b) {
  return static_cast<T>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
}
template <class T>
T join_min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T join_max(T a, T b) {
  return a < b ? b : a;
}
inline unsigned join_and(unsigned a, unsigned b) {
  return a & b;
}
inline unsigned join_or(unsigned a, unsigned b) {
  return a | b;
}
inline unsigned join_xor(unsigned a, unsigned b) {
  return a ^ b;
}

/// The mask of lanes whose value equals one's own.
template <class T>
ASSAY_UNCHECKED void finish_match(void* const (&lanes)[32]) {
  struct Matched {
    T value;
    unsigned result;
  };
  for (void* const lane : lanes) {
    if (!lane) continue;
    auto& mine = *static_cast<Matched*>(lane);
    mine.result = 0;
    for (int other = 0; other < 32; ++other)
      if (lanes[other] && static_cast<const Matched*>(lanes[other])->value == mine.value) mine.result |= 1u << other;
  }
}

}  // namespace assay::emulator

inline unsigned __ballot_sync(unsigned mask, int predicate, assay::emulator::CodePlace at = assay::emulator::code_here()) {
  static constexpr assay::emulator::Collective kind{"__ballot_sync",
                                                    assay::emulator::finish_reduce<unsigned, assay::emulator::join_or>};
  return assay::emulator::reduce(mask, predicate ? 1u << assay::emulator::position.lane : 0u, kind, at);
}
inline int __any_sync(unsigned mask, int predicate, assay::emulator::CodePlace at = assay::emulator::code_here()) {
  static constexpr assay::emulator::Collective kind{"__any_sync",
                                                    assay::emulator::finish_reduce<unsigned, assay::emulator::join_or>};
  return assay::emulator::reduce(mask, predicate ? 1u : 0u, kind, at) != 0;
}
inline int __all_sync(unsigned mask, int predicate, assay::emulator::CodePlace at = assay::emulator::code_here()) {
  static constexpr assay::emulator::Collective kind{"__all_sync",
                                                    assay::emulator::finish_reduce<unsigned, assay::emulator::join_and>};
  return assay::emulator::reduce(mask, predicate ? 1u : 0u, kind, at) != 0;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, assay::emulator::CodePlace at = assay::emulator::code_here()) {
  static constexpr assay::emulator::Collective kind{"__match_any_sync", assay::emulator::finish_match<T>};
  struct {
    T value;
    unsigned result;
  } mine{value, 0};
  assay::emulator::collective(mask, kind, &mine, at);
  return mine.result;
}
#define ASSAY_REDUCE(operation, type, join)                                                                         \
  inline type __reduce_##operation##_sync(unsigned mask, type value,                                                \
                                          assay::emulator::CodePlace at = assay::emulator::code_here()) {           \
    static constexpr assay::emulator::Collective kind{"__reduce_" #operation "_sync",                               \
                                                      assay::emulator::finish_reduce<type, assay::emulator::join>}; \
    return assay::emulator::reduce(mask, value, kind, at);                                                          \
  }
ASSAY_REDUCE(add, int, join_add<int>)
ASSAY_REDUCE(add, unsigned, join_add<unsigned>)
ASSAY_REDUCE(min, int, join_min<int>)
ASSAY_REDUCE(min, unsigned, join_min<unsigned>)
ASSAY_REDUCE(max, int, join_max<int>)
ASSAY_REDUCE(max, unsigned, join_max<unsigned>)
ASSAY_REDUCE(and, unsigned, join_and)
ASSAY_REDUCE(or, unsigned, join_or)
ASSAY_REDUCE(xor, unsigned, join_xor)
#undef ASSAY_REDUCE

// ---- memory ----------------------------------------------------------------------------------------------------------

namespace assay::emulator {

template <class T>
struct SameOf {
  using type = T;
};
template <class T>
using Same = typename SameOf<T>::type;  // takes no part in deduction: atomicAdd(unsigned*, 1)

/// *at = change(*at), returns what was there. Not inlined: its return address is the kernel's code place.
template <class T, class Change>
ASSAY_UNCHECKED T atomic(T* at, Change change) {
  touch_atomic(at, sizeof(T), __builtin_return_address(0));
  const T old = *at;
  *at = change(old);
  return old;
}

}  // namespace assay::emulator

template <class T>
__forceinline__ T atomicAdd(T* at, assay::emulator::Same<T> x) {
  return assay::emulator::atomic(at, [x](T old) { return static_cast<T>(old + x); });
}
template <class T>
__forceinline__ T atomicMax(T* at, assay::emulator::Same<T> x) {
  return assay::emulator::atomic(at, [x](T old) { return old < x ? x : old; });
}
template <class T>
__forceinline__ T atomicMin(T* at, assay::emulator::Same<T> x) {
  return assay::emulator::atomic(at, [x](T old) { return x < old ? x : old; });
}
template <class T>
__forceinline__ T atomicExch(T* at, assay::emulator::Same<T> x) {
  return assay::emulator::atomic(at, [x](T) { return x; });
}
template <class T>
__forceinline__ T atomicCAS(T* at, assay::emulator::Same<T> expected, assay::emulator::Same<T> x) {
  return assay::emulator::atomic(at, [=](T old) { return old == expected ? x : old; });
}

inline void __threadfence() {}
inline void __threadfence_block() {}
template <class T>
T __ldg(const T* at) {
  return *at;
}
inline void __trap(assay::emulator::CodePlace at = assay::emulator::code_here()) {
  assay::emulator::trap(at);
}

// ---- numbers ---------------------------------------------------------------------------------------------------------

inline float __uint_as_float(unsigned x) {
  return __builtin_bit_cast(float, x);
}
inline unsigned __float_as_uint(float x) {
  return __builtin_bit_cast(unsigned, x);
}
inline float __int_as_float(int x) {
  return __builtin_bit_cast(float, x);
}
inline int __float_as_int(float x) {
  return __builtin_bit_cast(int, x);
}
inline double __longlong_as_double(long long x) {
  return __builtin_bit_cast(double, x);
}
inline long long __double_as_longlong(double x) {
  return __builtin_bit_cast(long long, x);
}

#define ASSAY_ROUNDED(suffix, mode)                                                                  \
  inline float __fadd_##suffix(float a, float b) {                                                   \
    return assay::emulator::rounded_add(a, b, mode);                                                 \
  }                                                                                                  \
  inline float __fsub_##suffix(float a, float b) {                                                   \
    return assay::emulator::rounded_add(a, -b, mode);                                                \
  }                                                                                                  \
  inline float __fmul_##suffix(float a, float b) {                                                   \
    return assay::emulator::rounded_multiply(a, b, mode);                                            \
  }                                                                                                  \
  inline float __fdiv_##suffix(float a, float b) {                                                   \
    return assay::emulator::rounded_divide(a, b, mode);                                              \
  }                                                                                                  \
  inline float __frcp_##suffix(float a) {                                                            \
    return assay::emulator::rounded_divide(1.f, a, mode);                                            \
  }                                                                                                  \
  inline float __fsqrt_##suffix(float a) {                                                           \
    return assay::emulator::rounded_sqrt(a, mode);                                                   \
  }                                                                                                  \
  inline float __fmaf_##suffix(float a, float b, float c) {                                          \
    return assay::emulator::rounded_fma(a, b, c, mode);                                              \
  }                                                                                                  \
  inline double __dadd_##suffix(double a, double b) {                                                \
    return assay::emulator::rounded_add(a, b, mode);                                                 \
  }                                                                                                  \
  inline double __dsub_##suffix(double a, double b) {                                                \
    return assay::emulator::rounded_add(a, -b, mode);                                                \
  }                                                                                                  \
  inline double __dmul_##suffix(double a, double b) {                                                \
    return assay::emulator::rounded_multiply(a, b, mode);                                            \
  }                                                                                                  \
  inline double __ddiv_##suffix(double a, double b) {                                                \
    return assay::emulator::rounded_divide(a, b, mode);                                              \
  }                                                                                                  \
  inline double __drcp_##suffix(double a) {                                                          \
    return assay::emulator::rounded_divide(1., a, mode);                                             \
  }                                                                                                  \
  inline double __dsqrt_##suffix(double a) {                                                         \
    return assay::emulator::rounded_sqrt(a, mode);                                                   \
  }                                                                                                  \
  inline double __fma_##suffix(double a, double b, double c) {                                       \
    return assay::emulator::rounded_fma(a, b, c, mode);                                              \
  }                                                                                                  \
  inline float __double2float_##suffix(double a) {                                                   \
    return assay::emulator::rounded_float(a, mode);                                                  \
  }                                                                                                  \
  inline int __float2int_##suffix(float a) {                                                         \
    return static_cast<int>(assay::emulator::rounded_integer(a, mode, -0x80000000ll, 0x7fffffffll)); \
  }                                                                                                  \
  inline unsigned __float2uint_##suffix(float a) {                                                   \
    return static_cast<unsigned>(assay::emulator::rounded_integer(a, mode, 0, 0xffffffffll));        \
  }                                                                                                  \
  inline int __double2int_##suffix(double a) {                                                       \
    return static_cast<int>(assay::emulator::rounded_integer(a, mode, -0x80000000ll, 0x7fffffffll)); \
  }
ASSAY_ROUNDED(rn, 'n')
ASSAY_ROUNDED(rz, 'z')
ASSAY_ROUNDED(ru, 'u')
ASSAY_ROUNDED(rd, 'd')
#undef ASSAY_ROUNDED
inline float __int2float_rn(int x) {
  return static_cast<float>(x);
}
inline float __uint2float_rn(unsigned x) {
  return static_cast<float>(x);
}
inline double __int2double_rn(int x) {
  return x;
}

inline int __clz(int x) {
  return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x));
}
inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline int __popc(unsigned x) {
  return __builtin_popcount(x);
}
inline int __popcll(unsigned long long x) {
  return __builtin_popcountll(x);
}
inline int __ffs(int x) {
  return __builtin_ffs(x);
}
inline int __ffsll(long long x) {
  return __builtin_ffsll(x);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>(Wide{a} * b >> 64);
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}
inline unsigned __brev(unsigned x) {
  unsigned y = 0;
  for (int i = 0; i < 32; ++i) y |= (x >> i & 1u) << (31 - i);
  return y;
}
/// Byte i of the result is byte (selector >> 4i & 7) of b:a; with bit 3 set, that byte's sign over and over.
inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = static_cast<unsigned long long>(b) << 32 | a;
  unsigned y = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned chosen = selector >> 4 * i & 15u;
    unsigned byte = static_cast<unsigned>(bytes >> 8 * (chosen & 7u)) & 255u;
    if (chosen & 8u) byte = byte & 128u ? 255u : 0u;
    y |= byte << 8 * i;
  }
  return y;
}

#define ASSAY_MIN_MAX(type)         \
  inline type min(type a, type b) { \
    return b < a ? b : a;           \
  }                                 \
  inline type max(type a, type b) { \
    return a < b ? b : a;           \
  }
ASSAY_MIN_MAX(int)
ASSAY_MIN_MAX(unsigned)
ASSAY_MIN_MAX(long)
ASSAY_MIN_MAX(unsigned long)
ASSAY_MIN_MAX(long long)
ASSAY_MIN_MAX(unsigned long long)
#undef ASSAY_MIN_MAX
inline float min(float a, float b) {
  return fminf(a, b);
}
inline float max(float a, float b) {
  return fmaxf(a, b);
}
inline double min(double a, double b) {
  return fmin(a, b);
}
inline double max(double a, double b) {
  return fmax(a, b);
}

using uint3 = assay::emulator::Index3;
#define ASSAY_VECTOR(name, type, count, ...)    \
  struct alignas(sizeof(type) * (count)) name { \
    type __VA_ARGS__;                           \
  };
ASSAY_VECTOR(float2, float, 2, x, y)
ASSAY_VECTOR(float4, float, 4, x, y, z, w)
ASSAY_VECTOR(int2, int, 2, x, y)
ASSAY_VECTOR(int4, int, 4, x, y, z, w)
ASSAY_VECTOR(uint2, unsigned, 2, x, y)
ASSAY_VECTOR(uint4, unsigned, 4, x, y, z, w)
ASSAY_VECTOR(double2, double, 2, x, y)
#undef ASSAY_VECTOR
