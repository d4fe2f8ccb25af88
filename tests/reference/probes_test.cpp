// SPDX-License-Identifier: Apache-2.0
// The fingerprint probes give the published value for every published model, and tell the models apart.
#include "reference/models/probes.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <set>

namespace assay::models {
namespace {

/// P1 to P10 as published, docs/numerics.md section 6; fp16 operands (V100) have no P10.
const std::map<std::string_view, std::vector<double>> published{
    {"sequential_fma", {1, -1, -1, 0, 0, 0, 0, 15, 1, INFINITY}},
    {"v100", {0, 0, 0, 0, 0, 0, 0, 15, 1}},
    {"a100", {0, 0, -0.5, 3, 0, 1, 0, 15, 1, 1}},
    {"a100_tf32_rz", {0, 0, -0.5, 3, 0, 1, 0, 15, 1, 1}},
    {"h100", {0, 0, -1, 3, 3, 1, 1, 15, 1, 1}},
    {"h100_tf32_rne", {0, 0, -1, 3, 3, 1, 1, 15, 1, 1}},
    {"h100_fp8", {0, 0, 0, 0, 0, 0, 0, 0}},
};

TEST_CASE("every model answers the addition probes as published") {
  for (const auto& [name, answers] : published) {
    const Model* const model = find_model(name);
    REQUIRE(model != nullptr);
    for (std::size_t i = 0; i < answers.size(); ++i) {
      CAPTURE(name);
      CAPTURE(addition_probes()[i].what);
      CHECK(answer(addition_probes()[i], *model) == answers[i]);
    }
  }
}

TEST_CASE("the counting probe gives 64 minus the products of one step") {
  const std::map<std::string_view, std::pair<DType, double>> counts{
      {"sequential", {DType::f32, 62}},    {"v100", {DType::f16, 60}}, {"a100", {DType::bf16, 56}},
      {"a100_tf32_rz", {DType::tf32, 60}}, {"h100", {DType::f16, 48}}, {"h100_tf32_rne", {DType::tf32, 56}},
      {"h100_fp8", {DType::e5m2, 32}},
  };
  for (const auto& [name, expected] : counts) {
    CAPTURE(name);
    // An fp8 mark: 2^15 times 2^15, like fp16's.
    const DType mark = expected.first == DType::e5m2 ? DType::f16 : expected.first;
    CHECK(answer(counting_probe(mark), *find_model(name)) == expected.second);
  }
}

TEST_CASE("probes are numbers of the formats they are for, and not of narrower ones") {
  for (const Probe& p : addition_probes()) {
    CAPTURE(p.name);
    CHECK(representable(p, DType::bf16));
    CHECK(representable(p, DType::tf32));
    CHECK(representable(p, DType::f16) == (p.name != "P10"));
  }
  CHECK_FALSE(representable(addition_probes()[0], DType::e4m3));
  CHECK(representable(counting_probe(DType::f16), DType::f16));
  CHECK_FALSE(representable(counting_probe(DType::bf16), DType::f16));
}

TEST_CASE("an order profile has its marks in the format, at every place of a short sum and spread over a long one") {
  const OrderProfile small = order_profile(DType::bf16, 64, 128), large = order_profile(DType::f16, 8192, 128);
  CHECK(std::set<std::int64_t>(small.partner.begin(), small.partner.end()).size() == 63);
  CHECK(small.partner.back() == 63);
  CHECK(large.partner.front() == 1);
  CHECK(large.partner.back() == 8191);
  CHECK(std::set<std::int64_t>(large.partner.begin(), large.partner.end()).size() == 128);
  for (const OrderProfile* p : {&small, &large}) {
    const DType t = p == &small ? DType::bf16 : DType::f16;
    CHECK(round_to(t, p->mark) == p->mark);
    CHECK(round_to(t, p->one) == p->one);
  }
}

TEST_CASE("order profiles tell every order of summation apart, at each length") {
  for (const std::int64_t k : {64, 1000, 8192}) {
    std::map<std::vector<double>, std::string_view> seen;
    for (const char* const name : {"sequential", "pairwise", "lanes32", "split_k4", "v100", "a100", "h100"}) {
      const auto [at, fresh] = seen.try_emplace(survivors(order_profile(DType::f16, k, 128), *find_model(name)), name);
      CAPTURE(name);
      CAPTURE(at->second);
      CAPTURE(k);
      CHECK(fresh);
    }
  }
  // One after another: whatever comes after the second mark survives.
  const OrderProfile p = order_profile(DType::f32, 64, 128);
  const std::vector<double> counts = survivors(p, *find_model("sequential_fma"));
  for (std::size_t r = 0; r < counts.size(); ++r) CHECK(counts[r] == 63 - static_cast<double>(p.partner[r]));
}

}  // namespace
}  // namespace assay::models
