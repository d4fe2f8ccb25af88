// SPDX-License-Identifier: Apache-2.0
// Comparison: each class of element, the bound just inside and just outside, strides, samples, power.
#include "reference/compare.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <vector>

#include "reference/rows.hpp"
#include "tightness.hpp"

using namespace assay;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double quiet_nan = std::nan("");
constexpr std::uint64_t poison = 0x7fa5a5a5;

/// A row of outputs with given truths and bounds.
struct Row {
  Operand output;
  std::vector<std::byte> storage;
  Expected expected;
  Bound bound;
  Arithmetic arithmetic;
  bool subnormals_kept = true;

  Row(DType t, const std::vector<double>& value, const std::vector<double>& got, double hard) {
    output = tightness::packed("C", t, {1, 1, static_cast<std::int64_t>(value.size())}, 0);
    storage.resize(value.size() * size_bytes(t));
    for (std::size_t i = 0; i < got.size(); ++i) put(i, encode(t, got[i]));
    expected.value.assign(value.begin(), value.end());
    for (const double v : value) expected.sum_abs.push_back(std::isfinite(v) ? std::fabs(v) : quiet_nan);
    expected.sum_sq = expected.sum_abs;
    expected.row_length = static_cast<std::int64_t>(value.size());
    expected.terms = 4;
    bound.hard.assign(value.size(), hard);
    arithmetic.output = t;
  }
  void put(std::size_t i, std::uint64_t bits) { store_bits(output.dtype, storage.data() + i * size_bytes(output.dtype), bits); }
  Discrepancy compare() const { return assay::compare(output, storage, expected, bound, arithmetic, poison, subnormals_kept); }
};

Discrepancy judge_one(double value, double got, double hard, DType t = DType::f32) {
  return Row(t, {value}, {got}, hard).compare();
}

}  // namespace

TEST_CASE("an error just inside the bound passes and just outside fails") {
  const double next = std::nextafter(2.0, 1.0);
  Discrepancy d = judge_one(2, 2 + 0x1p-20, 0x1p-20);
  CHECK(d.bad == 0);
  CHECK(d.max_over_hard == 1);
  CHECK(d.worst.index == 0);
  CHECK(d.worst.ulp_error == 4);
  CHECK(d.worst.got == 2 + 0x1p-20);
  CHECK(d.worst.expected_bits == 0x40000000);
  d = judge_one(next, 2 + 0x1p-20, 0x1p-20);  // 2^-20 + 2^-52
  CHECK(d.bad == 1);
  CHECK(d.first_bad == 0);
  CHECK(d.bad_indices == std::vector<std::int64_t>{0});
  CHECK(d.max_over_hard > 1);
}

TEST_CASE("the low half of a double-double truth counts") {
  Row r(DType::f64, {1}, {1}, 0x1p-70);
  r.arithmetic.accumulator = DType::f64;
  r.expected.value_lo = {0x1p-70};
  CHECK(r.compare().bad == 0);
  r.expected.value_lo = {0x1p-69};
  CHECK(r.compare().bad == 1);
}

TEST_CASE("NaN and infinity are decided before distance") {
  // value, got -> bad, nan_unexpected, nan_missing, inf_mismatch
  struct Line {
    double value, got;
    int bad, unexpected, missing, mismatch;
  };
  for (const Line& l : {Line{1, quiet_nan, 1, 1, 0, 0},
                        {quiet_nan, quiet_nan, 0, 0, 0, 0},
                        {quiet_nan, 1, 1, 0, 1, 0},
                        {quiet_nan, inf, 1, 0, 1, 0},
                        {inf, inf, 0, 0, 0, 0},
                        {inf, -inf, 1, 0, 0, 1},
                        {inf, quiet_nan, 1, 1, 0, 0},
                        {-inf, 3e38, 1, 0, 0, 1},
                        {1, inf, 1, 0, 0, 1},
                        {1, 1, 0, 0, 0, 0}}) {
    CAPTURE(l.value);
    CAPTURE(l.got);
    const Discrepancy d = judge_one(l.value, l.got, 1e30);
    CHECK(d.bad == l.bad);
    CHECK(d.nan_unexpected == l.unexpected);
    CHECK(d.nan_missing == l.missing);
    CHECK(d.inf_mismatch == l.mismatch);
    CHECK(d.overflow_open == 0);
    if (l.bad != 0) CHECK(d.worst.error_over_bound == inf);
  }
  Row payload(DType::f32, {quiet_nan}, {0}, 1);
  payload.put(0, 0x7f800001);
  CHECK(payload.compare().bad == 0);
}

TEST_CASE("a bound that is NaN passes nothing") {
  CHECK(judge_one(1, 1.5, quiet_nan).bad == 1);
}

TEST_CASE("a sum whose partial sums may overflow accepts infinity, NaN and the finite truth, but no other finite value") {
  for (const double got : {inf, -inf, quiet_nan, 1.0}) {
    Row r(DType::f32, {1}, {got}, 1e-6);
    r.expected.sum_abs = {4e38};
    const Discrepancy d = r.compare();
    CHECK(d.bad == 0);
    CHECK(d.overflow_open == 1);
  }
  Row r(DType::f32, {1}, {2}, 1e-6);
  r.expected.sum_abs = {4e38};
  CHECK(r.compare().bad == 1);
  // alpha < 1 applied last: the sum before it is larger than S.
  Row scaled(DType::f32, {1}, {inf}, 1e-6);
  scaled.expected.sum_abs = {1e38};
  CHECK(scaled.compare().bad == 1);
  scaled.expected.abs_alpha = 0.1;
  CHECK(scaled.compare().bad == 0);
  // alpha > 1 applied to an operand first.
  Row operand(DType::f32, {1}, {quiet_nan}, 1e-6);
  operand.expected.largest_input = 3e38;
  CHECK(operand.compare().bad == 1);
  operand.expected.abs_alpha = 2;
  CHECK(operand.compare().bad == 0);
  // The fp64 reference itself overflowed.
  Row huge(DType::f64, {inf}, {-inf}, inf);
  huge.arithmetic.accumulator = DType::f64;
  huge.expected.sum_abs = {inf};
  CHECK(huge.compare().overflow_open == 1);
  CHECK(huge.compare().bad == 0);
}

TEST_CASE("an fp16 output beyond 65520 must be infinite of the right sign; near it both are accepted; clamping is a fault") {
  const double hard = 0.01;
  const auto bad = [&](double value, double got) { return judge_one(value, got, hard, DType::f16).bad; };
  CHECK(bad(70000, inf) == 0);
  CHECK(bad(-70000, -inf) == 0);
  CHECK(bad(70000, 65504) == 1);
  CHECK(bad(70000, -inf) == 1);
  CHECK(bad(70000, quiet_nan) == 1);
  CHECK(bad(65504, inf) == 1);
  CHECK(judge_one(65519.995, inf, 16.01, DType::f16).overflow_open == 1);
  CHECK(judge_one(65519.995, inf, 16.01, DType::f16).bad == 0);
  CHECK(judge_one(65519.995, 65504, 16.01, DType::f16).bad == 0);
  CHECK(judge_one(65519.995, -inf, 16.01, DType::f16).bad == 1);
  CHECK(judge_one(65519.995, quiet_nan, 16.01, DType::f16).bad == 1);
}

TEST_CASE("a bound wider than the format does not demand an infinity of either sign") {
  CHECK(judge_one(0.5, 0.75, 1e6, DType::f16).bad == 0);
  CHECK(judge_one(-0.5, 0.75, 1e6, DType::f16).bad == 0);
  CHECK(judge_one(0.5, inf, 1e6, DType::f16).bad == 0);
  CHECK(judge_one(7e4, 65504, 1e3, DType::f16).bad == 1);
}

TEST_CASE("minus zero equals plus zero, with and without a bound") {
  for (const bool exact : {false, true}) {
    Row r(DType::f32, {0, 0, -0.0}, {0, -0.0, 0}, 0);
    r.bound.exact = exact;
    const Discrepancy d = r.compare();
    CHECK(d.bad == 0);
    CHECK(d.differing_bits == 0);
    CHECK(d.max_over_hard == 0);
  }
}

TEST_CASE("flushed subnormals are counted, and bad only where they are promised") {
  const double tiny = 0x1p-130;
  for (const bool kept : {true, false}) {
    Row r(DType::f32, {tiny, tiny, 0x1p-120, 0x1p-100}, {0, tiny, 0x1p-120 + 0x1p-125, 0}, 0x1p-149);
    r.subnormals_kept = kept;
    const Discrepancy d = r.compare();
    CHECK(d.subnormal_flushed == 2);  // a zero result, and terms lost inside a sum
    CHECK(d.bad == (kept ? 3 : 1));   // a normal result that became zero is always bad
    CHECK(d.first_bad == (kept ? 0 : 3));
  }
  Row half(DType::f16, {0x1p-20}, {0}, 0x1p-25);
  half.subnormals_kept = false;
  CHECK(half.compare().subnormal_flushed == 1);
  CHECK(half.compare().bad == 0);
}

TEST_CASE("an exact comparison demands the nearest bit pattern, ties included") {
  Row r(DType::bf16, {257, 259, 3, 70}, {256, 260, 3, 70.5}, 0);  // 257 and 259 are ties: to even
  r.bound.exact = true;
  Discrepancy d = r.compare();
  CHECK(d.bad == 1);
  CHECK(d.differing_bits == 1);
  CHECK(d.first_bad == 3);
  CHECK(d.worst.ulp_error == 1);
  CHECK(d.worst.error_over_bound == 2);  // the bound is half an ulp
  CHECK(d.blind_fraction == 0);
  r.put(0, encode(DType::bf16, 258));
  d = r.compare();
  CHECK(d.bad == 2);
  CHECK(d.first_bad == 0);
}

TEST_CASE("elements that still hold the poison are counted") {
  Row r(DType::f32, {1, 2, 3}, {1, 2, 3}, 0.1);
  r.put(1, poison);
  const Discrepancy d = r.compare();
  CHECK(d.unwritten == 1);
  CHECK(d.nan_unexpected == 1);
  CHECK(d.first_bad == 1);
}

TEST_CASE("over iid but under hard is counted apart, and the smaller bound gates") {
  Row r(DType::f32, {1, 1, 1}, {1, 1.5, 1.25}, 1);
  r.bound.iid = {0.25, 0.25, 0.25};
  Discrepancy d = r.compare();
  CHECK(d.bad == 0);
  CHECK(d.over_iid == 1);
  CHECK(d.max_over_iid == 2);
  CHECK(d.max_over_hard == 0.5);
  CHECK(d.worst.index == 1);
  CHECK(d.worst.error_over_bound == 2);
  r.bound.iid.assign(3, 100);  // an iid bound beyond hard does not soften it
  r.bound.hard.assign(3, 0.3);
  d = r.compare();
  CHECK(d.bad == 1);
  CHECK(d.worst.error_over_bound == doctest::Approx(0.5 / 0.3));
}

TEST_CASE("strides, offset and sampled rows address the elements they name") {
  // Column-major 3x4 with a leading dimension of 5 behind an offset of 2.
  Operand o = tightness::packed("C", DType::f32, {1, 3, 4}, 0);
  o.strides = {20, 1, 5};
  o.offset = 2;
  o.span = 18;
  std::vector<std::byte> storage(20 * 4, std::byte{0xff});
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 4; ++j) store_bits(DType::f32, storage.data() + (2 + i + 5 * j) * 4, encode(DType::f32, 10 * i + j));
  Expected e;
  e.rows = {0, 2};
  e.row_length = 4;
  e.value = {0, 1, 2, 3, 20, 21, 22, 99};
  e.sum_abs = e.sum_sq = e.value;
  Bound b;
  b.hard.assign(8, 0);
  const Discrepancy d = compare(o, storage, e, b, {}, poison, true);
  CHECK(d.compared == 8);
  CHECK(d.bad == 1);
  CHECK(d.first_bad == 11);  // logical row 2, column 3
  CHECK(d.worst.got == 23);
  // An element of a row that was not sampled must at least have been written; one that is also an input need not look written.
  o.access = Access::out;
  store_bits(DType::f32, storage.data() + (2 + 1 + 5 * 2) * 4, poison);
  const Discrepancy elsewhere = compare(o, storage, e, b, {}, poison, true);
  CHECK(elsewhere.unwritten == 1);
  CHECK(elsewhere.bad == 2);
  CHECK(elsewhere.bad_indices == std::vector<std::int64_t>{11, 6});
  o.access = Access::inout;
  CHECK(compare(o, storage, e, b, {}, poison, true).unwritten == 0);
}

TEST_CASE("sampled rows are sorted, distinct, of the seed, and have both ends") {
  const std::vector<std::int64_t> rows = sample_rows(1000, 16, 7);
  CHECK(rows.size() == 16);
  CHECK(std::is_sorted(rows.begin(), rows.end()));
  CHECK(std::set<std::int64_t>(rows.begin(), rows.end()).size() == 16);
  CHECK((rows.front() == 0 && rows.back() == 999));
  CHECK(rows == sample_rows(1000, 16, 7));
  CHECK(rows != sample_rows(1000, 16, 8));
  CHECK(sample_rows(3, 16, 7) == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("sizes that do not belong together are refused") {
  Row r(DType::f32, {1, 2}, {1, 2}, 0);
  Row more = r;
  more.bound.hard.push_back(0);
  CHECK_THROWS_AS(more.compare(), std::invalid_argument);
  Row less = r;
  less.expected.value.pop_back();
  CHECK_THROWS_AS(less.compare(), std::invalid_argument);
  Row cut = r;
  cut.storage.pop_back();
  CHECK_THROWS_AS(cut.compare(), std::invalid_argument);
}

TEST_CASE("at most 64 bad indices are listed, all are counted, the first is the lowest") {
  Row r(DType::f32, std::vector<double>(20000, 1), std::vector<double>(20000, 1), 0.1);
  for (std::size_t i = 5000; i < 20000; i += 2) r.put(i, encode(DType::f32, 2));
  const Discrepancy d = r.compare();
  CHECK(d.bad == 7500);
  CHECK(d.first_bad == 5000);
  CHECK(d.bad_indices.size() == 64);
  CHECK(d.bad_indices[63] == 5126);
}

TEST_CASE("power: the median bound and the blind share say what a case can see") {
  Row r(DType::f32, {4, 4, 4, 1}, {4, 4, 4, 1}, 2);
  const Discrepancy d = r.compare();
  CHECK(d.blind_fraction == 0.25);
  CHECK(d.median_bound_over_rms == doctest::Approx(2 / std::sqrt(49.0 / 4)));
}
