// SPDX-License-Identifier: Apache-2.0
// Bounds against hand-derived numbers, correct arithmetic of every declared kind, and the faults each must still see.
#include "reference/bound.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "reference/inputs.hpp"
#include "reference/models/accumulate.hpp"
#include "reference/ops/gemm.hpp"
#include "tightness.hpp"

using namespace assay;

namespace {

constexpr double u32 = 0x1p-24;
constexpr std::int64_t side = 16;  // 256 outputs

Expected one_element(double value, double sum_abs, double sum_sq, std::int64_t k) {
  Expected e;
  e.value = {value};
  e.value_lo = {0};  // no fp64 reference term: the numbers below are the target's alone
  e.sum_abs = {sum_abs};
  e.sum_sq = {sum_sq};
  e.row_length = 1;
  e.terms = k;
  return e;
}

Arithmetic fp32() {
  return {};
}
Arithmetic h100() {
  return models::find_model("h100")->arithmetic;
}

/// A gemm computed by `dot` on the given inputs, against the bound of `declared`: counts elements over hard and over iid.
struct Verdict {
  std::int64_t over_hard = 0, over_iid = 0, outputs = 0;
};
using Dot = std::function<double(const std::vector<double>&, const std::vector<double>&)>;

Verdict run(const Dot& dot, const Arithmetic& declared, Family family, DType input, std::int64_t k,
            std::optional<DType> input_format = std::nullopt) {
  tightness::Setting s{models::find_model("sequential"), family, input, declared.output, side, side, k};
  const tightness::Case c = tightness::make_case(s);
  const Bound b = product_sum_bound(c.expected, declared, exchangeable(family), false, input_format);
  Verdict v;
  std::vector<double> x(k), y(k);
  for (std::int64_t i = 0; i < side; ++i)
    for (std::int64_t j = 0; j < side; ++j) {
      for (std::int64_t l = 0; l < k; ++l) x[l] = c.a[i * k + l], y[l] = c.b[l * side + j];
      const double got = round_to(declared.output, dot(x, y)), error = std::fabs(got - c.expected.value[i * side + j]);
      ++v.outputs;
      v.over_hard += !(error <= b.hard[i * side + j]);
      v.over_iid += !(error <= std::min(b.hard[i * side + j], b.iid[i * side + j]));
    }
  return v;
}

double fp32_dot(const std::vector<double>& x, const std::vector<double>& y) {
  float s = 0;
  for (std::size_t l = 0; l < x.size(); ++l) s = std::fma(static_cast<float>(x[l]), static_cast<float>(y[l]), s);
  return s;
}

Dot with_operands(DType t) {
  return [t](std::vector<double> x, std::vector<double> y) {
    for (double& v : x) v = round_to(t, v);
    for (double& v : y) v = round_to(t, v);
    return fp32_dot(x, y);
  };
}

double fp16_accumulator(const std::vector<double>& x, const std::vector<double>& y) {
  double s = 0;
  for (std::size_t l = 0; l < x.size(); ++l) s = round_to(DType::f16, s + x[l] * y[l]);
  return s;
}

/// Slices of K summed in fp32, each partial rounded to t, partials added in t or in fp32.
Dot with_partials(DType t, int slices, bool add_in_t) {
  return [=](const std::vector<double>& x, const std::vector<double>& y) {
    double sum = 0;
    for (int s = 0; s < slices; ++s) {
      const auto from = static_cast<std::ptrdiff_t>(x.size() * s / slices);
      const auto to = static_cast<std::ptrdiff_t>(x.size() * (s + 1) / slices);
      const double part = round_to(t, fp32_dot({x.begin() + from, x.begin() + to}, {y.begin() + from, y.begin() + to}));
      sum = round_to(add_in_t ? t : DType::f32, sum + part);
    }
    return sum;
  };
}

}  // namespace

TEST_CASE("the rigorous bound of rounding to nearest counts the roundings a product can meet") {
  // k = 1, no addend: its own product and alpha.
  Bound b = product_sum_bound(one_element(3, 3, 9, 1), fp32(), true, false);
  CHECK(b.hard[0] == doctest::Approx(2 * u32 * 3).epsilon(1e-6));
  CHECK(b.hard[0] >= 2 * u32 * 3);
  // k = 100: product, alpha, 99 additions.
  b = product_sum_bound(one_element(0, 50, 30, 100), fp32(), true, false);
  CHECK(b.hard[0] == doctest::Approx(101 * u32 * 50).epsilon(1e-5));
  // With beta*c: one addition more, over both magnitudes.
  Expected e = one_element(7, 50, 30, 100);
  e.addend = {20};
  CHECK(product_sum_bound(e, fp32(), true, false).hard[0] == doctest::Approx(102 * u32 * 70).epsilon(1e-5));
  // An fp64 reference adds its own roundings.
  e.value_lo.clear();
  CHECK(product_sum_bound(e, fp32(), true, false).hard[0] == doctest::Approx(102 * (u32 + 0x1p-53) * 70).epsilon(1e-5));
}

TEST_CASE("k = 0 leaves two roundings of beta C, and zero times anything leaves no room at all") {
  Expected e = one_element(5, 0, 0, 0);
  e.addend = {5};
  const Bound b = product_sum_bound(e, fp32(), true, false);
  CHECK(b.hard[0] >= u32 * 5);
  CHECK(b.hard[0] <= 2.01 * u32 * 5);
  CHECK(b.iid[0] >= u32 * 5);
  const Bound zero = product_sum_bound(one_element(0, 0, 0, 10), fp32(), true, false);
  CHECK(zero.hard[0] == 0);
  CHECK(zero.iid[0] == 0);
}

TEST_CASE("the tensor-core bound is steps times (nb+1) 2^-F + 2^-23, then the epilogue") {
  const double g = 17 * 0x1p-25 + 0x1p-23, s = 40;
  const Bound b = product_sum_bound(one_element(1, s, 25, 1024), h100(), true, false);
  CHECK(b.hard[0] == doctest::Approx((64 * g + 2 * u32) * s).epsilon(1e-4));
  // The closed form 0.656 k u S of docs/numerics.md.
  CHECK(b.hard[0] == doctest::Approx(0.656 * 1024 * u32 * s).epsilon(0.01));
  const double p = std::sqrt(1.0 / 3 + 25.0 / 6);
  CHECK(b.iid[0] == doctest::Approx(64 * g * p + g * 5).epsilon(0.01));
  for (const auto& [name, factor] : {std::pair{"v100", 3.0}, {"a100", 1.375}}) {
    const Arithmetic a = models::find_model(name)->arithmetic;
    CHECK(product_sum_bound(one_element(1, s, 25, 1 << 12), a, true, false).hard[0] ==
          doctest::Approx(factor * (1 << 12) * u32 * s).epsilon(0.01));
  }
}

TEST_CASE("the iid gate is C u sqrt(k (P^2 + R2/k) + c^2 + c^2)") {
  const double k = 4096, r2 = 4096, c = 50;
  const Bound b = product_sum_bound(one_element(c, 2600, r2, 4096), fp32(), true, false);
  const double want = u32 * std::sqrt(k * (c * c / 3 + r2 / 6 + r2 / k) + 2 * c * c);
  CHECK(b.statistic[0] == doctest::Approx(want).epsilon(1e-6));
  CHECK(b.iid[0] == doctest::Approx(threshold("iid_nearest").value * want).epsilon(1e-6));
  CHECK(b.iid[0] < b.hard[0] / 50);
  CHECK(product_sum_bound(one_element(c, 2600, r2, 4096), fp32(), false, false).iid.empty());
}

TEST_CASE("a 16-bit output adds one rounding and half its smallest subnormal") {
  Arithmetic a = fp32();
  a.output = DType::bf16;
  const double without = product_sum_bound(one_element(8, 8, 64, 1), fp32(), true, false).hard[0];
  const double with = product_sum_bound(one_element(8, 8, 64, 1), a, true, false).hard[0];
  CHECK(with == doctest::Approx(without + 0x1p-8 * 8).epsilon(1e-6));
  CHECK(with >= without + 0x1p-8 * 8);
  a.output = DType::f16;
  CHECK(product_sum_bound(one_element(1e-9, 1e-9, 1e-18, 1), a, true, false).hard[0] >= 0x1p-25);
}

TEST_CASE("an exact fill has no bound at all") {
  const Bound b = product_sum_bound(one_element(8, 8, 64, 10), fp32(), true, true);
  CHECK(b.exact);
  CHECK(b.hard[0] == 0);
  CHECK(b.iid[0] == 0);
  CHECK(b.rms_gate == 0);
  CHECK(b.out_rms_gate == 0);
  // Partials stored in bf16 round even integers: exactness cannot be asked for.
  Arithmetic split = fp32();
  split.splits = 2;
  split.split_format = DType::bf16;
  const Bound rounded = product_sum_bound(one_element(8, 8, 64, 10), split, false, true);
  CHECK_FALSE(rounded.exact);
  CHECK(rounded.hard[0] > 2 * 0x1p-8 * 8);
}

TEST_CASE("RMS gates exist only from 64 outputs on, by output format and accumulator") {
  const auto gates = [](std::size_t count, const Arithmetic& a, bool iid) {
    Expected e = one_element(1, 1, 1, 10);
    for (auto* v : {&e.value, &e.value_lo, &e.sum_abs, &e.sum_sq}) v->assign(count, v->front());
    const Bound b = product_sum_bound(e, a, iid, false);
    return std::pair{b.rms_gate, b.out_rms_gate};
  };
  Arithmetic bf16_out = fp32();
  bf16_out.output = DType::bf16;
  Arithmetic fp16_sums = fp32();
  fp16_sums.accumulator = fp16_sums.output = DType::f16;
  CHECK(gates(63, fp32(), true) == std::pair{0.0, 0.0});
  CHECK(gates(64, fp32(), true) == std::pair{threshold("rms_nearest").value, 0.0});
  CHECK(gates(64, h100(), true) == std::pair{threshold("rms_tensor_core").value, 0.0});
  CHECK(gates(64, bf16_out, true) == std::pair{0.0, threshold("rms_output_rounding").value});
  CHECK(gates(63, bf16_out, true) == std::pair{0.0, 0.0});
  CHECK(gates(64, fp32(), false) == std::pair{0.0, 0.0});
  CHECK(gates(64, fp16_sums, true) == std::pair{0.0, 0.0});
}

TEST_CASE("squares that leave fp64's range do not shrink the bound") {
  const double tiny = 0x1p-600;  // R2 = 2^-1200 is zero in fp64
  Arithmetic a{.operand = DType::f64, .accumulator = DType::f64, .output = DType::f64};
  const Bound b = product_sum_bound(one_element(tiny, tiny, 0, 4), a, true, false);
  CHECK(b.iid[0] >= 10 * 0x1p-53 * tiny);
  const double huge = 0x1p600;
  const Bound h = product_sum_bound(one_element(huge, huge, std::numeric_limits<double>::infinity(), 4), a, true, false);
  CHECK(std::isfinite(h.iid[0]));
}

TEST_CASE("underflow of products is allowed for, enlarged by alpha and by what multiplies a scaled operand") {
  Expected e = one_element(1e-44, 1e-44, 1e-88, 4);
  const double smallest = smallest_subnormal(DType::f32);
  CHECK(product_sum_bound(e, fp32(), false, false).hard[0] >= 4 * smallest / 2);
  CHECK(product_sum_bound(e, fp32(), false, false).hard[0] <= 10 * smallest);
  e.abs_alpha = 3;
  e.largest_input = 8;
  CHECK(product_sum_bound(e, fp32(), false, false).hard[0] >= 4 * 24 * smallest / 2);
}

TEST_CASE("narrower operands, partials and accumulators are covered when declared and caught when not") {
  for (const std::int64_t k : {3, 64, 1000}) {
    CAPTURE(k);
    for (const Family f : {Family::normal, Family::uniform, Family::heavy}) {
      CAPTURE(name(f));
      const Verdict clean = run(fp32_dot, fp32(), f, DType::f32, k);
      CHECK(clean.over_iid == 0);
      CHECK(clean.outputs == 256);
      for (const DType t : {DType::bf16, DType::f16}) {
        Arithmetic reduced = fp32();
        reduced.operand = t;
        CHECK(run(with_operands(t), reduced, f, DType::f32, k, DType::f32).over_iid == 0);
        // On non-negative data partial sums, and with them the gate, grow like k: 30 % of elements at k = 1000 for fp16.
        CHECK(run(with_operands(t), fp32(), f, DType::f32, k).over_iid > (f == Family::uniform ? 50 : 220));
        if (k < 64) continue;
        for (const bool add_in_t : {false, true}) {
          Arithmetic split = fp32();
          split.splits = 4;
          split.split_format = t;
          CHECK(run(with_partials(t, 4, add_in_t), split, f, DType::f16, k).over_iid == 0);
          CHECK(run(with_partials(t, 4, add_in_t), fp32(), f, DType::f16, k).over_iid > 200);
        }
      }
    }
    Arithmetic narrow = fp32();
    narrow.accumulator = narrow.output = DType::f16;
    CHECK(run(fp16_accumulator, narrow, Family::normal, DType::f16, k).over_iid == 0);
    Arithmetic undeclared = fp32();
    CHECK(run(fp16_accumulator, undeclared, Family::normal, DType::f16, k).over_iid > 220);
  }
}

TEST_CASE("one dropped product is seen by the iid gate where the rigorous bound has gone blind") {
  const Dot dropped = [](std::vector<double> x, const std::vector<double>& y) {
    x[x.size() / 3] = 0;
    return fp32_dot(x, y);
  };
  CHECK(run(dropped, fp32(), Family::normal, DType::f32, 64).over_hard > 250);
  const Verdict deep = run(dropped, fp32(), Family::normal, DType::f32, 8192);
  CHECK(deep.over_hard < 26);
  CHECK(deep.over_iid > 240);
}

TEST_CASE("incomplete expectations and arithmetics are refused, every threshold has a provenance") {
  Expected e = one_element(1, 1, 1, 1);
  e.sum_sq.clear();
  CHECK_THROWS_AS(product_sum_bound(e, fp32(), true, false), std::invalid_argument);
  Arithmetic a = h100();
  a.block = 0;
  CHECK_THROWS_AS(product_sum_bound(one_element(1, 1, 1, 1), a, true, false), std::invalid_argument);
  CHECK_THROWS_AS(threshold("none"), std::invalid_argument);
  CHECK(all_thresholds().size() >= 7);
  for (const Threshold& t : all_thresholds()) {
    CHECK(t.value > 0);
    CHECK((t.provenance.starts_with("rigorous: ") || t.provenance.starts_with("calibrated: ") ||
           t.provenance.starts_with("provisional: ") || t.provenance.starts_with("derived: ")));
    CHECK(&threshold(t.name) != nullptr);
  }
}

TEST_CASE("tf32 operands: RZ is allowed twice what RN is, neither is mistaken for fp32, and RZ for RN is seen") {
  const auto declared = [](Rounding r) {
    Arithmetic a;
    a.operand = DType::tf32, a.operand_rounding = r;
    return a;
  };
  const auto term = [&](Rounding r) {  // of one product of size 1
    return product_sum_bound(one_element(1, 1, 1, 1), declared(r), true, false, DType::f32).hard[0];
  };
  CHECK(term(Rounding::nearest) == doctest::Approx(2 * 0x1p-11).epsilon(1e-3));
  CHECK(term(Rounding::nearest_away) == term(Rounding::nearest));
  CHECK(term(Rounding::toward_zero) == doctest::Approx(2 * 0x1p-10).epsilon(1e-3));
  for (const Family f : {Family::normal, Family::uniform})
    for (const Rounding r : {Rounding::nearest, Rounding::nearest_away, Rounding::toward_zero}) {
      const Dot dot = [r](std::vector<double> x, std::vector<double> y) {
        for (double& v : x) v = round_to(DType::tf32, v, r);
        for (double& v : y) v = round_to(DType::tf32, v, r);
        return fp32_dot(x, y);
      };
      const Verdict right = run(dot, declared(r), f, DType::f32, 1024, DType::f32);
      CHECK(right.over_hard == 0);
      CHECK(right.over_iid == 0);
      // Partial sums of non-negative data are large, and so is what fp32 sums may err there: a quarter is seen.
      const std::int64_t seen = run(dot, fp32(), f, DType::f32, 1024, DType::f32).over_iid;
      CHECK(seen > right.outputs * (f == Family::normal ? 9 : 2) / 10);
      // On data of one sign truncation is a bias, which rounding to nearest does not have.
      const Verdict as_nearest = run(dot, declared(Rounding::nearest), f, DType::f32, 1024, DType::f32);
      if (f == Family::uniform) CHECK((as_nearest.over_iid > right.outputs / 2) == (r == Rounding::toward_zero));
    }
  CHECK(product_sum_bound(one_element(1, 1, 1, 1), declared(Rounding::toward_zero), true, true, DType::f32).exact == false);
}

TEST_CASE("integer sums are exact until they leave int32, where nothing is promised") {
  Arithmetic a;
  a.operand = DType::i8, a.accumulator = DType::i32, a.split_format = DType::i32, a.output = DType::i32;
  const Bound fits = product_sum_bound(one_element(-5, 0x1p31 - 1, 25, 133144), a, true, false);
  CHECK(fits.exact);
  CHECK(fits.hard[0] == 0);
  const Bound wraps = product_sum_bound(one_element(-5, 0x1p31, 25, 1 << 17), a, true, true);  // 2^17 products of 128 * 128
  CHECK_FALSE(wraps.exact);
  CHECK(std::isinf(wraps.hard[0]));
  // Scaled to fp32: the sum is exact, its conversion, alpha, beta*c and their addition round.
  Expected scaled = one_element(50, 500, 25, 1000);
  scaled.abs_alpha = 0.5, scaled.addend = {7};
  a.output = DType::f32;
  const Bound b = product_sum_bound(scaled, a, true, false);
  CHECK_FALSE(b.exact);
  CHECK(b.hard[0] == doctest::Approx(4 * 0x1p-24 * 507).epsilon(1e-3));
  a.accumulation = Accumulation::tensor_core, a.block = 32, a.fraction_bits = 25;
  CHECK_THROWS_AS(product_sum_bound(scaled, a, true, false), std::invalid_argument);
}

TEST_CASE("int32 results are compared bit for bit, 8-bit results are refused") {
  Arithmetic a;
  a.operand = DType::i8, a.accumulator = DType::i32, a.split_format = DType::i32, a.output = DType::i32;
  const Expected e = one_element(-123456789, 0x1p30, 0x1p40, 4096);
  const Bound b = product_sum_bound(e, a, true, false);
  Operand o = tightness::packed("C", DType::i32, {1, 1}, 0);
  std::vector<std::byte> storage(4);
  for (const double off : {0.0, 1.0, -1.0}) {
    store_bits(DType::i32, storage.data(), encode(DType::i32, -123456789 + off));
    CHECK(compare(o, storage, e, b, a, 0x80000001, true).bad == (off != 0));
  }
  for (const DType t : {DType::e4m3, DType::e5m2, DType::i8}) {
    o.dtype = t;
    CHECK_THROWS_AS(compare(o, storage, e, b, a, 0x55, true), std::invalid_argument);
  }
}

TEST_CASE("FP8 sums of 13 fraction bits: the closed form 1.06 k 2^-13 S") {
  Arithmetic a = models::find_model("h100_fp8")->arithmetic;
  const double per_product = product_sum_bound(one_element(1, 1, 1, 64), a, true, false).hard[0] / (64 * 0x1p-13);
  CHECK(per_product == doctest::Approx(34.0 / 32).epsilon(5e-3));
}

TEST_CASE("arithmetic is described in one line") {
  CHECK(describe(fp32()) == "fp32 operands, fp32 sums to nearest, fp32 output");
  Arithmetic a = h100();
  a.operand_rounding = Rounding::toward_zero;
  CHECK(describe(a).starts_with("bf16 operands by truncation, "));
  a.operand_rounding = Rounding::nearest_away;
  CHECK(describe(a).starts_with("bf16 operands with ties away from zero, "));
  a.operand_rounding = Rounding::nearest;
  a.splits = 3;
  CHECK(describe(a) ==
        "bf16 operands, blocks of 16 products truncated to 25 bits, fp32 accumulator, 3 split-K partials in fp32, fp32 output");
}
