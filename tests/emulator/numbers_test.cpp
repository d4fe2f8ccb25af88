// SPDX-License-Identifier: Apache-2.0
// Number functions of the CUDA language in the emulator, and the C++ twins in kernels/portable.cuh, against reference/dtype.
#include "tests/emulator/cuda.hpp"
// after the language
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/portable.cuh"
#include "reference/dtype.hpp"

namespace assay::emulator {
namespace {

template <class T>
void check_format(DType t) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float wide = kernels::widen(T{static_cast<unsigned short>(bits)});
    if (is_nan(t, bits))
      CHECK(std::isnan(wide));
    else
      CHECK(std::bit_cast<unsigned>(wide) == std::bit_cast<unsigned>(static_cast<float>(decode(t, bits))));
  }
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += 997) {
    const float x = std::bit_cast<float>(static_cast<unsigned>(bits));
    const unsigned got = kernels::narrow<T>(x).bits;
    if (got != (std::isnan(x) ? 0x7fffu : encode(t, static_cast<double>(x)))) FAIL_CHECK(bits);
  }
  for (unsigned bits = 0; bits < 0x7f00; ++bits) {  // ties between neighbours, and one bit to either side
    const double middle = (decode(t, bits) + decode(t, bits + 1)) / 2;
    if (!std::isfinite(middle)) continue;
    for (const float x : {static_cast<float>(middle), std::nextafter(static_cast<float>(middle), 0.f),
                          std::nextafter(static_cast<float>(middle), INFINITY), static_cast<float>(-middle)})
      if (kernels::narrow<T>(x).bits != encode(t, static_cast<double>(x))) FAIL_CHECK(x);
  }
}

TEST_CASE("16-bit formats widen on every bit pattern and narrow on ties as the reference does") {
  check_format<kernels::bf16>(DType::bf16);
  check_format<kernels::f16>(DType::f16);
}

TEST_CASE("directed rounding brackets the exact result by one ulp, and nearest is one of the two") {
  std::uint64_t state = 1;
  const auto draw = [&state] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return std::bit_cast<float>(static_cast<unsigned>(state >> 41) | (64u + static_cast<unsigned>(state >> 33) % 126u) << 23 |
                                static_cast<unsigned>(state >> 63) << 31);
  };
  const auto bracket = [](double exact, float down, float up, float zero, float nearest) {
    CHECK(static_cast<double>(down) <= exact);
    CHECK(static_cast<double>(up) >= exact);
    CHECK(up <= std::nextafter(down, INFINITY));
    CHECK(zero == (exact > 0 ? down : up));
    CHECK(nearest == static_cast<float>(exact));
  };
  for (int i = 0; i < 20000; ++i) {
    const float a = draw(), b = draw();
    const double product = static_cast<double>(a) * static_cast<double>(b);  // exact
    bracket(product, __fmul_rd(a, b), __fmul_ru(a, b), __fmul_rz(a, b), __fmul_rn(a, b));
    const double low = static_cast<double>(a) * 3 + static_cast<double>(a) * 0x1p-20;  // exact
    bracket(low, __double2float_rd(low), __double2float_ru(low), __double2float_rz(low), __double2float_rn(low));
    const float close = a * 0.75f;
    const double sum = static_cast<double>(a) + static_cast<double>(close);  // exact: exponents differ by at most one
    bracket(sum, __fadd_rd(a, close), __fadd_ru(a, close), __fadd_rz(a, close), __fadd_rn(a, close));
  }
  CHECK(__fdiv_ru(1.f, 3.f) == std::nextafter(__fdiv_rd(1.f, 3.f), 1.f));
  CHECK(__fsqrt_rd(2.f) < __fsqrt_ru(2.f));
  CHECK(__fmaf_rz(1.f, 1.f, -0x1p-30f) == std::nextafter(1.f, 0.f));
  CHECK(__fmaf_rn(1.f, 1.f, -0x1p-30f) == 1.f);
  CHECK(__dadd_rz(1., -0x1p-60) == std::nextafter(1., 0.));
  CHECK(__dadd_rn(1., -0x1p-60) == 1.);
  CHECK(__fma_ru(1., 1., 0x1p-60) == std::nextafter(1., 2.));
  CHECK(1.f + 0x1p-30f == 1.f);  // the mode is nearest again
}

TEST_CASE("conversions to integers saturate and turn NaN into 0") {
  CHECK(__float2int_rn(2.5f) == 2);
  CHECK(__float2int_rn(3.5f) == 4);
  CHECK(__float2int_rz(-2.9f) == -2);
  CHECK(__float2int_rd(-2.1f) == -3);
  CHECK(__float2int_ru(2.1f) == 3);
  CHECK(__float2int_rz(3e9f) == std::numeric_limits<int>::max());
  CHECK(__float2int_rz(-3e9f) == std::numeric_limits<int>::min());
  CHECK(__float2int_rz(NAN) == 0);
  CHECK(__float2uint_rz(-1.f) == 0);
  CHECK(__float2uint_rz(5e9f) == 0xffffffffu);
  CHECK(__double2int_rn(-0.5) == 0);
}

TEST_CASE("bit functions count, reverse and pick as CUDA defines them") {
  CHECK(__clz(0) == 32);
  CHECK(__clz(1) == 31);
  CHECK(__clzll(1) == 63);
  CHECK(__clzll(0) == 64);
  CHECK(__popc(0xf0f0u) == 8);
  CHECK(__popcll(~0ull) == 64);
  CHECK(__ffs(0) == 0);
  CHECK(__ffs(8) == 4);
  CHECK(__ffsll(1ll << 40) == 41);
  CHECK(__brev(1u) == 0x80000000u);
  CHECK(__brev(0xf000000fu) == 0xf000000fu);
  CHECK(__umulhi(0xffffffffu, 0xffffffffu) == 0xfffffffeu);
  CHECK(__byte_perm(0x33221100u, 0x77665544u, 0x7531u) == 0x77553311u);
  CHECK(__byte_perm(0x00000080u, 0u, 0x8888u) == 0xffffffffu);
  CHECK(min(-1, 2) == -1);
  CHECK(max(1u, 2u) == 2u);
  CHECK(max(NAN, 1.f) == 1.f);  // CUDA's fmaxf
  CHECK(__float_as_int(-0.f) == std::numeric_limits<int>::min());
  CHECK(__uint_as_float(0x3f800000u) == 1.f);
  CHECK(__longlong_as_double(__double_as_longlong(0.1)) == 0.1);
}

}  // namespace
}  // namespace assay::emulator
