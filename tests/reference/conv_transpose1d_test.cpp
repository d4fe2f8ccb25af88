// SPDX-License-Identifier: Apache-2.0
// conv_transpose1d's truth against hand-computed values, a second implementation, and the identity that makes it the adjoint of
// a convolution.
#include "reference/ops/conv_transpose1d.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "reference/inputs.hpp"

using namespace assay;
using reference::ConvTranspose1d;

namespace {

using Values = std::vector<double>;

Numbers truth(const ConvTranspose1d& c) {
  return reference::conv_transpose1d(c, false).value;
}

Values draw(Family f, DType t, std::vector<std::int64_t> dims, bool left, std::uint64_t seed, std::int64_t limit = 9) {
  Operand o{.dtype = t, .dims = std::move(dims), .stream = left ? 1U : 2U};
  o.span = element_count(o);
  o.strides = {o.dims[1] * o.dims[2], o.dims[2], 1};
  Values v;
  const FillRule rule{.family = f, .outer_axis = left ? 2 : 1, .inner_axis = left ? 1 : 0, .left = left, .limit = limit};
  for (const std::uint64_t bits : generate(o, rule, seed)) v.push_back(decode(t, bits));
  return v;
}

/// A shape with its data.
struct Drawn {
  ConvTranspose1d c;
  Values x, w, bias;

  Drawn(ConvTranspose1d shape, Family f, DType t, bool with_bias, std::uint64_t seed = 1) : c(shape) {
    x = draw(f, t, {c.n, c.cin, c.l}, true, seed);
    w = draw(f, t, {c.cin, c.cout / c.groups, c.k}, false, seed);
    if (with_bias)
      for (std::int64_t co = 0; co < c.cout; ++co) bias.push_back(static_cast<double>(co % 5) - 2);
    c.x = x, c.w = w, c.bias = bias;
  }
};

const ConvTranspose1d shapes[] = {
    {.cin = 1, .cout = 1, .l = 1, .k = 1},
    {.n = 2, .cin = 3, .cout = 5, .l = 7, .k = 4, .stride = 2, .padl = 1, .padr = 1},
    {.n = 2, .cin = 6, .cout = 4, .l = 9, .k = 5, .stride = 3, .dilation = 2, .padl = 4, .padr = 1, .outpad = 2, .groups = 2},
    {.cin = 4, .cout = 4, .l = 11, .k = 3, .dilation = 4, .padl = 3, .groups = 4},
    {.cin = 2, .cout = 3, .l = 5, .k = 2, .stride = 5, .outpad = 4},
    {.cin = 3, .cout = 2, .l = 2, .k = 9, .stride = 4, .dilation = 6, .padr = 5},
    {.cin = 5, .cout = 2, .l = 30, .k = 16, .stride = 8, .padl = 4, .padr = 4},
    {.cin = 2, .cout = 2, .l = 3, .k = 7, .padl = 3, .padr = 3},
};

}  // namespace

TEST_CASE("conv_transpose1d of hand-computed signals") {
  const Values x = {1, 2, 3}, w = {1, 10, 100}, bias = {0.5};
  ConvTranspose1d c{.l = 3, .k = 3, .stride = 2, .x = x, .w = w};
  CHECK(truth(c) == Values{1, 10, 102, 20, 203, 30, 300});
  c.padl = 1, c.padr = 2;
  CHECK(truth(c) == Values{10, 102, 20, 203});
  c.outpad = 1;  // what the crop took comes back
  CHECK(truth(c) == Values{10, 102, 20, 203, 30});
  c.padl = 0, c.padr = 0;
  CHECK(truth(c) == Values{1, 10, 102, 20, 203, 30, 300, 0});
  c.stride = 1, c.outpad = 0, c.dilation = 2;
  CHECK(truth(c) == Values{1, 2, 13, 20, 130, 200, 300});
  c.stride = 4, c.dilation = 1, c.outpad = 3, c.bias = bias;  // a hole after each frame, and three behind the last
  CHECK(truth(c) == Values{1.5, 10.5, 100.5, 0.5, 2.5, 20.5, 200.5, 0.5, 3.5, 30.5, 300.5, 0.5, 0.5, 0.5});
  // Two channels in, two out: y[co] = x[0] w[0,co] + x[1] w[1,co].
  const Values x2 = {1, 2}, w2 = {1, 10, 100, 1000};
  CHECK(truth({.cin = 2, .cout = 2, .l = 1, .x = x2, .w = w2}) == Values{201, 2010});
  CHECK(truth({.cin = 2, .cout = 4, .l = 1, .groups = 2, .x = x2, .w = w2}) == Values{1, 10, 200, 2000});
}

TEST_CASE("conv_transpose1d agrees with the definition, value and magnitudes, for every family") {
  for (const ConvTranspose1d& shape : shapes)
    for (const Family f : {Family::normal, Family::integer, Family::wide, Family::cancel, Family::two_level, Family::position})
      for (const DType t : {DType::f32, DType::f64, DType::bf16}) {
        CAPTURE(name(f));
        const Drawn d(shape, f, t, shape.k % 2 == 1);
        const Expected e = reference::conv_transpose1d(d.c, t == DType::f64);
        const Values slow = reference::conv_transpose1d_slow(d.c);
        Drawn sizes = d, squares = d;
        for (std::size_t i = 0; i < d.x.size(); ++i) sizes.x[i] = std::fabs(d.x[i]), squares.x[i] = d.x[i] * d.x[i];
        for (std::size_t i = 0; i < d.w.size(); ++i) sizes.w[i] = std::fabs(d.w[i]), squares.w[i] = d.w[i] * d.w[i];
        for (Drawn* other : {&sizes, &squares}) other->c.x = other->x, other->c.w = other->w, other->c.bias = {};
        const Values s = reference::conv_transpose1d_slow(sizes.c), r2 = reference::conv_transpose1d_slow(squares.c);
        REQUIRE(e.value.size() == slow.size());
        CHECK(e.row_length == d.c.lout());
        for (std::size_t i = 0; i < slow.size(); ++i) {
          const double scale = s[i] + 2;
          REQUIRE(std::fabs((e.value[i] + (t == DType::f64 ? e.value_lo[i] : 0)) - slow[i]) <= 0x1p-48 * scale);
          REQUIRE(e.sum_abs[i] >= s[i] * (1 - 0x1p-40));
          REQUIRE(e.sum_abs[i] <= s[i] * (1 + 0x1p-16));
          REQUIRE(e.sum_sq[i] >= r2[i] * (1 - 0x1p-40));
          REQUIRE(e.sum_sq[i] <= r2[i] * (1 + 0x1p-16));
          if (!d.bias.empty())
            REQUIRE(e.addend[i] == std::fabs(d.bias[i / static_cast<std::size_t>(d.c.lout()) % d.bias.size()]));
        }
      }
}

TEST_CASE("terms is the largest number of products that meet in one output") {
  for (std::int64_t k = 1; k <= 5; ++k)
    for (std::int64_t l = 1; l <= 6; ++l)
      for (std::int64_t stride = 1; stride <= 6; ++stride)
        for (std::int64_t dilation = 1; dilation <= 4; ++dilation) {
          const ConvTranspose1d c{.cin = 2, .l = l, .k = k, .stride = stride, .dilation = dilation};
          const Values ones(static_cast<std::size_t>(2 * std::max(l, k)), 1.0);
          ConvTranspose1d counted = c;
          counted.x = std::span(ones).first(static_cast<std::size_t>(2 * l));
          counted.w = std::span(ones).first(static_cast<std::size_t>(2 * k));
          const Expected e = reference::conv_transpose1d(counted, false);
          REQUIRE(*std::max_element(e.value.begin(), e.value.end()) == static_cast<double>(e.terms));
        }
}

TEST_CASE("the adjoint of a convolution: <conv(x, w), y> = <x, conv_transpose(y, w)>, exactly") {
  for (const ConvTranspose1d& shape : shapes)
    for (std::int64_t rest = 0; rest < shape.stride; ++rest) {
      // The convolution that makes the shape's input of its output; `rest` frames at its end are in no window.
      ConvTranspose1d c = shape;
      c.outpad = rest;
      if (c.lout() < 1) continue;
      const Drawn d(c, Family::integer, DType::f64, false, 7);
      const Values x = draw(Family::integer, DType::f64, {c.n, c.cout, c.lout()}, false, 8);
      const std::int64_t cin = c.cin / c.groups, cout = c.cout / c.groups;
      double left = 0;
      for (std::int64_t b = 0; b < c.n; ++b)
        for (std::int64_t o = 0; o < c.cin; ++o)
          for (std::int64_t i = 0; i < c.l; ++i)
            for (std::int64_t own = 0; own < cout; ++own)
              for (std::int64_t r = 0; r < c.k; ++r) {
                const std::int64_t t = i * c.stride + r * c.dilation - c.padl, channel = o / cin * cout + own;
                if (t < 0 || t >= c.lout()) continue;
                left +=
                    x[(b * c.cout + channel) * c.lout() + t] * d.w[(o * cout + own) * c.k + r] * d.x[(b * c.cin + o) * c.l + i];
              }
      const Numbers made = truth(d.c);
      double right = 0;
      for (std::size_t i = 0; i < made.size(); ++i) right += x[i] * made[i];
      CHECK(left == right);
    }
}

TEST_CASE("one tap, stride 1 is a matrix product; zeros inserted and taps flipped is a convolution") {
  const Drawn d({.cin = 3, .cout = 2, .l = 4, .k = 1}, Family::integer, DType::f32, false);
  const Numbers y = truth(d.c);
  for (std::int64_t co = 0; co < 2; ++co)
    for (std::int64_t i = 0; i < 4; ++i) {
      double sum = 0;
      for (std::int64_t ci = 0; ci < 3; ++ci) sum += d.w[ci * 2 + co] * d.x[ci * 4 + i];
      CHECK(y[co * 4 + i] == sum);
    }
}

TEST_CASE("NaN and Inf reach the outputs that use them, and no other") {
  Drawn d({.n = 2, .cin = 4, .cout = 4, .l = 9, .k = 3, .stride = 2, .dilation = 2, .padl = 1, .padr = 1, .groups = 2},
          Family::normal, DType::f32, true);
  for (const bool wide : {false, true})
    for (const double bad : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      // Frame 3 of input channel 2 (second group) of entry 1 falls on t = 6 - 1 + {0, 2, 4}.
      const double before = std::exchange(d.x[(1 * 4 + 2) * 9 + 3], bad);
      Expected e = reference::conv_transpose1d(d.c, wide);
      const std::int64_t lout = d.c.lout();
      for (std::int64_t i = 0; i < std::ssize(e.value); ++i) {
        const std::int64_t t = i % lout, row = i / lout;
        const bool uses = row >= 6 && (t == 5 || t == 7 || t == 9);
        CHECK(std::isnan(e.sum_abs[i]) == uses);
        CHECK(std::isfinite(e.value[i]) == !uses);
        if (uses && std::isinf(bad)) {
          const double tap = d.w[(2 * 2 + row % 2) * 3 + (t - 5) / 2];
          CHECK((std::isinf(e.value[i]) && std::signbit(e.value[i]) == std::signbit(tap)));
        }
      }
      d.x[(1 * 4 + 2) * 9 + 3] = before;
      const double tap = std::exchange(d.w[(2 * 2 + 1) * 3 + 1], bad);
      e = reference::conv_transpose1d(d.c, wide);
      for (std::int64_t i = 0; i < std::ssize(e.value); ++i) {
        const std::int64_t t = i % lout, row = i / lout;
        CHECK(std::isnan(e.sum_abs[i]) == (row % 4 == 3 && (t + 1 - 2) % 2 == 0 && t >= 1 && t < 19));
      }
      d.w[(2 * 2 + 1) * 3 + 1] = tap;
    }
  // Inf of both signs on one output is NaN.
  const Values x = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}, w = {1, 1};
  for (const bool wide : {false, true}) {
    const Expected e = reference::conv_transpose1d({.l = 2, .k = 2, .x = x, .w = w}, wide);
    CHECK(e.value[0] == x[0]);
    CHECK(std::isnan(e.value[1]));
    CHECK(e.value[2] == x[1]);
  }
}

TEST_CASE("fp64 results carry what fp64 cannot hold, columns and bias included") {
  const Values x = {1, 0x1p-60}, w = {1, 0x1p-60}, bias = {0x1p-62};
  const Expected e = reference::conv_transpose1d({.l = 2, .k = 2, .x = x, .w = w, .bias = bias}, true);
  CHECK(e.value == Values{1, 0x1p-59 + 0x1p-62, 0x1p-62});
  CHECK(e.value_lo == Values{0x1p-62, 0, 0x1p-120});
}

TEST_CASE("chosen rows are those rows of the whole") {
  for (const ConvTranspose1d& shape : shapes) {
    const Drawn d(shape, Family::normal, DType::f32, true);
    const Expected all = reference::conv_transpose1d(d.c, true);
    std::vector<std::int64_t> rows;
    for (std::int64_t r = 0; r < d.c.n * d.c.cout; r += 2) rows.push_back(r);
    const Expected some = reference::conv_transpose1d(d.c, true, rows);
    CHECK(some.rows == rows);
    const auto length = static_cast<std::size_t>(d.c.lout());
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::size_t t = 0; t < length; ++t) {
        const std::size_t at = static_cast<std::size_t>(rows[i]) * length + t;
        CHECK(some.value[i * length + t] == all.value[at]);
        CHECK(some.sum_abs[i * length + t] == all.sum_abs[at]);
        CHECK(some.addend[i * length + t] == all.addend[at]);
      }
  }
}

TEST_CASE("many small groups in parallel give the same as one by one") {
  const Drawn d({.n = 3, .cin = 32, .cout = 32, .l = 50, .k = 5, .stride = 2, .groups = 32}, Family::integer, DType::f32,
                false);
  CHECK(truth(d.c) == reference::conv_transpose1d_slow(d.c));
}

TEST_CASE("impossible sizes are refused") {
  const Values x(6), w(6);
  CHECK_NOTHROW(truth({.cin = 2, .cout = 1, .l = 3, .k = 3, .x = x, .w = w}));
  CHECK_THROWS_AS(truth({.cin = 2, .cout = 1, .l = 4, .k = 3, .x = x, .w = w}), std::invalid_argument);
  CHECK_THROWS_AS(truth({.cin = 2, .cout = 1, .l = 3, .k = 3, .groups = 2, .x = x, .w = w}), std::invalid_argument);
  CHECK_THROWS_AS(truth({.cin = 2, .cout = 1, .l = 3, .k = 3, .stride = 0, .x = x, .w = w}), std::invalid_argument);
  CHECK_THROWS_AS(truth({.cin = 2, .cout = 1, .l = 3, .k = 3, .padl = 9, .x = x, .w = w}), std::invalid_argument);
  CHECK_THROWS_AS(reference::conv_transpose1d({.cin = 2, .cout = 1, .l = 3, .k = 3, .x = x, .w = w}, false, {1}),
                  std::invalid_argument);
}
