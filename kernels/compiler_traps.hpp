// SPDX-License-Identifier: Apache-2.0
// Constructs that a compiler is known to have turned into wrong machine code, one small kernel each, and what it must give: in
// plain C++ of another shape, bit for bit.
#pragma once

#include "kernels/launch.hpp"

namespace assay::kernels {

/// Entry i of `out` is a function of i and of `in`; both hold n words of 32 bits, any bits. Words beyond n count as 0.
struct TrapArgs {
  const void* in;
  void* out;
  long long n;
};

inline constexpr unsigned trap_threads = 128;

constexpr Launch trap_launch(const TrapArgs& g) {
  return {.grid_x = ceil_div(g.n, trap_threads), .block_x = trap_threads};
}

// ---- what entry i must be: not for the compilers on trial --------------------------------------------------------------

#ifndef __CUDACC__

namespace trap {

/// What the other lanes of a warp hold is part of some answers.
struct Words {
  const unsigned* in;
  long long n;
  unsigned operator[](long long i) const { return i < n ? in[i] : 0; }
  int as_int(long long i) const { return static_cast<int>((*this)[i]); }
  int as_short(long long i) const { return static_cast<short>((*this)[i] & 0xffffu); }
  /// An odd integer, below 2^11 in magnitude.
  int small(long long i) const { return static_cast<int>(((*this)[i] & 0xfffu) | 1u) - 2048; }
};

/// Word i of inputs that reach the corners: over a quarter zeros, smallest and largest integers, neighbours alike, small
/// numbers.
inline unsigned input(long long i, unsigned seed) {
  const auto hash = [&](long long at) {
    unsigned long long z = (static_cast<unsigned long long>(at) + 1) * 0x9e3779b97f4a7c15ull + seed;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull, z = (z ^ z >> 27) * 0x94d049bb133111ebull;  // splitmix64
    return z ^ z >> 31;
  };
  const unsigned long long pair = hash(i / 2 + (1ll << 40)), own = hash(i);
  const unsigned bits = static_cast<unsigned>(own), alike = static_cast<unsigned>(pair);
  if (pair >> 60 == 0) return alike;  // both of a pair
  switch (own >> 59) {
    case 0:
      return 0;
    case 1:
      return 0x80000000u;
    case 2:
      return 0xffffffffu;
    case 3:
      return 0x7fffffffu;
    case 4:
    case 5:
      return 0x8000u;
    case 6:
      return 0x7fffu | (bits & 0xffff0000u);
    case 7:
    case 8:
      return bits & 7;
    default:
      return bits;
  }
}

inline unsigned abs_max(const Words& w, long long i) {
  const auto magnitude = [](long long x) { return x == -0x80000000ll ? x : x < 0 ? -x : x; };  // of INT_MIN: itself
  const long long x = magnitude(w.as_int(i)), y = magnitude(w.as_int(i ^ 1));
  return static_cast<unsigned>(x < y ? y : x);
}

inline unsigned negated_max(const Words& w, long long i) {
  const int a = w.small(i), b = w.small(i ^ 1), c = w.small(i ^ 2), least = a < b ? a : b;
  return static_cast<unsigned>(least < c ? c : least);
}

inline unsigned sign_flip(const Words& w, long long i) {
  // Bits of an fp32 number as an integer of the same order, NaN of either sign at its end.
  const auto key = [](unsigned bits) { return bits >> 31 ? ~bits : bits | 0x80000000u; };
  const unsigned x = key(w[i] ^ 0x80000000u), y = key(w[i ^ 1]);
  return x < y ? x : y;
}

inline unsigned argmax_ties(const Words& w, long long i) {
  const long long first = i / 32 * 32;
  long long lowest = first, highest = first;
  const auto size = [&](long long at) { return w.as_short(at) < 0 ? -w.as_short(at) : w.as_short(at); };
  for (long long at = first + 1; at < first + 32; ++at) {
    if (size(at) > size(lowest)) lowest = highest = at;
    if (size(at) == size(lowest)) highest = at;
  }
  return static_cast<unsigned>((i % 2 == 0 ? lowest : highest) - first);
}

inline unsigned divergent_shuffle(const Words& w, long long i) {
  const auto pair = [&](long long first, int which) {
    unsigned x[2] = {w[first], w[first + 1]};
    const unsigned control = x[0];
    const auto both = [&](auto f) {
      const unsigned a = f(x[0], x[1]), b = f(x[1], x[0]);
      x[0] = a, x[1] = b;
    };
    if (control & 1) {
      both([](unsigned mine, unsigned other) { return mine + other; });
      if (control & 2)
        for (unsigned k = 0; k < (control >> 2 & 3); ++k) both([](unsigned mine, unsigned other) { return 3 * mine + other; });
      else
        both([](unsigned mine, unsigned other) { return mine ^ other >> 1; });
    } else {
      both([](unsigned mine, unsigned other) { return mine - 5 * other; });
    }
    return x[which];
  };
  const int which = static_cast<int>(i % 2);
  return pair(i - which, which) + 7 * pair((i - which) ^ 2, which);
}

inline unsigned early_exit(const Words& w, long long i) {
  const long long first = i / trap_threads * trap_threads;
  unsigned sums[4] = {};
  for (int at = 0; at < static_cast<int>(trap_threads); ++at) sums[at / 32] += w[first + at];
  const long long lane = i % 32, warp = i % trap_threads / 32;
  return lane == 0 ? sums[0] + 3 * sums[1] + 5 * sums[2] + 7 * sums[3] : sums[warp] ^ static_cast<unsigned>(lane);
}

inline unsigned bit_select(const Words& w, long long i) {
  unsigned merged = 0;
  for (int byte = 0; byte < 4; ++byte) merged |= (byte % 2 == 0 ? w[i] : w[i ^ 1]) & 0xffu << 8 * byte;
  return merged == 0 ? 0xdeadu : merged == w[i ^ 1] ? merged + 1 : merged;
}

inline unsigned packed_add(const Words&, long long i) {
  const auto value = [](long long at) { return static_cast<unsigned>(at / 8 % 2 == 1 ? (at * 9 + 1) % 1000 + 1 : at + 1); };
  const long long at = 4 * (i % 4096);
  return value(at) + (value(at + 1) << 16) + 5 * (value(at + 2) + (value(at + 3) << 16));
}

inline unsigned saturated_negation(const Words& w, long long i) {
  const int x = -w.as_short(i), y = -w.as_short(i ^ 1);
  return static_cast<unsigned>((x > 32767 ? 32767 : x) + (y > 32767 ? 32767 : y));
}

inline unsigned packed_f32(const Words& w, long long i) {
  const int x = w.small(i - i % 2), y = w.small(i - i % 2 + 1), p = i % 2 == 0 ? x : y, q = i % 2 == 0 ? y : x;
  return static_cast<unsigned>((x * y + p) - (3 * q - p));
}

inline unsigned complex_product(const Words& w, long long i) {
  long long re = 1, im = 0;
  for (int k = 0; k < 4; ++k) {
    const long long x = w.small(i ^ k), y = w.small(i ^ k ^ 4), old = re;
    re = re * x - im * y, im = old * y + im * x;
  }
  return static_cast<unsigned>(i % 2 == 0 ? re : im);
}

inline unsigned wide_index(const Words& w, long long i) {
  const unsigned long long stride = 0x30000001ull + (w[i] & 0xffu);
  unsigned long long sum = 0;
  for (unsigned long long row = 0; row < 8; ++row) {
    const unsigned long long at = (row + 5) * stride - (1ull << 35) + static_cast<unsigned long long>(i);  // from -2^35 up
    sum += (at >> 32) * 0x10001u ^ at;
  }
  return static_cast<unsigned>(sum) + w[static_cast<long long>((5 * stride + static_cast<unsigned>(i)) % 32)];
}

inline unsigned signed_division(const Words& w, long long i) {
  const long long x = w.as_int(i) | 1, below = x < 0 ? -((-x + 15) / 16) : x / 16;  // the floor of x / 16
  const long long minus_x = -x;
  return static_cast<unsigned>(x / 8 + 3 * below + 5 * (x % 7) + 11 * minus_x);
}

inline unsigned predicated_store(const Words& w, long long i) {
  const long long first = i / trap_threads * trap_threads;
  const unsigned control = w[first + i % 16];  // of the thread that stores it
  return control >> (i % trap_threads / 16) & 1 ? w[i] * 3 : w[i] + 1;
}

inline unsigned nested_selects(const Words& w, long long i) {
  // Runs of integers: empty (-1, -1), broken (-2, -2), or first ... last. Joined in order; a gap breaks them.
  int first = -1, last = -1;
  bool broken = false;
  for (int k = 0; k < 8; ++k) {
    const unsigned kind = w[i ^ k] % 8;
    if (kind == 0) continue;
    if (kind == 1 || (last >= 0 && last + 1 != k)) broken = true;
    if (first < 0) first = k;
    last = k + (kind == 2);
  }
  return broken ? 0xfffefffeu : static_cast<unsigned>(first & 0xffff) << 16 | static_cast<unsigned>(last & 0xffff);
}

}  // namespace trap

/// Entry of `name`: trap_NAME.
struct Trap {
  const char* name;
  const char* what;
  const char* source;  // a public report of a compiler that got it wrong
  unsigned (*expected)(const trap::Words&, long long i);
};

inline constexpr Trap traps[] = {
    {"abs_max", "maximum of two absolute values, each as max(x, -x)",
     "github.com/pytorch/pytorch/issues/190973: the fused maximum of three drops the minus", trap::abs_max},
    {"negated_max", "fp32 max(-max(-a, -b), c)", "github.com/pytorch/pytorch/issues/190973: the same loss of a minus, in fp32",
     trap::negated_max},
    {"sign_flip", "smaller of two sort keys of fp32 bits, one with its sign flipped",
     "github.com/llvm/llvm-project/pull/121513: a sign flipped by xor became neg, which need not keep NaN", trap::sign_flip},
    {"argmax_ties", "first and last place of the largest |short| in a warp, 12 bytes exchanged at a time",
     "github.com/NVIDIA/cccl/issues/10958: the tie-break is dropped for -32768", trap::argmax_ties},
    {"divergent_shuffle", "shuffles among the lanes of nested branches and of a loop that lanes leave one by one",
     "CUDA 13.2 Update 2 release notes, compiler: stale registers after nested divergence", trap::divergent_shuffle},
    {"early_exit", "shared memory written behind a bounds check, a shuffle, then all lanes but one return",
     "github.com/JuliaGPU/CUDAnative.jl/issues/4: invalid results with shared memory and several exits", trap::early_exit},
    {"bit_select", "bytes of two words merged by and, or; the same word decides a branch",
     "github.com/triton-lang/triton/issues/2941: LOP3 with a predicate became PRMT without", trap::bit_select},
    {"packed_add", "16-bit sums after a remainder by 1000, two to a register",
     "github.com/triton-lang/triton/issues/11581: the second packed add loses its immediate", trap::packed_add},
    {"saturated_negation", "16-bit 0 - x with saturation",
     "github.com/llvm/llvm-project/issues/160482: -32768 compared in 32 bits", trap::saturated_negation},
    {"packed_f32", "product, sum and fused product of fp32 pairs, halves crossed",
     "github.com/llvm/llvm-project/pull/126337: packed instructions of sm_100", trap::packed_f32},
    {"complex_product", "four fp64 complex factors, copied through an array",
     "github.com/llvm/llvm-project/issues/54633: the imaginary part becomes 0", trap::complex_product},
    {"wide_index", "row * stride + column beyond 2^32 and below 0",
     "github.com/ROCm/rocm-libraries/issues/8767, CUDA 12.8 Update 1 release notes, cuBLAS 5113092: 32-bit offsets",
     trap::wide_index},
    {"signed_division", "quotient, remainder and right shift of negative integers, division by INT_MIN >> 31",
     "github.com/microsoft/DirectXShaderCompiler/issues/8094: signed division taken for unsigned", trap::signed_division},
    {"predicated_store", "one of two stores in each round of an unrolled loop, from shared memory",
     "github.com/kokkos/kokkos/issues/542: threads that left a copy loop at different times are miscounted",
     trap::predicated_store},
    {"nested_selects", "a fold of pairs by nested selects",
     "github.com/AccelerateHS/accelerate/issues/364: wrong for integers, right for fp64", trap::nested_selects},
};
#endif

}  // namespace assay::kernels
