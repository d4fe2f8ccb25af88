// SPDX-License-Identifier: Apache-2.0
// Convolution by transform, as libraries do it: Winograd's minimal filtering F(2,3) and F(4,3), and FFT.
#pragma once

#include <bit>
#include <cmath>
#include <complex>
#include <numbers>

#include "probes/ops/conv1d/signal_memory.hpp"

namespace assay::conv1d {

/// Row-major matrices of F(m,3): m outputs from m + 2 inputs. Lavin & Gray 2016, "Fast algorithms for convolutional neural
/// networks", section 4.
struct Winograd {
  int m;
  const double *outputs, *taps, *inputs;  // A' (m, m+2), G (m+2, 3), B' (m+2, m+2)
};

inline const Winograd& winograd(int m) {
  static constexpr double a2[] = {1, 1, 1, 0, 0, 1, -1, -1};
  static constexpr double g2[] = {1, 0, 0, 0.5, 0.5, 0.5, 0.5, -0.5, 0.5, 0, 0, 1};
  static constexpr double b2[] = {1, 0, -1, 0, 0, 1, 1, 0, 0, -1, 1, 0, 0, 1, 0, -1};
  static constexpr double a4[] = {1, 1, 1, 1, 1, 0, 0, 1, -1, 2, -2, 0, 0, 1, 1, 4, 4, 0, 0, 1, -1, 8, -8, 1};
  static constexpr double g4[] = {1. / 4,  0,       0,      -1. / 6, -1. / 6,  -1. / 6, -1. / 6, 1. / 6, -1. / 6,
                                  1. / 24, 1. / 12, 1. / 6, 1. / 24, -1. / 12, 1. / 6,  0,       0,      1};
  static constexpr double b4[] = {4, 0,  -5, 0, 1, 0, 0, -4, -4, 1,  1, 0, 0, 4, -4, -1, 1, 0,
                                  0, -2, -1, 2, 1, 0, 0, 2,  -1, -2, 1, 0, 0, 4, 0,  -5, 0, 1};
  static constexpr Winograd two{2, a2, g2, b2}, four{4, a4, g4, b4};
  return m == 2 ? two : four;
}

/// matrix (rows, columns) times v, in T, zeros left out.
template <class T>
std::vector<T> times(const double* matrix, int rows, int columns, const T* v) {
  std::vector<T> out(static_cast<std::size_t>(rows));
  for (int r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c)
      if (const T factor = static_cast<T>(matrix[r * columns + c]); factor != 0)
        out[static_cast<std::size_t>(r)] += factor * v[c];
  return out;
}

/// k = 3, stride = dilation = 1.
template <class T>
std::vector<T> by_winograd(const Call& c, const Inputs<T>& in, int m) {
  const Winograd& f = winograd(m);
  const int tile = m + 2;
  std::vector<T> y(static_cast<std::size_t>(c.n * c.cout * c.lout));
  std::vector<std::vector<T>> taps;  // per (output, input) channel
  for (std::int64_t i = 0; i < c.cout * c.group_in(); ++i) taps.push_back(times(f.taps, tile, 3, in.w.data() + i * 3));
  for (std::int64_t b = 0; b < c.n; ++b)
    for (std::int64_t start = 0; start < c.lout; start += m) {
      std::vector<std::vector<T>> tiles;  // per input channel
      for (std::int64_t i = 0; i < c.cin; ++i) {
        std::vector<T> x(static_cast<std::size_t>(tile));
        for (int e = 0; e < tile; ++e)
          if (const std::int64_t at = start + e - c.padl; at >= 0 && at < c.l)
            x[static_cast<std::size_t>(e)] = in.x[static_cast<std::size_t>((b * c.cin + i) * c.l + at)];
        tiles.push_back(times(f.inputs, tile, tile, x.data()));
      }
      for (std::int64_t o = 0; o < c.cout; ++o) {
        std::vector<T> sum(static_cast<std::size_t>(tile));
        for (std::int64_t i = 0; i < c.group_in(); ++i)
          for (std::size_t e = 0; e < sum.size(); ++e)
            sum[e] += taps[static_cast<std::size_t>(o * c.group_in() + i)][e] *
                      tiles[static_cast<std::size_t>(o / c.group_out() * c.group_in() + i)][e];
        const std::vector<T> out = times(f.outputs, m, tile, sum.data());
        for (std::int64_t j = start; j < std::min(c.lout, start + m); ++j)
          y[static_cast<std::size_t>((b * c.cout + o) * c.lout + j)] =
              out[static_cast<std::size_t>(j - start)] + (c.bias ? in.bias[static_cast<std::size_t>(o)] : T{0});
      }
    }
  return y;
}

template <class T>
using Spectrum = std::vector<std::complex<T>>;

/// Radix 2, recursive; sign -1 forward, +1 backward, unscaled. Roots of unity are rounded from fp64.
template <class T>
Spectrum<T> fft(const Spectrum<T>& v, int sign) {
  const std::size_t n = v.size();
  if (n == 1) return v;
  Spectrum<T> even(n / 2), odd(n / 2), out(n);
  for (std::size_t i = 0; i < n / 2; ++i) even[i] = v[2 * i], odd[i] = v[2 * i + 1];
  even = fft(even, sign), odd = fft(odd, sign);
  for (std::size_t i = 0; i < n / 2; ++i) {
    const double angle = sign * 2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n);
    const T re = static_cast<T>(std::cos(angle)), im = static_cast<T>(std::sin(angle));
    // Written out: the operator of std::complex looks for NaN.
    const std::complex<T> turned{re * odd[i].real() - im * odd[i].imag(), re * odd[i].imag() + im * odd[i].real()};
    out[i] = even[i] + turned, out[i + n / 2] = even[i] - turned;
  }
  return out;
}

/// Whole rows: position p of the padded signal in element p, tap t in element t * dilation, products with the conjugate.
template <class T>
std::vector<T> by_fft(const Call& c, const Inputs<T>& in) {
  const std::size_t size = std::bit_ceil(static_cast<std::size_t>(c.l + c.padl + c.padr));
  const auto spectrum_of = [&](const T* from, std::int64_t count, std::int64_t at, std::int64_t step) {
    Spectrum<T> v(size);
    for (std::int64_t e = 0; e < count; ++e) v[static_cast<std::size_t>(at + e * step)] = from[e];
    return fft(v, -1);
  };
  std::vector<Spectrum<T>> taps, rows;
  for (std::int64_t i = 0; i < c.cout * c.group_in(); ++i)
    taps.push_back(spectrum_of(in.w.data() + i * c.k, c.k, 0, c.dilation));
  for (std::int64_t i = 0; i < c.n * c.cin; ++i) rows.push_back(spectrum_of(in.x.data() + i * c.l, c.l, c.padl, 1));
  std::vector<T> y(static_cast<std::size_t>(c.n * c.cout * c.lout));
  for (std::int64_t b = 0; b < c.n; ++b)
    for (std::int64_t o = 0; o < c.cout; ++o) {
      Spectrum<T> sum(size);
      for (std::int64_t i = 0; i < c.group_in(); ++i) {
        const Spectrum<T>& w = taps[static_cast<std::size_t>(o * c.group_in() + i)];
        const Spectrum<T>& x = rows[static_cast<std::size_t>(b * c.cin + o / c.group_out() * c.group_in() + i)];
        for (std::size_t e = 0; e < size; ++e)
          sum[e] += std::complex<T>{x[e].real() * w[e].real() + x[e].imag() * w[e].imag(),
                                    x[e].imag() * w[e].real() - x[e].real() * w[e].imag()};
      }
      const Spectrum<T> back = fft(sum, 1);
      for (std::int64_t j = 0; j < c.lout; ++j)
        y[static_cast<std::size_t>((b * c.cout + o) * c.lout + j)] =
            back[static_cast<std::size_t>(j * c.stride)].real() / static_cast<T>(size) +
            (c.bias ? in.bias[static_cast<std::size_t>(o)] : T{0});
    }
  return y;
}

}  // namespace assay::conv1d
