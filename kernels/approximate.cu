// SPDX-License-Identifier: Apache-2.0
// One instruction per entry. The C++ twins are fp64 functions rounded once, with the NaN of PTX (7fffffff): what the units
// approximate, not how.
#include "kernels/approximate.hpp"
#include "kernels/portable.cuh"

namespace assay::kernels {

#ifdef ASSAY_EMULATOR
#define ASSAY_APPROXIMATE_UNIT(name, twin)                                \
  __device__ inline float name##_unit(float f) {                          \
    const double x = f, y = twin;                                         \
    return y == y ? static_cast<float>(y) : __uint_as_float(0x7fffffffu); \
  }
#else
#define ASSAY_APPROXIMATE_UNIT(name, twin)               \
  __device__ inline float name##_unit(float f) {         \
    float y;                                             \
    asm(#name ".approx.f32 %0, %1;" : "=f"(y) : "f"(f)); \
    return y;                                            \
  }
#endif
ASSAY_APPROXIMATE_UNIT(ex2, __builtin_exp2(x))
ASSAY_APPROXIMATE_UNIT(lg2, __builtin_log2(x))
ASSAY_APPROXIMATE_UNIT(rcp, 1 / x)
ASSAY_APPROXIMATE_UNIT(rsqrt, 1 / __builtin_sqrt(x))
ASSAY_APPROXIMATE_UNIT(sqrt, __builtin_sqrt(x))
ASSAY_APPROXIMATE_UNIT(sin, __builtin_sin(x))
ASSAY_APPROXIMATE_UNIT(cos, __builtin_cos(x))
ASSAY_APPROXIMATE_UNIT(tanh, __builtin_tanh(x))

}  // namespace assay::kernels

#define ASSAY_APPROXIMATE(name)                                                                  \
  extern "C" __global__ void approximate_##name##_f32(const assay::kernels::ApproximateArgs g) { \
    const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;           \
    if (i >= g.count) return;                                                                    \
    const unsigned bits = g.first + static_cast<unsigned>(i) * g.step;                           \
    g.out[i] = assay::kernels::name##_unit(__uint_as_float(bits));                               \
  }
ASSAY_APPROXIMATE(ex2)
ASSAY_APPROXIMATE(lg2)
ASSAY_APPROXIMATE(rcp)
ASSAY_APPROXIMATE(rsqrt)
ASSAY_APPROXIMATE(sqrt)
ASSAY_APPROXIMATE(sin)
ASSAY_APPROXIMATE(cos)
ASSAY_APPROXIMATE(tanh)
