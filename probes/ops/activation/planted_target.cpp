// SPDX-License-Identifier: Apache-2.0
// "planted": activations as defined with exactly one fault, through the same path as a real library. Variant "none" has none.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>
#include <optional>

#include "probes/ops/activation/row_memory.hpp"
#include "probes/ops/variant_table.hpp"

namespace assay::activation {

namespace {

enum class Flaw {
  none,
  tanh_for_erf,
  erf_for_tanh,
  fast_tanh,
  rounded_constant,
  clipped,
  fast_exp,
  silu_overflow,
  rounded_argument,
  bias_lost,
  bias_shifted,
  bias_after,
  nan_swallowed,
  limit_lost,
  tail_identity,
  tail_unwritten,
  wrong_row,
  stale_bias,
  stride_ignored,
  gap_written,
};

struct Fault {
  Flaw flaw;
  std::string_view name, what;
  std::vector<std::string> cases;
};

std::vector<Fault> all_faults() {
  const std::string op = "g1:activation:";
  const std::string plain = op + "rows=16,n=67", half = plain + ",in=bf16", tanh = plain + ",kind=gelu_tanh",
                    silu = plain + ",kind=silu", relu = plain + ",kind=relu", biased = plain + ",bias=1";
  return {
      {Flaw::tanh_for_erf, "tanh_for_erf", "the erf form is computed by the tanh formula", {plain, plain + ",sigma=4"}},
      {Flaw::erf_for_tanh, "erf_for_tanh", "the tanh form is computed from erf", {tanh, tanh + ",in=f16"}},
      {Flaw::fast_tanh, "fast_tanh", "tanh has a relative error of 2^-11 and is declared accurate", {tanh, tanh + ",bias=1"}},
      {Flaw::rounded_constant, "rounded_constant", "sqrt(2/pi) is rounded to bf16", {tanh, tanh + ",in=f16,out=f32"}},
      {Flaw::clipped, "clipped", "arguments below -3 give 0, those above 3 themselves", {plain, half}},
      {Flaw::fast_exp,
       "fast_exp",
       "exp is 2^(x log2 e) with a rounded product, and declared accurate",
       {silu + ",sigma=16", op + "rows=64,n=67,kind=silu,sigma=16"}},
      {Flaw::silu_overflow,
       "silu_overflow",
       "the logistic function is 1 - e/(1 + e) with e = exp(-x), NaN where e overflows",
       {silu + ",fill=extreme", silu + ",fill=patterns"}},
      {Flaw::rounded_argument,
       "rounded_argument",
       "x + b is rounded to bf16 before the function",
       {biased, biased + ",in=bf16", biased + ",kind=relu", biased + ",kind=silu,in=f16"}},
      {Flaw::bias_lost, "bias_lost", "the bias is not added", {biased, biased + ",kind=relu,in=bf16"}},
      {Flaw::bias_shifted, "bias_shifted", "each column has the bias of its neighbour", {biased, biased + ",kind=silu,in=f16"}},
      {Flaw::bias_after, "bias_after", "the bias is added behind the function", {biased, biased + ",kind=relu"}},
      {Flaw::nan_swallowed,
       "nan_swallowed",
       "ReLU turns NaN into 0",
       {relu + ",fill=nan_one", relu + ",fill=patterns", op + "rows=1,n=1,kind=relu,fill=nan_one"}},
      {Flaw::limit_lost,
       "limit_lost",
       "-Inf gives NaN although its limit is promised",
       {plain + ",fill=masked", tanh + ",fill=masked", silu + ",fill=masked"}},
      {Flaw::tail_identity,
       "tail_identity",
       "columns beyond a multiple of 8 pass without the function",
       {plain, relu, half, op + "rows=4,n=5,kind=silu"}},
      {Flaw::tail_unwritten,
       "tail_unwritten",
       "columns beyond a multiple of 16 are not written",
       {plain, relu, op + "rows=3,n=5,kind=silu,in=f16"}},
      {Flaw::wrong_row, "wrong_row", "one row holds the result of its neighbour", {plain, relu, half}},
      {Flaw::stale_bias, "stale_bias", "later calls use the bias of the first", {biased, biased + ",kind=relu"}},
      {Flaw::stride_ignored, "stride_ignored", "rows are read n elements apart, whatever the stride", {plain + ",padx=3"}},
      {Flaw::gap_written, "gap_written", "the element behind each row but the last is overwritten", {plain + ",pady=2"}},
  };
}

class PlantedCall final : public assay::Call {
 public:
  PlantedCall(const Problem& p, Fault fault) : problem_(p), call_(call_of(p)), fault_(std::move(fault)) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 ? all_rows<double>() : all_rows<float>(); }

  CallReport report() override {
    CallReport r;
    r.arithmetic = {.operand = call_.in, .accumulator = compute_format(call_), .output = call_.out};
    r.contract = contract_of("planted", true);
    r.algorithm = "as defined";
    r.facts["fault"] = std::string(fault_.what);
    return r;
  }

 private:
  bool has(Flaw f) const { return fault_.flaw == f; }

  template <class T>
  static T to_bf16(T v) {
    return static_cast<T>(round_to(DType::bf16, static_cast<double>(v)));
  }

  template <class T>
  void all_rows() {
    std::vector<T> bias = read_bias<T>(problem_, call_, images_);
    if (has(Flaw::stale_bias)) {
      if (first_bias_.empty()) first_bias_.assign(bias.begin(), bias.end());
      std::copy(first_bias_.begin(), first_bias_.end(), bias.begin());
    }
    if (has(Flaw::bias_lost)) std::fill(bias.begin(), bias.end(), T{0});
    if (has(Flaw::bias_shifted) && !bias.empty()) std::rotate(bias.begin(), bias.begin() + 1, bias.end());
    std::vector<std::vector<T>> y;
    for (std::int64_t r = 0; r < call_.rows; ++r) {
      y.push_back(read_row<T>(problem_, call_, images_, r, has(Flaw::stride_ignored) ? call_.n : call_.ldx));
      for (std::int64_t i = 0; i < call_.n; ++i) {
        T& v = y.back()[static_cast<std::size_t>(i)];
        const T b = bias[static_cast<std::size_t>(i)];
        if (has(Flaw::tail_identity) && i >= call_.n / 8 * 8)
          v += b;
        else
          v = has(Flaw::bias_after) ? activate(v) + b : activate(v + b);
      }
    }
    // The row that is hit depends on the case, not on the execution.
    if (has(Flaw::wrong_row) && call_.rows > 1) {
      const auto hit = static_cast<std::size_t>(problem_.seed % static_cast<std::uint64_t>(call_.rows));
      y[hit] = y[(hit + 1) % y.size()];
    }
    for (std::int64_t r = 0; r < call_.rows; ++r) {
      write_row(problem_, call_, images_, r, y[static_cast<std::size_t>(r)],
                has(Flaw::tail_unwritten) ? call_.n / 16 * 16 : call_.n);
      if (has(Flaw::gap_written) && r + 1 < call_.rows && call_.ldy > call_.n)
        std::memset(images_[call_.y_index()].storage + (problem_.operands[call_.y_index()].offset + r * call_.ldy + call_.n) *
                                                           static_cast<std::int64_t>(size_bytes(call_.out)),
                    0, size_bytes(call_.out));
    }
  }

  template <class T>
  T tanh_form(T z) const {
    T root = static_cast<T>(0.797884560802865355879892119868763737L);
    if (has(Flaw::rounded_constant)) root = to_bf16(root);
    T t = std::tanh(root * (z + static_cast<T>(0.044715) * z * z * z));
    if (has(Flaw::fast_tanh)) t *= 1 - static_cast<T>(0x1p-11);
    return static_cast<T>(0.5) * z * (1 + t);
  }
  template <class T>
  static T erf_form(T z) {
    return static_cast<T>(0.5) * z * (1 + std::erf(z / std::numbers::sqrt2_v<T>));
  }
  template <class T>
  T silu(T z) const {
    const T e = has(Flaw::fast_exp) ? std::exp2(-z * std::numbers::log2e_v<T>) : std::exp(-z);
    return has(Flaw::silu_overflow) ? z * (1 - e / (1 + e)) : z / (1 + e);
  }

  template <class T>
  T activate(T z) const {
    if (has(Flaw::rounded_argument)) z = to_bf16(z);
    if (call_.kind == Kind::relu) return has(Flaw::nan_swallowed) ? std::fmax(z, T{0}) : z < 0 ? T{0} : z;
    if (has(Flaw::clipped) && std::fabs(z) > 3) return z < 0 ? T{0} : z;
    if (!has(Flaw::limit_lost) && z == -std::numeric_limits<T>::infinity()) return 0;
    if (call_.kind == Kind::silu) return silu(z);
    const bool tanh = call_.kind == Kind::gelu_tanh ? !has(Flaw::erf_for_tanh) : has(Flaw::tanh_for_erf);
    return tanh ? tanh_form(z) : erf_form(z);
  }

  Problem problem_;
  activation::Call call_;
  Fault fault_;
  std::vector<Image> images_;
  std::vector<double> first_bias_;  // survives from execution to execution
};

}  // namespace

Target planted_target() {
  return planted_table<Fault>(
      "activation", "correct activations", {Flaw::none, "none", "no fault", {}}, all_faults(),
      [](const Problem& p, const Fault& f) -> std::unique_ptr<assay::Call> { return std::make_unique<PlantedCall>(p, f); });
}

std::vector<PlantedFault> planted_faults() {
  return listed_faults(all_faults());
}

}  // namespace assay::activation
