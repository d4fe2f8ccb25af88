// SPDX-License-Identifier: Apache-2.0
// "model": activations in the correct ways that libraries compute them. None may ever be flagged.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "probes/ops/activation/row_memory.hpp"
#include "probes/ops/variant_table.hpp"

namespace assay::activation {

namespace {

template <class T>
constexpr T root_2_over_pi = static_cast<T>(0.797884560802865355879892119868763737L);
template <class T>
constexpr T cubic = static_cast<T>(0.044715L);
template <class T>
constexpr T half = static_cast<T>(0.5);
template <class T>
constexpr T root_half = 1 / std::numbers::sqrt2_v<T>;

template <class T>
T inner(T z) {
  return root_2_over_pi<T> * (z + cubic<T> * z * z * z);
}
template <class T>
T relu(T z) {
  return z > 0 || z != z ? z : T{0};
}

/// As defined.
template <class T>
T direct(Kind kind, T z) {
  switch (kind) {
    case Kind::gelu_erf:
      return half<T> * z * (1 + std::erf(z * root_half<T>));
    case Kind::gelu_tanh:
      return half<T> * z * (1 + std::tanh(inner(z)));
    case Kind::silu:
      return z / (1 + std::exp(-z));
    case Kind::relu:
      break;
  }
  return relu(z);
}

/// Without 1 + (something near -1): erfc, and the logistic function multiplied in. -Inf is met with the limit.
template <class T>
T tail(Kind kind, T z) {
  if (z == -std::numeric_limits<T>::infinity()) return 0;
  switch (kind) {
    case Kind::gelu_erf:
      return z * (half<T> * std::erfc(-z * root_half<T>));
    case Kind::gelu_tanh:
      return z * (1 / (1 + std::exp(-2 * inner(z))));
    case Kind::silu:
      return z * (1 / (1 + std::exp(-z)));
    case Kind::relu:
      break;
  }
  return relu(z);
}

/// Everything from exp: tanh w = 1 - 2/(exp(2w) + 1), erf by Abramowitz and Stegun 7.1.26 (error below 1.5e-7; fp64 takes
/// libm's), the logistic function from exp of a negative argument on either side.
template <class T>
T erf_by_exp(T t) {
  if constexpr (sizeof(T) > 4) return std::erf(t);
  const T size = std::fabs(t), s = 1 / (1 + static_cast<T>(0.3275911) * size);
  T p = static_cast<T>(1.061405429);
  for (const double c : {-1.453152027, 1.421413741, -0.284496736, 0.254829592}) p = p * s + static_cast<T>(c);
  return std::copysign(1 - p * s * std::exp(-size * size), t);
}
template <class T>
T exponential(Kind kind, T z) {
  switch (kind) {
    case Kind::gelu_erf:
      return half<T> * z * (1 + (std::isnan(z) ? z : erf_by_exp(z * root_half<T>)));
    case Kind::gelu_tanh:
      return half<T> * z * (1 + (1 - 2 / (std::exp(2 * inner(z)) + 1)));
    case Kind::silu: {
      const T e = std::exp(-std::fabs(z));
      return z * ((z < 0 ? e : 1) / (1 + e));
    }
    case Kind::relu:
      break;
  }
  return relu(z);
}

/// Off by -2 to 2 units in the last place, chosen by the bits of the value, as documented for GPU and SIMD maths libraries.
template <class T>
T two_ulp_off(T v) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const T size = std::fabs(v);
  if (!(size > std::numeric_limits<T>::min() * 4) || !std::isfinite(v) || size == 1) return v;
  const auto bits = std::bit_cast<Bits>(v);
  return std::bit_cast<T>(static_cast<Bits>(bits + bits * 2654435761U % 5 - 2));
}
template <class T>
T two_ulp(Kind kind, T z) {
  const T h = half<T> * z;
  switch (kind) {
    case Kind::gelu_erf:
      return h + h * two_ulp_off(std::erf(z * root_half<T>));
    case Kind::gelu_tanh:
      return h + h * two_ulp_off(std::tanh(inner(z)));
    case Kind::silu:
      return z / (1 + two_ulp_off(std::exp(-z)));
    case Kind::relu:
      break;
  }
  return relu(z);
}

/// Fused multiply-adds and constants multiplied beforehand.
template <class T>
T fused(Kind kind, T z) {
  const T scaled_cubic = static_cast<T>(0.797884560802865355879892119868763737L * 0.044715L), h = half<T> * z;
  switch (kind) {
    case Kind::gelu_erf:
      return std::fma(h, std::erf(z * root_half<T>), h);
    case Kind::gelu_tanh:
      return std::fma(h, std::tanh(z * std::fma(scaled_cubic, z * z, root_2_over_pi<T>)), h);
    case Kind::silu:
      return z / (1 + std::exp(-z));
    case Kind::relu:
      break;
  }
  return z < 0 ? T{0} : z;
}

/// exp as 2^(z log2 e), the product rounded: what fast-math does, declared so.
template <class T>
T exp2_form(Kind kind, T z) {
  const auto exp = [](T v) { return std::exp2(v * static_cast<T>(std::numbers::log2e)); };
  if (kind == Kind::silu) return z / (1 + exp(-z));
  if (kind == Kind::gelu_tanh) return z / (1 + exp(-2 * inner(z)));
  return direct(kind, z);
}

struct Model {
  std::string_view name, source;
  float (*in_f32)(Kind, float);
  double (*in_f64)(Kind, double);
  bool limit_at_infinity = false;
  double function_ulps_per_x = 0;
  bool wide = false;  // 16-bit and fp32 data in fp64, rounded once at the end
};

// The rounded product moves the argument by u |x| and log2(e) itself by 0.22 u |x|; u is half a unit in the last place, or all
// of it.
constexpr double exp2_slope = 0.625;

constexpr Model models[] = {
    {"direct", "erf, tanh, x / (1 + exp(-x)) as defined", direct, direct},
    {"tail", "erfc and the logistic function, exact limits", tail, tail, true},
    {"exponential", "everything from exp", exponential, exponential},
    {"two_ulp", "functions off by up to 2 ulp", two_ulp, two_ulp},
    {"fused", "fused multiply-adds, constants multiplied beforehand", fused, fused},
    {"exp2", "exp as 2^(x log2 e), declared so", exp2_form, exp2_form, false, exp2_slope},
    {"wide", "fp64 inside, rounded once", nullptr, direct, false, 0, true},
};

class ModelCall final : public assay::Call {
 public:
  ModelCall(const Problem& p, const Model& model) : problem_(p), call_(call_of(p)), model_(model) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 || model_.wide ? rows<double>(model_.in_f64) : rows<float>(model_.in_f32); }

  CallReport report() override {
    CallReport r;
    r.arithmetic = {.operand = call_.in,
                    .accumulator = model_.wide ? DType::f64 : compute_format(call_),
                    .output = call_.out,
                    .function_ulps_per_x = model_.function_ulps_per_x};
    r.contract = contract_of("model", model_.limit_at_infinity);
    r.algorithm = std::string(model_.name);
    r.facts["source"] = std::string(model_.source);
    return r;
  }

 private:
  template <class T>
  void rows(T (*f)(Kind, T)) const {
    const std::vector<T> bias = read_bias<T>(problem_, call_, images_);
    for (std::int64_t r = 0; r < call_.rows; ++r) {
      std::vector<T> y = read_row<T>(problem_, call_, images_, r, call_.ldx);
      for (std::size_t i = 0; i < y.size(); ++i) y[i] = f(call_.kind, y[i] + bias[i]);
      write_row(problem_, call_, images_, r, y, call_.n);
    }
  }

  Problem problem_;
  activation::Call call_;
  const Model& model_;
  std::vector<Image> images_;
};

}  // namespace

Target model_target() {
  return model_table<Model>(
      "activation", "correct ways to compute activations", models,
      [](const Problem& p, const Model& m) -> std::unique_ptr<assay::Call> { return std::make_unique<ModelCall>(p, m); });
}

std::vector<std::string> clean_cases() {
  // Every family with two kinds, in formats that take turns; the smallest shapes; wide arguments; loose strides.
  // bench/activation_tightness runs every combination.
  constexpr std::string_view kinds[] = {"gelu_erf", "gelu_tanh", "silu", "relu"},
                             formats[] = {"in=f32",        "in=f64",          "in=bf16",      "in=f16",
                                          "in=f32,bias=1", "in=bf16,out=f32", "in=f16,bias=1"};
  std::vector<std::string> ids;
  std::size_t turn = 0;
  for (const Family f : families())
    for (int half = 0; half < 2; ++half, ++turn)
      ids.push_back(fmt::format("g1:activation:rows=3,n=33,kind={},{},fill={}", kinds[(turn + 2 * (turn / 7)) % 4],
                                formats[turn % std::size(formats)], name(f)));
  for (const char* rest :
       {"rows=1,n=1", "rows=1,n=1,bias=1,in=bf16,kind=silu", "rows=7,n=1,in=f16,bias=1,kind=relu",
        "rows=1,n=2,in=f64,kind=gelu_tanh", "rows=4,n=33,padx=3,pady=2,off=1,bias=1,kind=silu",
        "rows=3,n=65,sigma=4,kind=gelu_tanh", "rows=3,n=65,sigma=32,kind=silu", "rows=3,n=65,sigma=8,in=f64"})
    ids.push_back(std::string("g1:activation:") + rest);
  return ids;
}

}  // namespace assay::activation
