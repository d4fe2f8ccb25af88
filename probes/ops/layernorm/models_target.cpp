// SPDX-License-Identifier: Apache-2.0
// "model": layer and RMS normalisation in the correct ways that libraries compute it. None may ever be flagged.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "probes/ops/layernorm/row_memory.hpp"
#include "probes/ops/variant_table.hpp"

namespace assay::layernorm {

namespace {

enum class Order : std::uint8_t { sequential, pairwise, lanes, welford, welford_lanes, blocks };
enum class Root : std::uint8_t { divided, newton, two_ulp_off };
enum class Form : std::uint8_t { direct, scaled, fused, folded };

struct Model {
  std::string_view name, source;
  Order order;
  Root root;
  Form form;
};

constexpr Model models[] = {
    {"two_pass", "mean, then squares of deviations, one after the other", Order::sequential, Root::divided, Form::direct},
    {"pairwise", "two passes in binary trees, 1/n and rstd gamma multiplied, rsqrt off by up to 2 ulp", Order::pairwise,
     Root::two_ulp_off, Form::scaled},
    {"lanes", "two passes in 32 lanes and a tree, rsqrt by Newton's method, fused shift", Order::lanes, Root::newton,
     Form::fused},
    {"welford", "running mean and sum of squares (rms: fused sum)", Order::welford, Root::divided, Form::fused},
    {"welford_lanes", "eight interleaved running means, merged in a tree, as GPU kernels do", Order::welford_lanes,
     Root::newton, Form::direct},
    {"blocks", "two passes in blocks of 48, merged in turn, as vectorised CPU kernels do", Order::blocks, Root::divided,
     Form::scaled},
    {"folded", "y = x (gamma rstd) + (beta - mean gamma rstd), declared so", Order::lanes, Root::divided, Form::folded},
};

/// Mean (0 for rms) and sum of squared distances from it of `count` elements.
template <class T>
struct Moments {
  T count = 0, mean = 0, squares = 0;
};

template <class T, class F>
T pairwise(std::size_t n, const F& f, std::size_t first = 0) {
  if (n == 1) return f(first);
  return pairwise<T>(n / 2, f, first) + pairwise<T>(n - n / 2, f, first + n / 2);
}

template <class T, class F>
T lanes(std::size_t n, const F& f) {
  std::array<T, 32> sums{};
  for (std::size_t i = 0; i < n; ++i) sums[i % 32] += f(i);
  return pairwise<T>(32, [&](std::size_t i) { return sums[i]; });
}

template <class T, class F>
T sum(Order order, std::size_t n, const F& f) {
  if (order == Order::pairwise) return pairwise<T>(n, f);
  if (order == Order::lanes) return lanes<T>(n, f);
  T s = 0;
  for (std::size_t i = 0; i < n; ++i) s += f(i);
  return s;
}

template <class T>
Moments<T> two_pass(const T* x, std::size_t n, bool rms, Order order) {
  Moments<T> m{.count = static_cast<T>(n)};
  const auto value = [x](std::size_t i) { return x[i]; };
  if (!rms) m.mean = order == Order::pairwise ? sum<T>(order, n, value) * (1 / m.count) : sum<T>(order, n, value) / m.count;
  m.squares = sum<T>(order, n, [&](std::size_t i) { return (x[i] - m.mean) * (x[i] - m.mean); });
  return m;
}

template <class T>
void update(Moments<T>& m, T x, bool rms) {
  m.count += 1;
  if (rms) {
    m.squares = std::fma(x, x, m.squares);
    return;
  }
  const T delta = x - m.mean;
  m.mean += delta / m.count;
  m.squares += delta * (x - m.mean);
}

/// Chan, Golub & LeVeque 1979.
template <class T>
Moments<T> merged(const Moments<T>& a, const Moments<T>& b) {
  if (b.count == 0) return a;
  const T count = a.count + b.count, delta = b.mean - a.mean, share = b.count / count;
  return {count, a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share};
}

template <class T>
Moments<T> moments(const std::vector<T>& x, bool rms, Order order) {
  const std::size_t n = x.size();
  Moments<T> all;
  switch (order) {
    case Order::sequential:
    case Order::pairwise:
    case Order::lanes:
      return two_pass(x.data(), n, rms, order);
    case Order::welford:
      for (const T v : x) update(all, v, rms);
      return all;
    case Order::welford_lanes: {
      std::array<Moments<T>, 8> parts{};
      for (std::size_t i = 0; i < n; ++i) update(parts[i % 8], x[i], rms);
      for (std::size_t step = 1; step < 8; step *= 2)
        for (std::size_t i = 0; i < 8; i += 2 * step) parts[i] = merged(parts[i], parts[i + step]);
      return parts[0];
    }
    case Order::blocks:
      for (std::size_t i = 0; i < n; i += 48) {
        const Moments<T> block = two_pass(x.data() + i, std::min<std::size_t>(48, n - i), rms, Order::sequential);
        all = all.count == 0 ? block : merged(all, block);
      }
      return all;
  }
  return all;
}

/// Off by -2 to 2 units in the last place, chosen by the bits of the value: as documented for GPU maths libraries.
template <class T>
T two_ulp_off(T v) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  if (!(v > 0) || !std::isfinite(v)) return v;
  const auto bits = std::bit_cast<Bits>(v);
  return std::bit_cast<T>(static_cast<Bits>(bits + bits * 2654435761U % 5 - 2));
}

template <class T>
T inverse_root(T v, Root root) {
  const T right = 1 / std::sqrt(v);
  if (root == Root::divided || !(right > 0) || !std::isfinite(right)) return right;
  if (root == Root::two_ulp_off) return two_ulp_off(right);
  auto y = static_cast<T>(round_to(DType::bf16, static_cast<double>(right)));  // a hardware estimate
  for (int step = 0; step < (sizeof(T) == 4 ? 2 : 4); ++step) y = y * (T(1.5) - T(0.5) * v * y * y);
  return y;
}

template <class T>
T result(Form form, T x, T mean, T rstd, T gamma, T beta) {
  switch (form) {
    case Form::direct:
      return (x - mean) * rstd * gamma + beta;
    case Form::scaled:
      return (x - mean) * (rstd * gamma) + beta;
    case Form::fused:
      return std::fma((x - mean) * rstd, gamma, beta);
    case Form::folded: {
      const T scale = rstd * gamma;
      return std::fma(x, scale, beta - mean * scale);
    }
  }
  return 0;
}

class ModelCall final : public assay::Call {
 public:
  ModelCall(const Problem& p, const Model& model) : problem_(p), call_(call_of(p)), model_(model) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override {
    if (call_.n > 0) call_.in == DType::f64 ? all_rows<double>() : all_rows<float>();
  }

  CallReport report() override {
    CallReport r;
    r.arithmetic = {.operand = call_.in,
                    .accumulator = compute_format(call_),
                    .output = call_.out,
                    .folded_shift = model_.form == Form::folded && !call_.rms};
    r.contract = own_contract("model");
    r.algorithm = std::string(model_.name);
    r.facts["source"] = std::string(model_.source);
    return r;
  }

 private:
  template <class T>
  void all_rows() const {
    const Columns<T> columns(problem_, call_, images_);
    for (std::int64_t r = 0; r < call_.rows; ++r) {
      std::vector<T> x = read_run<T>(problem_.operands[call_.x], images_[call_.x], r * call_.ldx, call_.n);
      const Moments<T> m = moments(x, call_.rms, model_.order);
      const T rstd = inverse_root(m.squares / m.count + static_cast<T>(call_.eps), model_.root);
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = result(model_.form, x[i], m.mean, rstd, columns.gamma[i], columns.beta[i]);
      write_run(problem_.operands[call_.y], images_[call_.y], r * call_.ldy, x, call_.n);
      write_statistics(problem_, call_, images_, r, m.mean, rstd);
    }
  }

  Problem problem_;
  layernorm::Call call_;
  const Model& model_;
  std::vector<Image> images_;
};

}  // namespace

Target model_target() {
  return model_table<Model>(
      "layernorm", "correct ways to normalise rows", models,
      [](const Problem& p, const Model& m) -> std::unique_ptr<assay::Call> { return std::make_unique<ModelCall>(p, m); });
}

std::vector<std::string> clean_cases() {
  // Every family in fp32 with all outputs and in one other form; the smallest shapes, long rows, offsets and exact rows.
  constexpr const char* others[] = {"rows=5,n=130,kind=rms,gamma=1,stats=1", "rows=4,n=65,in=bf16,stats=1",
                                    "rows=4,n=40,in=f16,kind=rms", "rows=3,n=70,in=f64,stats=1"};
  std::vector<std::string> ids;
  for (const char* fill : {"normal", "uniform", "heavy", "two_level", "nan_one", "inf_one", "constant", "extreme", "shifted",
                           "subnormal", "offset", "balanced", "outlier"}) {
    ids.push_back(fmt::format("g1:layernorm:rows=5,n=67,gamma=1,beta=1,stats=1,fill={}", fill));
    ids.push_back(fmt::format("g1:layernorm:{},fill={}", others[ids.size() / 2 % 4], fill));
  }
  for (const char* rest :
       {"rows=1,n=1", "rows=3,n=1,gamma=1,beta=1,stats=1", "rows=5,n=1,kind=rms,eps=0,stats=1", "rows=1,n=3,in=f64,gamma=1",
        "rows=4,n=2,eps=0,stats=1", "rows=2,n=128,fill=constant,in=bf16,beta=1,stats=1", "rows=2,n=3000,fill=constant,stats=1",
        "rows=2,n=4096,fill=two_level,stats=1", "rows=4,n=256,fill=balanced,eps=0,stats=1",
        "rows=4,n=16,fill=offset,offset=16,stats=1", "rows=4,n=384,fill=outlier,gamma=1,beta=1,stats=1",
        "rows=2,n=1000,fill=offset,offset=20,in=f64,stats=1", "rows=2,n=1000,fill=offset,offset=4,stats=1,eps=0",
        "rows=3,n=500,fill=offset,offset=8,in=bf16,out=f32,stats=1", "rows=4,n=33,padx=3,pady=2,off=1,gamma=1,beta=1,stats=1"})
    ids.push_back(std::string("g1:layernorm:") + rest);
  return ids;
}

}  // namespace assay::layernorm
