// SPDX-License-Identifier: Apache-2.0
// What a reference costs: its time over that of an Eigen fp64 GEMM of as many operations, taken in turns in one run on all
// cores. "value" is the reference without magnitudes where it has that form.                            reference_speed
// [rounds]
#include <Eigen/Core>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <span>
#include <vector>

#include "reference/ops/attention.hpp"
#include "reference/ops/conv1d.hpp"
#include "reference/ops/gemm.hpp"

using namespace assay;

namespace {

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::vector<double> numbers(std::int64_t count) {
  std::mt19937 engine(static_cast<unsigned>(count));
  std::normal_distribution<float> normal;
  std::vector<double> out(static_cast<std::size_t>(count));
  for (double& v : out) v = normal(engine);
  return out;
}

/// A product of 2*m*n*k = flops operations, m about n about k.
class Yardstick {
 public:
  explicit Yardstick(double flops)
      : n_(static_cast<Eigen::Index>(std::cbrt(flops / 2))), k_(flops / 2.0 / static_cast<double>(n_ * n_)) {
    a_.setRandom(n_, k_), b_.setRandom(k_, n_), c_.resize(n_, n_);
  }
  void operator()() { c_.noalias() = a_ * b_; }

 private:
  Eigen::Index n_, k_;
  Eigen::MatrixXd a_, b_, c_;
};

void compare(const char* what, double flops, int rounds, const std::function<void()>& reference) {
  Yardstick gemm(flops);
  std::vector<double> ratios;
  double best = 1e30;
  for (int r = 0; r < rounds; ++r) {
    const double ours = seconds(reference), theirs = seconds([&] { gemm(); });
    ratios.push_back(ours / theirs), best = std::min(best, ours);
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("%-58s %8.2f GFLOP  %6.2f s  x%.2f (%.2f to %.2f)\n", what, flops * 1e-9, best, ratios[ratios.size() / 2],
              ratios.front(), ratios.back());
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  std::printf("%-58s %14s  %8s  %s\n", "reference", "operations", "best", "over an Eigen fp64 GEMM: median (least to most)");
  {
    const std::vector<double> a = numbers(1500 * 1280), b = numbers(1280 * 1280);
    const reference::Gemm g{.m = 1500, .n = 1280, .k = 1280, .a = a, .b = b};
    compare("gemm 1500x1280x1280, value", 2.0 * 1500 * 1280 * 1280, rounds, [&] { reference::gemm(g, false, false); });
    compare("gemm 1500x1280x1280, with magnitudes", 2.0 * 1500 * 1280 * 1280, rounds, [&] { reference::gemm(g, false, true); });
  }
  {
    const std::vector<double> x = numbers(1280 * 3000), w = numbers(1280 * 1280 * 3);
    const reference::Conv1d c{.cin = 1280, .cout = 1280, .l = 3000, .k = 3, .stride = 2, .padl = 1, .padr = 1, .x = x, .w = w};
    const double flops = 2.0 * 1280 * 1280 * 3 * 1500;
    compare("conv1d 1280 to 1280, k=3, stride 2, length 3000, magnitudes", flops, rounds, [&] { reference::conv1d(c, false); });
  }
  {
    const std::int64_t heads = 16, s = 1500, d = 64;
    const std::vector<double> q = numbers(heads * s * d), k = numbers(heads * s * d + 1), v = numbers(heads * s * d + 2);
    const std::vector<reference::KeyRange> visible(static_cast<std::size_t>(s), {0, s});
    reference::Attention a{.hq = heads, .hkv = heads, .sq = s, .skv = s, .d = d, .dv = d, .scale = 0.125, .exchangeable = true};
    a.q = q, a.k = std::span(k).first(q.size()), a.v = std::span(v).first(q.size()), a.visible = visible;
    compare("attention 16 heads x 1500 x 64, with magnitudes", 4.0 * heads * s * s * d, rounds,
            [&] { reference::attention(a); });
  }
  return 0;
}
