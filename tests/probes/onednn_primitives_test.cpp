// SPDX-License-Identifier: Apache-2.0
// oneDNN's primitives other than matmul against hand computation, so that a wrong argument cannot hide behind a large suite.
#include <cmath>
#include <limits>

#include "onednn_trial.hpp"

using namespace assay;
using onednn::Convolution;
using onednn::Library;
using onednn::Normalization;
using onednn::PostOp;
using onednn::Primitive;
using onednn::Tensor;
using V = std::vector<float>;
using D = std::vector<std::int64_t>;

namespace {

Tensor tensor(D dims, D strides) {
  return {.dtype = DType::f32, .dims = std::move(dims), .strides = std::move(strides)};
}

void close(const V& got, const V& due, double relative = 1e-6) {
  REQUIRE(got.size() == due.size());
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(due[i]).epsilon(relative));
}

/// (batch, channels, length), tight: as given, or with neighbouring channels neighbours in memory.
Tensor signal(std::int64_t batch, std::int64_t channels, std::int64_t length, bool channels_last) {
  return tensor({batch, channels, length}, channels_last ? D{channels * length, 1, channels} : D{channels * length, length, 1});
}
V reordered(const V& x, std::int64_t channels, bool channels_last) {
  if (!channels_last) return x;
  V out;
  const std::size_t c = static_cast<std::size_t>(channels), length = x.size() / c;
  for (std::size_t l = 0; l < length; ++l)
    for (std::size_t i = 0; i < c; ++i) out.push_back(x[i * length + l]);
  return out;
}

}  // namespace

TEST_CASE("oneDNN's softmax and log-softmax: loose rows, gaps untouched") {
  const float a = std::log(2.0F), b = std::log(5.0F);
  for (const std::string& path : trial::onednn_files())
    for (const bool log : {false, true}) {
      CAPTURE(path);
      V x = {0, a, b, 9, 100, 100 + a, 100 + b, 9}, y(10, -1);
      Primitive p = Primitive::softmax(Library::open(path), tensor({2, 3}, {4, 1}), tensor({2, 3}, {5, 1}), log);
      const Primitive::Data data[] = {{onednn::source, x.data()}, {onednn::destination, y.data()}};
      p.run(data);
      V due = {0.125F, 0.25F, 0.625F};
      if (log) due = {std::log(0.125F), std::log(0.25F), std::log(0.625F)};
      close(y, {due[0], due[1], due[2], -1, -1, due[0], due[1], due[2], -1, -1}, 1e-5);
    }
}

TEST_CASE("oneDNN's elementwise functions") {
  struct {
    onednn::Function function;
    V due;
  } const functions[] = {{onednn::Function::relu, {0, 0, 0, 1, 2}},
                         {onednn::Function::gelu_erf, {-0.00404969F, -0.15865525F, 0, 0.84134475F, 1.9544997F}},
                         {onednn::Function::gelu_tanh, {-0.00363739F, -0.158808F, 0, 0.841192F, 1.9545977F}},
                         {onednn::Function::silu, {-0.14227762F, -0.26894142F, 0, 0.73105858F, 1.7615942F}}};
  for (const std::string& path : trial::onednn_files())
    for (const auto& [function, due] : functions) {
      CAPTURE(path);
      V x = {-3, -1, 0, 1, 2}, y(5, -1);
      Primitive p = Primitive::eltwise(Library::open(path), function, tensor({1, 5}, {5, 1}), tensor({1, 5}, {5, 1}));
      const Primitive::Data data[] = {{onednn::source, x.data()}, {onednn::destination, y.data()}};
      p.run(data);
      close(y, due, 1e-4);
    }
}

TEST_CASE("oneDNN's sum of a matrix and a row, and a function of it") {
  for (const std::string& path : trial::onednn_files())
    for (const bool silu : {false, true}) {
      CAPTURE(path);
      V x = {1, 2, -3, -4}, row = {10, -1}, y(4, -1);
      const PostOp after{silu ? PostOp::silu : PostOp::relu};
      Primitive p = Primitive::sum(Library::open(path), tensor({2, 2}, {2, 1}), tensor({1, 2}, {2, 1}), tensor({2, 2}, {2, 1}),
                                   {&after, 1});
      const Primitive::Data data[] = {
          {onednn::source, x.data()}, {onednn::source_1, row.data()}, {onednn::destination, y.data()}};
      p.run(data);
      if (silu)
        close(y, {10.9998163F, 0.73105858F, 6.9936227F, -0.033464254F}, 1e-5);
      else
        CHECK(y == V{11, 1, 7, 0});
    }
}

TEST_CASE("oneDNN's layer normalization: scale, shift, epsilon, and mean and variance as outputs") {
  for (const std::string& path : trial::onednn_files())
    for (const bool statistics : {false, true})
      for (const int scaled : {0, 1, 2, 3}) {
        CAPTURE(path);
        CAPTURE(scaled);
        V x = {1, 3, 1, 3, 4, 4, 4, 4}, y(8, -1), scale = {1, 2, 3, 4}, shift = {5, 6, 7, 8}, mean(2, -1), variance(2, -1);
        Normalization n{.source = tensor({2, 4}, {4, 1}),
                        .destination = tensor({2, 4}, {4, 1}),
                        .statistics = {},
                        .scale = (scaled & 1) != 0,
                        .shift = (scaled & 2) != 0,
                        .epsilon = 3};  // 1 / sqrt(1 + 3) = 1/2
        if (statistics) n.statistics = tensor({2}, {1});
        Primitive p = Primitive::layer_normalization(Library::open(path), n);
        const Primitive::Data data[] = {{onednn::source, x.data()},    {onednn::destination, y.data()},
                                        {onednn::scale, scale.data()}, {onednn::shift, shift.data()},
                                        {onednn::mean, mean.data()},   {onednn::variance, variance.data()}};
        p.run(data);
        V due = {-0.5F, 0.5F, -0.5F, 0.5F, 0, 0, 0, 0};
        for (std::size_t i = 0; i < 8; ++i) due[i] = due[i] * (n.scale ? scale[i % 4] : 1) + (n.shift ? shift[i % 4] : 0);
        close(y, due);
        close(mean, statistics ? V{2, 4} : V{-1, -1});
        close(variance, statistics ? V{1, 0} : V{-1, -1});
      }
}

TEST_CASE("oneDNN's convolution: groups, dilation, one-sided padding, stride, bias; either layout, plain and packed") {
  for (const std::string& path : trial::onednn_files())
    for (const bool last : {false, true})
      for (const bool packed : {false, true}) {
        CAPTURE(path);
        CAPTURE(last);
        CAPTURE(packed);
        V x = reordered({1, 2, 3, 4, 5, 10, 20, 30, 40, 50}, 2, last), y(16, -1), w = {1, -1, 2, 0, 1, 1, 0, 3},
          b = {100, 200, 300, 400};
        Convolution c{.source = signal(1, 2, 5, last),
                      .weights = tensor({2, 2, 1, 2}, {4, 2, 2, 1}),
                      .destination = signal(1, 4, 4, last),
                      .bias = tensor({4}, {1}),
                      .dilation = 2,
                      .padding_left = 1};
        c.source.packed = c.weights.packed = c.destination.packed = packed;
        Primitive p = Primitive::convolution(Library::open(path), c);
        const Primitive::Data data[] = {
            {onednn::source, x.data()}, {onednn::weights, w.data()}, {onednn::bias, b.data()}, {onednn::destination, y.data()}};
        p.run(data);
        // y[0][l] = x[0][l-1] - x[0][l+1]; y[1] = 2 x[0][l-1]; y[2] = x[1][l-1] + x[1][l+1]; y[3] = 3 x[1][l+1]
        CHECK(y == reordered({98, 98, 98, 98, 200, 202, 204, 206, 320, 340, 360, 380, 460, 490, 520, 550}, 4, last));
      }
}

TEST_CASE("oneDNN's deconvolution: stride, weights by input channel, bias; either layout, plain and packed") {
  for (const std::string& path : trial::onednn_files())
    for (const bool last : {false, true})
      for (const bool packed : {false, true}) {
        CAPTURE(path);
        CAPTURE(last);
        CAPTURE(packed);
        // Weights lie as (inputs, outputs, taps).
        V x = reordered({1, 2, 10, 20}, 2, last), y(12, -1), w = {1, 2, 3, 4, 5, 6, -1, 0, 0, 1, 1, 1}, b = {100, 200, 300};
        Convolution c{.source = signal(1, 2, 2, last),
                      .weights = tensor({1, 3, 2, 2}, {12, 2, 6, 1}),
                      .destination = signal(1, 3, 4, last),
                      .bias = tensor({3}, {1}),
                      .stride = 2};
        c.source.packed = c.weights.packed = c.destination.packed = packed;
        Primitive p = Primitive::deconvolution(Library::open(path), c);
        const Primitive::Data data[] = {
            {onednn::source, x.data()}, {onednn::weights, w.data()}, {onednn::bias, b.data()}, {onednn::destination, y.data()}};
        p.run(data);
        CHECK(y == reordered({91, 102, 82, 104, 203, 214, 206, 228, 315, 316, 330, 332}, 3, last));
      }
}

TEST_CASE("oneDNN's matmul adds a tensor after its other post-ops, broadcast along dims of 1") {
  for (const std::string& path : trial::onednn_files()) {
    CAPTURE(path);
    V a = {1, 2, 3, 4}, identity = {1, 0, 0, 1}, term = {10, 20}, y(4, -1);
    const std::vector<PostOp> post_ops = {{PostOp::linear, 2}, {PostOp::add, 1, tensor({1, 2}, {2, 1})}};
    const Tensor square = tensor({2, 2}, {2, 1});
    Primitive p = Primitive::matmul(Library::open(path), square, square, {}, square, post_ops);
    const Primitive::Data data[] = {{onednn::source, a.data()},
                                    {onednn::weights, identity.data()},
                                    {onednn::destination, y.data()},
                                    {onednn::added, term.data()}};
    p.run(data);
    CHECK(y == V{12, 24, 16, 28});
  }
}
