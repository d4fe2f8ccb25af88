// SPDX-License-Identifier: Apache-2.0
// The input families: what each promises, on every format, and that layout and call never change a bit.

#include "reference/inputs.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>

using namespace assay;

namespace {

constexpr DType all_formats[] = {DType::f32, DType::f64, DType::bf16, DType::f16};

Operand row_major(DType t, std::int64_t batch, std::int64_t rows, std::int64_t columns, std::uint32_t stream) {
  return {.role = "T",
          .dtype = t,
          .dims = {batch, rows, columns},
          .strides = {rows * columns, columns, 1},
          .span = batch * rows * columns,
          .stream = stream};
}

/// A (batch,m,k), B (batch,k,n) and C (batch,m,n) as gemm lays them out, decoded.
struct Product {
  std::int64_t batch, m, n, k;
  std::vector<double> a, b, c;
  double a_at(std::int64_t i, std::int64_t l, std::int64_t q = 0) const {
    return a[static_cast<std::size_t>((q * m + i) * k + l)];
  }
  double b_at(std::int64_t l, std::int64_t j, std::int64_t q = 0) const {
    return b[static_cast<std::size_t>((q * k + l) * n + j)];
  }
};

std::vector<double> decoded(const Operand& o, const FillRule& rule, std::uint64_t seed) {
  std::vector<double> values;
  for (const std::uint64_t bits : generate(o, rule, seed)) values.push_back(decode(o.dtype, bits));
  return values;
}

Product product(Family f, DType t, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1,
                std::uint64_t seed = 1, std::int64_t limit = 1) {
  Operand c = row_major(t, batch, m, n, 3);
  c.access = Access::inout;
  return {batch,
          m,
          n,
          k,
          decoded(row_major(t, batch, m, k, 1), {f, 1, 2, true, limit}, seed),
          decoded(row_major(t, batch, k, n, 2), {f, 2, 1, false, limit}, seed),
          decoded(c, {f, 1, 2, true, limit}, seed)};
}

struct Moments {
  double mean = 0, variance = 0, kurtosis = 0, largest = 0;
};

Moments moments(const std::vector<double>& values) {
  Moments m;
  const auto n = static_cast<double>(values.size());
  for (const double v : values) m.mean += v / n, m.largest = std::max(m.largest, std::fabs(v));
  for (const double v : values) m.variance += (v - m.mean) * (v - m.mean) / n;
  for (const double v : values) m.kurtosis += std::pow(v - m.mean, 4) / (n * m.variance * m.variance);
  return m;
}

}  // namespace

TEST_CASE("family names parse back and are distinct") {
  std::set<std::string_view> names;
  for (const Family f : all_families()) {
    CHECK(parse_family(name(f)) == f);
    names.insert(name(f));
  }
  CHECK(names.size() == 29);
  CHECK(product_families().size() == 18);
  CHECK(signal_families().size() == 17);
  CHECK(std::ranges::count(signal_families(), Family::post_softmax) == 0);
  CHECK_FALSE(parse_family("gaussian").has_value());
  for (const Family f : all_families()) CHECK_FALSE((exact(f) && exchangeable(f)));
  CHECK(exact(Family::integer));
  CHECK(exchangeable(Family::normal));
  CHECK_FALSE(exchangeable(Family::two_level));
  CHECK_FALSE(exchangeable(Family::outlier));
  CHECK_FALSE(exchangeable(Family::mel));
}

TEST_CASE("storage layout never changes an element and fill never touches a gap") {
  for (const DType t : all_formats)
    for (const Family f : all_families())
      for (const bool left : {true, false}) {
        const Operand tight = row_major(t, 2, 21, 70, 5);
        const FillRule rule{f, left ? 1 : 2, left ? 2 : 1, left, 7};
        const std::vector<std::uint64_t> bits = generate(tight, rule, 99);
        for (const std::vector<std::int64_t>& strides : {tight.strides, {1600, 1, 22}, {1700, 75, 1}, {1, 200, 2}}) {
          Operand o = tight;
          o.strides = strides;
          o.offset = 3;
          o.span = 4300;
          std::vector<std::byte> storage(static_cast<std::size_t>(storage_elements(o)) * size_bytes(t), std::byte{0xCD});
          fill(o, rule, 99, storage);
          int wrong = 0;
          for (std::int64_t e = 0; e < element_count(o); ++e)
            wrong += load_bits(t, &storage[static_cast<std::size_t>(storage_index(o, e)) * size_bytes(t)]) !=
                     bits[static_cast<std::size_t>(e)];
          CHECK_MESSAGE(wrong == 0, name(f) << " " << name(t));
          CHECK(disturbed_gap_bytes(o, storage, std::byte{0xCD}) == 0);
          CHECK(generate(o, rule, 99) == bits);
        }
      }
}

TEST_CASE("a broadcast batch is one matrix: the same bits in every entry, and those of a batch of one") {
  for (const Family f : all_families()) {
    Operand shared = row_major(DType::f32, 3, 6, 9, 1);
    shared.strides[0] = 0;
    shared.span = 54;
    const FillRule rule{f, 1, 2, true, 5};
    const std::vector<std::uint64_t> one = generate(row_major(DType::f32, 1, 6, 9, 1), rule, 4),
                                     all = generate(shared, rule, 4);
    for (std::size_t e = 0; e < all.size(); ++e) CHECK(all[e] == one[e % 54]);
    std::vector<std::byte> storage(54 * 4);
    fill(shared, rule, 4, storage);
    for (std::size_t e = 0; e < 54; ++e) CHECK(load_bits(DType::f32, &storage[4 * e]) == one[e]);
  }
}

TEST_CASE("seed and stream choose other data; equal arguments give equal data") {
  for (const Family f : all_families()) {
    if (f == Family::ones) continue;
    const FillRule rule{f, 1, 2, true, 1000};
    const Operand o = row_major(DType::f32, 1, 40, 40, 1), other = row_major(DType::f32, 1, 40, 40, 2);
    CHECK(generate(o, rule, 1) == generate(o, rule, 1));
    CHECK_MESSAGE(generate(o, rule, 1) != generate(o, rule, 2), name(f));
    CHECK_MESSAGE(generate(o, rule, 1) != generate(o, rule, 1 + (std::uint64_t{1} << 32)), name(f));
    CHECK_MESSAGE(generate(o, rule, 1) != generate(other, rule, 1), name(f));
  }
}

TEST_CASE("integer: uniform on -L..L, both limits reached") {
  for (const DType t : all_formats)
    for (const std::int64_t limit : {1, 2, 16, 200}) {
      const Product p = product(Family::integer, t, 64, 64, 64, 1, 3, limit);
      for (const std::vector<double>* values : {&p.a, &p.b, &p.c}) {
        std::map<double, int> counts;
        for (const double v : *values) ++counts[v];
        CHECK(counts.begin()->first == -static_cast<double>(limit));
        CHECK(counts.rbegin()->first == static_cast<double>(limit));
        CHECK(std::ssize(counts) == 2 * limit + 1);
        const double expected = 4096.0 / static_cast<double>(2 * limit + 1);
        for (const auto& [value, count] : counts) {
          CHECK(value == std::floor(value));
          CHECK(std::fabs(count - expected) <= 6 * std::sqrt(expected) + 1);
        }
      }
    }
  CHECK_THROWS_AS(generate(row_major(DType::f32, 1, 2, 2, 1), {Family::integer, 1, 2, true, 0}, 1), std::invalid_argument);
}

TEST_CASE("integer_limit is the largest L whose k products fit, capped by the format and by 2^10, in fp64 by 2^20") {
  for (const DType t : all_formats)
    for (const int bits : {1, 11, 14, 24, 53})
      for (const std::int64_t k : {1, 2, 3, 64, 511, 2048, 4097, 65536, 1 << 20, 1 << 24}) {
        const std::int64_t limit = integer_limit(k, bits, t),
                           cap = std::int64_t{1} << std::min(t == DType::f64 ? 20 : 10, format(t).precision);
        const auto fits = [&](std::int64_t l) { return k * l * l <= (std::int64_t{1} << bits); };
        CHECK(limit <= cap);
        CHECK((limit == 0 || fits(limit)));
        CHECK((limit == cap || !fits(limit + 1)));
      }
  CHECK(integer_limit(4096, 24, DType::f32) == 64);
  CHECK(integer_limit(65536, 24, DType::f32) == 16);
  CHECK(integer_limit(2048, 11, DType::f16) == 1);
  CHECK(integer_limit(2049, 11, DType::f16) == 0);
  CHECK(integer_limit(5, -1, DType::f32) == 0);
  CHECK(integer_limit(0, 24, DType::f32) == 1024);
}

TEST_CASE("integer: at the limit every partial sum in fp32 is exact, whatever the order") {
  const std::int64_t k = 4096, limit = integer_limit(k, 24, DType::f32);
  const Product p = product(Family::integer, DType::f32, 4, 4, k, 1, 8, limit);
  for (std::int64_t i = 0; i < 4; ++i)
    for (std::int64_t j = 0; j < 4; ++j) {
      float up = 0, down = 0;
      std::int64_t truth = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        up += static_cast<float>(p.a_at(i, l) * p.b_at(l, j));
        down += static_cast<float>(p.a_at(i, k - 1 - l) * p.b_at(k - 1 - l, j));
        truth += static_cast<std::int64_t>(p.a_at(i, l)) * static_cast<std::int64_t>(p.b_at(l, j));
      }
      CHECK(up == static_cast<float>(truth));
      CHECK(down == static_cast<float>(truth));
    }
}

TEST_CASE("reveal: odd integers of full width on the left, -1, 0, 1 on the right; narrower formats must round every one") {
  CHECK(reveal_bits(DType::f32) == 13);
  CHECK(reveal_bits(DType::f16) == 11);
  CHECK(reveal_bits(DType::bf16) == 8);
  CHECK(reveal_bits(DType::f64) == 30);
  for (const DType t : all_formats) {
    const Product p = product(Family::reveal, t, 40, 40, 40);
    int negative = 0;
    for (const double v : p.a) {
      CHECK(std::ilogb(v) == reveal_bits(t) - 1);
      CHECK(std::fmod(std::fabs(v), 2) == 1);
      negative += v < 0;
      if (t == DType::f32) CHECK(round_to(DType::f16, v) != v);
      if (t == DType::f32 || t == DType::f16) CHECK(round_to(DType::bf16, v) != v);
      if (t == DType::f64) CHECK(round_to(DType::f32, v) != v);
    }
    CHECK(std::abs(negative - 800) < 120);
    CHECK(std::set(p.b.begin(), p.b.end()) == std::set<double>{-1, 0, 1});
  }
}

TEST_CASE("position: the product is the address map, every output names its own source") {
  for (const std::int64_t m : {1, 7, 30, 65}) {
    const std::int64_t k = 30, n = 11, batch = 3;
    const Product p = product(Family::position, DType::f32, m, n, k, batch, 5);
    CHECK(std::set(p.b.begin(), p.b.end()).size() == p.b.size());  // unique over the batch too
    std::set<double> seen;
    std::set<std::int64_t> used;
    for (std::int64_t q = 0; q < batch; ++q)
      for (std::int64_t i = 0; i < m; ++i) {
        std::vector<std::int64_t> ones;
        for (std::int64_t l = 0; l < k; ++l) {
          CHECK((p.a_at(i, l, q) == 0 || p.a_at(i, l, q) == 1));
          if (p.a_at(i, l, q) == 1) ones.push_back(l);
        }
        REQUIRE(ones.size() == 1);
        used.insert(ones[0]);
        for (std::int64_t j = 0; j < n; ++j) seen.insert(p.b_at(ones[0], j, q));
      }
    CHECK(std::ssize(used) == std::min(k, m * batch));
    CHECK(std::ssize(seen) == std::min(m, k) * batch * n);  // no two rows of a matrix share a source while m <= k
    CHECK(*seen.begin() >= 1);                              // zero would look like an untouched output
  }
  for (const DType t : {DType::bf16, DType::f16}) {  // more elements than exact integers: codes wrap, still exact
    const Product p = product(Family::position, t, 4, 50, 60);
    for (const double v : p.b) CHECK((v >= 1 && v <= std::ldexp(1.0, format(t).precision) && v == std::floor(v)));
  }
}

TEST_CASE("ones count and signs keep the parity of k") {
  for (const DType t : all_formats) {
    const Product ones = product(Family::ones, t, 3, 3, 17);
    CHECK(std::all_of(ones.a.begin(), ones.a.end(), [](double v) { return v == 1; }));
    CHECK(std::all_of(ones.b.begin(), ones.b.end(), [](double v) { return v == 1; }));
    const Product sign = product(Family::sign, t, 20, 20, 50);
    CHECK(std::set(sign.a.begin(), sign.a.end()) == std::set<double>{-1, 1});
    CHECK(std::fabs(moments(sign.b).mean) < 0.15);
  }
}

TEST_CASE("normal: mean 0, variance 1, kurtosis 2.85, bounded at 4.9, full significands") {
  for (const DType t : all_formats) {
    const Product p = product(Family::normal, t, 400, 400, 500, 1, 2);
    const Moments m = moments(p.a);  // 200000 draws
    CHECK(std::fabs(m.mean) < 5 / std::sqrt(200000.0));
    CHECK(m.variance == doctest::Approx(1).epsilon(0.015));
    CHECK(m.kurtosis == doctest::Approx(2.85).epsilon(0.02));
    CHECK(m.largest <= 4.9 * (1 + unit_roundoff(t)));
    CHECK(m.largest > 4);
    double cross = 0;
    for (std::size_t e = 0; e < 100000; ++e) cross += p.a[e] * p.b[e] / 100000;
    CHECK(std::fabs(cross) < 5 / std::sqrt(100000.0));
    int last_bit = 0;  // the last bit of the format is used by about half of the values
    const std::vector<std::uint64_t> bits = generate(row_major(t, 1, 100, 100, 1), {Family::normal, 1, 2, true}, 2);
    for (const std::uint64_t b : bits) last_bit += static_cast<int>(b & 1);
    CHECK(std::abs(last_bit - 5000) < 300);
  }
}

TEST_CASE("the 16-bit normal is the fp32 normal rounded once, and fp64 has bits that fp32 lacks") {
  const FillRule rule{Family::normal, 1, 2, true};
  const auto wide = decoded(row_major(DType::f64, 1, 50, 50, 1), rule, 6),
             single = decoded(row_major(DType::f32, 1, 50, 50, 1), rule, 6);
  const auto half = decoded(row_major(DType::f16, 1, 50, 50, 1), rule, 6);
  int beyond = 0;
  for (std::size_t e = 0; e < wide.size(); ++e) {
    CHECK(std::fabs(wide[e] - single[e]) <= 1 / 53509.0 + 1e-4 * std::fabs(single[e]));  // one step of the sum
    CHECK(std::fabs(half[e] - single[e]) <= unit_roundoff(DType::f16) * std::fabs(single[e]) + 0x1p-25);
    beyond += round_to(DType::f32, wide[e]) != wide[e];
  }
  CHECK(beyond > 2450);
}

TEST_CASE("uniform: in [0, 1) in every format, mean one half") {
  for (const DType t : all_formats) {
    const Moments m = moments(product(Family::uniform, t, 300, 300, 300).a);
    const std::vector<double> v = product(Family::uniform, t, 300, 300, 300).b;
    CHECK(std::all_of(v.begin(), v.end(), [](double x) { return x >= 0 && x < 1; }));
    CHECK(m.largest < 1);
    CHECK(m.mean == doctest::Approx(0.5).epsilon(0.01));
    CHECK(m.variance == doctest::Approx(1.0 / 12).epsilon(0.02));
  }
}

TEST_CASE("heavy: the normal times 2^g, g geometric and capped") {
  for (const DType t : all_formats) {
    const auto normal = product(Family::normal, t, 300, 1, 300).a, heavy = product(Family::heavy, t, 300, 1, 300).a;
    std::map<int, int> counts;
    for (std::size_t e = 0; e < heavy.size(); ++e) {
      if (std::fabs(normal[e]) < 0.01) continue;  // near fp16's subnormals the two are rounded apart
      const double ratio = heavy[e] / normal[e];
      CHECK(ratio == std::exp2(std::ilogb(ratio)));
      ++counts[std::ilogb(ratio)];
    }
    CHECK(counts.begin()->first == 0);
    CHECK(counts.rbegin()->first <= (t == DType::f16 ? 6 : 32));
    CHECK(counts.rbegin()->first >= 6);
    CHECK(counts[0] == doctest::Approx(45000).epsilon(0.03));
    CHECK(counts[1] == doctest::Approx(22500).epsilon(0.03));
  }
}

TEST_CASE("wide: one power of two per row of A and per column of B, over the whole range") {
  for (const DType t : all_formats) {
    const Product wide = product(Family::wide, t, 400, 400, 8), normal = product(Family::normal, t, 400, 400, 8);
    std::set<int> scales;
    for (std::int64_t i = 0; i < 400; ++i) {
      std::set<double> row, column;
      for (std::int64_t l = 0; l < 8; ++l) {
        if (std::fabs(normal.a_at(i, l)) > 0.1) row.insert(wide.a_at(i, l) / normal.a_at(i, l));
        if (std::fabs(normal.b_at(l, i)) > 0.1) column.insert(wide.b_at(l, i) / normal.b_at(l, i));
      }
      CHECK(row.size() <= 1);
      CHECK(column.size() <= 1);
      for (const double s : row) scales.insert(std::ilogb(s));
      for (const double s : column) scales.insert(std::ilogb(s));
    }
    CHECK(*scales.begin() == (t == DType::f16 ? -8 : -20));
    CHECK(*scales.rbegin() == (t == DType::f16 ? 4 : 20));
    CHECK(std::all_of(wide.a.begin(), wide.a.end(), [](double v) { return std::isfinite(v); }));
  }
}

TEST_CASE("cancel: halves along k cancel and leave a small remainder that is not zero") {
  for (const DType t : all_formats)
    for (const std::int64_t k : {1, 2, 7, 64, 129}) {
      const Product p = product(Family::cancel, t, 12, 12, k);
      for (std::int64_t i = 0; i < 12; ++i)
        for (std::int64_t j = 0; j < 12; ++j) {
          double sum = 0, magnitude = 0;
          int broken = 0;
          for (std::int64_t l = 0; l < k; ++l) magnitude += std::fabs(p.a_at(i, l) * p.b_at(l, j));
          for (std::int64_t l = 0; l < k / 2; ++l) {
            CHECK(p.a_at(i, l + k / 2) == p.a_at(i, l));
            broken += p.b_at(l + k / 2, j) != -p.b_at(l, j);
            sum += p.a_at(i, l) * p.b_at(l, j) + p.a_at(i, l + k / 2) * p.b_at(l + k / 2, j);
          }
          if (k % 2 == 1) sum += p.a_at(i, k - 1) * p.b_at(k - 1, j);
          CHECK(broken == (k % 2 == 0 ? 1 : 0));
          CHECK(sum != 0);
          if (k >= 64) CHECK(std::fabs(sum) < 0.07 * magnitude);
        }
    }
}

TEST_CASE("two_level: two values per line, endless fractions rounded to nearest, one sign, both in runs and mixed") {
  for (const DType t : all_formats) {
    const Product p = product(Family::two_level, t, 60, 60, 40);
    int runs = 0, mixed = 0, negative = 0;
    for (std::int64_t i = 0; i < 60; ++i)
      for (const bool left : {true, false}) {
        std::set<double> values;
        int switches = 0;
        double previous = 0;
        for (std::int64_t l = 0; l < 40; ++l) {
          const double v = left ? p.a_at(i, l) : p.b_at(l, i);
          values.insert(v);
          switches += l > 0 && v != previous;
          previous = v;
        }
        CHECK(values.size() <= 2);
        CHECK(*values.begin() * *values.rbegin() > 0);
        negative += *values.begin() < 0;
        (switches <= 1 ? runs : mixed)++;
      }
    CHECK(runs > 30);
    CHECK(mixed > 30);
    CHECK(std::abs(negative - 60) < 35);
    const double fractions[] = {1.0 / 3, 1.0 / 10, 2.0 / 3, 7.0 / 10, 3.0 / 7, 5.0 / 9, 6.0 / 11, 9.0 / 13};
    std::set<double> allowed, seen;
    for (const double v : fractions) allowed.insert(round_to(t, v));
    for (const double v : p.a) seen.insert(std::fabs(v));
    CHECK(seen == allowed);
  }
}

TEST_CASE("nan_one: one NaN in A, none elsewhere") {
  for (const DType t : all_formats) {
    const Product p = product(Family::nan_one, t, 9, 9, 9, 2);
    const auto nans = [](const std::vector<double>& v) {
      return std::count_if(v.begin(), v.end(), [](double x) { return std::isnan(x); });
    };
    CHECK(nans(p.a) == 1);
    CHECK(nans(p.b) + nans(p.c) == 0);
    CHECK(p.b == product(Family::normal, t, 9, 9, 9, 2).b);
  }
}

TEST_CASE("inf_one: one Inf in A meets zeros and both signs in B, so its row of C is NaN, +Inf and -Inf") {
  for (const DType t : all_formats)
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      const Product p = product(Family::inf_one, t, 9, 12, 10, 1, seed);
      CHECK(std::count_if(p.a.begin(), p.a.end(), [](double x) { return !std::isfinite(x); }) == 1);
      CHECK(std::all_of(p.b.begin(), p.b.end(), [](double x) { return std::isfinite(x); }));
      CHECK(std::all_of(p.c.begin(), p.c.end(), [](double x) { return std::isfinite(x); }));
      const std::int64_t at = std::find_if(p.a.begin(), p.a.end(), [](double x) { return std::isinf(x); }) - p.a.begin();
      CHECK(p.a[static_cast<std::size_t>(at)] > 0);
      int nan = 0, up = 0, down = 0, finite = 0;
      for (std::int64_t i = 0; i < 9; ++i)
        for (std::int64_t j = 0; j < 12; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < 10; ++l) sum += p.a_at(i, l) * p.b_at(l, j);
          nan += std::isnan(sum), up += std::isinf(sum) && sum > 0, down += std::isinf(sum) && sum < 0,
              finite += std::isfinite(sum);
        }
      CHECK(nan == 4);
      CHECK(up == 4);
      CHECK(down == 4);
      CHECK(finite == 96);
    }
}

TEST_CASE("subnormal: every product is below the smallest normal and exact, subnormal operands meet on both sides") {
  for (const DType t : all_formats) {
    const Product p = product(Family::subnormal, t, 6, 6, 30);
    const double normal = smallest_normal(t);
    int left = 0, right = 0, neither = 0;
    for (std::int64_t i = 0; i < 6; ++i)
      for (std::int64_t l = 0; l < 30; ++l)
        for (std::int64_t j = 0; j < 6; ++j) {
          const double a = p.a_at(i, l), b = p.b_at(l, j), c = a * b;
          CHECK(c != 0);
          // bf16 operands go with an fp32 result, whose grid is finer; their products reach 49 of bf16's subnormal steps.
          const DType result = t == DType::bf16 ? DType::f32 : t;
          CHECK(round_to(result, c) == c);
          CHECK(std::fabs(c) < normal);
          left += std::fabs(a) < normal, right += std::fabs(b) < normal,
              neither += std::fabs(a) >= normal && std::fabs(b) >= normal;
        }
    CHECK(left == 360);
    CHECK(right == 360);
    CHECK(neither == 360);
    for (const double v : p.c) CHECK((v != 0 && std::fabs(v) < normal));
  }
}

TEST_CASE("an addend, marked by its access or by equal axes, is finite in every family and follows the real ones") {
  for (const DType t : all_formats)
    for (const Family f : all_families()) {
      const Product p = product(f, t, 10, 10, 4, 1, 1, 3);
      CHECK(std::all_of(p.c.begin(), p.c.end(), [](double v) { return std::isfinite(v); }));
      const auto equal_axes = decoded(row_major(t, 1, 10, 10, 3), {f, 1, 1, true, 3}, 1);
      CHECK_MESSAGE(equal_axes == p.c, name(f));
    }
  CHECK(product(Family::nan_one, DType::f32, 10, 10, 4).c == product(Family::normal, DType::f32, 10, 10, 4).c);
}

TEST_CASE("a fill rule that does not fit its operand is refused") {
  const Operand o = row_major(DType::f32, 1, 4, 4, 1);
  CHECK_THROWS_AS(generate(o, {Family::normal, 1, 3, true}, 1), std::invalid_argument);
  CHECK_THROWS_AS(generate(o, {Family::normal, -1, 2, true}, 1), std::invalid_argument);
  std::vector<std::byte> small(60);
  CHECK_THROWS_AS(fill(o, {Family::normal, 1, 2, true}, 1, small), std::invalid_argument);
  CHECK(generate(row_major(DType::f32, 2, 0, 4, 1), {Family::position, 1, 2, true}, 1).empty());
}

TEST_CASE("logit families: dyadic halves, one-hot gaps, constant rows, offsets") {
  constexpr std::int64_t rows = 64, n = 96;
  const auto logits = [](Family f, DType t, int exponent = 0) {
    Operand o{.role = "X", .dtype = t, .dims = {rows, n}, .strides = {n, 1}, .span = rows * n, .stream = 1};
    return decoded(o, {.family = f, .outer_axis = 0, .inner_axis = 1, .exponent = exponent}, 11);
  };
  for (const DType t : all_formats) {
    const std::vector<double> dyadic = logits(Family::dyadic, t);
    double squares = 0;
    for (const double v : dyadic) {
      CHECK(v * 2 == std::floor(v * 2));
      CHECK(std::fabs(v) <= 60);
      squares += v * v;
    }
    CHECK(std::sqrt(squares / (rows * n)) == doctest::Approx(12.2).epsilon(0.05));

    const std::vector<double> hot = logits(Family::one_hot, t), constant = logits(Family::constant, t),
                              extreme = logits(Family::extreme, t), shifted = logits(Family::shifted, t);
    int far = 0, near = 0, low = 0, high = 0, mixed = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto row = [&](const std::vector<double>& all) {
        return std::vector(all.begin() + r * n, all.begin() + (r + 1) * n);
      };
      std::vector<double> h = row(hot);
      std::sort(h.begin(), h.end());
      far += h[n - 1] == (t == DType::f64 ? 1024 : 128), near += h[n - 1] == 16;
      CHECK(h[n - 2] <= 5);
      const std::vector<double> c = row(constant);
      CHECK(std::count(c.begin(), c.end(), c[0]) == n);
      const std::vector<double> e = row(extreme);
      const auto positive = std::count_if(e.begin(), e.end(), [](double v) { return v > 0; });
      low += positive == 0, high += positive == n, mixed += positive > 0 && positive < n;
      for (const double v : e) CHECK(std::fabs(std::fabs(v) - 10000) <= 72);
      const std::vector<double> s = row(shifted);
      const auto [least, most] = std::minmax_element(s.begin(), s.end());
      CHECK(*most - *least <= 12);
      CHECK(std::fabs(*least) >= (size_bytes(t) == 2 ? 10 : 58));
    }
    CHECK(far + near == rows);
    CHECK((far > 16 && near > 16));
    CHECK((low > 16 && high > 4 && mixed > 4));
  }
  // A factor of 2^3, exactly, in the families without a scale of their own.
  for (const Family f : {Family::normal, Family::uniform, Family::heavy, Family::two_level, Family::masked}) {
    const std::vector<double> one = logits(f, DType::f32), eight = logits(f, DType::f32, 3);
    for (std::size_t i = 0; i < one.size(); ++i) REQUIRE(eight[i] == 8 * one[i]);
  }
}

TEST_CASE("masked rows keep an element, leading and scattered masks both occur; all_masked hides just one row") {
  constexpr std::int64_t rows = 64;
  for (const std::int64_t n : {1, 2, 96}) {
    const auto hidden = [&](Family f) {
      Operand o{.role = "X", .dtype = DType::bf16, .dims = {rows, n}, .strides = {n, 1}, .span = rows * n, .stream = 1};
      const std::vector<double> x = decoded(o, {.family = f, .outer_axis = 0, .inner_axis = 1}, 5);
      std::vector<std::int64_t> counts(rows);
      for (std::size_t i = 0; i < x.size(); ++i) counts[i / static_cast<std::size_t>(n)] += x[i] == -INFINITY;
      return std::pair(counts, x);
    };
    const auto [some, x] = hidden(Family::masked);
    CHECK(*std::max_element(some.begin(), some.end()) < n);
    const auto [all, y] = hidden(Family::all_masked);
    CHECK(std::count(all.begin(), all.end(), n) == 1);
    if (n < 96) continue;
    int leading = 0, scattered = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto first = std::find_if(x.begin() + r * n, x.begin() + (r + 1) * n, [](double v) { return v != -INFINITY; });
      const bool run = first - (x.begin() + r * n) == some[static_cast<std::size_t>(r)];
      leading += run && some[static_cast<std::size_t>(r)] > 2, scattered += !run;
    }
    CHECK(leading > 16);
    CHECK(scattered > 16);
  }
}

TEST_CASE("activation families: offsets of one sign per row, balanced rows, every bit pattern") {
  for (const DType t : {DType::f32, DType::f64}) {
    const std::vector<double> rows =
        decoded(row_major(t, 1, 40, 64, 1), {.family = Family::offset, .outer_axis = 1, .inner_axis = 2, .limit = 20}, 3);
    int negative = 0;
    for (std::size_t r = 0; r < 40; ++r) {
      const double sign = rows[r * 64] < 0 ? -1 : 1;
      negative += sign < 0;
      for (std::size_t i = 0; i < 64; ++i) CHECK(std::fabs(sign * rows[r * 64 + i] - 1048576) < 5);
    }
    CHECK((negative > 5 && negative < 35));
  }
  for (const std::int64_t n : {1, 2, 7, 64}) {
    const std::vector<double> rows =
        decoded(row_major(DType::bf16, 1, 30, n, 1), {.family = Family::balanced, .outer_axis = 1, .inner_axis = 2}, 3);
    for (std::int64_t r = 0; r < 30; ++r) {
      double sum = 0, squares = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const double v = rows[static_cast<std::size_t>(r * n + i)];
        sum += v, squares += v * v;
      }
      CHECK(sum == 0);
      CHECK(squares == static_cast<double>(n - n % 2));
    }
  }
  const std::vector<std::uint64_t> all =
      generate(row_major(DType::f16, 1, 16, 4096, 1), {.family = Family::patterns, .outer_axis = 1, .inner_axis = 2}, 3);
  CHECK(std::set<std::uint64_t>(all.begin(), all.end()).size() == 65536);
  const std::vector<std::uint64_t> some =
      generate(row_major(DType::f32, 1, 16, 4096, 1), {.family = Family::patterns, .outer_axis = 1, .inner_axis = 2}, 3);
  std::set<std::uint64_t> exponents;
  for (const std::uint64_t bits : some) exponents.insert(bits >> 23);
  CHECK(exponents.size() == 512);  // signs and exponents
}

TEST_CASE("outlier: a few channels of A are 32 or 64 times as large in every row and batch entry, B and C are normal") {
  for (const DType t : all_formats)
    for (const std::int64_t k : {1, 5, 640}) {
      const Product p = product(Family::outlier, t, 20, 3, k, 2), normal = product(Family::normal, t, 20, 3, k, 2);
      CHECK(p.b == normal.b);
      CHECK(p.c == normal.c);
      int large = 0;
      for (std::int64_t l = 0; l < k; ++l) {
        std::set<double> factors;
        for (std::int64_t q = 0; q < 2; ++q)
          for (std::int64_t i = 0; i < 20; ++i)
            if (std::fabs(normal.a_at(i, l, q)) > 0.01) factors.insert(p.a_at(i, l, q) / normal.a_at(i, l, q));
        REQUIRE(factors.size() == 1);
        CHECK((*factors.begin() == 1 || *factors.begin() == 32 || *factors.begin() == 64));
        large += *factors.begin() > 1;
      }
      CHECK(large >= 1);
      CHECK(large <= 1 + k / 20);
      if (k == 640) CHECK(large >= 3);
    }
}

TEST_CASE("post_softmax: rows of A are non-negative weights of sum about 1 with one peak, at other places in other rows") {
  for (const DType t : all_formats)
    for (const std::int64_t k : {8, 65, 1500}) {
      const Product p = product(Family::post_softmax, t, 200, 3, k);
      CHECK(p.b == product(Family::normal, t, 200, 3, k).b);
      std::set<std::int64_t> peaks;
      double mean = 0, peaked = 0;
      for (std::int64_t i = 0; i < 200; ++i) {
        double sum = 0, largest = 0;
        std::int64_t at = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          CHECK(p.a_at(i, l) >= 0);
          sum += p.a_at(i, l);
          if (p.a_at(i, l) > largest) largest = p.a_at(i, l), at = l;
        }
        if (k > 8) CHECK(std::fabs(sum - 1) < 0.8);
        mean += sum / 200, peaked += largest / 200, peaks.insert(at);
      }
      CHECK(mean == doctest::Approx(1).epsilon(0.12));
      CHECK(peaked > 0.4);
      CHECK(std::ssize(peaks) >= std::min<std::int64_t>(k, 50));
    }
}

TEST_CASE("mel: frames in a range of 2 with one floor, correlated in time, bands and frames that differ") {
  for (const DType t : all_formats)
    for (const std::uint64_t seed : {1, 2, 3}) {
      const std::int64_t frames = 600, bands = 80;
      const Product p = product(Family::mel, t, frames, 3, bands, 1, seed);
      const auto [least, most] = std::minmax_element(p.a.begin(), p.a.end());
      CHECK((*least >= -1 && *least <= -0.5));
      CHECK(*most <= *least + 2 + 0.01);
      CHECK(*most > 0.5);
      const auto floor = std::count(p.a.begin(), p.a.end(), *least);
      CHECK((floor > 0.1 * 48000 && floor < 0.6 * 48000));
      const Moments m = moments(p.a);
      double neighbours = 0, distant = 0;
      for (std::int64_t b = 0; b < bands; ++b)
        for (std::int64_t i = 0; i + 100 < frames; ++i) {
          const auto covariance = [&](std::int64_t lag) { return (p.a_at(i, b) - m.mean) * (p.a_at(i + lag, b) - m.mean); };
          neighbours += covariance(1) / (m.variance * 80 * 500), distant += covariance(100) / (m.variance * 80 * 500);
        }
      CHECK(neighbours > 0.8);
      CHECK(std::fabs(distant) < 0.5);
      CHECK(p.b == product(Family::normal, t, frames, 3, bands, 1, seed).b);
    }
}

TEST_CASE("underflow: normal operands, products and addends around the smallest normal number that lose bits") {
  for (const DType t : all_formats) {
    const Product p = product(Family::underflow, t, 30, 30, 40);
    const double normal = smallest_normal(t);
    int inexact = 0, products = 0;
    for (std::int64_t i = 0; i < 30; ++i)
      for (std::int64_t l = 0; l < 40; ++l) {
        if (p.a_at(i, l) != 0 && t != DType::f16) CHECK(std::fabs(p.a_at(i, l)) > normal);
        const long double exact = static_cast<long double>(p.a_at(i, l)) * p.b_at(l, i);
        CHECK(std::fabs(exact) < normal);
        inexact += static_cast<long double>(round_to(t, static_cast<double>(exact))) != exact, ++products;
      }
    CHECK(inexact > 0.9 * products);
    CHECK(std::ranges::count_if(p.c, [&](double v) { return v != 0 && std::fabs(v) < normal; }) > 0.75 * 900);
  }
}

TEST_CASE("vanishing: one logit of 0 per row, exponentials of the others down to the smallest subnormal, and not below") {
  for (const DType t : all_formats) {
    const Product p = product(Family::vanishing, t, 30, 1, 90);
    int subnormal = 0;
    for (std::int64_t i = 0; i < 30; ++i) {
      int peaks = 0;
      for (std::int64_t l = 0; l < 90; ++l) {
        const double y = std::exp(p.a_at(i, l));
        CHECK(y <= 1);
        CHECK((y >= smallest_subnormal(t) / 2 || t == DType::bf16));
        peaks += y == 1, subnormal += y < smallest_normal(t);
      }
      CHECK(peaks == 1);
    }
    CHECK((subnormal > 0.2 * 2700 && subnormal < 0.7 * 2700));
  }
}
