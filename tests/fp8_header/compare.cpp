// SPDX-License-Identifier: Apache-2.0
// Our fp8 conversions against the host code of the CUDA toolkit's cuda_fp8.h, on every pattern and on millions of doubles.
#include <cuda_fp8.h>

#include <bit>
#include <cmath>
#include <cstdio>

#include "reference/dtype.hpp"
#include "reference/philox.hpp"

using namespace assay;

namespace {

struct Twin {
  DType ours;
  __nv_fp8_interpretation_t theirs;
};
constexpr Twin twins[] = {{DType::e4m3, __NV_E4M3}, {DType::e5m2, __NV_E5M2}};

/// The toolkit keeps NaN payload bits in e5m2, we do not: a NaN must be a NaN.
bool same(DType t, std::uint64_t ours, std::uint64_t theirs) {
  return ours == theirs || (is_nan(t, ours) && is_nan(t, theirs));
}

long long compared = 0, differing = 0;

void compare(const Twin& t, double x) {
  for (const bool saturate : {false, true}) {
    const std::uint64_t ours = encode(t.ours, x, Rounding::nearest, saturate ? Overflow::saturate : Overflow::special);
    const std::uint64_t theirs = __nv_cvt_double_to_fp8(x, saturate ? __NV_SATFINITE : __NV_NOSAT, t.theirs);
    ++compared;
    if (same(t.ours, ours, theirs)) continue;
    if (++differing < 10)
      std::printf("%.*s of %a, %s: 0x%02llx here, 0x%02llx in cuda_fp8.h\n", static_cast<int>(name(t.ours).size()),
                  name(t.ours).data(), x, saturate ? "saturating" : "not saturating", static_cast<unsigned long long>(ours),
                  static_cast<unsigned long long>(theirs));
  }
}

}  // namespace

int main() {
  for (const Twin& t : twins) {
    for (unsigned bits = 0; bits < 256; ++bits) {
      // Every value of either format fits fp16, through which the toolkit decodes.
      const __half_raw half = __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(bits), t.theirs);
      const double ours = decode(t.ours, bits), theirs = decode(DType::f16, half.x);
      ++compared;
      const bool equal = std::bit_cast<std::uint64_t>(ours) == std::bit_cast<std::uint64_t>(theirs);
      if (!equal && !(std::isnan(ours) && std::isnan(theirs))) {
        ++differing;
        std::printf("pattern 0x%02x: %a here, %a in cuda_fp8.h\n", bits, ours, theirs);
      }
      if (std::isnan(ours)) {
        compare(t, ours);
        continue;
      }
      // The value, the midpoint to the next magnitude (an overflow threshold after the last), and one double either side.
      const double next =
          std::isinf(ours) || !std::isfinite(decode(t.ours, bits + 1)) ? ours + ours / 14 : decode(t.ours, bits + 1);
      for (const double x : {ours, (ours + next) / 2, ours * 1.5, ours * 64})
        for (const double y : {x, std::nextafter(x, 0.0), std::nextafter(x, 1e308)}) compare(t, y);
    }
    for (std::uint64_t i = 0; i < 1000000; ++i) {
      const PhiloxCounter w = philox_element(1, 0, i);
      const std::uint64_t fraction = (std::uint64_t{w[0]} << 32 | w[1]) & ((std::uint64_t{1} << 52) - 1);
      const auto exponent = static_cast<std::uint64_t>(1023 - 22 + static_cast<int>(w[2] % 42));
      compare(t, std::bit_cast<double>(std::uint64_t{w[3] & 1} << 63 | exponent << 52 | fraction));
    }
    for (const double x : {448.0, 464.0, 464.5, 480.0, 57344.0, 61439.0, 61440.0, 65536.0, 1e300, HUGE_VAL, 5e-324, 0.0})
      for (const double s : {1.0, -1.0}) compare(t, s * x);
  }
  std::printf("%lld conversions compared with cuda_fp8.h, %lld differ\n", compared, differing);
  return differing == 0 && compared > 4000000 ? 0 : 1;
}
