// SPDX-License-Identifier: Apache-2.0
// kernels/conv1d.cu under the emulator: every version and format against long double and against its documented order.
#include "kernels/conv1d.hpp"

#include "tests/emulator/on_device.hpp"

namespace assay::emulator {
namespace {

using kernels::Conv1dVersion;

struct Shape {
  long long n = 1, cin = 1, cout = 1, l = 1, k = 1, stride = 1, dilation = 1, padl = 0, padr = 0, groups = 1;
  long long gapx = 0, gapy = 0;
  bool bias = true, channels_last = false, wide = false;

  long long lout() const { return (l + padl + padr - dilation * (k - 1) - 1) / stride + 1; }
};

struct Problem {
  Shape s;
  DType in, c;
  SignalPlace px, pw, py;
  std::vector<double> xs, ws, bs;
  Array x, w, bias, y;

  Problem(DType t, const Shape& shape, double spoiler = 0)
      : s(shape),
        in(t),
        c(compute_of(t)),
        px(s.n, s.cin, s.l, s.channels_last, s.gapx),
        pw(s.cout, s.cin / s.groups, s.k, s.channels_last, 0),
        py(s.n, s.cout, s.lout(), s.channels_last, s.gapy),
        xs(numbers(t, px.size, 1)),
        ws(numbers(t, pw.size, 2)),
        bs(numbers(t, s.cout, 3)),
        x(t, spoil(xs, spoiler)),
        w(t, ws),
        bias(t, bs),
        y(s.wide ? DType::f32 : t, py.size) {}

  kernels::Conv1dArgs args() {
    return {.x = x.data(),
            .w = w.data(),
            .bias = s.bias ? bias.data() : nullptr,
            .y = y.data(),
            .n = s.n,
            .cin = s.cin,
            .cout = s.cout,
            .l = s.l,
            .k = s.k,
            .lout = s.lout(),
            .stride = s.stride,
            .dilation = s.dilation,
            .padl = s.padl,
            .groups = s.groups,
            .x_n = px.outer,
            .x_channel = px.channel,
            .x_position = px.position,
            .w_output = pw.outer,
            .w_input = pw.channel,
            .w_tap = pw.position,
            .y_n = py.outer,
            .y_channel = py.channel,
            .y_position = py.position,
            .y_is_f32 = s.wide};
  }
  /// Calls f(w, x) for each product of output (b, o, j) outside the padding, channels in order, in each its taps.
  template <class F>
  void products(long long b, long long o, long long j, const F& f) const {
    const long long own = s.cin / s.groups, first = o / (s.cout / s.groups) * own;
    for (long long i = 0; i < own; ++i)
      for (long long t = 0; t < s.k; ++t)
        if (const long long at = j * s.stride - s.padl + t * s.dilation; at >= 0 && at < s.l)
          f(ws[pw.at(o, i, t)], xs[px.at(b, first + i, at)]);
  }

 private:
  /// The first element of the second channel, if not 0.
  std::vector<double>& spoil(std::vector<double>& values, double spoiler) const {
    if (spoiler != 0) values[px.at(0, 1, 0)] = spoiler;
    return values;
  }
};

/// Documented order, in C.
template <class C>
double in_order(const Problem& p, long long b, long long o, long long j) {
  C sum = 0;
  p.products(b, o, j, [&](double w, double x) { sum = std::fma(static_cast<C>(w), static_cast<C>(x), sum); });
  if (p.s.bias) sum += static_cast<C>(p.bs[static_cast<std::size_t>(o)]);
  return static_cast<double>(sum);
}

void check_output(const Problem& p) {
  const double u = unit_roundoff(p.c), u_out = unit_roundoff(p.y.dtype());
  long long different = 0, written = 0;
  for (long long b = 0; b < p.s.n; ++b)
    for (long long o = 0; o < p.s.cout; ++o)
      for (long long j = 0; j < p.s.lout(); ++j) {
        long double want = p.s.bias ? p.bs[static_cast<std::size_t>(o)] : 0, magnitude = fabsl(want);
        int terms = 2;
        p.products(b, o, j, [&](double w, double x) {
          want += static_cast<long double>(w) * x, magnitude += fabsl(static_cast<long double>(w) * x), ++terms;
        });
        const std::size_t at = p.py.at(b, o, j);
        const long double bound = terms * u * magnitude + u_out * fabsl(want) * (1 + 64 * u) + smallest_subnormal(p.y.dtype());
        CHECK_MESSAGE(fabsl(p.y[at] - want) <= bound + u_out * bound, b, " ", o, " ", j);
        different +=
            p.y.bits(at) != stored(p.y, p.in == DType::f64 ? in_order<double>(p, b, o, j) : in_order<float>(p, b, o, j));
        ++written;
      }
  CHECK(different == 0);
  long long untouched = 0;
  for (std::size_t i = 0; i < p.y.size(); ++i) untouched += p.y.untouched(i);
  CHECK(untouched == p.py.size - written);
}

void run_version(Problem& p, Conv1dVersion v) {
  const std::string version = kernels::conv1d_versions[static_cast<int>(v)].name;
  run<kernels::Conv1dArgs>("conv1d_" + version + "_" + suffix(p.in), {{kernels::conv1d_launch(p.args(), v), p.args()}}, {&p.y});
}

constexpr Conv1dVersion versions[] = {Conv1dVersion::direct, Conv1dVersion::implicit_gemm, Conv1dVersion::depthwise};

void check(DType t, const Shape& shape) {
  Problem p(t, shape);
  for (const Conv1dVersion v : versions) {
    if (!kernels::conv1d_takes(p.args(), v)) continue;
    run_version(p, v);
    check_output(p);
  }
}

}  // namespace

TEST_CASE("conv1d has an entry for every version and format") {
  check_entries("conv1d", kernels::conv1d_versions);
}

TEST_CASE("conv1d kernels keep their documented order and agree with long double, in any shape and layout") {
  for (const DType t : kernel_formats) {
    check(t, {});
    check(t, {.n = 2, .cin = 3, .cout = 5, .l = 19, .k = 4, .padl = 2, .padr = 1, .gapx = 3, .gapy = 2});
    check(t, {.n = 2,
              .cin = 6,
              .cout = 4,
              .l = 23,
              .k = 3,
              .stride = 2,
              .dilation = 3,
              .padl = 7,
              .padr = 5,
              .groups = 2,
              .gapx = 1,
              .gapy = 4,
              .channels_last = true});
    check(t, {.cin = 1, .cout = 2, .l = 3, .k = 3, .padl = 5, .padr = 6, .bias = false});  // outputs that see nothing
    check(t, {.cin = 2, .cout = 1, .l = 0, .k = 2, .padl = 1, .padr = 2});
    check(t, {.cin = 7, .cout = 67, .l = 70, .k = 5, .padl = 2, .padr = 2});  // several tiles, and a rest of each
    check(t, {.cin = 34, .cout = 66, .l = 70, .k = 3, .groups = 2, .channels_last = true, .wide = size_bytes(t) == 2});
  }
}

TEST_CASE("conv1d kernels: a group of one input channel, with several outputs each and more taps than a block holds") {
  for (const DType t : kernel_formats) {
    check(t, {.n = 2, .cin = 3, .cout = 6, .l = 300, .k = 5, .stride = 1, .dilation = 2, .padl = 8, .groups = 3, .gapy = 1});
    check(t, {.cin = 2, .cout = 2, .l = 290, .k = 270, .padl = 3, .padr = 4, .groups = 2, .channels_last = true});
  }
  kernels::Conv1dArgs dense = {};
  dense.cin = dense.cout = 4, dense.groups = 2;
  CHECK(!kernels::conv1d_takes(dense, Conv1dVersion::depthwise));
}

TEST_CASE("conv1d kernels put NaN and infinity where they belong and nowhere else") {
  for (const DType t : kernel_formats)
    for (const double spoiler : {static_cast<double>(NAN), HUGE_VAL})
      for (const Conv1dVersion v : {Conv1dVersion::direct, Conv1dVersion::implicit_gemm}) {
        Problem p(t, {.cin = 2, .cout = 3, .l = 20, .k = 3, .padl = 1}, spoiler);
        run_version(p, v);
        for (long long o = 0; o < 3; ++o)
          for (long long j = 0; j < p.s.lout(); ++j) CHECK(std::isfinite(p.y[p.py.at(0, o, j)]) == (j > 1));
      }
}

}  // namespace assay::emulator
