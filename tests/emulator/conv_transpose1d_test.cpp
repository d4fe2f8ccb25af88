// SPDX-License-Identifier: Apache-2.0
// kernels/conv_transpose1d.cu under the emulator: every version and format against long double and against its documented
// order.
#include "kernels/conv_transpose1d.hpp"

#include "tests/emulator/on_device.hpp"

namespace assay::emulator {
namespace {

struct Shape {
  long long n = 1, cin = 1, cout = 1, l = 1, k = 1, stride = 1, dilation = 1, padl = 0, padr = 0, outpad = 0, groups = 1;
  long long gapx = 0, gapy = 0;
  bool bias = true, channels_last = false, wide = false;

  long long lout() const { return (l - 1) * stride - padl - padr + dilation * (k - 1) + 1 + outpad; }
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
        pw(s.cin, s.cout / s.groups, s.k, s.channels_last, 0),
        py(s.n, s.cout, s.lout(), s.channels_last, s.gapy),
        xs(numbers(t, px.size, 1)),
        ws(numbers(t, pw.size, 2)),
        bs(numbers(t, s.cout, 3)),
        x(t, spoil(xs, spoiler)),
        w(t, ws),
        bias(t, bs),
        y(s.wide ? DType::f32 : t, py.size) {}

  kernels::ConvTranspose1dArgs args() {
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
            .w_input = pw.outer,
            .w_output = pw.channel,
            .w_tap = pw.position,
            .y_n = py.outer,
            .y_channel = py.channel,
            .y_position = py.position,
            .y_is_f32 = s.wide};
  }
  /// Calls f(x, w) for each product of output (b, o, t): taps in order, channels in order. By the definition: every frame is
  /// tried with every tap.
  template <class F>
  void products(long long b, long long o, long long t, const F& f) const {
    const long long own = s.cin / s.groups, outputs = s.cout / s.groups;
    for (long long r = 0; r < s.k; ++r)
      for (long long frame = 0; frame < s.l; ++frame)
        for (long long i = o / outputs * own; i < (o / outputs + 1) * own; ++i)
          if (frame * s.stride + r * s.dilation == t + s.padl) f(xs[px.at(b, i, frame)], ws[pw.at(i, o % outputs, r)]);
  }

 private:
  /// The last frame of the first channel, if not 0.
  std::vector<double>& spoil(std::vector<double>& values, double spoiler) const {
    if (spoiler != 0) values[px.at(0, 0, s.l - 1)] = spoiler;
    return values;
  }
};

/// Documented order, in C.
template <class C>
double in_order(const Problem& p, long long b, long long o, long long t) {
  C sum = 0;
  p.products(b, o, t, [&](double x, double w) { sum = std::fma(static_cast<C>(x), static_cast<C>(w), sum); });
  if (p.s.bias) sum += static_cast<C>(p.bs[static_cast<std::size_t>(o)]);
  return static_cast<double>(sum);
}

void check_output(const Problem& p) {
  const double u = unit_roundoff(p.c), u_out = unit_roundoff(p.y.dtype());
  long long different = 0, written = 0;
  for (long long b = 0; b < p.s.n; ++b)
    for (long long o = 0; o < p.s.cout; ++o)
      for (long long t = 0; t < p.s.lout(); ++t, ++written) {
        long double want = p.s.bias ? p.bs[static_cast<std::size_t>(o)] : 0, magnitude = fabsl(want);
        int terms = 2;
        p.products(b, o, t, [&](double x, double w) {
          want += static_cast<long double>(x) * w, magnitude += fabsl(static_cast<long double>(x) * w), ++terms;
        });
        const std::size_t at = p.py.at(b, o, t);
        const long double bound = terms * u * magnitude;
        CHECK_MESSAGE(fabsl(p.y[at] - want) <= bound + u_out * (fabsl(want) + bound) + smallest_subnormal(p.y.dtype()), b, " ",
                      o, " ", t);
        different +=
            p.y.bits(at) != stored(p.y, p.in == DType::f64 ? in_order<double>(p, b, o, t) : in_order<float>(p, b, o, t));
      }
  CHECK(different == 0);
  long long untouched = 0;
  for (std::size_t i = 0; i < p.y.size(); ++i) untouched += p.y.untouched(i);
  CHECK(untouched == p.py.size - written);
}

void run_version(Problem& p, const char* version) {
  run<kernels::ConvTranspose1dArgs>(std::string("conv_transpose1d_") + version + "_" + suffix(p.in),
                                    {{kernels::conv_transpose1d_launch(p.args()), p.args()}}, {&p.y});
}

void check(DType t, const Shape& shape) {
  Problem p(t, shape);
  for (const kernels::Version& v : kernels::conv_transpose1d_versions) {
    run_version(p, v.name);
    check_output(p);
  }
}

}  // namespace

TEST_CASE("conv_transpose1d has an entry for every version and format") {
  check_entries("conv_transpose1d", kernels::conv_transpose1d_versions);
}

TEST_CASE("conv_transpose1d kernels keep their documented order and agree with long double, in any shape and layout") {
  for (const DType t : kernel_formats) {
    check(t, {});
    check(t, {.n = 2, .cin = 3, .cout = 5, .l = 19, .k = 4, .gapx = 3, .gapy = 2});
    check(t, {.n = 2,
              .cin = 6,
              .cout = 4,
              .l = 9,
              .k = 5,
              .stride = 2,
              .padl = 1,
              .padr = 2,
              .outpad = 1,
              .groups = 2,
              .gapx = 1,
              .gapy = 4,
              .channels_last = true});
    check(t, {.cin = 8, .cout = 3, .l = 8, .k = 7, .stride = 3, .dilation = 2, .padl = 4, .wide = size_bytes(t) == 2});
    check(t, {.cin = 2, .cout = 3, .l = 70, .k = 5, .stride = 6, .dilation = 4, .padr = 3, .outpad = 5});
    check(t, {.cin = 2, .cout = 2, .l = 5, .k = 3, .stride = 4, .dilation = 6, .padl = 2, .outpad = 3, .bias = false});
    check(t, {.cin = 1, .cout = 2, .l = 2, .k = 1, .stride = 3, .outpad = 2});  // holes that no product reaches
    check(t, {.cin = 6, .cout = 6, .l = 20, .k = 3, .stride = 2, .groups = 6});
    check(t, {.cin = 3, .cout = 1, .l = 1, .k = 9, .stride = 5, .dilation = 3});
  }
}

TEST_CASE("conv_transpose1d kernels put NaN and infinity where they belong and nowhere else") {
  for (const DType t : kernel_formats)
    for (const double spoiler : {static_cast<double>(NAN), HUGE_VAL})
      for (const kernels::Version& v : kernels::conv_transpose1d_versions) {
        Problem p(t, {.cin = 2, .cout = 3, .l = 10, .k = 3, .stride = 2, .padr = 1, .groups = 1}, spoiler);
        run_version(p, v.name);
        for (long long o = 0; o < 3; ++o)
          for (long long j = 0; j < p.s.lout(); ++j) CHECK(std::isfinite(p.y[p.py.at(0, o, j)]) == (j < 18));
      }
}

}  // namespace assay::emulator
