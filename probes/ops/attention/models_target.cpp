// SPDX-License-Identifier: Apache-2.0
// "model": attention in the correct ways that libraries compute it. None may ever be flagged.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "probes/ops/attention/heads.hpp"
#include "probes/ops/variant_table.hpp"

namespace assay::attention {

namespace {

template <class T>
constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

enum class Scale : std::uint8_t {
  scores,      // s = fl(q.k) scale
  query,       // q scale is rounded first
  query_log2,  // q (scale log2 e) is rounded first, exp is exp2
};

struct Model {
  std::string_view name, source;
  std::int64_t block = 0;  // keys per step of a running maximum; 0: all scores first
  bool reversed = false;   // blocks from the last to the first
  int splits = 1;          // parts of the keys, each with its own maximum, combined by their log-sum-exp
  Scale scale = Scale::scores;
  bool lanes = false;           // sums in 8 interleaved lanes instead of in order
  bool two_ulp = false;         // exp off by up to 2 units in the last place
  bool narrow_weights = false;  // probabilities in bf16 (f16 for f16 inputs) before they meet V
};

constexpr Model models[] = {
    {.name = "two_pass", .source = "all scores, maximum, exp, sum; probabilities normalised, then multiplied by V"},
    {.name = "online_1", .source = "running maximum key by key", .block = 1},
    {.name = "online_32",
     .source = "running maximum in blocks of 32, q scaled first",
     .block = 32,
     .scale = Scale::query,
     .lanes = true},
    {.name = "online_64",
     .source = "blocks of 64 from the last to the first, exp off by up to 2 ulp",
     .block = 64,
     .reversed = true,
     .two_ulp = true},
    {.name = "exp2",
     .source = "scale log2(e) folded into q, exp2, blocks of 64, as flash-style kernels do",
     .block = 64,
     .scale = Scale::query_log2,
     .lanes = true},
    {.name = "narrow",
     .source = "blocks of 64, probabilities in 16 bits before they meet V, declared so",
     .block = 64,
     .narrow_weights = true},
    {.name = "narrow_two_pass",
     .source = "normalised probabilities in 16 bits, declared so",
     .lanes = true,
     .narrow_weights = true},
    {.name = "split_4",
     .source = "four parts of the keys combined by log-sum-exp, as flash-decoding does, declared so",
     .block = 16,
     .splits = 4,
     .lanes = true},
};

template <class T>
T dot(const T* a, const T* b, std::int64_t n, bool lanes) {
  if (!lanes) {
    T sum = 0;
    for (std::int64_t l = 0; l < n; ++l) sum += a[l] * b[l];
    return sum;
  }
  T sum[8] = {};
  for (std::int64_t l = 0; l < n; ++l) sum[l % 8] = std::fma(a[l], b[l], sum[l % 8]);
  return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/// Off by -2 to 2 units in the last place, chosen by the bits of the value.
template <class T>
T two_ulp_off(T v) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  if (!(v > std::numeric_limits<T>::min() * 4) || !std::isfinite(v) || v == 1) return v;  // exp(0) is 1 everywhere
  const auto bits = std::bit_cast<Bits>(v);
  return std::bit_cast<T>(static_cast<Bits>(bits + bits * 2654435761U % 5 - 2));
}

/// One query: scores of the keys it sees, their values (n, dv), and how they are combined.
template <class T>
class Query {
 public:
  Query(const Model& model, DType weights, std::vector<T> scores, const T* v, std::int64_t dv)
      : model_(model), weights_(weights), s_(std::move(scores)), v_(v), dv_(dv) {}

  /// The output, and the log-sum-exp.
  T run(T* o) const { return model_.block == 0 ? two_pass(o) : model_.splits > 1 ? combined(o) : finish(part(0, size()), o); }

 private:
  struct State {
    T max = minus_infinity<T>, sum = 0;
    std::vector<T> acc;
  };

  std::int64_t size() const { return std::ssize(s_); }
  bool base_2() const { return model_.scale == Scale::query_log2; }
  T exponential(T x) const {
    const T e = base_2() ? std::exp2(x) : std::exp(x);
    return model_.two_ulp ? two_ulp_off(e) : e;
  }
  T weight(T p) const { return model_.narrow_weights ? static_cast<T>(round_to(weights_, static_cast<double>(p))) : p; }
  T log_sum_exp(T max, T sum) const {
    if (max == minus_infinity<T>) return max;
    return base_2() ? (max + std::log2(sum)) * static_cast<T>(0.6931471805599453) : max + std::log(sum);
  }

  T two_pass(T* o) const {
    const T max = row_max(s_.data(), size(), minus_infinity<T>);
    std::vector<T> p(s_.size());
    for (std::size_t j = 0; j < p.size(); ++j) p[j] = exponential(s_[j] - max);
    const std::vector<T> ones(p.size(), T{1});
    const T sum = dot(p.data(), ones.data(), size(), model_.lanes);
    std::fill_n(o, dv_, s_.empty() ? std::numeric_limits<T>::quiet_NaN() : T{0});
    for (std::int64_t j = 0; j < size(); ++j) {
      const T y = weight(p[static_cast<std::size_t>(j)] / sum);
      for (std::int64_t c = 0; c < dv_; ++c) o[c] += y * v_[j * dv_ + c];
    }
    return log_sum_exp(max, sum);
  }

  void add_block(State& st, std::int64_t first, std::int64_t last) const {
    const T next = row_max(s_.data() + first, last - first, st.max);
    if (next == minus_infinity<T>) return;
    const T factor = exponential(st.max - next);
    T sum = 0;
    for (T& a : st.acc) a *= factor;
    for (std::int64_t j = first; j < last; ++j) {
      const T p = exponential(s_[static_cast<std::size_t>(j)] - next), w = weight(p);
      sum += p;
      for (std::int64_t c = 0; c < dv_; ++c)
        st.acc[static_cast<std::size_t>(c)] = std::fma(w, v_[j * dv_ + c], st.acc[static_cast<std::size_t>(c)]);
    }
    st.sum = st.sum * factor + sum;
    st.max = next;
  }

  State part(std::int64_t first, std::int64_t last) const {
    State st;
    st.acc.assign(static_cast<std::size_t>(dv_), T{0});
    const std::int64_t blocks = (last - first + model_.block - 1) / model_.block;
    for (std::int64_t b = 0; b < blocks; ++b) {
      const std::int64_t at = first + (model_.reversed ? blocks - 1 - b : b) * model_.block;
      add_block(st, at, std::min(at + model_.block, last));
    }
    return st;
  }

  /// A row that sees nothing is zero.
  T finish(const State& st, T* o) const {
    const T inverse = st.max == minus_infinity<T> ? T{0} : T{1} / st.sum;
    for (std::int64_t c = 0; c < dv_; ++c) o[c] = st.acc[static_cast<std::size_t>(c)] * inverse;
    return log_sum_exp(st.max, st.sum);
  }

  T combined(T* o) const {
    std::vector<T> lse, out(static_cast<std::size_t>(model_.splits * dv_));
    for (int p = 0; p < model_.splits; ++p)
      lse.push_back(finish(part(size() * p / model_.splits, size() * (p + 1) / model_.splits), out.data() + p * dv_));
    const T max = row_max(lse.data(), model_.splits, minus_infinity<T>);
    std::fill_n(o, dv_, T{0});
    if (max == minus_infinity<T>) return max;
    T sum = 0;
    for (const T l : lse) sum += std::exp(l - max);
    const T all = max + std::log(sum);
    for (int p = 0; p < model_.splits; ++p) {
      const T factor = std::exp(lse[static_cast<std::size_t>(p)] - all);
      for (std::int64_t c = 0; c < dv_; ++c) o[c] += factor * out[static_cast<std::size_t>(p * dv_ + c)];
    }
    return all;
  }

  const Model& model_;
  DType weights_;
  std::vector<T> s_;
  const T* v_;
  std::int64_t dv_;
};

class ModelCall final : public assay::Call {
 public:
  ModelCall(const Problem& p, const Model& model) : problem_(p), call_(call_of(p)), model_(model) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 ? all_heads<double>() : all_heads<float>(); }

  CallReport report() override {
    CallReport r;
    const DType compute = compute_format(call_);
    r.arithmetic = {
        .operand = call_.in, .accumulator = compute, .splits = model_.splits, .split_format = compute, .output = call_.out};
    r.arithmetic.scores = compute;
    r.arithmetic.probabilities = model_.narrow_weights ? weights() : compute;
    r.contract = contract_of("model", model_.block > 0);
    r.algorithm = std::string(model_.name);
    r.facts["source"] = std::string(model_.source);
    return r;
  }

 private:
  DType weights() const { return call_.in == DType::f16 ? DType::f16 : DType::bf16; }

  template <class T>
  std::vector<T> scores(std::vector<T> q, const T* k, const std::vector<T>& bias) const {
    T scale = static_cast<T>(call_.scale);
    const T log2_e = static_cast<T>(1.4426950408889634);
    if (model_.scale == Scale::query_log2) scale = static_cast<T>(call_.scale * 1.4426950408889634);
    if (model_.scale != Scale::scores) {
      for (T& x : q) x *= scale;
      scale = 1;
    }
    std::vector<T> s(bias.size());
    for (std::size_t j = 0; j < s.size(); ++j) {
      s[j] = dot(q.data(), k + static_cast<std::int64_t>(j) * call_.d, call_.d, model_.lanes) * scale;
      if (call_.bias_heads > 0) s[j] += model_.scale == Scale::query_log2 ? bias[j] * log2_e : bias[j];
    }
    return s;
  }

  template <class T>
  void all_heads() const {
    const Rows q(problem_, images_, "Q"), k(problem_, images_, "K"), v(problem_, images_, "V"), o(problem_, images_, "O");
    std::vector<T> row(static_cast<std::size_t>(call_.d)), out(static_cast<std::size_t>(call_.dv));
    for (std::int64_t e = 0; e < call_.b; ++e)
      for (std::int64_t h = 0; h < call_.hq; ++h) {
        const std::vector<T> keys = k.head<T>(e, call_.kv_head(h), 0, call_.skv),
                             values = v.head<T>(e, call_.kv_head(h), 0, call_.skv);
        for (std::int64_t i = 0; i < call_.sq; ++i) {
          const Keys seen = visible(call_, e, i);
          const std::int64_t n = std::max<std::int64_t>(0, seen.last - seen.first);
          std::vector<T> bias(static_cast<std::size_t>(n));
          if (call_.bias_heads > 0)
            Rows(problem_, images_, "bias").read(0, call_.bias_heads > 1 ? h : 0, i, seen.first, n, bias.data());
          q.read(e, h, i, 0, call_.d, row.data());
          const std::int64_t from = n > 0 ? seen.first : 0;
          const Query<T> query(model_, weights(), scores(row, keys.data() + from * call_.d, bias),
                               values.data() + from * call_.dv, call_.dv);
          const T lse = query.run(out.data());
          o.write(e, h, i, call_.dv, out.data());
          if (call_.lse) Rows(problem_, images_, "L").write(e, h, i, 1, &lse);
        }
      }
  }

  Problem problem_;
  attention::Call call_;
  const Model& model_;
  std::vector<Image> images_;
};

}  // namespace

Target model_target() {
  return model_table<Model>(
      "attention", "correct ways to compute attention", models,
      [](const Problem& p, const Model& m) -> std::unique_ptr<assay::Call> { return std::make_unique<ModelCall>(p, m); },
      [](const Problem& p, const Model& m) -> std::optional<std::string> {
        const attention::Call c = call_of(p);
        if (c.part != Part::whole) return "the models of attention compute all of it, not one step; use part=whole";
        if (m.narrow_weights && c.in == DType::f64) return "no library holds fp64 probabilities in 16 bits";
        return std::nullopt;
      });
}

std::vector<std::string> clean_cases() {
  // Every family in fp32, fp64 and with 16-bit data; masks of every kind; the smallest shapes.
  std::vector<std::string> ids;
  for (const char* family : {"normal", "uniform", "heavy", "two_level", "nan_one", "inf_one", "one_hot", "constant", "extreme",
                             "outlier", "subnormal"})
    for (const char* rest : {"sq=3,skv=37,d=16,dv=5,lse=1", "b=2,hq=2,hkv=1,sq=2,skv=21,d=8,in=bf16,mask=causal_br",
                             "sq=2,skv=33,d=16,dv=4,in=f16,out=f32", "sq=2,skv=19,d=8,lse=1,in=f64,mask=causal"})
      ids.push_back(fmt::format("g1:attention:{},fill={}", rest, family));
  for (const char* family : {"normal", "masked", "all_masked", "extreme", "shifted"})
    for (const char* rest : {"hq=2,sq=3,skv=37,d=16,bias=head,lse=1", "sq=2,skv=21,d=8,bias=shared,in=bf16,out=f32",
                             "sq=2,skv=19,d=8,bias=shared,in=f16", "sq=2,skv=19,d=8,lse=1,bias=head,in=f64"})
      ids.push_back(fmt::format("g1:attention:{},fill={}", rest, family));
  for (const char* rest : {"sq=1,d=1,lse=1", "sq=1,d=1,in=f64", "sq=1,d=1,in=bf16", "sq=1,d=1,in=f16,fill=two_level",
                           "sq=2,skv=1,d=2,fill=uniform,lse=1", "sq=1,skv=2,d=3,fill=constant", "sq=1,skv=64,d=8,fill=constant",
                           "sq=1,skv=2,d=1,fill=one_hot", "sq=4,skv=2,d=8,mask=causal_br,lse=1",
                           "sq=5,skv=40,d=8,mask=causal,window=3,lse=1", "b=3,sq=2,skv=24,d=8,lens=empty,lse=1",
                           "b=2,sq=2,skv=24,d=8,lens=varied,window=5,mask=causal_br", "sq=4,skv=130,d=16,sigma=16,lse=1",
                           "sq=2,skv=130,d=16,sigma=8,in=bf16,out=f32", "sq=2,skv=300,d=8,dv=4,fill=uniform,lse=1",
                           "sq=2,skv=200,d=8,scale=0.001,lse=1", "sq=2,skv=65,d=8,layout=bshd,pad=3,off=1,hq=2"})
    ids.push_back(std::string("g1:attention:") + rest);
  return ids;
}

}  // namespace assay::attention
