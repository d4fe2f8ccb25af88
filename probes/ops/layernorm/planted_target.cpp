// SPDX-License-Identifier: Apache-2.0
// "planted": a correct two-pass normalisation with exactly one fault, through the same path as a real library. Variant "none"
// has none.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <optional>

#include "probes/ops/layernorm/row_memory.hpp"
#include "probes/ops/variant_table.hpp"

namespace assay::layernorm {

namespace {

enum class Flaw {
  none,
  one_pass_variance,
  eps_beside_deviation,
  eps_lost,
  unbiased_variance,
  beta_lost,
  neighbour_gamma,
  stale_statistics,
  last_element_lost,
  tail_counted,
  mean_kept,
  statistics_in_bf16,
  fp64_in_fp32,
  nan_swallowed,
  wrong_row,
  stride_ignored,
  tail_unwritten,
  gap_written,
  rstd_holds_deviation,
  rstd_holds_inverse_variance,
  rstd_unwritten,
};

struct Fault {
  Flaw flaw;
  std::string_view name, what;
  std::vector<std::string> cases;
};

std::vector<Fault> all_faults() {
  const std::string op = "g1:layernorm:";
  const std::string plain = op + "rows=16,n=130,gamma=1,beta=1,stats=1", bare = op + "rows=16,n=130",
                    wide = op + "rows=16,n=130,in=f64", half = op + "rows=16,n=130,in=bf16",
                    rms = op + "rows=16,n=130,kind=rms", far = op + "rows=16,n=130,fill=offset",
                    near = op + "rows=16,n=130,fill=offset,offset=4,stats=1";
  return {
      {Flaw::one_pass_variance,
       "one_pass_variance",
       "the variance is mean(x^2) - mean^2",
       {near, far, op + "rows=16,n=384,fill=shifted", op + "rows=16,n=384,fill=extreme"}},
      {Flaw::eps_beside_deviation,
       "eps_beside_deviation",
       "eps is added to the deviation instead of the variance",
       {plain, bare + ",eps=1e-3", rms, rms + ",eps=1e-3"}},
      {Flaw::eps_lost, "eps_lost", "eps is left out", {op + "rows=16,n=128,fill=constant,in=bf16", bare + ",eps=1e-3", rms}},
      {Flaw::unbiased_variance, "unbiased_variance", "the sum of squares is divided by n - 1", {plain, rms, half}},
      {Flaw::beta_lost, "beta_lost", "the shift is not added", {plain}},
      {Flaw::neighbour_gamma, "neighbour_gamma", "each column has the scale of the next", {plain, rms + ",gamma=1"}},
      {Flaw::stale_statistics, "stale_statistics", "later calls use the statistics of the first", {plain, rms}},
      {Flaw::last_element_lost,
       "last_element_lost",
       "the last element of each row is missing from the sums",
       {plain, wide, rms}},
      {Flaw::tail_counted,
       "tail_counted",
       "zeros that fill the row up to a multiple of 8 count as deviations from the mean",
       {far, near, op + "rows=16,n=67,fill=uniform"}},
      {Flaw::mean_kept, "mean_kept", "the mean is not subtracted, as in RMS normalisation", {plain, far}},
      {Flaw::statistics_in_bf16, "statistics_in_bf16", "mean and rstd are rounded to bf16", {plain, half, rms}},
      {Flaw::fp64_in_fp32, "fp64_in_fp32", "fp64 data is normalised in fp32", {wide, wide + ",kind=rms"}},
      {Flaw::nan_swallowed,
       "nan_swallowed",
       "NaN counts as zero",
       {op + "rows=8,n=33,fill=nan_one", op + "rows=1,n=5,fill=nan_one,kind=rms"}},
      {Flaw::wrong_row, "wrong_row", "one row holds the result of its neighbour", {plain, wide, rms}},
      {Flaw::stride_ignored, "stride_ignored", "rows are read n elements apart, whatever the stride", {plain + ",padx=3"}},
      {Flaw::tail_unwritten,
       "tail_unwritten",
       "what exceeds a multiple of 16 in a row is not written",
       {plain, op + "rows=3,n=5", half}},
      {Flaw::gap_written, "gap_written", "the element behind each row but the last is overwritten", {plain + ",pady=2"}},
      {Flaw::rstd_holds_deviation, "rstd_holds_deviation", "the output rstd is its inverse", {plain, rms + ",stats=1"}},
      {Flaw::rstd_holds_inverse_variance,
       "rstd_holds_inverse_variance",
       "the output rstd is its square",
       {plain, rms + ",stats=1"}},
      {Flaw::rstd_unwritten,
       "rstd_unwritten",
       "the output rstd is written for all rows but the last",
       {plain, rms + ",stats=1"}},
  };
}

class PlantedCall final : public assay::Call {
 public:
  PlantedCall(const Problem& p, Fault fault) : problem_(p), call_(call_of(p)), fault_(std::move(fault)) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override {
    if (call_.n > 0) call_.in == DType::f64 && !has(Flaw::fp64_in_fp32) ? all_rows<double>() : all_rows<float>();
  }

  CallReport report() override {
    CallReport r;
    r.arithmetic = {.operand = call_.in, .accumulator = compute_format(call_), .output = call_.out};
    r.contract = own_contract("planted");
    r.algorithm = "two passes, sequential sums";
    r.facts["fault"] = std::string(fault_.what);
    return r;
  }

 private:
  bool has(Flaw f) const { return fault_.flaw == f; }

  template <class T>
  struct Statistics {
    T mean = 0, square = 0;  // square: variance or mean square
  };

  template <class T>
  void all_rows() {
    const Columns<T> columns(problem_, call_, images_);
    const Operand &in = problem_.operands[call_.x], &out = problem_.operands[call_.y];
    const std::int64_t stride = has(Flaw::stride_ignored) ? call_.n : call_.ldx;
    // The row that is hit depends on the case, not on the execution.
    const auto hit =
        static_cast<std::int64_t>(problem_.seed % static_cast<std::uint64_t>(std::max<std::int64_t>(1, call_.rows)));
    for (std::int64_t r = 0; r < call_.rows; ++r) {
      const std::int64_t from = has(Flaw::wrong_row) && r == hit ? (r + 1) % call_.rows : r;
      std::vector<T> x = read_run<T>(in, images_[call_.x], from * stride, call_.n);
      if (has(Flaw::nan_swallowed))
        for (T& v : x) v = std::isnan(v) ? T{0} : v;
      Statistics<T> s = remembered(r, statistics(x));
      T rstd = 1 / std::sqrt(s.square + (has(Flaw::eps_lost) ? T{0} : static_cast<T>(call_.eps)));
      if (has(Flaw::eps_beside_deviation)) rstd = 1 / (std::sqrt(s.square) + static_cast<T>(call_.eps));
      if (has(Flaw::statistics_in_bf16)) s.mean = in_bf16(s.mean), rstd = in_bf16(rstd);
      normalise(x, s.mean, rstd, columns);
      write_run(out, images_[call_.y], r * call_.ldy, x, has(Flaw::tail_unwritten) ? call_.n / 16 * 16 : call_.n);
      if (has(Flaw::rstd_holds_deviation)) rstd = 1 / rstd;
      if (has(Flaw::rstd_holds_inverse_variance)) rstd *= rstd;
      if (!has(Flaw::rstd_unwritten) || r + 1 < call_.rows) write_statistics(problem_, call_, images_, r, s.mean, rstd);
      if (has(Flaw::gap_written) && r + 1 < call_.rows && call_.ldy > call_.n)
        write_run(out, images_[call_.y], r * call_.ldy + call_.n, std::vector<T>{0}, 1);
    }
  }

  template <class T>
  static T in_bf16(T v) {
    return static_cast<T>(round_to(DType::bf16, static_cast<double>(v)));
  }

  template <class T>
  void normalise(std::vector<T>& x, T mean, T rstd, const Columns<T>& columns) const {
    const std::size_t shift = has(Flaw::neighbour_gamma) ? 1 : 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const T d = has(Flaw::mean_kept) ? x[i] : x[i] - mean;
      x[i] = d * rstd * columns.gamma[(i + shift) % x.size()] + (has(Flaw::beta_lost) ? T{0} : columns.beta[i]);
    }
  }

  template <class T>
  Statistics<T> statistics(const std::vector<T>& x) const {
    Statistics<T> s;
    const T n = static_cast<T>(x.size());
    const std::size_t counted = x.size() - has(Flaw::last_element_lost);
    T sum = 0, squares = 0;
    for (std::size_t i = 0; i < counted; ++i) sum += x[i];
    if (!call_.rms) s.mean = sum / n;
    const T centre = has(Flaw::one_pass_variance) || has(Flaw::mean_kept) ? T{0} : s.mean;
    for (std::size_t i = 0; i < counted; ++i) squares += (x[i] - centre) * (x[i] - centre);
    if (has(Flaw::tail_counted)) squares += static_cast<T>((8 - x.size() % 8) % 8) * centre * centre;
    s.square = squares / (has(Flaw::unbiased_variance) ? n - 1 : n);
    if (has(Flaw::one_pass_variance)) s.square = std::max(T{0}, s.square - s.mean * s.mean);
    return s;
  }

  /// stale_statistics: those that the first call had for this row.
  template <class T>
  Statistics<T> remembered(std::int64_t row, Statistics<T> s) {
    if (!has(Flaw::stale_statistics)) return s;
    if (row == std::ssize(first_)) first_.push_back({static_cast<double>(s.mean), static_cast<double>(s.square)});
    const Statistics<double>& old = first_[static_cast<std::size_t>(row)];
    return {static_cast<T>(old.mean), static_cast<T>(old.square)};
  }

  Problem problem_;
  layernorm::Call call_;
  Fault fault_;
  std::vector<Image> images_;
  std::vector<Statistics<double>> first_;  // survives from execution to execution
};

}  // namespace

Target planted_target() {
  return planted_table<Fault>(
      "layernorm", "a correct normalisation", {Flaw::none, "none", "no fault", {}}, all_faults(),
      [](const Problem& p, const Fault& f) -> std::unique_ptr<assay::Call> { return std::make_unique<PlantedCall>(p, f); });
}

std::vector<PlantedFault> planted_faults() {
  return listed_faults(all_faults());
}

}  // namespace assay::layernorm
