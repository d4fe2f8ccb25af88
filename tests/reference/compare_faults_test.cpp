// SPDX-License-Identifier: Apache-2.0
// Comparison of whole products: correct ones pass, planted faults are found where they are, RMS sees what no element shows.
#include <doctest/doctest.h>
#include <omp.h>

#include <bit>
#include <cmath>
#include <vector>

#include "reference/compare.hpp"
#include "tightness.hpp"

using namespace assay;

namespace {

/// A square product by a correct model, open to tampering.
struct Real {
  tightness::Setting setting;
  tightness::Case c;
  Operand output;
  std::vector<std::byte> storage;
  Bound bound;
  explicit Real(std::int64_t k = 256, DType out = DType::f32, Family f = Family::normal, std::int64_t mn = 32)
      : setting{models::find_model("sequential_fma"), f, out, out, mn, mn, k} {
    c = tightness::make_case(setting);
    output = tightness::packed("C", out, {1, mn, mn}, 0);
    storage.resize(size_bytes(out) * mn * mn);
    Arithmetic a = arithmetic();
    bound = product_sum_bound(c.expected, a, exchangeable(f), c.exact);
    for (std::int64_t e = 0; e < mn * mn; ++e) set(e, tightness::element(setting, c, e / mn, e % mn));
  }
  Arithmetic arithmetic() const {
    Arithmetic a = setting.model->arithmetic;
    a.output = setting.output;
    return a;
  }
  double at(std::int64_t e) const {
    return decode(output.dtype, load_bits(output.dtype, storage.data() + e * size_bytes(output.dtype)));
  }
  void set(std::int64_t e, double v) {
    store_bits(output.dtype, storage.data() + e * size_bytes(output.dtype), encode(output.dtype, v));
  }
  Discrepancy compare() const {
    return assay::compare(output, storage, c.expected, bound, arithmetic(), encode(output.dtype, -12345), true);
  }
};

}  // namespace

TEST_CASE("a correct gemm passes, and every planted fault of one element is found where it is") {
  const Real clean;
  CHECK(clean.compare().bad == 0);
  CHECK(clean.compare().over_iid == 0);
  CHECK_FALSE(clean.compare().rms_exceeded);
  CHECK(clean.compare().blind_fraction < 0.05);
  CHECK(clean.compare().median_bound_over_rms > 1e-7);
  CHECK(clean.compare().median_bound_over_rms < 1e-4);
  const std::int64_t at = 333;
  const auto seen = [&](double value) {
    Real r;
    r.set(at, value);
    const Discrepancy d = r.compare();
    const bool found = d.bad + d.over_iid == 1 && d.worst.index == at && d.worst.error_over_bound > 1;
    return found;
  };
  const double right = clean.at(at);
  CHECK_FALSE(seen(right));
  CHECK(seen(0));
  CHECK(seen(-right));
  CHECK(seen(right * (1 + 0x1p-11)));                                         // 2^-11: a TF32-sized error
  CHECK(seen(clean.at(at + 1)));                                              // the neighbour's value
  CHECK(seen(right - clean.c.a[10 * 256 + 255] * clean.c.b[255 * 32 + 13]));  // its last product is missing
  for (int bit = 12; bit < 32; ++bit) {
    CAPTURE(bit);
    const auto flipped = static_cast<std::uint32_t>(encode(DType::f32, right)) ^ (1u << bit);
    const double value = std::bit_cast<float>(flipped);
    CHECK((std::isfinite(value) ? seen(value) : true));
  }
}

TEST_CASE("faults of the whole tensor are found: swapped operands, reduced operands, rounded results, lost alpha") {
  const auto found = [](const auto& change) {
    Real r(256);
    change(r);
    const Discrepancy d = r.compare();
    return d.bad + d.over_iid > 0;
  };
  CHECK_FALSE(found([](Real&) {}));
  CHECK(found([](Real& r) {
    const Real original(256);
    for (std::int64_t e = 0; e < 1024; ++e) r.set(e, original.at(e % 32 * 32 + e / 32));  // transposed
  }));
  CHECK(found([](Real& r) {
    for (std::int64_t e = 0; e < 1024; ++e) r.set(e, round_to(DType::bf16, r.at(e)));
  }));
  CHECK(found([](Real& r) {
    for (double& v : r.c.a) v = round_to(DType::f16, v);
    for (std::int64_t e = 0; e < 1024; ++e) r.set(e, tightness::element(r.setting, r.c, e / 32, e % 32));
  }));
  CHECK(found([](Real& r) {
    for (std::int64_t e = 0; e < 1024; ++e) r.set(e, 1.001 * r.at(e));
  }));
}

TEST_CASE("the RMS gate sees noise that no single element shows, in fp32 and in 16-bit outputs") {
  // Errors of 60 % of every element's gate, alternating in sign: no element is over, all of them together are.
  Real r(1024);
  for (std::int64_t e = 0; e < 1024; ++e)
    r.set(e, r.c.expected.value[e] + (e % 2 == 0 ? 0.6 : -0.6) * std::min(r.bound.iid[e], r.bound.hard[e]));
  Discrepancy d = r.compare();
  CHECK(d.bad + d.over_iid == 0);
  CHECK(d.rms_exceeded);
  CHECK(d.rms_over_statistic > 4);
  CHECK(std::fabs(d.bias) < 0.2);

  // A bf16 output rounded toward zero: within one output rounding of nearly every element's bound, but 2x the RMS.
  const models::Model& model = *models::find_model("sequential");
  const tightness::Setting s{&model, Family::normal, DType::bf16, DType::bf16, 32, 32, 64};
  const tightness::Case c = tightness::make_case(s);
  Arithmetic a = model.arithmetic;
  a.output = DType::bf16;
  const Bound b = product_sum_bound(c.expected, a, true, false);
  const Operand out = tightness::packed("C", DType::bf16, {1, 32, 32}, 0);
  std::vector<std::byte> storage(2048);
  const auto rounding = [&](bool truncate) {
    for (std::int64_t e = 0; e < 1024; ++e) {
      const double v = tightness::element(s, c, e / 32, e % 32);
      store_bits(DType::bf16, storage.data() + 2 * e, truncate ? encode_toward_zero(DType::bf16, v) : encode(DType::bf16, v));
    }
    return compare(out, storage, c.expected, b, a, 0xffff, true);
  };
  d = rounding(false);
  CHECK_FALSE(d.rms_exceeded);
  CHECK(d.rms_over_rounding == doctest::Approx(1).epsilon(0.01));
  CHECK(d.rms_over_statistic == 0);
  d = rounding(true);
  CHECK(d.rms_exceeded);
  CHECK(d.bias < -0.7);
}

TEST_CASE("the result does not depend on the number of threads") {
  const Real r(64, DType::f32, Family::normal, 200);
  const int before = omp_get_max_threads();
  std::vector<Discrepancy> all;
  for (const int threads : {1, 2, 5}) {
    omp_set_num_threads(threads);
    all.push_back(r.compare());
  }
  omp_set_num_threads(before);
  CHECK(all[0].rms_over_statistic > 0);
  for (const Discrepancy& d : all) {
    CHECK(d.rms_over_statistic == all[0].rms_over_statistic);
    CHECK(d.bias == all[0].bias);
    CHECK(d.worst.index == all[0].worst.index);
    CHECK(d.median_bound_over_rms == all[0].median_bound_over_rms);
  }
}
