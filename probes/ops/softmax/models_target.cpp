// SPDX-License-Identifier: Apache-2.0
// "model": softmax in the correct ways that libraries compute it. None may ever be flagged.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "probes/ops/softmax/row_memory.hpp"
#include "probes/ops/variant_table.hpp"

namespace assay::softmax {

namespace {

template <class T>
constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

template <class T>
T sequential(const std::vector<T>& e) {
  T sum = 0;
  for (const T v : e) sum += v;
  return sum;
}

template <class T>
T pairwise(const T* e, std::size_t n) {
  if (n <= 2) return n == 0 ? T{0} : n == 1 ? e[0] : e[0] + e[1];
  return pairwise(e, n / 2) + pairwise(e + n / 2, n - n / 2);
}

/// 32 interleaved sums, then a tree: SIMD lanes, a warp.
template <class T>
T lanes(const std::vector<T>& e) {
  std::array<T, 32> sum{};
  for (std::size_t i = 0; i < e.size(); ++i) sum[i % 32] += e[i];
  return pairwise(sum.data(), sum.size());
}

/// y of one row from its maximum, exponentials and sum.
template <class T>
void finish(const std::vector<T>& x, T max, std::vector<T>& e, T sum, bool log) {
  const T log_sum = log ? std::log(sum) : T{0};
  for (std::size_t i = 0; i < x.size(); ++i) e[i] = log ? (x[i] - max) - log_sum : e[i] / sum;
}

template <class T, class Exp>
T exponentials(const std::vector<T>& x, std::vector<T>& e, const Exp& exp) {
  const T max = row_max(x.data(), x.size(), minus_infinity<T>);
  e.resize(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) e[i] = exp(x[i] - max);
  return max;
}

template <class T>
std::vector<T> two_pass(const std::vector<T>& x, bool log) {
  std::vector<T> e;
  const T max = exponentials(x, e, [](T v) { return std::exp(v); });
  finish(x, max, e, sequential(e), log);
  return e;
}

/// Pairwise sum, multiplication by the reciprocal.
template <class T>
std::vector<T> reciprocal(const std::vector<T>& x, bool log) {
  std::vector<T> e;
  const T max = exponentials(x, e, [](T v) { return std::exp(v); }), sum = pairwise(e.data(), e.size()), inverse = 1 / sum;
  if (log)
    finish(x, max, e, sum, true);
  else
    for (T& v : e) v *= inverse;
  return e;
}

/// Off by -2 to 2 units in the last place, chosen by the bits of the value: as documented for GPU and SIMD maths libraries.
template <class T>
T two_ulp_off(T v) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  if (!(v > std::numeric_limits<T>::min() * 4) || !std::isfinite(v) || v == 1) return v;  // exp(0) is 1 everywhere
  const auto bits = std::bit_cast<Bits>(v);
  return std::bit_cast<T>(static_cast<Bits>(bits + bits * 2654435761U % 5 - 2));
}

template <class T>
std::vector<T> lanes_two_ulp(const std::vector<T>& x, bool log) {
  std::vector<T> e;
  const T max = exponentials(x, e, [](T v) { return two_ulp_off(std::exp(v)); });
  finish(x, max, e, lanes(e), log);
  return e;
}

/// exp as 2^(x log2 e), the product rounded: what fast-math does.
template <class T>
std::vector<T> exp2_form(const std::vector<T>& x, bool log) {
  std::vector<T> e;
  const T max = exponentials(x, e, [](T v) { return std::exp2(v * static_cast<T>(1.4426950408889634)); });
  finish(x, max, e, lanes(e), log);
  return e;
}

/// Four parts with a maximum each; their sums and stored exponentials are rescaled to the common one.
template <class T>
std::vector<T> split(const std::vector<T>& x, bool log) {
  std::vector<T> e(x.size());
  std::array<T, 4> part_max{}, part_sum{};
  T max = minus_infinity<T>;
  const auto begin = [&](std::size_t part) { return x.size() * part / 4; };
  for (std::size_t p = 0; p < 4; ++p) {
    part_max[p] = row_max(x.data() + begin(p), begin(p + 1) - begin(p), minus_infinity<T>);
    // A part of nothing but -Inf adds nothing.
    for (std::size_t i = begin(p); i < begin(p + 1); ++i) {
      e[i] = part_max[p] == minus_infinity<T> ? T{0} : std::exp(x[i] - part_max[p]);
      part_sum[p] += e[i];
    }
    max = row_max(&part_max[p], 1, max);
  }
  T sum = 0;
  std::array<T, 4> factor{};
  for (std::size_t p = 0; p < 4; ++p) {
    factor[p] = std::exp(part_max[p] - max);  // NaN when the whole row is -Inf
    sum += part_sum[p] * factor[p];
  }
  for (std::size_t p = 0; p < 4; ++p)
    for (std::size_t i = begin(p); i < begin(p + 1); ++i) e[i] *= factor[p];
  finish(x, max, e, sum, log);
  return e;
}

/// One pass with a running maximum over blocks; what was summed is rescaled whenever it grows. A fully masked row is zero.
template <class T>
std::vector<T> online(const std::vector<T>& x, bool log, std::size_t block) {
  T max = minus_infinity<T>, sum = 0;
  for (std::size_t i = 0; i < x.size(); i += block) {
    const std::size_t count = std::min(block, x.size() - i);
    const T next = row_max(x.data() + i, count, max);
    if (next == minus_infinity<T>) continue;
    T part = 0;
    for (std::size_t l = i; l < i + count; ++l) part += std::exp(x[l] - next);
    sum = sum * std::exp(max - next) + part;
    max = next;
  }
  std::vector<T> e(x.size(), log ? minus_infinity<T> : T{0});
  if (max == minus_infinity<T>) return e;
  for (std::size_t i = 0; i < x.size(); ++i) e[i] = std::exp(x[i] - max);
  finish(x, max, e, sum, log);
  return e;
}
template <class T>
std::vector<T> online_1(const std::vector<T>& x, bool log) {
  return online(x, log, 1);
}
template <class T>
std::vector<T> online_64(const std::vector<T>& x, bool log) {
  return online(x, log, 64);
}

struct Model {
  std::string_view name, source;
  std::vector<float> (*in_f32)(const std::vector<float>&, bool);
  std::vector<double> (*in_f64)(const std::vector<double>&, bool);
  bool masked_row_is_zero = false;
  double function_ulps_per_x = 0;
};

// The rounded product moves the argument by u |x| and log2(e) itself by 0.22 u |x|; u is half a unit in the last place, or all
// of it.
constexpr double exp2_slope = 0.625;

constexpr Model models[] = {
    {"two_pass", "maximum, exp, sequential sum, division", two_pass, two_pass},
    {"reciprocal", "pairwise sum, multiplication by its reciprocal", reciprocal, reciprocal},
    {"two_ulp", "32 lanes and a tree, exp off by up to 2 ulp", lanes_two_ulp, lanes_two_ulp},
    {"exp2", "exp as 2^(x log2 e), declared so", exp2_form, exp2_form, false, exp2_slope},
    {"split", "four parts with their own maxima", split, split},
    {"online", "running maximum element by element", online_1, online_1, true},
    {"online_64", "running maximum in blocks of 64, as flash-style kernels do", online_64, online_64, true},
};

class ModelCall final : public assay::Call {
 public:
  ModelCall(const Problem& p, const Model& model) : problem_(p), call_(call_of(p)), model_(model) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 ? rows<double>(model_.in_f64) : rows<float>(model_.in_f32); }

  CallReport report() override {
    CallReport r;
    r.arithmetic = {.operand = call_.in,
                    .accumulator = compute_format(call_),
                    .output = call_.out,
                    .function_ulps_per_x = model_.function_ulps_per_x};
    r.contract = contract_of("model", model_.masked_row_is_zero);
    r.algorithm = std::string(model_.name);
    r.facts["source"] = std::string(model_.source);
    return r;
  }

 private:
  template <class T, class F>
  void rows(F* row) const {
    for (std::int64_t r = 0; r < call_.rows; ++r)
      write_row(problem_, call_, images_, r, row(read_row<T>(problem_, call_, images_, r, call_.ldx), call_.log), call_.n);
  }

  Problem problem_;
  softmax::Call call_;
  const Model& model_;
  std::vector<Image> images_;
};

}  // namespace

Target model_target() {
  return model_table<Model>(
      "softmax", "correct ways to compute softmax", models,
      [](const Problem& p, const Model& m) -> std::unique_ptr<assay::Call> { return std::make_unique<ModelCall>(p, m); });
}

std::vector<std::string> clean_cases() {
  // Every family in fp32 and with 16-bit data, both kinds; the smallest shapes; long rows of repeated values.
  std::vector<std::string> ids;
  for (const Family f : logit_families())
    for (const char* rest :
         {"rows=5,n=67", "rows=5,n=130,kind=log", "rows=4,n=65,in=bf16", "rows=4,n=40,in=f16,kind=log", "rows=3,n=70,in=f64"})
      ids.push_back(fmt::format("g1:softmax:{},fill={}", rest, name(f)));
  for (const char* rest : {"rows=1,n=1",
                           "rows=1,n=1,kind=log,fill=two_level",
                           "rows=7,n=1,in=bf16",
                           "rows=1,n=2,in=f16,fill=uniform",
                           "rows=1,n=3,in=f64,kind=log",
                           "rows=3,n=1,fill=constant",
                           "rows=2,n=1,fill=all_masked",
                           "rows=1,n=5,fill=all_masked,kind=log",
                           "rows=2,n=128,fill=constant",
                           "rows=2,n=4096,fill=two_level",
                           "rows=2,n=4096,fill=two_level,kind=log",
                           "rows=2,n=3000,fill=constant",
                           "rows=2,n=2048,sigma=16",
                           "rows=2,n=2048,fill=uniform,kind=log",
                           "rows=2,n=2000,in=bf16,out=f32",
                           "rows=8,n=256,fill=dyadic",
                           "rows=4,n=300,sigma=32,kind=log",
                           "rows=3,n=257,sigma=8,fill=heavy",
                           "rows=3,n=257,in=f16,out=f32,sigma=4,fill=masked",
                           "rows=4,n=33,padx=3,pady=2,off=1"})
    ids.push_back(std::string("g1:softmax:") + rest);
  return ids;
}

}  // namespace assay::softmax
