// SPDX-License-Identifier: Apache-2.0
// Ten planted bugs: each is found by the layer named here, and the kernel without it is clean and right.
#include "tests/emulator/planted/planted.hpp"

#include <cmath>
#include <set>

#include "tests/emulator/trial.hpp"

namespace assay::emulator {
namespace {

enum class Layer { checker, numbers };

struct Bug {
  int number;
  const char* kernel;
  const char* what;
  Layer layer;
  const char* kind = "";  // of the checker's finding
};
constexpr Bug bugs[] = {
    {1, "gemm", "barrier before the product missing", Layer::checker, "race"},
    {2, "gemm", "barrier after the product missing", Layer::checker, "race"},
    {3, "softmax", "barrier in the tree missing", Layer::checker, "race"},
    {4, "softmax", "barrier before reuse missing", Layer::checker, "race"},
    {5, "layernorm", "barrier that only some threads reach", Layer::checker, "divergent barrier"},
    {6, "attention", "__syncwarp missing", Layer::checker, "race"},
    {7, "sum", "plain addition instead of atomicAdd", Layer::checker, "race"},
    {8, "shift", "shared array read one past its end", Layer::checker, "out of bounds"},
    {9, "shift", "one row too many written", Layer::checker, "out of bounds"},
    {10, "layernorm", "warp sum begins at 8 lanes instead of 16", Layer::numbers},
};

struct Outcome {
  Report report;
  std::vector<float> y;
  std::vector<double> expected;
};

/// Integer values: every order of summation gives the same bits, except where exponentials or divisions come in.
std::vector<float> values(std::size_t count, int step) {
  std::vector<float> v(count);
  for (std::size_t i = 0; i < count; ++i)
    v[i] = static_cast<float>(static_cast<int>(i * static_cast<std::size_t>(step) % 13) - 6);
  return v;
}

std::vector<double> expected(std::string_view kernel, const PlantedArgs& g, const std::vector<float>& a,
                             const std::vector<float>& b) {
  std::vector<double> y;
  const auto A = [&](int i) { return static_cast<double>(a[static_cast<std::size_t>(i)]); };
  const auto B = [&](int i) { return static_cast<double>(b[static_cast<std::size_t>(i)]); };
  if (kernel == "gemm")
    for (int i = 0; i < g.m; ++i)
      for (int j = 0; j < g.n; ++j) {
        double sum = 0;
        for (int l = 0; l < g.k; ++l) sum += A(i * g.k + l) * B(l * g.n + j);
        y.push_back(sum);
      }
  if (kernel == "softmax" || kernel == "layernorm")
    for (int i = 0; i < g.m; ++i) {
      double sum = 0;
      for (int j = 0; j < g.n; ++j) sum += kernel == "softmax" ? std::exp(A(i * g.n + j)) : A(i * g.n + j);
      for (int j = 0; j < g.n; ++j)
        y.push_back(kernel == "softmax" ? std::exp(A(i * g.n + j)) / sum : A(i * g.n + j) - sum / g.n);
    }
  if (kernel == "attention")
    for (int q = 0; q < g.m; ++q)
      for (int lane = 0; lane < 32; ++lane) {
        double sum = 0;
        for (int key = 0; key < 32; ++key) {
          double score = 0;
          for (int l = 0; l < g.k; ++l) score += A(q * g.k + l) * B(key * g.k + l);
          sum += score * B(key * g.k + lane % g.k);
        }
        y.push_back(sum);
      }
  if (kernel == "sum") {
    double sum = 0;
    for (const float x : a) sum += static_cast<double>(x);
    y.push_back(sum);
  }
  if (kernel == "shift")
    for (int i = 0; i < g.m * 32; ++i) y.push_back(A(i) + (i % 32 < 31 ? A(i + 1) : 0));
  return y;
}

struct Setting {
  kernels::Launch shape;
  int m, n, k;
  std::size_t a, b, y;  // elements
};
Setting setting(std::string_view kernel) {
  if (kernel == "gemm") return {{.grid_x = 2, .grid_y = 2, .block_x = 8, .block_y = 8}, 16, 16, 19, 16 * 19, 19 * 16, 256};
  if (kernel == "softmax") return {{.grid_x = 3, .block_x = 64}, 3, 50, 0, 150, 1, 150};
  if (kernel == "layernorm") return {{.grid_x = 3, .block_x = 64}, 3, 64, 0, 192, 1, 192};
  if (kernel == "attention") return {{.grid_x = 3, .block_x = 32}, 3, 0, 5, 15, 160, 96};
  if (kernel == "sum") return {{.grid_x = 2, .block_x = 64}, 0, 0, 0, 128, 1, 1};
  return {{.grid_x = 4, .block_x = 32}, 3, 0, 0, 96, 1, 96};  // shift: one block more than rows
}

Outcome run(const std::string& kernel, int bug, Schedule schedule, std::uint64_t seed = 1) {
  const Setting s = setting(kernel);
  const std::vector<float> a = values(s.a, 7), b = values(s.b, 5);
  Memory<float> memory_a(a), memory_b(b), y(s.y);
  if (kernel == "sum") y.fill(0);
  const PlantedArgs args{memory_a.at(), memory_b.at(), y.at(), s.m, s.n, s.k};
  Report report =
      launch_kernel("planted_" + kernel + "_" + std::to_string(bug), s.shape, args, {.schedule = schedule, .seed = seed});
  return {std::move(report), y.values(), expected(kernel, args, a, b)};
}

bool right(const Outcome& o) {
  for (std::size_t i = 0; i < o.y.size(); ++i)
    if (!(std::fabs(static_cast<double>(o.y[i]) - o.expected[i]) <= 1e-5)) return false;
  return o.y.size() == o.expected.size();
}

TEST_CASE("kernels without a planted bug are clean and right") {
  for (const char* kernel : {"gemm", "softmax", "layernorm", "attention", "sum", "shift"})
    for (const Schedule s : all_schedules) {
      const Outcome o = run(kernel, 0, s);
      CHECK_MESSAGE(o.report.clean(), text(o.report));
      CHECK_MESSAGE(right(o), kernel);
    }
}

#ifdef ASSAY_CHECKED
TEST_CASE("a planted bug in memory or order is found by the checker, whatever the schedule") {
  for (const Bug& bug : bugs) {
    if (bug.layer != Layer::checker) continue;
    for (const Schedule s : all_schedules) {
      const Outcome o = run(bug.kernel, bug.number, s);
      bool found = false;
      for (const Finding& f : o.report.findings) found = found || f.kind == bug.kind;
      CHECK_MESSAGE(found, "bug " << bug.number << " (" << bug.what << ") gave no " << bug.kind << ": " << text(o.report));
    }
  }
}

TEST_CASE("the races of a planted bug are the same under every schedule") {
  const auto races = [](const Bug& bug, Schedule schedule, std::uint64_t seed) {
    std::set<std::string> places;
    for (const Finding& f : run(bug.kernel, bug.number, schedule, seed).report.findings)
      if (f.kind == "race") places.insert(f.places);
    return places;
  };
  for (const Bug& bug : bugs) {
    CAPTURE(bug.number);
    const auto in_order = races(bug, Schedule::in_order, 1);
    CHECK(in_order.empty() == (std::string_view(bug.kind) != "race" && bug.number != 5));
    CHECK(races(bug, Schedule::reverse, 1) == in_order);
    for (std::uint64_t seed = 1; seed <= 10; ++seed) CHECK(races(bug, Schedule::random, seed) == in_order);
  }
}
#endif

TEST_CASE("a planted bug in arithmetic is found by the numbers and has no finding") {
  for (const Bug& bug : bugs) {
    if (bug.layer != Layer::numbers) continue;
    for (const Schedule s : all_schedules) {
      const Outcome o = run(bug.kernel, bug.number, s);
      CHECK_MESSAGE(o.report.clean(), text(o.report));
      CHECK_FALSE_MESSAGE(right(o), "bug " << bug.number << " (" << bug.what << ") gave the right numbers");
    }
  }
}

// For AddressSanitizer, which must end these: run alone, and only under it.
TEST_CASE("planted read past a shared array" * doctest::skip()) {
  run("shift", 8, Schedule::in_order);
}
TEST_CASE("planted write past global memory" * doctest::skip()) {
  run("shift", 9, Schedule::in_order);
}

}  // namespace
}  // namespace assay::emulator
