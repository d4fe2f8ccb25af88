// SPDX-License-Identifier: Apache-2.0
// Single operations in another rounding mode.
#include <xmmintrin.h>

#include <cmath>

#include "tests/emulator/runtime.hpp"

namespace assay::emulator {
namespace {

/// The control register asks for `mode` while it lives.
class Mode {
 public:
  explicit Mode(char mode) : before_(_mm_getcsr()) {
    const unsigned bits = mode == 'd' ? 0x2000u : mode == 'u' ? 0x4000u : mode == 'z' ? 0x6000u : 0u;
    _mm_setcsr((before_ & ~0x6000u) | bits);
  }
  ~Mode() { _mm_setcsr(before_); }
  Mode(const Mode&) = delete;
  Mode& operator=(const Mode&) = delete;

 private:
  unsigned before_;
};

/// Volatile operands and result keep the operation between the two writes of the control register.
template <class T, class Operation>
T rounded(char mode, T a, T b, T c, Operation operation) {
  const Mode keep(mode);
  volatile T x = a, y = b, z = c;
  const T x_now = x, y_now = y, z_now = z;
  volatile T result = operation(x_now, y_now, z_now);
  return result;
}

const auto add = [](auto a, auto b, auto) { return a + b; };
const auto multiply = [](auto a, auto b, auto) { return a * b; };
const auto divide = [](auto a, auto b, auto) { return a / b; };
const auto fused = [](auto a, auto b, auto c) { return std::fma(a, b, c); };
const auto root = [](auto a, auto, auto) { return std::sqrt(a); };

}  // namespace

float rounded_add(float a, float b, char mode) {
  return rounded(mode, a, b, 0.f, add);
}
float rounded_multiply(float a, float b, char mode) {
  return rounded(mode, a, b, 0.f, multiply);
}
float rounded_divide(float a, float b, char mode) {
  return rounded(mode, a, b, 0.f, divide);
}
float rounded_fma(float a, float b, float c, char mode) {
  return rounded(mode, a, b, c, fused);
}
float rounded_sqrt(float a, char mode) {
  return rounded(mode, a, 0.f, 0.f, root);
}
double rounded_add(double a, double b, char mode) {
  return rounded(mode, a, b, 0., add);
}
double rounded_multiply(double a, double b, char mode) {
  return rounded(mode, a, b, 0., multiply);
}
double rounded_divide(double a, double b, char mode) {
  return rounded(mode, a, b, 0., divide);
}
double rounded_fma(double a, double b, double c, char mode) {
  return rounded(mode, a, b, c, fused);
}
double rounded_sqrt(double a, char mode) {
  return rounded(mode, a, 0., 0., root);
}

long long rounded_integer(double x, char mode, long long lowest, long long highest) {
  if (std::isnan(x)) return 0;
  const Mode keep(mode);
  volatile double operand = x;
  volatile double whole = std::nearbyint(operand);
  if (whole <= static_cast<double>(lowest)) return lowest;
  if (whole >= static_cast<double>(highest)) return highest;
  return static_cast<long long>(whole);
}

float rounded_float(double x, char mode) {
  const Mode keep(mode);
  volatile double operand = x;
  volatile float result = static_cast<float>(operand);
  return result;
}

}  // namespace assay::emulator
