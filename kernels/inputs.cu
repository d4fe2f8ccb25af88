// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 (Salmon et al., SC'11) and integers only, as on the host: reference/philox.hpp, reference/families.cpp.
#include "kernels/inputs.hpp"
#include "kernels/portable.cuh"

namespace assay::kernels {

typedef unsigned long long u64;

struct Words {
  unsigned w[4];
};

__device__ inline Words philox(u64 seed, unsigned stream, u64 index, unsigned draw) {
  Words c{{static_cast<unsigned>(index), static_cast<unsigned>(index >> 32), stream, draw}};
  unsigned k0 = static_cast<unsigned>(seed), k1 = static_cast<unsigned>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const u64 p0 = u64{0xD2511F53u} * c.w[0], p1 = u64{0xCD9E8D57u} * c.w[2];
    c = {{static_cast<unsigned>(p1 >> 32) ^ c.w[1] ^ k0, static_cast<unsigned>(p1),
          static_cast<unsigned>(p0 >> 32) ^ c.w[3] ^ k1, static_cast<unsigned>(p0)}};
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
  return c;
}

/// A storage format in integers: precision counts the hidden bit.
template <class T>
struct Layout;
template <>
struct Layout<float> {
  typedef unsigned bits;
  static constexpr int width = 32, precision = 24, emin = -126;
};
template <>
struct Layout<double> {
  typedef u64 bits;
  static constexpr int width = 64, precision = 53, emin = -1022;
};
template <>
struct Layout<bf16> {
  typedef unsigned short bits;
  static constexpr int width = 16, precision = 8, emin = -126;
};
template <>
struct Layout<f16> {
  typedef unsigned short bits;
  static constexpr int width = 16, precision = 11, emin = -14;
};

/// significand * 2^exponent, to nearest even (or cut). The families here never overflow a format.
template <class T>
__device__ typename Layout<T>::bits encode(bool negative, u64 significand, int exponent, bool cut) {
  typedef Layout<T> L;
  const u64 sign = u64{negative} << (L::width - 1);
  if (significand == 0) return static_cast<typename L::bits>(sign);
  const int zeros = __clzll(static_cast<long long>(significand));
  significand <<= zeros;
  const int top = exponent + 63 - zeros, binade = top > L::emin ? top : L::emin;
  const int dropped = 64 - L::precision + (binade - top);
  if (dropped > 64) return static_cast<typename L::bits>(sign);
  u64 kept = dropped == 64 ? 0 : significand >> dropped;
  if (!cut) {
    const u64 half = u64{1} << (dropped - 1), low = significand & (half | (half - 1));
    kept += low > half || (low == half && (kept & 1));
  }
  return static_cast<typename L::bits>(sign | ((static_cast<u64>(binade - L::emin) << (L::precision - 1)) + kept));
}

template <class T>
__device__ typename Layout<T>::bits encode_signed(long long v, int exponent) {
  return encode<T>(v < 0, static_cast<u64>(v < 0 ? -v : v), exponent, false);
}

template <class T>
struct Normal {
  /// Sum of eight 16-bit uniforms minus its mean, over its deviation; fp64 adds 32 random bits below the sum.
  static __device__ typename Layout<T>::bits draw(const InputsArgs& g, u64 index) {
    const Words w = philox(g.seed, g.stream, index, 0);
    long long sum = -262140;
    for (int i = 0; i < 4; ++i) sum += (w.w[i] >> 16) + (w.w[i] & 0xFFFFu);
    if (Layout<T>::width < 64) return encode_signed<T>(657529896 * sum, -45);
    const long long fraction = static_cast<long long>(philox(g.seed, g.stream, index, 1).w[1]) - (1ll << 31);
    return encode_signed<T>(5017 * (sum * (1ll << 32) + fraction), -60);
  }
};

template <class T>
struct Uniform {
  static __device__ typename Layout<T>::bits draw(const InputsArgs& g, u64 index) {
    const Words w = philox(g.seed, g.stream, index, 0);
    if (Layout<T>::width == 64) return encode<T>(false, (u64{w.w[0]} << 32 | w.w[1]) >> 11, -53, false);
    return encode<T>(false, w.w[0] >> 8, -24, true);
  }
};

template <class T>
struct Integer {
  static __device__ typename Layout<T>::bits draw(const InputsArgs& g, u64 index) {
    const Words w = philox(g.seed, g.stream, index, 0);
    // floor(word * n / 2^64) for a word of 64 bits.
    const u64 word = u64{w.w[0]} << 32 | w.w[1], n = 2 * static_cast<u64>(g.limit) + 1;
    return encode_signed<T>(static_cast<long long>(__umul64hi(word, n)) - g.limit, 0);
  }
};

template <class T, class Family>
__device__ void inputs(const InputsArgs& g) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < g.count) static_cast<typename Layout<T>::bits*>(g.out)[i] = Family::draw(g, static_cast<u64>(i));
}

}  // namespace assay::kernels

#define ASSAY_INPUTS(version, family, format, type)                                            \
  extern "C" __global__ void inputs_##version##_##format(const assay::kernels::InputsArgs g) { \
    assay::kernels::inputs<type, assay::kernels::family<type>>(g);                             \
  }
#define ASSAY_INPUTS_ALL(version, family)                   \
  ASSAY_INPUTS(version, family, f32, float)                 \
  ASSAY_INPUTS(version, family, f64, double)                \
  ASSAY_INPUTS(version, family, bf16, assay::kernels::bf16) \
  ASSAY_INPUTS(version, family, f16, assay::kernels::f16)
ASSAY_INPUTS_ALL(normal, Normal)
ASSAY_INPUTS_ALL(uniform, Uniform)
ASSAY_INPUTS_ALL(integer, Integer)
