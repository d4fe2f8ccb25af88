// SPDX-License-Identifier: Apache-2.0
// "model": conv1d in the correct ways that libraries compute it. None may ever be flagged.
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "probes/ops/conv1d/targets.hpp"
#include "probes/ops/conv1d/transforms.hpp"
#include "probes/ops/variant_table.hpp"
#include "reference/models/accumulate.hpp"

namespace assay::conv1d {

namespace {

/// Every output from `sum(o, first input channel, first padded position)`, bias added last.
template <class T, class Sum>
std::vector<T> each_output(const Call& c, const Inputs<T>& in, const Sum& sum) {
  std::vector<T> y;
  y.reserve(static_cast<std::size_t>(c.n * c.cout * c.lout));
  for (std::int64_t b = 0; b < c.n; ++b)
    for (std::int64_t o = 0; o < c.cout; ++o) {
      const T* const x = in.x.data() + (b * c.cin + o / c.group_out() * c.group_in()) * c.l;
      const T* const w = in.w.data() + o * c.group_in() * c.k;
      const T bias = c.bias ? in.bias[static_cast<std::size_t>(o)] : T{0};
      for (std::int64_t j = 0; j < c.lout; ++j) y.push_back(sum(x, w, j * c.stride - c.padl, bias));
    }
  return y;
}

bool inside(const Call& c, std::int64_t position) {
  return position >= 0 && position < c.l;
}

/// Channel by channel, tap by tap; taps in the padding are left out.
template <class T>
std::vector<T> direct(const Call& c, const Inputs<T>& in) {
  return each_output(c, in, [&c](const T* x, const T* w, std::int64_t start, T bias) {
    T sum = 0;
    for (std::int64_t i = 0; i < c.group_in(); ++i)
      for (std::int64_t t = 0; t < c.k; ++t)
        if (const std::int64_t at = start + t * c.dilation; inside(c, at)) sum += w[i * c.k + t] * x[i * c.l + at];
    return sum + bias;
  });
}

/// From the last channel and tap to the first, fused, onto the bias.
template <class T>
std::vector<T> reversed(const Call& c, const Inputs<T>& in) {
  return each_output(c, in, [&c](const T* x, const T* w, std::int64_t start, T bias) {
    for (std::int64_t i = c.group_in(); i-- > 0;)
      for (std::int64_t t = c.k; t-- > 0;)
        if (const std::int64_t at = start + t * c.dilation; inside(c, at))
          bias = std::fma(w[i * c.k + t], x[i * c.l + at], bias);
    return bias;
  });
}

/// Taps outermost, channels in 8 lanes: kernels for channels last.
template <class T>
std::vector<T> tap_by_tap(const Call& c, const Inputs<T>& in) {
  return each_output(c, in, [&c](const T* x, const T* w, std::int64_t start, T bias) {
    std::array<T, 8> lane{};
    for (std::int64_t t = 0; t < c.k; ++t)
      if (const std::int64_t at = start + t * c.dilation; inside(c, at))
        for (std::int64_t i = 0; i < c.group_in(); ++i) {
          T& sum = lane[static_cast<std::size_t>(i % 8)];
          sum = std::fma(w[i * c.k + t], x[i * c.l + at], sum);
        }
    T sum = 0;
    for (const T v : lane) sum += v;
    return sum + bias;
  });
}

/// One sum per tap over channels, then the taps: a convolution as k products.
template <class T>
std::vector<T> sum_per_tap(const Call& c, const Inputs<T>& in) {
  return each_output(c, in, [&c](const T* x, const T* w, std::int64_t start, T bias) {
    T all = bias;
    for (std::int64_t t = 0; t < c.k; ++t) {
      T sum = 0;
      if (const std::int64_t at = start + t * c.dilation; inside(c, at))
        for (std::int64_t i = 0; i < c.group_in(); ++i) sum += w[i * c.k + t] * x[i * c.l + at];
      all += sum;
    }
    return all;
  });
}

/// The unrolled signal, each dot product by a model of accumulation; the bias is added in fp32 or fp64.
template <class T>
std::vector<T> unrolled_with(const Call& c, const Inputs<T>& in, std::string_view name) {
  const models::Model& model = *models::find_model(name);
  const std::vector<double> w(in.w.begin(), in.w.end()), signal(in.x.begin(), in.x.end());
  const std::int64_t terms = c.group_in() * c.k;
  std::vector<T> y(static_cast<std::size_t>(c.n * c.cout * c.lout));
  for (std::int64_t b = 0; b < c.n; ++b) {
    const std::vector<double> panel = unrolled(c, signal.data() + b * c.cin * c.l);
    for (std::int64_t o = 0; o < c.cout; ++o)
      for (std::int64_t j = 0; j < c.lout; ++j) {
        const double* const column = panel.data() + o / c.group_out() * terms * c.lout + j;
        y[static_cast<std::size_t>((b * c.cout + o) * c.lout + j)] =
            static_cast<T>(model.dot(w.data() + o * terms, 1, column, c.lout, terms)) +
            (c.bias ? in.bias[static_cast<std::size_t>(o)] : T{0});
      }
  }
  return y;
}

struct Model {
  std::string_view name, source;
  std::string_view accumulation{};  // of reference/models; its twin for fp64 ends in _f64
  Transform transform = Transform::none;
};

constexpr Model models_of_conv1d[] = {
    {"direct", "channels, then taps, one sum, bias last"},
    {"reversed", "the other way round, fused, starting from the bias"},
    {"tap_by_tap", "taps outermost, channels in eight lanes"},
    {"sum_per_tap", "one sum per tap, then those"},
    {"pairwise", "unrolled signal, pairwise sums", "pairwise"},
    {"split_k4", "unrolled signal, four partial sums", "split_k4"},
    {"v100", "unrolled signal on a tensor core that truncates 4 products at 23 bits", "v100"},
    {"h100", "unrolled signal on a tensor core that truncates 16 products at 25 bits", "h100"},
    {"winograd_2", "Winograd F(2,3)", "", Transform::winograd_2},
    {"winograd_4", "Winograd F(4,3)", "", Transform::winograd_4},
    {"fft", "products of spectra of whole rows", "", Transform::fft},
};

std::string accumulation_for(const Model& m, DType in) {
  return std::string(m.accumulation) + (in == DType::f64 ? "_f64" : "");
}

class ModelCall final : public assay::Call {
 public:
  ModelCall(const Problem& p, const Model& model) : problem_(p), call_(call_of(p)), model_(model) {}

  void load(Images images) override { images_.assign(images.begin(), images.end()); }
  void store(Images) override {}
  void execute() override { call_.in == DType::f64 ? convolve<double>() : convolve<float>(); }

  CallReport report() override {
    CallReport r;
    r.arithmetic = {.operand = call_.in, .accumulator = compute_format(call_), .split_format = compute_format(call_)};
    if (!model_.accumulation.empty()) {
      r.arithmetic = models::find_model(accumulation_for(model_, call_.in))->arithmetic;
      r.arithmetic.operand = call_.in;
    }
    r.arithmetic.transform = model_.transform;
    r.arithmetic.output = call_.out;
    r.contract = contract_of("model", model_.transform != Transform::none);
    r.algorithm = std::string(model_.name);
    r.facts["source"] = std::string(model_.source);
    return r;
  }

 private:
  template <class T>
  std::vector<T> result(const Inputs<T>& in) const {
    if (!model_.accumulation.empty()) return unrolled_with(call_, in, accumulation_for(model_, call_.in));
    if (model_.transform == Transform::winograd_2) return by_winograd(call_, in, 2);
    if (model_.transform == Transform::winograd_4) return by_winograd(call_, in, 4);
    if (model_.transform == Transform::fft) return by_fft(call_, in);
    if (model_.name == "reversed") return reversed(call_, in);
    if (model_.name == "tap_by_tap") return tap_by_tap(call_, in);
    if (model_.name == "sum_per_tap") return sum_per_tap(call_, in);
    return direct(call_, in);
  }
  template <class T>
  void convolve() const {
    write_output(problem_, call_, images_, result(read_inputs<T>(problem_, call_, images_)), call_.lout);
  }

  Problem problem_;
  conv1d::Call call_;
  const Model& model_;
  std::vector<Image> images_;
};

}  // namespace

Target model_target() {
  return model_table<Model>(
      "conv1d", "correct ways to compute conv1d", models_of_conv1d,
      [](const Problem& p, const Model& m) -> std::unique_ptr<assay::Call> { return std::make_unique<ModelCall>(p, m); },
      [](const Problem& p, const Model& m) -> std::optional<std::string> {
        const Call c = call_of(p);
        const bool winograd = m.transform == Transform::winograd_2 || m.transform == Transform::winograd_4;
        if (winograd && (c.k != 3 || c.stride != 1 || c.dilation != 1))
          return fmt::format("model {} needs k=3, stride=1 and dilation=1", m.name);
        if (m.transform != Transform::none && underflows(*parse_family(p.id.word("fill"))))
          return fmt::format("model {} scales its data, which costs subnormal ones more than they are: nothing could be judged",
                             m.name);
        if ((m.name == "v100" && c.in != DType::f16) || (m.name == "h100" && size_bytes(c.in) != 2))
          return fmt::format("model {} does not take {} operands", m.name, name(c.in));
        return std::nullopt;
      });
}

std::vector<std::string> clean_cases() {
  // Every family in fp32 and with 16-bit data on shapes that every model takes, some in fp64; the smallest shapes; the others.
  std::vector<std::string> ids;
  const auto add = [&](Family f, const char* rest) { ids.push_back(fmt::format("g1:conv1d:{},fill={}", rest, name(f))); };
  bool bf16 = false;
  for (const Family f : signal_families()) {
    bf16 = !bf16;
    add(f, "cin=5,cout=3,l=9,k=3,padl=1,padr=1");
    add(f,
        bf16 ? "cin=4,cout=2,l=7,k=3,padl=2,bias=1,layout=nlc,in=bf16,out=f32" : "cin=6,cout=4,l=8,k=3,groups=2,in=f16,padl=1");
  }
  for (const Family f : {Family::integer, Family::normal, Family::two_level, Family::inf_one})
    add(f, "n=2,cin=3,cout=2,l=5,k=3,padr=1,in=f64,bias=1");
  for (const char* rest : {"cin=1,cout=1,l=1,k=1",
                           "cin=1,cout=1,l=1,k=1,bias=1,in=bf16,fill=two_level",
                           "cin=1,cout=1,l=1,k=3,padl=1,padr=1,fill=uniform",
                           "cin=1,cout=1,l=2,k=2,in=f16,out=f32",
                           "cin=2,cout=1,l=1,k=1,in=f64",
                           "cin=1,cout=2,l=0,k=2,padl=2,bias=1",
                           "cin=1,cout=1,l=6,k=3,padl=9,padr=8,fill=uniform",
                           "cin=40,cout=2,l=12,k=3,padl=1,padr=1",
                           "cin=40,cout=2,l=12,k=3,padl=1,padr=1,fill=uniform,in=bf16,out=f32",
                           "cin=40,cout=2,l=12,k=3,padl=1,padr=1,fill=two_level",
                           "cin=3,cout=2,l=40,k=31,padl=15,padr=15",
                           "cin=2,cout=3,l=30,k=4,stride=3,dilation=4,padl=3,padr=5,fill=heavy",
                           "cin=4,cout=4,l=20,k=5,stride=2,groups=4,padl=4,fill=wide,bias=1",
                           "cin=6,cout=9,l=11,k=2,groups=3,layout=nlc,gapx=3,gapy=2,off=1,fill=integer",
                           "cin=3,cout=2,l=14,k=3,padl=2,padr=3,zeros=explicit,fill=cancel",
                           "cin=3,cout=7,l=14,k=3,padl=2,padr=3,fill=one_hot",
                           "cin=3,cout=7,l=9,k=2,bias=1,in=bf16,out=f32,fill=one_hot",
                           "cin=80,cout=2,l=40,k=3,padl=1,padr=1,fill=mel",
                           "cin=80,cout=2,l=12,k=3,padl=1,padr=1,in=f16,out=f32,fill=outlier",
                           "cin=8,cout=2,l=64,k=3,padl=1,padr=1,fill=integer"})
    ids.push_back(std::string("g1:conv1d:") + rest);
  return ids;
}

}  // namespace assay::conv1d
