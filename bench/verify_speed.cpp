// SPDX-License-Identifier: Apache-2.0
// What verifying a finished fp32 product costs: its time as a fraction of an Eigen fp64 GEMM of that size, taken in turns in
// one run on all cores.                                                                  verify_speed [rounds] [size ...]
#include <Eigen/Core>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include "reference/inputs.hpp"
#include "reference/verify.hpp"

using namespace assay;

namespace {

using Floats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Square {
  Operand operand;
  std::vector<std::byte> data;

  Square(const char* role, std::int64_t n, std::uint32_t stream)
      : operand{.role = role, .dims = {1, n, n}, .strides = {n * n, n, 1}, .span = n * n, .stream = stream},
        data(static_cast<std::size_t>(n * n) * sizeof(float)) {}
  Eigen::Map<Floats> floats() {
    const Eigen::Index n = operand.dims[1];
    return {reinterpret_cast<float*>(data.data()), n, n};
  }
};

/// A correct product of one family, ready to be verified.
struct Finished {
  Family family;
  Square a, b, c;
  reference::Verification v{};
  std::vector<double> times{}, ratios{};

  Finished(std::int64_t n, Family f) : family(f), a("A", n, 1), b("B", n, 2), c("C", n, 3) {
    const std::int64_t limit = family == Family::integer ? integer_limit(n, 24, DType::f32) : 1;
    fill(a.operand, {.family = family, .outer_axis = 1, .inner_axis = 2, .left = true, .limit = limit}, 1, a.data);
    fill(b.operand, {.family = family, .outer_axis = 2, .inner_axis = 1, .left = false, .limit = limit}, 1, b.data);
    c.floats().noalias() = a.floats() * b.floats();
  }
  void verify() {
    v = reference::verify({.a = a.operand,
                           .b = b.operand,
                           .c = c.operand,
                           .a_storage = a.data,
                           .b_storage = b.data,
                           .c_storage = c.data,
                           .arithmetic = {},
                           .exchangeable = exchangeable(family),
                           .exact = exact(family),
                           .poison_bits = 0x7fffffff},
                          1);
  }
};

/// False when a verification found fault with a correct product, or saw less than all of it.
bool measure(std::int64_t n, int rounds) {
  std::vector<Finished> products;
  for (const Family family : {Family::normal, Family::integer}) products.emplace_back(n, family);
  const Eigen::MatrixXd x = products[0].a.floats().cast<double>(), y = products[0].b.floats().cast<double>();
  Eigen::MatrixXd z(n, n);
  for (int r = 0; r < rounds; ++r) {
    for (Finished& p : products) p.times.push_back(seconds([&] { p.verify(); }));
    const double gemm = seconds([&] { z.noalias() = x * y; });
    for (Finished& p : products) p.ratios.push_back(gemm / p.times.back());
  }
  bool good = true;
  for (Finished& p : products) {
    std::sort(p.times.begin(), p.times.end());
    std::sort(p.ratios.begin(), p.ratios.end());
    std::printf("%6ld  %-8s  %-20s  %8.1f ms  1/%.0f (1/%.0f to 1/%.0f)  smallest fault %.2g RMS(c)  %s\n",
                static_cast<long>(n), name(p.family).data(), p.v.method().c_str(), 1e3 * p.times[p.times.size() / 2],
                p.ratios[p.ratios.size() / 2], p.ratios.front(), p.ratios.back(), p.v.smallest_fault,
                p.v.clean() ? "clean" : "NOT CLEAN");
    std::fflush(stdout);
    good = good && p.v.clean() && p.v.panels;
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  std::vector<std::int64_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::max(1L, std::atol(argv[i])));
  if (sizes.empty()) sizes = {1024, 2048, 4096};
  std::printf("%6s  %-8s  %-20s  %11s  %s\n", "size", "family", "verification", "median",
              "over a GEMM: median (least to most)");
  bool good = true;
  for (const std::int64_t n : sizes) good = measure(n, rounds) && good;
  return good ? 0 : 1;
}
