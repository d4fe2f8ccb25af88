// SPDX-License-Identifier: Apache-2.0
// What kernels take from their compiler: nvcc, NVRTC without any toolkit header, or g++ under the emulator, whose own header
// comes first, defines ASSAY_EMULATOR, and stands in for the CUDA language. Every PTX instruction used here has a C++ twin that
// gives the same bits. Kernels are compiled with -fmad=false and fuse only where they say fmaf or fma, so that host and device
// round alike.
#pragma once

#ifndef ASSAY_EMULATOR
#define ASSAY_SHARED(type, name, count) __shared__ type name[count]
#define ASSAY_DYNAMIC_SHARED(type, name)                         \
  extern __shared__ __align__(16) unsigned char assay_dynamic[]; \
  type* const name = reinterpret_cast<type*>(assay_dynamic)
#endif

namespace assay::kernels {

// ---- storage formats -------------------------------------------------------------------------------------------------

struct bf16 {
  unsigned short bits;
};
struct f16 {
  unsigned short bits;
};

__device__ inline float widen(float x) {
  return x;
}
__device__ inline double widen(double x) {
  return x;
}
__device__ inline float widen(bf16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}
__device__ inline float widen(f16 x) {
#ifdef ASSAY_EMULATOR
  const unsigned sign = (x.bits & 0x8000u) << 16, exponent = (x.bits >> 10) & 31u, fraction = x.bits & 1023u;
  if (exponent == 31) return __uint_as_float(sign | 0x7f800000u | fraction << 13);
  if (exponent != 0) return __uint_as_float(sign | (exponent + 112u) << 23 | fraction << 13);
  const float value = static_cast<float>(fraction) * 0x1p-24f;
  return __uint_as_float(sign | __float_as_uint(value));
#else
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#endif
}

/// Rounds to nearest, ties to even; NaN becomes the format's quiet NaN 0x7fff.
template <class T>
__device__ T narrow(float x);
template <>
__device__ inline float narrow<float>(float x) {
  return x;
}
template <>
__device__ inline bf16 narrow<bf16>(float x) {
  const unsigned u = __float_as_uint(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
  return {static_cast<unsigned short>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}
template <>
__device__ inline f16 narrow<f16>(float x) {
#ifdef ASSAY_EMULATOR
  const unsigned u = __float_as_uint(x), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {0x7fff};
  if (magnitude >= 0x477ff000u) return {static_cast<unsigned short>(sign | 0x7c00u)};  // 65520 and more round to Inf
  if (magnitude < 0x38800000u) {                                                       // below 2^-14: units of 2^-24
    const float units = __uint_as_float(magnitude) * 0x1p24f;
    return {static_cast<unsigned short>(sign | static_cast<unsigned>(rintf(units)))};
  }
  const unsigned rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<unsigned short>(sign | ((rounded - 0x38000000u) >> 13))};
#else
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
#endif
}
template <class T>
__device__ T narrow(double x);
template <>
__device__ inline double narrow<double>(double x) {
  return x;
}

/// What a format is computed in.
template <class T>
struct ComputeOf {
  using type = float;
};
template <>
struct ComputeOf<double> {
  using type = double;
};
template <class T>
using Compute = typename ComputeOf<T>::type;

/// Element `at` of an output held in T, or in fp32 where a 16-bit case asks for it.
template <class T>
__device__ void store(void* y, long long at, float value, int y_is_f32) {
  if (y_is_f32)
    static_cast<float*>(y)[at] = value;
  else
    static_cast<T*>(y)[at] = narrow<T>(value);
}
template <class T>
__device__ void store(void* y, long long at, double value, int) {
  static_cast<double*>(y)[at] = value;
}

// ---- functions: only IEEE 754 operations, so the same bits everywhere ------------------------------------------------

__device__ inline float infinity(float) {
  return __uint_as_float(0x7f800000u);
}
__device__ inline double infinity(double) {
  return __longlong_as_double(0x7ff0000000000000ll);
}

__device__ inline float fused(float a, float b, float c) {
  return fmaf(a, b, c);
}
__device__ inline double fused(double a, double b, double c) {
  return fma(a, b, c);
}

__device__ inline float power_of_two(float, int n) {
  return __uint_as_float(static_cast<unsigned>(n + 127) << 23);
}
__device__ inline double power_of_two(double, int n) {
  return __longlong_as_double(static_cast<long long>(n + 1023) << 52);
}

/// The larger one; NaN if either is.
template <class C>
__device__ inline C larger(C a, C b) {
  return a > b || a != a ? a : b;
}

/// e^x. x = n ln 2 + r with |r| <= 0.3466, ln 2 in two parts; Taylor to r^7 (r^13 in fp64), whose rest is below 0.1 ulp
/// (0.04 ulp); 2^n in two factors, so that a subnormal result is rounded once. Within 1.1 ulp: fp32 1.06 over all numbers, fp64
/// 0.99 over samples (tests/emulator).
__device__ inline float exponential(float x) {
  if (x != x) return x;
  if (x > 89.f) return infinity(x);
  if (x < -104.f) return 0;
  const float n = rintf(x * 1.44269504f);
  float r = fmaf(-n, 0.693359375f, x);  // 355/512: 9 bits, n times it is exact
  r = fmaf(-n, -2.12194440e-4f, r);
  float p = 1.f / 5040;
  p = fmaf(p, r, 1.f / 720), p = fmaf(p, r, 1.f / 120), p = fmaf(p, r, 1.f / 24), p = fmaf(p, r, 1.f / 6), p = fmaf(p, r, 0.5f);
  p = fmaf(p, r * r, r) + 1.f;
  const int whole = static_cast<int>(n), half = whole / 2;
  return p * power_of_two(x, half) * power_of_two(x, whole - half);
}
__device__ inline double exponential(double x) {
  if (x != x) return x;
  if (x > 710.) return infinity(x);
  if (x < -746.) return 0;
  const double n = rint(x * 1.4426950408889634);
  double r = fma(-n, 0x1.62e42feep-1, x);  // 32 bits of ln 2, n times it is exact
  r = fma(-n, 0x1.a39ef35793c76p-33, r);
  double p = 1. / 6227020800;
  p = fma(p, r, 1. / 479001600), p = fma(p, r, 1. / 39916800), p = fma(p, r, 1. / 3628800), p = fma(p, r, 1. / 362880);
  p = fma(p, r, 1. / 40320), p = fma(p, r, 1. / 5040), p = fma(p, r, 1. / 720), p = fma(p, r, 1. / 120);
  p = fma(p, r, 1. / 24), p = fma(p, r, 1. / 6), p = fma(p, r, 0.5);
  p = fma(p, r * r, r) + 1.;
  const int whole = static_cast<int>(n), half = whole / 2;
  return p * power_of_two(x, half) * power_of_two(x, whole - half);
}

/// ln x. x = 2^e m with m in [sqrt 1/2, sqrt 2), s = (m-1)/(m+1): ln m = 2 (s + s^3/3 + s^5/5 + ...), to s^11 (s^23 in fp64).
/// Within 1.1 ulp: fp32 0.97 over all numbers, fp64 1.01 over samples (tests/emulator).
__device__ inline float logarithm(float x) {
  if (!(x > 0)) return x == 0 ? -infinity(x) : __uint_as_float(0x7fffffffu);
  if (x == infinity(x)) return x;
  int e = 0;
  if (x < 0x1p-126f) x *= 0x1p24f, e = -24;
  const unsigned u = __float_as_uint(x) - 0x3f3504f3u;  // sqrt 1/2
  e += static_cast<int>(u) >> 23;
  const float m = __uint_as_float((u & 0x7fffffu) + 0x3f3504f3u), f = m - 1.f, s = f / (2.f + f), q = s * s;
  float p = 1.f / 11;
  p = fmaf(p, q, 1.f / 9), p = fmaf(p, q, 1.f / 7), p = fmaf(p, q, 1.f / 5), p = fmaf(p, q, 1.f / 3);
  // 2 s = f - f s: the leading term f is exact.
  const float k = static_cast<float>(e), tail = fmaf(2.f * s * q, p, -(f * s));
  return fmaf(k, 0.693359375f, f + fmaf(k, -2.12194440e-4f, tail));
}
__device__ inline double logarithm(double x) {
  if (!(x > 0)) return x == 0 ? -infinity(x) : __longlong_as_double(0x7fffffffffffffffll);
  if (x == infinity(x)) return x;
  int e = 0;
  if (x < 0x1p-1022) x *= 0x1p54, e = -54;
  const long long u = __double_as_longlong(x) - 0x3fe6a09e667f3bcdll;
  e += static_cast<int>(u >> 52);
  const double m = __longlong_as_double((u & 0xfffffffffffffll) + 0x3fe6a09e667f3bcdll), f = m - 1., s = f / (2. + f),
               q = s * s;
  double p = 1. / 23;
  p = fma(p, q, 1. / 21), p = fma(p, q, 1. / 19), p = fma(p, q, 1. / 17), p = fma(p, q, 1. / 15), p = fma(p, q, 1. / 13);
  p = fma(p, q, 1. / 11), p = fma(p, q, 1. / 9), p = fma(p, q, 1. / 7), p = fma(p, q, 1. / 5), p = fma(p, q, 1. / 3);
  const double k = static_cast<double>(e), tail = fma(2. * s * q, p, -(f * s));
  return fma(k, 0x1.62e42feep-1, f + fma(k, 0x1.a39ef35793c76p-33, tail));
}

}  // namespace assay::kernels
