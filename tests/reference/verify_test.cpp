// SPDX-License-Identifier: Apache-2.0
// Verification by combinations: silent on correct products, and faults found where they are.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "verify_fixture.hpp"

using namespace assay;
using namespace assay::verify_test;
using reference::Verification;
using reference::WrongRegion;

namespace {

std::string text(const Verification& v) {
  std::string s = v.method() + ": bad " + std::to_string(v.found.bad) + ", over_iid " + std::to_string(v.found.over_iid) +
                  ", flagged " + std::to_string(v.flagged_rows) + " rows " + std::to_string(v.flagged_columns) +
                  " columns, sigma " + std::to_string(v.sigma) + ", power " + std::to_string(v.smallest_fault) + ", examined " +
                  std::to_string(v.examined) + "/" + std::to_string(v.suspects);
  for (const WrongRegion& r : v.regions)
    s += "; " + std::string(r.kind()) + " " + std::to_string(r.row) + "+" + std::to_string(r.rows) + "," +
         std::to_string(r.column) + "+" + std::to_string(r.columns) + " " + std::to_string(r.wrong) + " wrong";
  return s;
}

void silent(const Finished& f, std::string_view what, std::uint64_t seed) {
  const Verification v = f.verified(seed);
  CAPTURE(what);
  CAPTURE(seed);
  INFO(text(v));
  CHECK(v.panels);
  CHECK(v.clean());
  CHECK(v.found.over_iid == 0);
  CHECK(v.beyond_bound == 0);
}

/// One region, exactly there.
void found_at(const Finished& f, std::string_view kind, std::int64_t row, std::int64_t rows, std::int64_t column,
              std::int64_t columns) {
  const Verification v = f.verified();
  INFO(text(v));
  CHECK_FALSE(v.clean());
  REQUIRE(v.regions.size() == 1);
  const WrongRegion& r = v.regions[0];
  CHECK(r.kind() == kind);
  CHECK(r.row == row);
  CHECK(r.rows == rows);
  CHECK(r.column == column);
  CHECK(r.columns == columns);
}

const Finished& correct(std::int64_t size) {
  static std::vector<std::pair<std::int64_t, Finished>> made;
  for (const auto& [s, f] : made)
    if (s == size) return f;
  made.clear();  // one at a time: 4096 is 200 MiB
  Finished f = prepared({1, size, size, size}, DType::f32, DType::f32, Family::normal, 7);
  by_eigen(f);
  return made.emplace_back(size, std::move(f)).second;
}

double dot_from(const Finished& f, std::int64_t i, std::int64_t j, std::int64_t from, std::int64_t to) {
  double sum = 0;
  for (std::int64_t l = from; l < to; ++l) sum += f.a_at(i, l) * f.b_at(l, j);
  return sum;
}

void every_fault_is_found(std::int64_t size) {
  const std::int64_t k = size, i = size / 3, j = size / 2 + 77, tile = size / 4 + 5;
  SUBCASE("one product dropped from one element") {
    Finished f = correct(size);
    std::int64_t l = 11;
    while (std::fabs(f.a_at(i, l) * f.b_at(l, j)) < 0.3) ++l;
    f.set(i, j, f.get(i, j) - f.a_at(i, l) * f.b_at(l, j));
    found_at(f, "element", i, 1, j, 1);
  }
  SUBCASE("NaN in one element") {
    Finished f = correct(size);
    f.set(i, j, std::nan(""));
    found_at(f, "element", i, 1, j, 1);
  }
  SUBCASE("a tile of zeros") {
    Finished f = correct(size);
    for (std::int64_t x = 0; x < 128; ++x)
      for (std::int64_t y = 0; y < 128; ++y) f.set(tile + x, tile + y, 0);
    found_at(f, "tile", tile, 128, tile, 128);
  }
  SUBCASE("the last 32 of k missing in a tile") {
    Finished f = correct(size);
    for (std::int64_t x = 0; x < 16; ++x)
      for (std::int64_t y = 0; y < 16; ++y)
        f.set(tile + x, tile + y, f.get(tile + x, tile + y) - dot_from(f, tile + x, tile + y, k - 32, k));
    found_at(f, "tile", tile, 16, tile, 16);
  }
  SUBCASE("a column with another column's values") {
    Finished f = correct(size);
    for (std::int64_t x = 0; x < size; ++x) f.set(x, j, f.get(x, j + 1));
    found_at(f, "column", 0, size, j, 1);
  }
  SUBCASE("a column 0.1 % off in every eighth row") {
    Finished f = correct(size);
    for (std::int64_t x = 0; x < size; x += 8) f.set(x, j, f.get(x, j) * 1.001);
    const Verification v = f.verified();
    INFO(text(v));
    CHECK_FALSE(v.clean());
    REQUIRE(v.regions.size() == 1);
    CHECK(v.regions[0].kind() == "column");
    CHECK(v.regions[0].column == j);
    CHECK(v.regions[0].wrong > size / 8 * 9 / 10);
  }
  SUBCASE("a row added up in fp16") {
    Finished f = correct(size);
    for (std::int64_t y = 0; y < size; ++y) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) sum = round_to(DType::f16, sum + f.a_at(i, l) * f.b_at(l, y));
      f.set(i, y, sum);
    }
    const Verification v = f.verified();
    INFO(text(v));
    CHECK_FALSE(v.clean());
    REQUIRE(v.regions.size() == 1);
    CHECK(v.regions[0].kind() == "row");
    CHECK(v.regions[0].row == i);
    CHECK(v.regions[0].wrong > size * 9 / 10);
  }
  SUBCASE("two tiles swapped") {
    Finished f = correct(size);
    const std::int64_t other = tile + 300;
    for (std::int64_t x = 0; x < 64; ++x)
      for (std::int64_t y = 0; y < 64; ++y) {
        const double kept = f.get(tile + x, tile + y);
        f.set(tile + x, tile + y, f.get(other + x, other + y));
        f.set(other + x, other + y, kept);
      }
    const Verification v = f.verified();
    INFO(text(v));
    CHECK_FALSE(v.clean());
    REQUIRE(v.regions.size() == 2);
    for (const WrongRegion& r : v.regions) {
      CHECK((r.row == tile || r.row == other));
      CHECK(r.column == r.row);
      CHECK(r.rows == 64);
      CHECK(r.columns == 64);
    }
  }
  SUBCASE("the last 8 of k missing everywhere") {
    Finished f = correct(size);
    for (std::int64_t x = 0; x < size; ++x)
      for (std::int64_t y = 0; y < size; ++y) f.set(x, y, f.get(x, y) - dot_from(f, x, y, k - 8, k));
    const Verification v = f.verified();
    INFO(text(v));
    CHECK_FALSE(v.clean());
    CHECK(v.sigma_exceeded);
    CHECK(v.found.bad + v.found.over_iid > 0);
  }
}

}  // namespace

TEST_CASE("verification of correct fp32 products raises no alarm over seeds, layouts, scalars and batches") {
  for (const Family family : {Family::normal, Family::uniform, Family::heavy, Family::wide, Family::cancel, Family::two_level})
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      Finished f = prepared({2, 130, 700, 300}, DType::f32, DType::f32, family, seed, seed % 2 == 0, 1, seed == 3 ? -0.75 : 0);
      f.alpha = seed == 1 ? 1 : 1.25;
      by_eigen(f);
      silent(f, name(family), seed);
    }
}

TEST_CASE("verification of correct fp32 products raises no alarm over fifty seeds" * doctest::skip()) {
  double largest_sigma = 0;
  std::int64_t standing_out = 0;
  for (const Family family :
       {Family::normal, Family::uniform, Family::heavy, Family::wide, Family::cancel, Family::two_level, Family::integer})
    for (std::uint64_t seed = 100; seed < 150; ++seed) {
      const auto odd = static_cast<std::int64_t>(seed % 7);
      Finished f = prepared({1, 64 + odd, 513 + 31 * odd, 180 + odd}, DType::f32, DType::f32, family, seed, seed % 3 == 0, 100);
      by_eigen(f);
      silent(f, name(family), seed);
      const Verification v = f.verified(seed + 1000);
      CHECK(v.clean());
      largest_sigma = std::max(largest_sigma, v.sigma);
      standing_out += v.flagged_rows;
    }
  MESSAGE("largest sigma ", largest_sigma, ", lines that only stand out ", standing_out);
  CHECK(largest_sigma < 0.7);
}

TEST_CASE("verification of correct products by every model raises no alarm") {
  for (const models::Model& model : models::all_models())
    for (const auto& [in, out] : tightness::formats_of(model)) {
      if (out != DType::f32) continue;
      for (const Family family : {Family::normal, Family::uniform}) {
        Finished f = prepared({1, 40, 600, 96}, in, out, family, 5);
        by_model(f, model);
        silent(f, model.name, 5);
      }
    }
}

TEST_CASE("verification of exact products is exact: no bit may differ") {
  const auto spoilt = [](Finished f, std::int64_t i, std::int64_t j, double by) {
    f.set(i, j, f.get(i, j) + by);
    return f;
  };
  Finished f = prepared({1, 200, 1100, 256}, DType::f32, DType::f32, Family::integer, 3, true, 200, 2);
  by_eigen(f);
  silent(f, "fp32", 3);
  CHECK(f.verified().method() == "panels:512,exact");
  found_at(spoilt(f, 123, 777, 1), "element", 123, 1, 777, 1);

  Finished whole = prepared({1, 60, 600, 128}, DType::i8, DType::i32, Family::integer, 3, false, 127);
  for (std::int64_t i = 0; i < 60; ++i)
    for (std::int64_t j = 0; j < 600; ++j) whole.set(i, j, dot_from(whole, i, j, 0, 128));
  whole.arithmetic = {.operand = DType::i8, .accumulator = DType::i32, .output = DType::i32};
  silent(whole, "i8 to i32", 3);
  found_at(spoilt(whole, 7, 599, -1), "element", 7, 1, 599, 1);
}

TEST_CASE("verification of exact 16-bit results sees all of them, those that needed rounding one by one") {
  Finished f = prepared({1, 300, 600, 1500}, DType::bf16, DType::bf16, Family::sign, 4);
  by_eigen(f);
  silent(f, "bf16", 4);
  std::int64_t large = -1;
  for (std::int64_t x = 0; x < 300 * 600 && large < 0; ++x)
    if (std::fabs(f.get(x / 600, x % 600)) > 100) large = x;
  REQUIRE(large >= 0);
  f.set(large / 600, large % 600, f.get(large / 600, large % 600) + 1);
  found_at(f, "element", large / 600, 1, large % 600, 1);

  Finished rounded = prepared({1, 300, 600, 1500}, DType::bf16, DType::bf16, Family::integer, 4, false, 60);
  by_eigen(rounded);
  const Verification v = rounded.verified();
  INFO(text(v));
  CHECK(v.method() == "rows:16");
  CHECK(v.clean());
  CHECK_FALSE(v.without_panels.empty());
}

TEST_CASE("verification of correct real 16-bit results raises no alarm, whatever family, scalars and order of sums") {
  for (const DType t : {DType::bf16, DType::f16})
    for (const Family family : {Family::normal, Family::uniform, Family::heavy, Family::cancel, Family::two_level})
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        Finished f = prepared({1, 300, 1100, 200}, t, t, family, seed, seed == 2, 1, seed == 3 ? -2 : 0);
        f.alpha = seed == 3 ? 0.5 : 1;
        by_eigen(f);
        silent(f, name(family), seed);
      }
  for (const char* model : {"a100", "h100", "split_k4", "lanes32"}) {
    Finished f = prepared({1, 128, 600, 512}, DType::bf16, DType::bf16, Family::normal, 9);
    by_model(f, *models::find_model(model));
    silent(f, model, 9);
  }
}

void every_16_bit_fault_is_found(std::int64_t size, DType t) {
  Finished good = prepared({1, size, size, size}, t, t, Family::normal, 7);
  by_eigen(good);
  const Verification clean = good.verified();
  INFO(text(clean));
  CHECK(clean.clean());
  CHECK(clean.method() == "panels:512+rows:16");
  CHECK(clean.smallest_fault > 0);
  CHECK(clean.smallest_fault < (t == DType::bf16 ? 0.4 : 0.05));
  const std::int64_t i = size / 3, j = size / 2 + 77, tile = size / 4 + 5;
  const double rms = std::sqrt(static_cast<double>(size));  // of a sum of `size` products of unit normals
  {
    Finished f = good;
    f.set(i, j, f.get(i, j) + 2 * clean.smallest_fault * rms);
    found_at(f, "element", i, 1, j, 1);
  }
  {
    Finished f = good;
    f.set(i, j, std::nan(""));
    found_at(f, "element", i, 1, j, 1);
  }
  {
    Finished f = good;
    for (std::int64_t x = 0; x < 64; ++x)
      for (std::int64_t y = 0; y < 64; ++y) f.set(tile + x, tile + y, 0);
    found_at(f, "tile", tile, 64, tile, 64);
  }
  {
    Finished f = good;
    for (std::int64_t x = 0; x < size; ++x) f.set(x, j, f.get(x, j + 1));
    found_at(f, "column", 0, size, j, 1);
  }
  {
    Finished f = good;
    for (std::int64_t y = 0; y < size; ++y) f.set(i, y, f.get(i + 1, y));
    const Verification v = f.verified();
    INFO(text(v));
    CHECK_FALSE(v.clean());
    REQUIRE(v.regions.size() == 1);
    CHECK(v.regions[0].kind() == "row");
    CHECK(v.regions[0].row == i);
    CHECK(v.regions[0].wrong > size / 2);  // where it meets columns that stand out themselves
  }
}

TEST_CASE("verification finds and locates faults in real 16-bit results") {
  every_16_bit_fault_is_found(1024, DType::bf16);
  every_16_bit_fault_is_found(1024, DType::f16);
}
TEST_CASE("verification finds and locates faults in a product of 2048 in 16 bits" * doctest::skip()) {
  every_16_bit_fault_is_found(2048, DType::bf16);
}
TEST_CASE("verification finds and locates faults in a product of 4096 in 16 bits" * doctest::skip()) {
  every_16_bit_fault_is_found(4096, DType::f16);
}

TEST_CASE("verification sees reduced operands everywhere by their noise alone") {
  Finished f = prepared({1, 128, 600, 512}, DType::f32, DType::f32, Family::normal, 9);
  by_model(f, *models::find_model("a100_tf32_rna"));
  CHECK(f.verified().clean());
  f.arithmetic = {.operand = DType::f32, .accumulator = DType::f32, .output = DType::f32};  // what was declared instead
  const Verification v = f.verified();
  INFO(text(v));
  CHECK(v.sigma_exceeded);
  CHECK(v.sigma > 10 * v.sigma_gate);
  CHECK_FALSE(v.clean());
}

TEST_CASE("verification refuses what it cannot see through") {
  Finished f = prepared({1, 40, 50, 60}, DType::f32, DType::f32, Family::nan_one, 2);
  by_eigen(f);
  CHECK_THROWS_AS(f.verified(), std::invalid_argument);
  f = prepared({1, 40, 50, 60}, DType::f64, DType::f64, Family::normal, 2);
  CHECK_THROWS_AS(f.verified(), std::invalid_argument);
}

TEST_CASE("verification finds and locates faults in a product of 1024") {
  every_fault_is_found(1024);
}
TEST_CASE("verification finds and locates faults in a product of 2048" * doctest::skip()) {
  every_fault_is_found(2048);
}
TEST_CASE("verification finds and locates faults in a product of 4096" * doctest::skip()) {
  every_fault_is_found(4096);
}
