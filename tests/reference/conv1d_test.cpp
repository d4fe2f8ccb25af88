// SPDX-License-Identifier: Apache-2.0
// conv1d's truth against hand-computed values and a second implementation, its bound just inside and outside, and the fills
// that it asks for.
#include "reference/ops/conv1d.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "reference/inputs.hpp"
#include "reference/ops/gemm.hpp"

using namespace assay;
using assay::reference::Conv1d;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double u = 0x1p-24;

std::vector<double> drawn(DType t, std::vector<std::int64_t> dims, FillRule rule, std::uint32_t stream) {
  Operand o{.role = "X", .dtype = t, .dims = std::move(dims), .stream = stream};
  o.strides = {o.dims[1] * o.dims[2], o.dims[2], 1};
  o.span = o.dims[0] * o.dims[1] * o.dims[2];
  std::vector<double> v;
  for (const std::uint64_t bits : generate(o, rule, 5)) v.push_back(decode(t, bits));
  return v;
}

/// A problem with its data.
struct Sample {
  Conv1d c;
  std::vector<double> x, w, bias;

  Sample(Conv1d sizes, Family f, DType t, bool biased) : c(sizes) {
    x = drawn(t, {c.n, c.cin, c.l}, {.family = f, .outer_axis = 0, .inner_axis = 1, .limit = 7}, 1);
    w = drawn(t, {c.cout, c.cin / c.groups, c.k}, {.family = f, .outer_axis = 0, .inner_axis = 1, .left = false, .limit = 7},
              2);
    if (biased) bias = drawn(t, {c.cout, 1, 1}, {.family = f, .outer_axis = 0, .inner_axis = 1, .limit = 7}, 3);
    c.x = x, c.w = w, c.bias = bias;
  }
};

const Conv1d shapes[] = {
    {.n = 1, .cin = 1, .cout = 1, .l = 1, .k = 1},
    {.n = 2, .cin = 3, .cout = 4, .l = 11, .k = 3, .padl = 1, .padr = 1},
    {.n = 1, .cin = 4, .cout = 6, .l = 10, .k = 4, .stride = 3, .dilation = 2, .padl = 5, .padr = 1, .groups = 2},
    {.n = 3, .cin = 5, .cout = 5, .l = 9, .k = 2, .stride = 2, .padl = 1, .groups = 5},
    {.n = 1, .cin = 2, .cout = 3, .l = 6, .k = 5, .padl = 9, .padr = 8},
    {.n = 2, .cin = 2, .cout = 3, .l = 0, .k = 2, .padl = 2, .padr = 1},
};

}  // namespace

TEST_CASE("conv1d by hand: correlation, padding, stride, dilation, groups, bias") {
  const std::vector<double> x = {1, 2, 3, 4, 5}, taps = {1, 10, 100}, two = {7};
  const auto value = [&](Conv1d c) {
    c.cin = c.cout = 1, c.l = 5, c.k = 3, c.x = x, c.w = taps;
    return reference::conv1d(c, false).value;
  };
  CHECK(value({}) == std::vector<double>{321, 432, 543});
  CHECK(value({.padl = 1, .padr = 1}) == std::vector<double>{210, 321, 432, 543, 54});
  CHECK(value({.padl = 2}) == std::vector<double>{100, 210, 321, 432, 543});
  CHECK(value({.stride = 2, .padl = 1, .padr = 1}) == std::vector<double>{210, 432, 54});
  CHECK(value({.dilation = 2}) == std::vector<double>{531});
  CHECK(value({.dilation = 3, .padl = 1, .padr = 1}) == std::vector<double>{0 + 3 * 10 + 0});
  CHECK(value({.bias = two}) == std::vector<double>{328, 439, 550});
  const std::vector<double> planes = {1, 2, 3, 4, 5, 6, 7, 8}, w = {1, 2, 3, 4};
  CHECK(reference::conv1d({.cin = 4, .cout = 2, .l = 2, .k = 1, .groups = 2, .x = planes, .w = w}, false).value ==
        std::vector<double>{1 * 1 + 2 * 3, 1 * 2 + 2 * 4, 3 * 5 + 4 * 7, 3 * 6 + 4 * 8});
}

TEST_CASE("conv1d: magnitudes and norms of a hand-computed element") {
  const std::vector<double> x = {1, -2, 3}, w = {2, -4}, bias = {-5};
  const Expected e = reference::conv1d({.cin = 1, .cout = 1, .l = 3, .k = 2, .padl = 1, .x = x, .w = w, .bias = bias}, false);
  CHECK(e.value == std::vector<double>{-9, 5, -21});
  CHECK(e.terms == 2);
  CHECK(e.row_length == 3);
  CHECK(e.sum_abs[1] == doctest::Approx(10));
  CHECK(e.sum_abs[0] == doctest::Approx(4));  // one tap lies in the padding
  CHECK(e.sum_sq[1] == doctest::Approx(4 + 64));
  CHECK(e.addend[2] == 5);
  CHECK(e.further[reference::norm_2][0] == doctest::Approx(std::sqrt(14.0 * 20.0)));
  CHECK(e.further[reference::norm_max][0] == 12);
  CHECK(e.further[reference::norm_root][0] == 12);
}

TEST_CASE("conv1d: the second implementation agrees on every family and shape") {
  for (const DType t : {DType::f32, DType::f64, DType::bf16})
    for (const Family f : product_families())
      for (const Conv1d& shape : shapes) {
        const Sample s(shape, f, t, shape.cout > 3);
        const Expected e = reference::conv1d(s.c, t == DType::f64);
        const std::vector<double> slow = reference::conv1d_slow(s.c);
        REQUIRE(e.value.size() == slow.size());
        for (std::size_t i = 0; i < slow.size(); ++i) {
          CAPTURE(name(f));
          CAPTURE(i);
          if (!std::isfinite(slow[i])) {
            CHECK((std::isnan(slow[i]) ? std::isnan(e.value[i]) : e.value[i] == slow[i]));
            CHECK((std::isnan(e.sum_abs[i]) || !std::isfinite(e.addend[i])));  // or the bias is what is not finite
          } else {
            const double scale = (e.sum_abs[i] + (e.addend.empty() ? 0 : e.addend[i])) * 0x1p-52;
            REQUIRE(std::fabs(e.value[i] - slow[i]) <= scale * (t == DType::f64 ? 1 : 4) + 0x1p-1074);
          }
        }
      }
}

TEST_CASE("conv1d: sampled rows are rows of the whole") {
  const Sample s(shapes[2], Family::normal, DType::f32, true);
  const Sample batch(shapes[3], Family::normal, DType::f32, true);
  for (const auto* sample : {&s, &batch}) {
    const Expected whole = reference::conv1d(sample->c, false);
    const std::vector<std::int64_t> rows = {0, 2, sample->c.n * sample->c.cout - 1};
    const Expected some = reference::conv1d(sample->c, false, rows);
    CHECK(some.rows == rows);
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::int64_t j = 0; j < whole.row_length; ++j) {
        const auto at = r * static_cast<std::size_t>(whole.row_length) + static_cast<std::size_t>(j);
        const auto from = static_cast<std::size_t>(rows[r] * whole.row_length + j);
        CHECK(some.value[at] == doctest::Approx(whole.value[from]).epsilon(1e-14));
        CHECK(some.sum_abs[at] == doctest::Approx(whole.sum_abs[from]));
        CHECK(some.further[reference::norm_2][r] == whole.further[reference::norm_2][static_cast<std::size_t>(rows[r])]);
      }
  }
}

TEST_CASE("conv1d: NaN and Inf reach what reads them, and nothing else") {
  std::vector<double> x(2 * 6, 1.0);
  x[3] = nan_value, x[6 + 1] = inf;
  const std::vector<double> w = {1, 1, -1, 0};  // channel 0: 1, 1; channel 1: -1, 0
  const Expected e = reference::conv1d({.cin = 2, .cout = 1, .l = 6, .k = 2, .x = x, .w = w}, false);
  CHECK(std::isnan(e.value[0]));  // Inf * 0
  CHECK(e.value[1] == -inf);
  CHECK(std::isnan(e.value[2]));
  CHECK(std::isnan(e.value[3]));
  CHECK(e.value[4] == 1);
  CHECK(std::isfinite(e.sum_abs[4]));
  CHECK(std::isfinite(e.further[reference::norm_2][0]));
}

TEST_CASE("conv1d refuses sizes that disagree") {
  const std::vector<double> x(6), w(4);
  CHECK_THROWS_AS(reference::conv1d({.cin = 2, .cout = 1, .l = 4, .k = 2, .x = x, .w = w}, false), std::invalid_argument);
  CHECK_THROWS_AS(reference::conv1d({.cin = 2, .cout = 2, .l = 3, .k = 2, .x = x, .w = w}, false), std::invalid_argument);
  CHECK_THROWS_AS(reference::conv1d({.cin = 2, .cout = 1, .l = 3, .k = 2, .dilation = 3, .x = x, .w = w}, false),
                  std::invalid_argument);
  CHECK_THROWS_AS(reference::conv1d({.cin = 2, .cout = 1, .l = 3, .k = 2, .x = x, .w = w}, false, {1}), std::invalid_argument);
}

TEST_CASE("conv1d: without a transform the bound is that of a sum of products") {
  const Sample s(shapes[1], Family::normal, DType::f32, true);
  const Expected e = reference::conv1d(s.c, false);
  const Bound own = reference::conv1d_bound(s.c, e, {}, true, false), product = product_sum_bound(e, {}, true, false);
  CHECK(own.hard == product.hard);
  CHECK(own.iid == product.iid);
}

TEST_CASE("conv1d: bounds of transforms, one channel by hand") {
  const std::vector<double> x(12, 1.0), w = {1, 2, 3};
  const Conv1d c{.cin = 1, .cout = 1, .l = 12, .k = 3, .x = x, .w = w};
  const Expected e = reference::conv1d(c, false);
  Arithmetic a;
  a.transform = Transform::winograd_4;
  // 48 * ((1+u)^21 - 1) * 3, the epilogue 2 u |value| and a vanishing underflow term; u with the fp64 reference's own.
  const Bound four = reference::conv1d_bound(c, e, a, true, false);
  CHECK(four.hard[5] == doctest::Approx((48 * 21 * 3 + 2 * 6) * u).epsilon(1e-4));
  CHECK(four.iid[5] < four.hard[5]);
  a.transform = Transform::winograd_2;
  const Bound two = reference::conv1d_bound(c, e, a, true, false);
  CHECK(two.hard[5] == doctest::Approx((8 * 21 * 3 + 2 * 6) * u).epsilon(1e-4));
  CHECK(two.iid[5] == doctest::Approx(four.iid[5] / 4).epsilon(1e-3));
  a.transform = Transform::fft;
  const Bound fft = reference::conv1d_bound(c, e, a, true, false);
  const double norm = std::sqrt(12.0 * 14.0);
  CHECK(fft.iid[5] == doctest::Approx((8 * norm + 12) * u).epsilon(1e-6));
  CHECK(fft.hard[5] > fft.iid[5]);
  // Data that is not random: the rigorous bound alone; whole numbers: within a quarter, and never looser than the bound.
  CHECK(reference::conv1d_bound(c, e, a, false, false).iid.empty());
  const Bound exact = reference::conv1d_bound(c, e, a, false, true);
  CHECK_FALSE(exact.exact);
  CHECK(exact.hard[5] <= 0.25);
  CHECK(exact.hard[5] == fft.hard[5]);
  std::vector<double> large(12, 20000.0);
  const Conv1d big{.cin = 1, .cout = 1, .l = 12, .k = 3, .x = large, .w = w};
  CHECK(reference::conv1d_bound(big, reference::conv1d(big, false), a, false, true).hard[5] == 0.25);
  Expected bare = e;
  bare.further.clear();
  CHECK_THROWS_AS(reference::conv1d_bound(c, bare, a, true, false), std::invalid_argument);
}

TEST_CASE("a fill over two contracted axes is that of one axis of their length") {
  for (const Family f : product_families()) {
    CAPTURE(name(f));
    const FillRule both{.family = f, .outer_axis = 0, .inner_axis = 1, .limit = 9, .inner_axes = 2};
    const FillRule one{.family = f, .outer_axis = 0, .inner_axis = 1, .limit = 9};
    const std::vector<double> a = drawn(DType::f32, {4, 3, 5}, both, 1), b = drawn(DType::f32, {4, 15, 1}, one, 1);
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) CHECK((a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))));
  }
  CHECK_THROWS_AS(drawn(DType::f32, {4, 3, 5}, {.outer_axis = 0, .inner_axis = 2, .inner_axes = 2}, 1), std::invalid_argument);
}

TEST_CASE("an empty signal with zeros at its ends needs no storage") {
  const Operand none{.role = "X", .dtype = DType::f16, .dims = {0, 3, 81}, .strides = {243, 81, 1}, .span = 0, .stream = 1};
  fill(none, {.family = Family::inf_one, .zeros_before = 40}, 1, {});
  CHECK(generate(none, {.family = Family::normal, .zeros_before = 40}, 1).empty());
}

TEST_CASE("zeros at the ends of the last axis leave the other elements as they were, in any layout") {
  const FillRule plain{.family = Family::normal, .outer_axis = 0, .inner_axis = 1};
  FillRule padded = plain;
  padded.zeros_before = 2, padded.zeros_after = 1;
  const std::vector<double> inside = drawn(DType::f32, {2, 3, 4}, plain, 1), all = drawn(DType::f32, {2, 3, 7}, padded, 1);
  for (std::size_t row = 0; row < 6; ++row)
    for (std::size_t j = 0; j < 7; ++j) CHECK(all[row * 7 + j] == (j < 2 || j == 6 ? 0 : inside[row * 4 + j - 2]));
  // Channels last, with a gap behind each row that stays as it is.
  const Operand o{.role = "X", .dims = {2, 3, 7}, .strides = {35, 1, 5}, .offset = 1, .span = 35 + 6 * 5 + 3, .stream = 1};
  std::vector<std::byte> storage(static_cast<std::size_t>(storage_elements(o)) * 4, std::byte{0x5A});
  fill(o, padded, 5, storage);
  CHECK(gather(o, storage) == all);
  CHECK(disturbed_gap_bytes(o, storage, std::byte{0x5A}) == 0);
  padded.zeros_after = 6;
  CHECK_THROWS_AS(drawn(DType::f32, {2, 3, 7}, padded, 1), std::invalid_argument);
}
