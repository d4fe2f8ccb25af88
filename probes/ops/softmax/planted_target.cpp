// SPDX-License-Identifier: Apache-2.0
// "planted": a correct two-pass softmax with exactly one fault, through the same path as a real library. Variant "none" has
// none.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "probes/ops/softmax/row_memory.hpp"
#include "probes/ops/variant_table.hpp"

namespace assay::softmax {

namespace {

enum class Flaw {
  none,
  no_max_subtraction,
  max_from_zero,
  stale_max,
  fast_exp,
  rounded_exponentials,
  sum_in_bf16,
  last_element_lost,
  tail_counted,
  missing_rescale,
  stale_sum,
  sentinel,
  nan_swallowed,
  subnormals_flushed,
  wrong_row,
  stride_ignored,
  tail_unwritten,
  gap_written,
  shifted_log_sum,
  log_of_softmax,
};

struct Fault {
  Flaw flaw;
  std::string_view name, what;
  std::vector<std::string> cases;
};

std::vector<Fault> all_faults() {
  const std::string op = "g1:softmax:";
  const std::string plain = op + "rows=16,n=130", peaked = op + "rows=16,n=130,sigma=16", logs = op + "rows=16,n=130,kind=log",
                    wide = op + "rows=16,n=130,in=f64", half = op + "rows=16,n=130,in=bf16",
                    extreme = op + "rows=32,n=40,fill=extreme", shifted = op + "rows=32,n=40,fill=shifted";
  return {
      {Flaw::no_max_subtraction, "no_max_subtraction", "the maximum is not subtracted", {extreme, shifted}},
      {Flaw::max_from_zero, "max_from_zero", "the running maximum starts at 0 instead of -Inf", {extreme, shifted}},
      {Flaw::stale_max, "stale_max", "later calls use the maxima of the first", {peaked, extreme}},
      {Flaw::fast_exp,
       "fast_exp",
       "exp is 2^(x log2 e) with a rounded product, and declared accurate",
       {op + "rows=64,n=256,fill=dyadic", op + "rows=64,n=100,fill=dyadic,in=bf16,out=f32"}},
      {Flaw::rounded_exponentials,
       "rounded_exponentials",
       "exponentials are stored in bf16 before they are normalised, so bf16 results are rounded twice",
       {plain, half, op + "rows=16,n=130,in=f16"}},
      {Flaw::sum_in_bf16, "sum_in_bf16", "the sum is accumulated in bf16", {plain, logs, half}},
      {Flaw::last_element_lost,
       "last_element_lost",
       "the last element of each row is missing from the sum",
       {plain, wide, logs}},
      {Flaw::tail_counted,
       "tail_counted",
       "zeros that fill the row up to a multiple of 8 are counted in the sum",
       {plain, wide, logs}},
      {Flaw::missing_rescale,
       "missing_rescale",
       "the running sum is not rescaled when the maximum grows",
       {plain, peaked, logs}},
      {Flaw::stale_sum, "stale_sum", "each row is divided by the sum of the row before", {plain, peaked, logs}},
      {Flaw::sentinel,
       "sentinel",
       "-Inf is replaced by -10000",
       {op + "rows=8,n=33,fill=all_masked", op + "rows=8,n=33,fill=all_masked,kind=log"}},
      {Flaw::nan_swallowed,
       "nan_swallowed",
       "NaN is treated as -Inf",
       {op + "rows=8,n=33,fill=nan_one", op + "rows=1,n=5,fill=nan_one"}},
      {Flaw::subnormals_flushed,
       "subnormals_flushed",
       "exponentials and results below the smallest normal number are 0",
       {op + "rows=4,n=67,fill=vanishing", op + "rows=4,n=67,in=f64,fill=vanishing"}},
      {Flaw::wrong_row, "wrong_row", "one row holds the result of its neighbour", {plain, peaked, wide}},
      {Flaw::stride_ignored, "stride_ignored", "rows are read n elements apart, whatever the stride", {plain + ",padx=3"}},
      {Flaw::tail_unwritten,
       "tail_unwritten",
       "what exceeds a multiple of 16 in a row is not written",
       {plain, op + "rows=3,n=5", half}},
      {Flaw::gap_written, "gap_written", "the element behind each row but the last is overwritten", {plain + ",pady=2"}},
      {Flaw::shifted_log_sum,
       "shifted_log_sum",
       "log-softmax subtracts max + log S at once, which loses log S beside a large maximum",
       {shifted + ",kind=log"}},
      {Flaw::log_of_softmax,
       "log_of_softmax",
       "log-softmax is the logarithm of softmax, -Inf where that underflows",
       {extreme + ",kind=log", op + "rows=16,n=130,sigma=32,kind=log"}},
  };
}

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

class PlantedCall final : public assay::Call {
 public:
  PlantedCall(const Problem& p, Fault fault) : problem_(p), call_(call_of(p)), fault_(std::move(fault)) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 ? all_rows<double>() : all_rows<float>(); }

  CallReport report() override {
    CallReport r;
    r.arithmetic = {.operand = call_.in, .accumulator = compute_format(call_), .output = call_.out};
    r.contract = contract_of("planted");
    r.algorithm = "maximum, exp, sequential sum, division";
    r.facts["fault"] = std::string(fault_.what);
    return r;
  }

 private:
  bool has(Flaw f) const { return fault_.flaw == f; }

  template <class T>
  void all_rows() {
    std::vector<std::vector<T>> y;
    T previous_sum = 0;
    for (std::int64_t r = 0; r < call_.rows; ++r) {
      std::vector<T> x = read_row<T>(problem_, call_, images_, r, has(Flaw::stride_ignored) ? call_.n : call_.ldx);
      y.push_back(row(x, r, previous_sum));
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
        std::memset(images_[1].storage + (problem_.operands[1].offset + r * call_.ldy + call_.n) *
                                             static_cast<std::int64_t>(size_bytes(call_.out)),
                    0, size_bytes(call_.out));
    }
  }

  template <class T>
  T exponential(T v) const {
    T e = has(Flaw::fast_exp) ? std::exp2(v * static_cast<T>(1.4426950408889634)) : std::exp(v);
    if (has(Flaw::rounded_exponentials)) e = static_cast<T>(round_to(DType::bf16, static_cast<double>(e)));
    return has(Flaw::subnormals_flushed) ? flushed(e) : e;
  }

  template <class T>
  T maximum(const std::vector<T>& x, std::int64_t r) {
    if (has(Flaw::no_max_subtraction)) return 0;
    const T max = row_max(x.data(), x.size(), has(Flaw::max_from_zero) ? T{0} : static_cast<T>(minus_infinity));
    if (!has(Flaw::stale_max)) return max;
    if (r == std::ssize(first_maxima_)) first_maxima_.push_back(static_cast<double>(max));
    return static_cast<T>(first_maxima_[static_cast<std::size_t>(r)]);
  }

  template <class T>
  T sum_of(const std::vector<T>& x, const std::vector<T>& e, T max) const {
    T sum = 0;
    const std::size_t n = e.size() - (has(Flaw::last_element_lost) && !e.empty());
    if (has(Flaw::missing_rescale)) {
      T running = static_cast<T>(minus_infinity);
      for (std::size_t i = 0; i < n; i += 32) {
        const std::size_t count = std::min<std::size_t>(32, n - i);
        running = row_max(x.data() + i, count, running);
        for (std::size_t l = i; l < i + count; ++l) sum += exponential(x[l] - running);
      }
      return sum;
    }
    for (std::size_t i = 0; i < n; ++i) {
      sum += e[i];
      if (has(Flaw::sum_in_bf16)) sum = static_cast<T>(round_to(DType::bf16, static_cast<double>(sum)));
    }
    if (has(Flaw::tail_counted)) sum += static_cast<T>((8 - n % 8) % 8) * exponential(-max);
    return sum;
  }

  template <class T>
  std::vector<T> row(std::vector<T>& x, std::int64_t r, T& previous_sum) {
    for (T& v : x) {
      if (has(Flaw::sentinel) && v == static_cast<T>(minus_infinity)) v = -10000;
      if (has(Flaw::nan_swallowed) && std::isnan(v)) v = static_cast<T>(minus_infinity);
    }
    const T max = maximum(x, r);
    std::vector<T> y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) y[i] = exponential(x[i] - max);
    const T own = sum_of(x, y, max), sum = has(Flaw::stale_sum) && r > 0 ? previous_sum : own;
    previous_sum = own;
    const T log_sum = std::log(sum);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!call_.log)
        y[i] = has(Flaw::subnormals_flushed) ? flushed(y[i] / sum) : y[i] / sum;
      else if (has(Flaw::shifted_log_sum))
        y[i] = x[i] - (max + log_sum);
      else if (has(Flaw::log_of_softmax))
        y[i] = std::log(y[i] / sum);
      else
        y[i] = (x[i] - max) - log_sum;
    }
    return y;
  }

  Problem problem_;
  softmax::Call call_;
  Fault fault_;
  std::vector<Image> images_;
  std::vector<double> first_maxima_;  // survives from execution to execution
};

}  // namespace

Target planted_target() {
  return planted_table<Fault>(
      "softmax", "a correct softmax", {Flaw::none, "none", "no fault", {}}, all_faults(),
      [](const Problem& p, const Fault& f) -> std::unique_ptr<assay::Call> { return std::make_unique<PlantedCall>(p, f); });
}

std::vector<PlantedFault> planted_faults() {
  return listed_faults(all_faults());
}

}  // namespace assay::softmax
