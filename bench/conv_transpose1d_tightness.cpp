// SPDX-License-Identifier: Apache-2.0
// How much of conv_transpose1d's bounds its correct variants use, by family and shape, and what its reference costs beside a
// matrix product of equal flops: what docs/numerics.md section 4.6 prints.
//   conv_transpose1d_tightness [seeds]
#include <Eigen/Core>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "probes/ops/conv_transpose1d/conv_transpose1d.hpp"
#include "reference/compare.hpp"
#include "reference/ops/conv_transpose1d.hpp"

using namespace assay;

namespace {

struct Most {
  double hard = 0, gate = 0, rms = 0;
};

void measure(const Problem& p, const std::string& variant, std::uint64_t seed, Most& most) {
  const Op& op = find_op("conv_transpose1d");
  const Target model = conv_transpose1d::model_target();
  const TargetSpec spec{.target = "model", .variant = variant, .library = {}, .environment = {}};
  if (model.refuses(p, spec)) return;
  std::vector<std::vector<std::byte>> memory;
  std::vector<Image> images;
  for (const Operand& o : p.operands) memory.emplace_back(static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype));
  for (std::vector<std::byte>& m : memory) images.push_back({m.data(), m.size()});
  for (std::size_t i = 0; i + 1 < memory.size(); ++i) fill(p.operands[i], p.fills[i], seed, memory[i]);
  const auto call = model.prepare(p, spec);
  call->load(images), call->execute(), call->store(images);
  const std::vector<std::span<const std::byte>> inputs(memory.begin(), memory.end());
  const Expected truth = op.expect(p, inputs, {}).at(0);
  const Arithmetic a = call->report().arithmetic;
  const Discrepancy d = compare(p.operands.back(), memory.back(), truth, op.bound(p, 0, truth, a), a, 0, false);
  if (d.bad + d.over_iid > 0) std::printf("ALARM: %s %s\n", variant.c_str(), to_string(p.id, op.grammar).c_str());
  most.hard = std::max(most.hard, d.max_over_hard), most.gate = std::max(most.gate, d.max_over_iid);
  most.rms = std::max(most.rms, d.rms_over_statistic);
}

template <class F>
double seconds(const F& f) {
  double best = 1e9;
  for (int i = 0; i < 3; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  return best;
}

/// The reference with magnitudes against an fp64 product of as many flops.
void cost(std::int64_t cin, std::int64_t cout, std::int64_t k, std::int64_t stride, std::int64_t l) {
  std::vector<double> x(static_cast<std::size_t>(cin * l)), w(static_cast<std::size_t>(cin * cout * k));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 97) - 48;
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<double>(i % 89) - 44;
  const Eigen::MatrixXd a = Eigen::MatrixXd::Random(cout * k, cin), b = Eigen::MatrixXd::Random(cin, l);
  Eigen::MatrixXd c(cout * k, l);
  const double product = seconds([&] { c.noalias() = a * b; });
  const double reference = seconds([&] {
    reference::conv_transpose1d({.cin = cin, .cout = cout, .l = l, .k = k, .stride = stride, .x = x, .w = w}, false);
  });
  std::printf("%lld->%lld k%lld s%lld l%lld: reference %.1f ms, fp64 product %.1f ms, ratio %.2f\n",
              static_cast<long long>(cin), static_cast<long long>(cout), static_cast<long long>(k),
              static_cast<long long>(stride), static_cast<long long>(l), 1e3 * reference, 1e3 * product, reference / product);
}

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 10;
  const Family families[] = {Family::normal, Family::uniform,   Family::heavy,  Family::wide,
                             Family::cancel, Family::two_level, Family::nan_one};
  for (const char* formats : {"in=f32", "in=bf16,out=f32", "in=f16,out=f32", "in=f64"}) {
    std::printf("%s: largest error over T_hard / over T_iid / RMS\n%-60s", formats, "shape");
    for (const Family f : families) std::printf("%20s", std::string(name(f)).c_str());
    std::printf("\n");
    for (const char* shape :
         {"cin=1,cout=4,l=9,k=1", "cin=1,cout=4,l=9,k=3,bias=1", "cin=8,cout=4,l=12,k=8,stride=4,bias=1",
          "cin=32,cout=4,l=16,k=16,stride=8,padl=4,padr=4,bias=1", "cin=128,cout=2,l=16,k=4,stride=2,padl=1,padr=1,bias=1",
          "cin=64,cout=2,l=24,k=11,stride=1,bias=1", "cin=512,cout=1,l=8,k=16,stride=8,padl=4,padr=4,bias=1"}) {
      std::printf("%-60s", shape);
      for (const Family f : families) {
        const Problem p =
            make_problem("g1:conv_transpose1d:" + std::string(shape) + "," + formats + ",fill=" + std::string(name(f)));
        Most most;
        for (const std::string& variant : conv_transpose1d::model_target().variants)
          for (int seed = 1; seed <= seeds; ++seed) measure(p, variant, static_cast<std::uint64_t>(seed), most);
        std::printf("   %5.3f %5.3f %5.3f", most.hard, most.gate, most.rms);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  cost(512, 256, 16, 8, 300);
  cost(256, 128, 16, 8, 1200);
  cost(64, 32, 4, 2, 20000);
}
