// SPDX-License-Identifier: Apache-2.0
// Correct arithmetic must never raise an alarm: every model, every family, tiny and large k, every output format.
#include "tightness.hpp"

#include <doctest/doctest.h>

#include <sstream>

using namespace assay;
using tightness::Setting;

namespace {

struct Plan {
  std::int64_t k, m, n;
};
// The smallest shapes count most: 1x1, width 1, k = 1, k below and across a tensor-core block.
constexpr Plan plans[] = {{1, 1, 1},    {1, 16, 16},   {2, 1, 1},    {2, 8, 8},    {3, 2, 2},
                          {3, 8, 8},    {7, 1, 16},    {7, 16, 1},   {7, 16, 16},  {64, 1, 1},
                          {64, 16, 16}, {1000, 1, 16}, {1000, 8, 8}, {4096, 1, 1}, {4096, 8, 8}};

struct Scalars {
  double alpha, beta;
  bool addend_first;
};
constexpr Scalars scalars[] = {{1, 0, false}, {1, 1, false}, {0.7001953125, -1.25, false}, {1, 1, true}};

std::string text(const Setting& s) {
  std::ostringstream o;
  o << s.model->name << " " << name(s.family) << " " << name(s.input) << ">" << name(s.output) << " m=" << s.m << " n=" << s.n
    << " k=" << s.k << " alpha=" << s.alpha << " beta=" << s.beta << (s.addend_first ? " (first)" : "");
  return o.str();
}

std::vector<Setting> all_settings() {
  std::vector<Setting> settings;
  for (const models::Model& model : models::all_models())
    for (const Family family : product_families())
      for (const auto& [in, out] : tightness::formats_of(model)) {
        if (!holds(in, family)) continue;
        for (const Plan& p : plans)
          for (const Scalars& c : scalars) {
            if (p.k > 500 && c.beta != 0) continue;
            const bool fused = model.arithmetic.accumulation == Accumulation::tensor_core;
            if (c.addend_first && (fused || out != model.arithmetic.accumulator)) continue;
            settings.push_back({&model, family, in, out, p.m, p.n, p.k, c.alpha, c.beta, c.addend_first, 1});
          }
      }
  return settings;
}

}  // namespace

TEST_CASE("no correct accumulator model raises an alarm on any family, size, scalar or output format") {
  const std::vector<Setting> settings = all_settings();
  std::vector<std::string> alarms(settings.size());
  double hard = 0, iid = 0;
#pragma omp parallel for schedule(dynamic) reduction(max : hard, iid)
  for (std::size_t i = 0; i < settings.size(); ++i) {
    const Setting& s = settings[i];
    const Discrepancy d = tightness::judge(s, tightness::make_case(s));
    hard = std::max(hard, d.max_over_hard);
    iid = std::max(iid, d.max_over_iid);
    if (d.compared == s.m * s.n && d.bad == 0 && d.over_iid == 0 && !d.rms_exceeded && d.max_over_hard <= 1) continue;
    std::ostringstream o;
    o << text(s) << ": bad " << d.bad << ", over iid " << d.over_iid << ", over hard " << d.max_over_hard << ", rms "
      << d.rms_over_statistic << ", rounding " << d.rms_over_rounding;
    alarms[i] = o.str();
  }
  CHECK(settings.size() > 20000);
  for (const std::string& alarm : alarms) CHECK(alarm == "");
  // The experiment has teeth only if correct arithmetic comes close to its bound somewhere.
  CHECK(hard > 0.9);
  CHECK(iid > 0.9);
}

TEST_CASE("every family that claims exactness is returned bit for bit by every model") {
  for (const models::Model& model : models::all_models())
    for (const Family family : product_families()) {
      const DType in = tightness::formats_of(model)[0].first;
      if (!exact(family) || !holds(in, family)) continue;
      // Both have integers that tf32 cannot hold; that its bound claims nothing there is tested in bound_test.
      if (model.arithmetic.operand == DType::tf32 && (family == Family::reveal || family == Family::position)) continue;
      const Setting s{&model, family, in, model.arithmetic.accumulator, 8, 8, 1024};
      const tightness::Case c = tightness::make_case(s);
      REQUIRE(c.exact);
      CHECK_MESSAGE(tightness::judge(s, c).differing_bits == 0, text(s));
    }
}

TEST_CASE("a wrong arithmetic of each kind is not mistaken for a correct one") {
  // The same experiment with a model judged under a declaration that it breaks must alarm.
  models::Model broken = *models::find_model("a100");
  SUBCASE("truncating sums declared as rounding to nearest: RMS and maximum both alarm on non-negative data") {
    broken.arithmetic = models::find_model("sequential")->arithmetic;
    const Setting s{&broken, Family::uniform, DType::bf16, DType::f32, 16, 16, 4096};
    const Discrepancy d = tightness::judge(s, tightness::make_case(s));
    CHECK(d.over_iid > 200);
    CHECK(d.rms_exceeded);
    CHECK(d.bias < -0.9);
  }
  SUBCASE("truncating sums declared as rounding to nearest: bias shows on cancelling data") {
    broken.arithmetic = models::find_model("sequential")->arithmetic;
    const Setting s{&broken, Family::normal, DType::bf16, DType::f32, 16, 16, 4096};
    CHECK(tightness::judge(s, tightness::make_case(s)).bias < -0.3);
  }
  SUBCASE("fp32 sums declared as fp64") {
    broken = *models::find_model("sequential");
    broken.arithmetic = models::find_model("sequential_f64")->arithmetic;
    const Setting s{&broken, Family::normal, DType::f32, DType::f64, 16, 16, 64};
    CHECK(tightness::judge(s, tightness::make_case(s)).bad > 200);
  }
}
