// SPDX-License-Identifier: Apache-2.0
// conv_transpose1d: what kernels/conv_transpose1d.hpp describes, naive first. One thread per output. Products and sums in fp32
// (fp64 for fp64 data).
#include "kernels/conv_transpose1d.hpp"
#include "kernels/portable.cuh"

namespace assay::kernels {

/// One output: its place, and its group's first input channel and first weights.
template <class T>
struct Output {
  const ConvTranspose1dArgs& g;
  long long b, o, t;
  const T *x, *w;

  __device__ Output(const ConvTranspose1dArgs& args, long long index)
      : g(args), b(index / g.lout / g.cout), o(index / g.lout % g.cout), t(index % g.lout) {
    const long long own = g.cout / g.groups, first = o / own * (g.cin / g.groups);
    x = static_cast<const T*>(g.x) + b * g.x_n + first * g.x_channel;
    w = static_cast<const T*>(g.w) + first * g.w_input + o % own * g.w_output;
  }
  /// sum + the products of tap r and frame f, channels in order.
  __device__ Compute<T> add(Compute<T> sum, long long r, long long f) const {
    for (long long i = 0; i < g.cin / g.groups; ++i)
      sum = fused(widen(x[i * g.x_channel + f * g.x_position]), widen(w[i * g.w_input + r * g.w_tap]), sum);
    return sum;
  }
  __device__ void write(Compute<T> sum) const {
    if (g.bias) sum += widen(static_cast<const T*>(g.bias)[o]);
    store<T>(g.y, b * g.y_n + o * g.y_channel + t * g.y_position, sum, g.y_is_f32);
  }
};

/// The place of this thread among all outputs; -1 beyond the last.
__device__ inline long long output_index(const ConvTranspose1dArgs& g) {
  const long long index = static_cast<long long>(blockIdx.x) * conv_transpose1d_threads + threadIdx.x;
  return index < g.n * g.cout * g.lout ? index : -1;
}

template <class T>
__device__ void conv_transpose1d_gather(const ConvTranspose1dArgs& g) {
  const long long index = output_index(g);
  if (index < 0) return;
  const Output<T> y(g, index);
  Compute<T> sum = 0;
  for (long long r = 0; r < g.k; ++r) {
    const long long at = y.t + g.padl - r * g.dilation;
    if (at >= 0 && at % g.stride == 0 && at / g.stride < g.l) sum = y.add(sum, r, at / g.stride);
  }
  y.write(sum);
}

/// Taps that meet a frame lie stride / gcd(stride, dilation) apart: of an output in one phase all, in another none.
template <class T>
__device__ void conv_transpose1d_phases(const ConvTranspose1dArgs& g) {
  const long long index = output_index(g);
  if (index < 0) return;
  const Output<T> y(g, index);
  long long common = g.stride, rest = g.dilation;
  while (rest != 0) {
    const long long next = common % rest;
    common = rest, rest = next;
  }
  const long long apart = g.stride / common, at = y.t + g.padl, beyond = at - (g.l - 1) * g.stride;
  // Smaller taps would meet frames beyond the last one.
  long long r = beyond > 0 ? (beyond + g.dilation - 1) / g.dilation : 0;
  const long long end = r + apart;
  while (r < end && (at - r * g.dilation) % g.stride != 0) ++r;
  Compute<T> sum = 0;
  if (r < end)
    for (; r < g.k && r * g.dilation <= at; r += apart) sum = y.add(sum, r, (at - r * g.dilation) / g.stride);
  y.write(sum);
}

}  // namespace assay::kernels

#define ASSAY_CONV_TRANSPOSE1D(version, format, type)                                                             \
  extern "C" __global__ void conv_transpose1d_##version##_##format(const assay::kernels::ConvTranspose1dArgs g) { \
    assay::kernels::conv_transpose1d_##version<type>(g);                                                          \
  }
ASSAY_CONV_TRANSPOSE1D(gather, f32, float)
ASSAY_CONV_TRANSPOSE1D(gather, f64, double)
ASSAY_CONV_TRANSPOSE1D(gather, bf16, assay::kernels::bf16)
ASSAY_CONV_TRANSPOSE1D(gather, f16, assay::kernels::f16)
ASSAY_CONV_TRANSPOSE1D(phases, f32, float)
ASSAY_CONV_TRANSPOSE1D(phases, f64, double)
ASSAY_CONV_TRANSPOSE1D(phases, bf16, assay::kernels::bf16)
ASSAY_CONV_TRANSPOSE1D(phases, f16, assay::kernels::f16)
