// SPDX-License-Identifier: Apache-2.0
// "planted": attention with a running maximum in blocks of 32 keys and one thing wrong, through the real path.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "probes/ops/attention/heads.hpp"
#include "probes/ops/variant_table.hpp"

namespace assay::attention {

namespace {

enum class Flaw {
  none,
  causal_off_by_one,
  causal_corner,
  window_off_by_one,
  length_ignored,
  tail_counted,
  last_block_lost,
  unscaled,
  scale_twice,
  no_max_subtraction,
  max_from_zero,
  missing_rescale,
  sentinel,
  weights_in_bf16,
  scores_in_bf16,
  accumulator_in_bf16,
  heads_interleaved,
  bias_of_head_0,
  bias_lost,
  nan_swallowed,
  subnormals_flushed,
  width_tail_lost,
  value_width,
  lse_without_max,
  lse_base_2,
  stale_accumulator,
  rows_unwritten,
};

struct Fault {
  Flaw flaw;
  std::string_view name, what;
  std::vector<std::string> cases;
};

std::vector<Fault> all_faults() {
  const std::string op = "g1:attention:";
  const std::string plain = op + "sq=6,skv=75,d=16", causal = op + "sq=6,skv=13,d=16,mask=causal",
                    corner = op + "sq=6,skv=13,d=16,mask=causal_br", half = op + "sq=6,skv=75,d=16,in=bf16,out=f32",
                    wide = op + "sq=6,skv=75,d=16,in=f64", hidden = op + "b=3,sq=3,skv=21,d=16,lens=varied",
                    extreme = op + "sq=12,skv=40,d=16,fill=extreme", grouped = op + "hq=4,hkv=2,sq=3,skv=21,d=16",
                    bias = op + "hq=3,sq=3,skv=21,d=16,bias=head";
  return {
      {Flaw::causal_off_by_one, "causal_off_by_one", "a query also sees the key after its diagonal", {causal, corner}},
      {Flaw::causal_corner, "causal_corner", "the causal mask is aligned to the other corner", {causal, corner}},
      {Flaw::window_off_by_one, "window_off_by_one", "the window is one key too wide", {causal + ",window=3"}},
      {Flaw::length_ignored,
       "length_ignored",
       "keys beyond the length of a batch entry are seen",
       {hidden, hidden + ",in=bf16"}},
      {Flaw::tail_counted, "tail_counted", "zero keys that fill the last block of 32 are counted", {plain, wide, half}},
      {Flaw::last_block_lost, "last_block_lost", "keys beyond the last whole block of 32 are not seen", {plain, wide, half}},
      {Flaw::unscaled, "unscaled", "scores are not scaled", {plain, half}},
      {Flaw::scale_twice, "scale_twice", "scores are scaled twice", {plain, half}},
      {Flaw::no_max_subtraction, "no_max_subtraction", "the maximum is not subtracted", {extreme}},
      {Flaw::max_from_zero, "max_from_zero", "the running maximum starts at 0 instead of -Inf", {extreme}},
      {Flaw::missing_rescale,
       "missing_rescale",
       "the accumulator is not rescaled after the first block",
       {plain, plain + ",sigma=4", half}},
      {Flaw::sentinel,
       "sentinel",
       "hidden keys get a score of -10000 instead of -Inf",
       {op + "sq=12,skv=20,d=16,bias=shared,fill=extreme,mask=causal", op + "b=3,sq=3,skv=21,d=16,lens=empty"}},
      {Flaw::weights_in_bf16, "weights_in_bf16", "probabilities are rounded to bf16, and declared fp32", {plain, half}},
      {Flaw::scores_in_bf16, "scores_in_bf16", "scores are rounded to bf16, and declared fp32", {half + ",sigma=8", half}},
      {Flaw::accumulator_in_bf16, "accumulator_in_bf16", "the accumulator is rounded to bf16 after each block", {half, plain}},
      {Flaw::heads_interleaved,
       "heads_interleaved",
       "query head h uses key head h modulo hkv",
       {grouped, op + "hq=8,hkv=2,sq=1,skv=21,d=16"}},
      {Flaw::bias_of_head_0, "bias_of_head_0", "every head uses the bias of the first", {bias}},
      {Flaw::bias_lost, "bias_lost", "the bias is not added", {bias, op + "sq=6,skv=21,d=16,bias=shared,fill=shifted"}},
      {Flaw::nan_swallowed,
       "nan_swallowed",
       "a NaN in the bias counts as 0",
       {bias + ",fill=nan_one", op + "sq=3,skv=5,d=16,bias=shared,fill=nan_one"}},
      {Flaw::subnormals_flushed,
       "subnormals_flushed",
       "subnormal values and results are 0",
       {plain + ",fill=subnormal", half + ",fill=subnormal", wide + ",fill=subnormal"}},
      {Flaw::width_tail_lost,
       "width_tail_lost",
       "what exceeds a multiple of 8 in d is missing from the scores",
       {op + "sq=6,skv=21,d=20", op + "sq=6,skv=21,d=20,in=bf16"}},
      {Flaw::value_width,
       "value_width",
       "values are read d elements apart although dv differs",
       {op + "sq=3,skv=21,d=16,dv=12"}},
      {Flaw::lse_without_max, "lse_without_max", "the log-sum-exp lacks the maximum", {plain + ",lse=1"}},
      {Flaw::lse_base_2, "lse_base_2", "the log-sum-exp is in base 2", {plain + ",lse=1"}},
      {Flaw::stale_accumulator,
       "stale_accumulator",
       "each query starts from the accumulator of the one before",
       {plain, causal}},
      {Flaw::rows_unwritten, "rows_unwritten", "queries beyond a multiple of 4 are not written", {plain, half}},
  };
}

template <class T>
constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

class PlantedCall final : public assay::Call {
 public:
  PlantedCall(const Problem& p, Fault fault) : problem_(p), call_(call_of(p)), fault_(std::move(fault)) {
    if (has(Flaw::causal_corner)) call_.bottom_right = !call_.bottom_right;
    if (has(Flaw::window_off_by_one) && call_.window > 0) ++call_.window;
    if (has(Flaw::length_ignored)) call_.length.assign(call_.length.size(), call_.skv);
  }

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 ? all_heads<double>() : all_heads<float>(); }

  CallReport report() override {
    CallReport r;
    const DType compute = compute_format(call_);
    r.arithmetic = {.operand = call_.in, .accumulator = compute, .output = call_.out};
    r.arithmetic.scores = r.arithmetic.probabilities = compute;
    r.contract = contract_of("planted", true);
    r.algorithm = "running maximum in blocks of 32 keys";
    r.facts["fault"] = std::string(fault_.what);
    return r;
  }

 private:
  static constexpr std::int64_t block = 32;
  bool has(Flaw f) const { return fault_.flaw == f; }

  template <class T>
  static T to_bf16(T v) {
    return static_cast<T>(round_to(DType::bf16, static_cast<double>(v)));
  }

  template <class T>
  void all_heads() const {
    const Rows q(problem_, images_, "Q"), k(problem_, images_, "K"), v(problem_, images_, "V"), o(problem_, images_, "O");
    std::vector<T> row(static_cast<std::size_t>(call_.d)), acc(static_cast<std::size_t>(call_.dv));
    for (std::int64_t e = 0; e < call_.b; ++e)
      for (std::int64_t h = 0; h < call_.hq; ++h) {
        const std::int64_t shared = has(Flaw::heads_interleaved) ? h % call_.hkv : call_.kv_head(h);
        const std::vector<T> keys = k.head<T>(e, shared, 0, call_.skv);
        std::vector<T> values = v.head<T>(e, shared, 0, call_.skv);
        if (has(Flaw::subnormals_flushed))
          for (T& value : values) value = flushed(value);
        for (std::int64_t i = 0; i < call_.sq; ++i) {
          q.read(e, h, i, 0, call_.d, row.data());
          const T lse = one_query(scores(e, h, i, row, keys), values, acc);
          if (has(Flaw::rows_unwritten) && i >= call_.sq / 4 * 4) continue;
          o.write(e, h, i, call_.dv, acc.data());
          if (call_.lse) Rows(problem_, images_, "L").write(e, h, i, 1, &lse);
        }
      }
  }

  /// Of all keys; -Inf, or what stands for it, where one is hidden.
  template <class T>
  std::vector<T> scores(std::int64_t e, std::int64_t h, std::int64_t i, const std::vector<T>& q,
                        const std::vector<T>& keys) const {
    std::vector<T> s(static_cast<std::size_t>(call_.skv)), bias(s.size());
    if (call_.bias_heads > 0 && !has(Flaw::bias_lost))
      Rows(problem_, images_, "bias")
          .read(0, call_.bias_heads > 1 && !has(Flaw::bias_of_head_0) ? h : 0, i, 0, call_.skv, bias.data());
    Keys seen = visible(call_, e, i);
    if (has(Flaw::causal_off_by_one) && call_.causal)
      seen.last = std::min(seen.last + 1, call_.length[static_cast<std::size_t>(e)]);
    const T scale = has(Flaw::unscaled) ? T{1} : static_cast<T>(call_.scale), again = has(Flaw::scale_twice) ? scale : T{1};
    const std::int64_t width = has(Flaw::width_tail_lost) ? call_.d / 8 * 8 : call_.d;
    for (std::int64_t j = 0; j < call_.skv; ++j) {
      T dot = 0;
      for (std::int64_t l = 0; l < width; ++l)
        dot += q[static_cast<std::size_t>(l)] * keys[static_cast<std::size_t>(j * call_.d + l)];
      T b = bias[static_cast<std::size_t>(j)];
      if (has(Flaw::nan_swallowed) && std::isnan(b)) b = 0;
      T score = dot * scale * again + b;
      if (has(Flaw::scores_in_bf16)) score = to_bf16(score);
      if (j < seen.first || j >= seen.last) score = has(Flaw::sentinel) ? T{-10000} : minus_infinity<T>;
      s[static_cast<std::size_t>(j)] = score;
    }
    if (has(Flaw::last_block_lost) && call_.skv > block) s.resize(s.size() / block * block);
    if (has(Flaw::tail_counted)) s.resize((s.size() + block - 1) / block * block, T{0});
    return s;
  }

  /// Leaves the output in `acc`, returns the log-sum-exp.
  template <class T>
  T one_query(const std::vector<T>& s, const std::vector<T>& values, std::vector<T>& acc) const {
    T max = has(Flaw::max_from_zero) ? T{0} : minus_infinity<T>, sum = 0;
    if (!has(Flaw::stale_accumulator)) std::fill(acc.begin(), acc.end(), T{0});
    const std::int64_t step = has(Flaw::value_width) ? call_.d : call_.dv;
    for (std::int64_t first = 0; first < std::ssize(s); first += block) {
      const std::int64_t last = std::min(first + block, std::ssize(s));
      const T next = has(Flaw::no_max_subtraction) ? T{0} : row_max(s.data() + first, last - first, max);
      if (next == minus_infinity<T>) continue;
      const T factor = std::exp(max - next);
      sum *= factor;
      if (max != minus_infinity<T> && !(has(Flaw::missing_rescale) && first == block))
        for (T& a : acc) a *= factor;
      for (std::int64_t j = first; j < last; ++j) {
        T p = std::exp(s[static_cast<std::size_t>(j)] - next);
        sum += p;
        if (has(Flaw::weights_in_bf16)) p = to_bf16(p);
        if (j >= call_.skv) continue;
        for (std::int64_t c = 0; c < call_.dv; ++c)
          acc[static_cast<std::size_t>(c)] += p * values[static_cast<std::size_t>((j * step + c) % std::ssize(values))];
      }
      if (has(Flaw::accumulator_in_bf16))
        for (T& a : acc) a = to_bf16(a);
      max = next;
    }
    const bool nothing = max == minus_infinity<T>;
    for (T& a : acc) a = nothing ? T{0} : a / sum;
    if (nothing) return max;
    const T log = has(Flaw::lse_base_2) ? std::log2(sum) : std::log(sum);
    return has(Flaw::lse_without_max) ? log : max + log;
  }

  Problem problem_;
  attention::Call call_;
  Fault fault_;
  std::vector<Image> images_;
};

}  // namespace

Target planted_target() {
  return planted_table<Fault>(
      "attention", "a correct attention", {Flaw::none, "none", "no fault", {}}, all_faults(),
      [](const Problem& p, const Fault& f) -> std::unique_ptr<assay::Call> { return std::make_unique<PlantedCall>(p, f); },
      [](const Problem& p, const Fault&) -> std::optional<std::string> {
        if (call_of(p).part != Part::whole) return "faults are planted in whole attention, not in one step; use part=whole";
        return std::nullopt;
      });
}

std::vector<PlantedFault> planted_faults() {
  return listed_faults(all_faults());
}

}  // namespace assay::attention
