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

/// False when the verification found fault with a correct product, or saw less than all of it.
bool measure(std::int64_t n, Family family, int rounds, double& yardstick) {
  Square a("A", n, 1), b("B", n, 2), c("C", n, 3);
  const std::int64_t limit = family == Family::integer ? integer_limit(n, 24, DType::f32) : 1;
  fill(a.operand, {.family = family, .outer_axis = 1, .inner_axis = 2, .left = true, .limit = limit}, 1, a.data);
  fill(b.operand, {.family = family, .outer_axis = 2, .inner_axis = 1, .left = false, .limit = limit}, 1, b.data);
  c.floats().noalias() = a.floats() * b.floats();
  const reference::FinishedGemm g{.a = a.operand,
                                  .b = b.operand,
                                  .c = c.operand,
                                  .a_storage = a.data,
                                  .b_storage = b.data,
                                  .c_storage = c.data,
                                  .arithmetic = {},
                                  .exchangeable = exchangeable(family),
                                  .exact = exact(family),
                                  .poison_bits = 0x7fffffff};
  reference::Verification v;
  std::vector<double> times;
  // The GEMM is the slow half; the fastest of both sides are compared.
  if (yardstick == 0) {
    const Eigen::MatrixXd x = a.floats().cast<double>(), y = b.floats().cast<double>();
    Eigen::MatrixXd z(n, n);
    yardstick = 1e30;
    for (int r = 0; r < std::max(1, rounds / 3); ++r) {
      times.push_back(seconds([&] { v = reference::verify(g, 1); }));
      yardstick = std::min(yardstick, seconds([&] { z.noalias() = x * y; }));
    }
  }
  for (int r = 0; r < rounds; ++r) times.push_back(seconds([&] { v = reference::verify(g, 1); }));
  std::sort(times.begin(), times.end());
  std::printf(
      "%6ld  %-8s  %-20s  %7.1f ms (median %7.1f)  GEMM %7.2f s  1/%.0f (median 1/%.0f)  smallest fault %.2g RMS(c)  %s\n",
      static_cast<long>(n), name(family).data(), v.method().c_str(), 1e3 * times.front(), 1e3 * times[times.size() / 2],
      yardstick, yardstick / times.front(), yardstick / times[times.size() / 2], v.smallest_fault,
      v.clean() ? "clean" : "NOT CLEAN");
  return v.clean() && v.panels;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 5;
  std::vector<std::int64_t> sizes;
  for (int i = 2; i < argc; ++i) sizes.push_back(std::max(1L, std::atol(argv[i])));
  if (sizes.empty()) sizes = {1024, 2048, 4096};
  bool good = true;
  for (const std::int64_t n : sizes) {
    double yardstick = 0;
    for (const Family family : {Family::normal, Family::integer}) good = measure(n, family, rounds, yardstick) && good;
  }
  return good ? 0 : 1;
}
