// SPDX-License-Identifier: Apache-2.0
// exponential() and logarithm() of kernels/portable.cuh: their error in ulp, as their comments state it.
#include "tests/emulator/cuda.hpp"
// after the language
#include <doctest/doctest.h>

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <random>

#include "kernels/portable.cuh"

namespace assay::emulator {
namespace {

/// Units in the last place of format T at |exact|, subnormal ones included.
template <class T>
long double ulp_at(long double exact) {
  const int digits = sizeof(T) == 4 ? FLT_MANT_DIG : DBL_MANT_DIG, lowest = sizeof(T) == 4 ? FLT_MIN_EXP : DBL_MIN_EXP;
  int e = 0;
  std::frexp(exact, &e);
  return std::ldexp(1.0L, std::max(e, lowest) - digits);
}

struct Worst {
  double ulp = 0, at = 0;
  std::uint64_t digest = 0;  // of all results, in any order
  void take(double error, double x) {
    if (!(error <= ulp)) ulp = error, at = x;  // NaN counts
  }
};

/// fp32 against double's functions, whose own error (below 1 ulp of double) is 2^-28 ulp here. Every `step`-th bit pattern of
/// finite numbers with a finite result that does not round to zero or, for e^x, from |x| < 2^-26, to 1.
template <class Own, class Exact>
Worst sweep(std::uint32_t step, std::uint32_t first, std::uint32_t last, Own own, Exact exact) {
  Worst all;
#pragma omp parallel
  {
    Worst mine;
#pragma omp for schedule(static)
    for (std::int64_t bits = first; bits <= static_cast<std::int64_t>(last); bits += step) {
      const float x = __uint_as_float(static_cast<unsigned>(bits));
      const float result = own(x);
      const double truth = exact(static_cast<double>(x)), got = static_cast<double>(result);
      mine.digest += (static_cast<std::uint64_t>(bits) << 32 | __float_as_uint(result)) * 0x9e3779b97f4a7c15u >> 7;
      int e = 0;
      std::frexp(truth, &e);
      mine.take(std::fabs(got - truth) * kernels::power_of_two(0., FLT_MANT_DIG - std::max(e, FLT_MIN_EXP)),
                static_cast<double>(x));
    }
#pragma omp critical
    {
      all.take(mine.ulp, mine.at);
      all.digest += mine.digest;
    }
  }
  return all;
}

const auto own_exp = [](auto x) { return kernels::exponential(x); };
const auto own_log = [](auto x) { return kernels::logarithm(x); };

Worst sweep_exp(std::uint32_t step) {
  Worst w = sweep(step, 0x32800000u, 0x42b17217u, own_exp, [](double x) { return std::exp(x); });               // to 88.72283
  const Worst negative = sweep(step, 0xb2800000u, 0xc2cff1b4u, own_exp, [](double x) { return std::exp(x); });  // to -103.97
  w.take(negative.ulp, negative.at);
  w.digest += negative.digest;
  return w;
}
Worst sweep_log(std::uint32_t step) {
  return sweep(step, 1u, 0x7f7fffffu, own_log, [](double x) { return std::log(x); });
}

template <class Own, class Exact>
Worst sample(double low, double high, Own own, Exact exact) {
  std::mt19937_64 random(5);
  std::uniform_real_distribution<double> uniform(low, high);
  Worst w;
  for (int i = 0; i < 1000000; ++i) {
    const double x = uniform(random);
    const long double truth = exact(static_cast<long double>(x));
    w.take(static_cast<double>(std::fabs(static_cast<long double>(own(x)) - truth) / ulp_at<double>(truth)), x);
  }
  return w;
}

TEST_CASE(
    "fp32 exponential and logarithm stay within their ulp on every 997th bit pattern, with the same bits in every build") {
  const Worst e = sweep_exp(997), l = sweep_log(997);
  INFO("exp " << e.ulp << " at " << e.at << ", log " << l.ulp << " at " << l.at);
  CHECK(e.ulp <= 1.1);
  CHECK(l.ulp <= 1.1);
  CHECK(e.digest == 2095271878529011667u);
  CHECK(l.digest == 2919118068029607047u);
}

TEST_CASE("fp32 exponential and logarithm stay within their ulp on every bit pattern" * doctest::skip()) {
  const Worst e = sweep_exp(1), l = sweep_log(1);
  INFO("exp " << e.ulp << " at " << e.at << ", log " << l.ulp << " at " << l.at);
  CHECK(e.ulp <= 1.1);
  CHECK(l.ulp <= 1.1);
}

TEST_CASE("fp64 exponential and logarithm stay within their ulp on a million arguments each") {
  const auto exp = [](long double x) { return std::exp(x); };
  const auto log = [](long double x) { return std::log(x); };
  const Worst e[] = {sample(-1, 1, own_exp, exp), sample(-708, 709, own_exp, exp), sample(-745, -708, own_exp, exp)};
  const Worst l[] = {sample(0.5, 2, own_log, log), sample(0.7, 0.7072, own_log, log), sample(1e-300, 1e300, own_log, log),
                     sample(5e-324, 1e-308, own_log, log), sample(0.999, 1.001, own_log, log)};
  for (const Worst& w : e) {
    INFO("exp " << w.ulp << " at " << w.at);
    CHECK(w.ulp <= 1.1);
  }
  for (const Worst& w : l) {
    INFO("log " << w.ulp << " at " << w.at);
    CHECK(w.ulp <= 1.1);
  }
}

TEST_CASE("exponential and logarithm give the limits of IEEE 754, and 1 and 0 exactly") {
  const auto limits = [](auto inf) {
    using T = decltype(inf);
    CHECK(kernels::exponential(inf) == inf);
    CHECK(kernels::exponential(-inf) == 0);
    CHECK(kernels::exponential(T(0)) == 1);
    CHECK(kernels::exponential(-T(0)) == 1);
    CHECK(std::isnan(kernels::exponential(T(NAN))));
    CHECK(kernels::logarithm(inf) == inf);
    CHECK(kernels::logarithm(T(0)) == -inf);
    CHECK(kernels::logarithm(-T(0)) == -inf);
    CHECK(std::isnan(kernels::logarithm(T(-1))));
    CHECK(std::isnan(kernels::logarithm(-inf)));
    CHECK(std::isnan(kernels::logarithm(T(NAN))));
    CHECK(kernels::logarithm(T(1)) == 0);
  };
  limits(INFINITY);
  limits(static_cast<double>(INFINITY));
  CHECK(kernels::exponential(88.72284f) == INFINITY);
  CHECK(kernels::exponential(-103.98f) == 0);
  CHECK(kernels::exponential(709.79) == INFINITY);
  CHECK(kernels::exponential(-745.14) == 0);
  for (std::uint32_t bits = 0; bits < 0x32800000u; bits += 99991)  // |x| < 2^-26: nearest to 1
    for (const std::uint32_t sign : {0u, 0x80000000u}) CHECK(kernels::exponential(__uint_as_float(bits | sign)) == 1);
}

}  // namespace
}  // namespace assay::emulator
