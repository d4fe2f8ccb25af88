// SPDX-License-Identifier: Apache-2.0
// "model": conv_transpose1d in the correct ways that libraries compute it. None may ever be flagged.
#include <fmt/format.h>

#include <cmath>

#include "probes/ops/conv_transpose1d/memory.hpp"
#include "probes/ops/variant_table.hpp"
#include "reference/models/accumulate.hpp"

namespace assay::conv_transpose1d {

namespace {

using Dot = double (*)(const double*, std::int64_t, const double*, std::int64_t, std::int64_t);

template <class T>
using Algorithm = void (*)(const Call&, Data<T>&, Dot);

/// Sizes of a group.
std::int64_t group_in(const Call& c) {
  return c.cin / c.groups;
}
std::int64_t group_out(const Call& c) {
  return c.cout / c.groups;
}

/// Every product added to its output as it is made: frame by frame, from the bias on.
template <class T>
void scatter(const Call& c, Data<T>& d, Dot) {
  for (std::int64_t row = 0; row < c.n * c.cout; ++row)
    std::fill_n(d.y.begin() + row * c.lout, c.lout, d.bias[static_cast<std::size_t>(row % c.cout)]);
  for (std::int64_t b = 0; b < c.n; ++b)
    for (std::int64_t i = 0; i < c.l; ++i)
      for (std::int64_t ci = 0; ci < c.cin; ++ci)
        for (std::int64_t co = 0; co < group_out(c); ++co)
          for (std::int64_t r = 0; r < c.k; ++r) {
            const std::int64_t t = i * c.stride + r * c.dilation - c.padl, channel = ci / group_in(c) * group_out(c) + co;
            if (t < 0 || t >= c.lout) continue;
            d.y[static_cast<std::size_t>((b * c.cout + channel) * c.lout + t)] +=
                d.x[static_cast<std::size_t>((b * c.cin + ci) * c.l + i)] *
                d.w[static_cast<std::size_t>((ci * group_out(c) + co) * c.k + r)];
          }
}

/// Tap by tap from the last, input channels from the last, fused; the bias last.
template <class T>
void reversed(const Call& c, Data<T>& d, Dot) {
  for (std::int64_t b = 0; b < c.n; ++b)
    for (std::int64_t channel = 0; channel < c.cout; ++channel) {
      T* y = d.y.data() + (b * c.cout + channel) * c.lout;
      for (std::int64_t r = c.k; r-- > 0;) {
        const Frames f = frames_of_tap(c, r);
        for (std::int64_t own = group_in(c); own-- > 0;) {
          const std::int64_t ci = channel / group_out(c) * group_in(c) + own;
          const T w = d.w[static_cast<std::size_t>((ci * group_out(c) + channel % group_out(c)) * c.k + r)];
          const T* x = d.x.data() + (b * c.cin + ci) * c.l;
          for (std::int64_t i = f.first; i < f.last; ++i) {
            T& to = y[i * c.stride + f.shift];
            to = std::fma(x[i], w, to);
          }
        }
      }
      for (std::int64_t t = 0; t < c.lout; ++t) y[t] += d.bias[static_cast<std::size_t>(channel)];
    }
}

/// A product over input channels for every frame and tap, stored, then added where it falls.
template <class T>
void col2im(const Call& c, Data<T>& d, Dot dot) {
  const std::vector<double> x(d.x.begin(), d.x.end()), w(d.w.begin(), d.w.end());
  for (std::int64_t b = 0; b < c.n; ++b)
    for (std::int64_t channel = 0; channel < c.cout; ++channel) {
      T* y = d.y.data() + (b * c.cout + channel) * c.lout;
      const std::int64_t first_in = channel / group_out(c) * group_in(c);
      for (std::int64_t r = 0; r < c.k; ++r) {
        const Frames f = frames_of_tap(c, r);
        const double* taps = w.data() + (first_in * group_out(c) + channel % group_out(c)) * c.k + r;
        for (std::int64_t i = f.first; i < f.last; ++i)
          y[i * c.stride + f.shift] +=
              static_cast<T>(dot(x.data() + (b * c.cin + first_in) * c.l + i, c.l, taps, group_out(c) * c.k, group_in(c)));
      }
      for (std::int64_t t = 0; t < c.lout; ++t) y[t] += d.bias[static_cast<std::size_t>(channel)];
    }
}

/// A convolution with flipped taps over X with zeros between and around its frames; the zeros are multiplied too.
template <class T>
void zero_inserted(const Call& c, Data<T>& d, Dot) {
  const std::int64_t border = c.dilation * (c.k - 1), full = (c.l - 1) * c.stride + 1;
  std::vector<T> padded(static_cast<std::size_t>(full + 2 * border + c.padl + c.outpad));
  for (std::int64_t b = 0; b < c.n; ++b)
    for (std::int64_t channel = 0; channel < c.cout; ++channel) {
      T* y = d.y.data() + (b * c.cout + channel) * c.lout;
      for (std::int64_t own = 0; own < group_in(c); ++own) {
        const std::int64_t ci = channel / group_out(c) * group_in(c) + own;
        std::fill(padded.begin(), padded.end(), T{0});
        for (std::int64_t i = 0; i < c.l; ++i)
          padded[static_cast<std::size_t>(border + i * c.stride)] = d.x[static_cast<std::size_t>((b * c.cin + ci) * c.l + i)];
        const T* w = d.w.data() + (ci * group_out(c) + channel % group_out(c)) * c.k;
        for (std::int64_t t = 0; t < c.lout; ++t)
          for (std::int64_t r = 0; r < c.k; ++r)
            y[t] = std::fma(padded[static_cast<std::size_t>(t + c.padl + r * c.dilation)], w[c.k - 1 - r], y[t]);
      }
      for (std::int64_t t = 0; t < c.lout; ++t) y[t] += d.bias[static_cast<std::size_t>(channel)];
    }
}

/// Each output gathers its own terms, tap by tap, and sums them by a model of accumulation.
template <class T>
void gathered(const Call& c, Data<T>& d, Dot dot) {
  std::vector<double> x, w;
  for (std::int64_t b = 0; b < c.n; ++b)
    for (std::int64_t channel = 0; channel < c.cout; ++channel)
      for (std::int64_t t = 0; t < c.lout; ++t) {
        x.clear(), w.clear();
        for (std::int64_t r = 0; r < c.k; ++r) {
          const std::int64_t at = t + c.padl - r * c.dilation;
          if (at < 0 || at % c.stride != 0 || at / c.stride >= c.l) continue;
          for (std::int64_t own = 0; own < group_in(c); ++own) {
            const std::int64_t ci = channel / group_out(c) * group_in(c) + own;
            x.push_back(static_cast<double>(d.x[static_cast<std::size_t>((b * c.cin + ci) * c.l + at / c.stride)]));
            w.push_back(
                static_cast<double>(d.w[static_cast<std::size_t>((ci * group_out(c) + channel % group_out(c)) * c.k + r)]));
          }
        }
        d.y[static_cast<std::size_t>((b * c.cout + channel) * c.lout + t)] =
            static_cast<T>(dot(x.data(), 1, w.data(), 1, std::ssize(x))) + d.bias[static_cast<std::size_t>(channel)];
      }
}

struct Model {
  std::string_view name, source;
  Algorithm<float> in_f32;
  Algorithm<double> in_f64;
  std::string_view dot_f32, dot_f64;  // names in reference/models
};

constexpr Model models[] = {
    {"scatter", "products added to their outputs frame by frame, from the bias on", scatter, scatter, "", ""},
    {"reversed", "last tap and channel first, fused, the bias last", reversed, reversed, "", ""},
    {"col2im", "W^T X by 32 lanes, columns stored and added", col2im, col2im, "lanes32", "lanes32_f64"},
    {"zero_inserted", "convolution with flipped taps over X with zeros inserted", zero_inserted, zero_inserted, "", ""},
    {"gather", "each output gathers its terms tap by tap, in order", gathered, gathered, "sequential", "sequential_f64"},
    {"split_k4", "gathered per output, four slices", gathered, gathered, "split_k4", "split_k4_f64"},
    {"a100", "tensor core, gathered per output", gathered, nullptr, "a100", ""},
    {"h100", "tensor core, gathered per output", gathered, nullptr, "h100", ""},
};

/// What the model's sum rounds like; plain fp32 or fp64 where it adds by itself.
Arithmetic arithmetic_of(const Model& m, DType in) {
  const models::Model* dot = models::find_model(in == DType::f64 ? m.dot_f64 : m.dot_f32);
  const DType compute = in == DType::f64 ? DType::f64 : DType::f32;
  Arithmetic a = dot != nullptr ? dot->arithmetic : Arithmetic{.accumulator = compute, .split_format = compute};
  a.operand = in;
  return a;
}

class ModelCall final : public assay::Call {
 public:
  ModelCall(const Problem& p, const Model& model) : problem_(p), call_(call_of(p)), model_(model) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override {
    call_.in == DType::f64 ? run<double>(model_.in_f64, model_.dot_f64) : run<float>(model_.in_f32, model_.dot_f32);
  }

  CallReport report() override {
    CallReport r;
    r.arithmetic = arithmetic_of(model_, call_.in);
    r.arithmetic.output = call_.out;
    r.contract = own_contract("model");
    r.algorithm = std::string(model_.name);
    r.facts["source"] = std::string(model_.source);
    return r;
  }

 private:
  template <class T>
  void run(Algorithm<T> compute, std::string_view dot) const {
    Data<T> d = read_operands<T>(problem_, call_, images_, place_x(call_), place_w(call_));
    compute(call_, d, dot.empty() ? nullptr : models::find_model(dot)->dot);
    write_y(problem_, call_, images_, d.y);
  }

  Problem problem_;
  conv_transpose1d::Call call_;
  const Model& model_;
  std::vector<Image> images_;
};

}  // namespace

Target model_target() {
  return model_table<Model>(
      "conv_transpose1d", "correct ways to compute conv_transpose1d", models,
      [](const Problem& p, const Model& m) -> std::unique_ptr<assay::Call> { return std::make_unique<ModelCall>(p, m); },
      [](const Problem& p, const Model& m) -> std::optional<std::string> {
        const DType in = p.operands[0].dtype;
        if (m.in_f64 == nullptr && size_bytes(in) != 2)
          return fmt::format("model {} does not take {} operands", m.name, name(in));
        return std::nullopt;
      });
}

std::vector<std::string> clean_cases() {
  // Every family in fp32, and in one of the 16-bit forms or fp64 in turn, with overlapping taps, strides, dilation, groups and
  // bias; the smallest shapes; holes that no term reaches; long sums.
  std::vector<std::string> ids;
  const char* const others[] = {"cin=8,cout=3,l=8,k=7,stride=3,dilation=2,padl=4,in=bf16,out=f32,bias=1",
                                "cin=5,cout=3,l=7,k=4,stride=2,in=bf16,layout=nlc", "cin=7,cout=2,l=7,k=3,padr=1,in=f16,bias=1",
                                "cin=4,cout=5,l=6,k=4,stride=4,in=f16,out=f32",
                                "cin=5,cout=3,l=7,k=3,dilation=2,in=f64,bias=1"};
  std::size_t turn = 0;
  for (const Family f : signal_families())
    for (const char* rest :
         {"n=2,cin=6,cout=4,l=9,k=5,stride=2,padl=1,padr=2,outpad=1,groups=2,bias=1", others[turn++ % std::size(others)]})
      ids.push_back(fmt::format("g1:conv_transpose1d:{},fill={}", rest, name(f)));
  for (const char* rest :
       {"cin=1,cout=1,l=1,k=1", "cin=1,cout=1,l=1,k=1,bias=1,in=bf16,fill=two_level",
        "cin=1,cout=1,l=1,k=2,in=f16,bias=1,fill=uniform", "cin=1,cout=1,l=2,k=2,in=f64,bias=1",
        "cin=1,cout=2,l=2,k=1,stride=3,outpad=2,bias=1", "cin=1,cout=1,l=3,k=2,stride=4,outpad=3,in=bf16,bias=1,fill=two_level",
        "cin=6,cout=6,l=20,k=3,groups=6,stride=2,bias=1", "cin=64,cout=2,l=16,k=16,stride=8,padl=4,padr=4,bias=1",
        "cin=64,cout=2,l=12,k=11,stride=5,padl=3,padr=3,outpad=1,in=bf16,out=f32", "cin=200,cout=1,l=6,k=5,fill=uniform",
        "cin=80,cout=2,l=20,k=16,stride=8,bias=1,fill=mel", "cin=200,cout=1,l=6,k=5,fill=two_level,bias=1",
        "cin=100,cout=1,l=6,k=6,in=f16,out=f32", "cin=5,cout=7,l=11,k=3,stride=2,gapx=3,gapy=2,off=1"})
    ids.push_back(std::string("g1:conv_transpose1d:") + rest);
  return ids;
}

}  // namespace assay::conv_transpose1d
