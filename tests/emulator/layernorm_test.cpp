// SPDX-License-Identifier: Apache-2.0
// kernels/layernorm.cu under the emulator: every version and format against long double and against its documented order.
#include "kernels/layernorm.hpp"

#include <array>

#include "tests/emulator/on_device.hpp"

namespace assay::emulator {
namespace {

struct Shape {
  long long rows = 3, n = 1, padx = 0, pady = 0;
  bool rms = false, gamma = true, beta = true, stats = true, wide = false;
  float eps = 1e-5f;
};

/// All operands of one call.
struct Problem {
  Shape s;
  DType in, c;
  std::vector<double> xs, gammas, betas;
  Array x, gamma, beta, y, mean, rstd;

  Problem(DType t, const Shape& shape, std::vector<double> values)
      : s(shape),
        in(t),
        c(compute_of(t)),
        xs(std::move(values)),
        gammas(numbers(c, s.n, 2)),
        betas(numbers(c, s.n, 3)),
        x(t, xs),
        gamma(c, gammas),
        beta(c, betas),
        y(s.wide ? DType::f32 : t, s.rows * (s.n + s.pady)),
        mean(c, s.rows),
        rstd(c, s.rows) {}
  Problem(DType t, const Shape& shape) : Problem(t, shape, numbers(t, shape.rows * (shape.n + shape.padx), 1)) {}

  kernels::LayernormArgs args() {
    return {.x = x.data(),
            .gamma = s.gamma ? gamma.data() : nullptr,
            .beta = s.beta ? beta.data() : nullptr,
            .y = y.data(),
            .mean = s.stats && !s.rms ? mean.data() : nullptr,
            .rstd = s.stats ? rstd.data() : nullptr,
            .rows = s.rows,
            .n = s.n,
            .ldx = s.n + s.padx,
            .ldy = s.n + s.pady,
            .eps = s.eps,
            .rms = s.rms,
            .y_is_f32 = s.wide};
  }
  void run_version(const std::string& version) {
    const std::string entry = "layernorm_" + version + "_" + suffix(in);
    run<kernels::LayernormArgs>(entry, {{kernels::layernorm_launch(args()), args()}}, {&y, &mean, &rstd});
  }
  double at(long long r, long long j) const { return xs[static_cast<std::size_t>(r * (s.n + s.padx) + j)]; }
  double out(long long r, long long j) const { return y[static_cast<std::size_t>(r * (s.n + s.pady) + j)]; }
};

/// Against long double; and nothing outside the rows is written.
void check_values(const Problem& p) {
  const Shape& s = p.s;
  const double u = unit_roundoff(p.c), u_out = unit_roundoff(p.y.dtype());
  for (long long r = 0; r < s.rows; ++r) {
    long double mean = 0, squares = 0;
    for (long long j = 0; j < s.n && !s.rms; ++j) mean += p.at(r, j);
    mean /= s.n;
    for (long long j = 0; j < s.n; ++j) squares += (p.at(r, j) - mean) * (p.at(r, j) - mean);
    const long double rstd = 1 / sqrtl(squares / s.n + s.eps);
    const auto row = static_cast<std::size_t>(r);
    if (s.stats && !s.rms) CHECK(fabsl(p.mean[row] - mean) <= 8 * u);
    if (s.stats) CHECK(fabsl(p.rstd[row] - rstd) <= 16 * u * rstd);
    for (long long j = 0; j < s.n; ++j) {
      const long double g = s.gamma ? p.gammas[static_cast<std::size_t>(j)] : 1,
                        b = s.beta ? p.betas[static_cast<std::size_t>(j)] : 0;
      const long double want = (p.at(r, j) - mean) * rstd * g + b;
      const long double bound =
          32 * u * (rstd * fabsl(g) + fabsl(b)) + u_out * fabsl(want) * (1 + 64 * u) + smallest_subnormal(p.y.dtype());
      CHECK_MESSAGE(fabsl(p.out(r, j) - want) <= bound, r, " ", j);
    }
    for (long long j = s.n; j < s.n + s.pady; ++j) CHECK(p.y.untouched(static_cast<std::size_t>(r * (s.n + s.pady) + j)));
    CHECK((s.stats || p.rstd.untouched(row)));
    CHECK(((s.stats && !s.rms) || p.mean.untouched(row)));
  }
}

template <class C>
struct Moments {
  C count = 0, mean = 0, squares = 0;
};

/// kernels::layernorm_two_pass without threads.
template <class C>
Moments<C> two_pass(const Problem& p, long long r) {
  const auto sum = [&](auto term) {
    std::array<C, 256> part{};
    for (long long j = 0; j < p.s.n; ++j) part[static_cast<std::size_t>(j % 256)] += term(static_cast<C>(p.at(r, j)));
    for (std::size_t half = 128; half > 0; half /= 2)
      for (std::size_t i = 0; i < half; ++i) part[i] += part[i + half];
    return part[0];
  };
  Moments<C> m{.count = static_cast<C>(p.s.n)};
  if (!p.s.rms) m.mean = sum([](C v) { return v; }) / m.count;
  m.squares = sum([&](C v) { return (v - m.mean) * (v - m.mean); });
  return m;
}

/// kernels::layernorm_welford without threads: lanes l and l + 16 first, then l + 8, ...; then warps in order.
template <class C>
Moments<C> welford(const Problem& p, long long r) {
  std::array<Moments<C>, 256> part{};
  for (long long j = 0; j < p.s.n; ++j) {
    Moments<C>& m = part[static_cast<std::size_t>(j % 256)];
    const C v = static_cast<C>(p.at(r, j)), delta = v - m.mean;
    m.count += 1;
    if (p.s.rms) {
      m.squares = std::fma(v, v, m.squares);
      continue;
    }
    m.mean += delta / m.count;
    m.squares += delta * (v - m.mean);
  }
  const auto merge = [](Moments<C>& a, const Moments<C>& b) {
    if (b.count == 0) return;
    CHECK(a.count >= b.count);
    const C count = a.count + b.count, delta = b.mean - a.mean, share = b.count / count;
    a.mean += delta * share;
    a.squares = a.squares + b.squares + delta * delta * a.count * share;
    a.count = count;
  };
  for (std::size_t w = 0; w < 256; w += 32)
    for (std::size_t lanes = 16; lanes > 0; lanes /= 2)
      for (std::size_t l = 0; l < lanes; ++l) merge(part[w + l], part[w + l + lanes]);
  for (std::size_t w = 32; w < 256; w += 32) merge(part[0], part[w]);
  return part[0];
}

template <class C>
void check_bits(const Problem& p, Moments<C> (*moments)(const Problem&, long long)) {
  long long different = 0;
  for (long long r = 0; r < p.s.rows; ++r) {
    const Moments<C> m = moments(p, r);
    const C rstd = 1 / std::sqrt(m.squares / static_cast<C>(p.s.n) + static_cast<C>(p.s.eps));
    const auto row = static_cast<std::size_t>(r);
    if (p.s.stats && !p.s.rms) different += p.mean.bits(row) != stored(p.mean, m.mean);
    if (p.s.stats) different += p.rstd.bits(row) != stored(p.rstd, rstd);
    for (long long j = 0; j < p.s.n; ++j) {
      C y = (static_cast<C>(p.at(r, j)) - m.mean) * rstd;
      if (p.s.gamma) y *= static_cast<C>(p.gammas[static_cast<std::size_t>(j)]);
      if (p.s.beta) y += static_cast<C>(p.betas[static_cast<std::size_t>(j)]);
      different += p.y.bits(static_cast<std::size_t>(r * (p.s.n + p.s.pady) + j)) != stored(p.y, y);
    }
  }
  CHECK(different == 0);
}

void check(DType t, const Shape& shape) {
  for (const kernels::Version& v : kernels::layernorm_versions) {
    const std::string version = v.name;
    CAPTURE(version);
    CAPTURE(name(t));
    CAPTURE(shape.n);
    Problem p(t, shape);
    p.run_version(version);
    check_values(p);
    const bool first = version == "two_pass";
    if (t == DType::f64)
      check_bits<double>(p, first ? two_pass<double> : welford<double>);
    else
      check_bits<float>(p, first ? two_pass<float> : welford<float>);
  }
}

}  // namespace

TEST_CASE("layernorm has an entry for every version and format") {
  check_entries("layernorm", kernels::layernorm_versions);
}

TEST_CASE("layernorm kernels keep their documented order and agree with long double, at any width") {
  for (const DType t : kernel_formats)
    for (const long long n : {1, 2, 31, 33, 255, 257, 700}) check(t, {.n = n, .padx = n % 3, .pady = n % 5});
}

TEST_CASE("layernorm kernels do RMSNorm, leave out parameters and statistics, and write 16-bit results in fp32") {
  for (const DType t : kernel_formats) {
    check(t, {.rows = 2, .n = 301, .rms = true, .beta = false});
    check(t, {.rows = 2, .n = 1, .rms = true, .gamma = false, .beta = false, .eps = 0});
    check(t, {.rows = 2, .n = 70, .gamma = false, .beta = false, .stats = false});
    if (size_bytes(t) == 2) check(t, {.rows = 2, .n = 67, .wide = true});
  }
}

TEST_CASE("layernorm kernels give beta where a row is constant, and NaN in the whole row of a NaN and nowhere else") {
  for (const DType t : kernel_formats)
    for (const kernels::Version& v : kernels::layernorm_versions) {
      Problem p(t, {.rows = 2, .n = 300}, std::vector<double>(600, 0.75));
      p.run_version(v.name);
      for (std::size_t j = 0; j < 600; ++j) CHECK(p.y.bits(j) == stored(p.y, p.betas[j % 300]));
      std::vector<double> spoilt = numbers(t, 600, 1);
      spoilt[299] = NAN;
      Problem q(t, {.rows = 2, .n = 300}, spoilt);
      q.run_version(v.name);
      for (std::size_t j = 0; j < 600; ++j) CHECK(std::isnan(q.y[j]) == (j < 300));
      CHECK((std::isnan(q.rstd[0]) && !std::isnan(q.rstd[1]) && std::isnan(q.mean[0]) && !std::isnan(q.mean[1])));
    }
}

}  // namespace assay::emulator
