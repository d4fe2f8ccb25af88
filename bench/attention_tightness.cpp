// SPDX-License-Identifier: Apache-2.0
// How much of attention's bounds its correct variants use, by fill and number of keys, and what the reference costs beside
// Eigen's fp64 product of equal flops: what docs/numerics.md prints.
//   attention_tightness [seeds] [largest skv]
#include <Eigen/Core>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <string>

#include "probes/ops/attention/attention.hpp"
#include "reference/compare.hpp"

using namespace assay;

namespace {

struct Most {
  double hard = 0, gate = 0;
  long alarms = 0, judged = 0;
};

/// Of output `index`: 0 the result, 1 the log-sum-exp.
void measure(const Problem& p, const std::string& variant, std::uint64_t seed, std::size_t index, Most& most) {
  const Op& op = find_op("attention");
  const Target target = attention::model_target();
  const TargetSpec spec{.target = "model", .variant = variant, .library = {}, .environment = {}};
  if (target.refuses(p, spec)) return;
  std::vector<std::vector<std::byte>> memory;
  std::vector<Image> images;
  for (const Operand& o : p.operands) memory.emplace_back(static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype));
  for (std::vector<std::byte>& m : memory) images.push_back({m.data(), m.size()});
  for (std::size_t i = 0; i < p.operands.size(); ++i)
    if (p.operands[i].access == Access::in) fill(p.operands[i], p.fills[i], seed, memory[i]);
  const auto call = target.prepare(p, spec);
  call->load(images), call->execute(), call->store(images);
  const std::vector<std::span<const std::byte>> inputs(memory.begin(), memory.end());
  const Expected truth = op.expect(p, inputs, {}).at(index);
  const Arithmetic a = call->report().arithmetic;
  const std::size_t operand = p.outputs()[index];
  const Discrepancy d = compare(p.operands[operand], memory[operand], truth, op.bound(p, index, truth, a), a, 0, false);
  most.hard = std::max(most.hard, d.max_over_hard), most.gate = std::max(most.gate, d.max_over_iid);
  most.alarms += d.bad + d.over_iid, most.judged += d.compared;
}

void table(const std::string& formats, std::size_t index, bool narrow, int seeds, std::int64_t largest) {
  const char* const fills[] = {"normal",
                               "uniform",
                               "heavy",
                               "two_level",
                               "one_hot",
                               "constant",
                               "extreme",
                               "normal,sigma=16",
                               "masked,bias=shared",
                               "extreme,bias=shared",
                               "shifted,bias=shared"};
  std::printf("%s, %s%s: largest error over T_hard / over T_iid\n%-6s", index == 0 ? "output" : "log-sum-exp", formats.c_str(),
              narrow ? ", 16-bit probabilities" : "", "skv");
  for (const char* f : fills) std::printf("%20s", f);
  std::printf("\n");
  long alarms = 0, judged = 0;
  for (const std::int64_t n : {1, 2, 7, 33, 128, 300, 1500}) {
    if (n > largest) continue;
    std::printf("%-6lld", static_cast<long long>(n));
    for (const char* f : fills) {
      const Problem p =
          make_problem("g1:attention:sq=3,skv=" + std::to_string(n) + ",d=64,dv=16,lse=1," + formats + ",fill=" + f);
      Most most;
      for (const std::string& variant : attention::model_target().variants)
        if (variant.starts_with("narrow") == narrow)
          for (int seed = 1; seed <= seeds; ++seed) measure(p, variant, static_cast<std::uint64_t>(seed), index, most);
      std::printf("       %6.4f %6.3f", most.hard, most.gate);
      alarms += most.alarms, judged += most.judged;
    }
    std::printf("\n");
    std::fflush(stdout);
  }
  std::printf("%ld alarms in %ld results\n", alarms, judged);
}

double seconds(const std::function<void()>& work) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const std::clock_t begin = std::clock();  // processor time of all threads
    work();
    best = std::min(best, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return best;
}

/// 16 heads of 1500 queries and keys, 64 wide.
void cost() {
  constexpr std::int64_t heads = 16, s = 1500, d = 64;
  const std::vector<double> x(static_cast<std::size_t>(heads * s * d), 0.37);
  const std::vector<reference::KeyRange> all(static_cast<std::size_t>(s), {0, s});
  reference::Attention a{.hq = heads, .hkv = heads, .sq = s, .skv = s, .d = d, .dv = d, .scale = 0.125, .exchangeable = true};
  a.q = a.k = a.v = x, a.visible = all;
  a.magnitudes = false;
  const double value = seconds([&] { reference::attention(a); });
  a.magnitudes = true;
  const double whole = seconds([&] { reference::attention(a); });
  // 4 * 16 * 1500^2 * 64 flops in one product.
  Eigen::MatrixXd left = Eigen::MatrixXd::Constant(3000, 256, 0.5), right = Eigen::MatrixXd::Constant(256, 6000, 0.5),
                  c(3000, 6000);
  const double product = seconds([&] { c.noalias() = left * right; });
  std::printf("16 x 1500 x 64: value %.2f, with magnitudes %.2f of an Eigen fp64 product of equal flops (%.3f s)\n",
              value / product, whole / product, product);
}

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 20;
  const std::int64_t largest = argc > 2 ? std::atoll(argv[2]) : 1500;
  cost();
  if (seeds == 0) return 0;
  for (const char* formats : {"in=f32", "in=bf16,out=f32", "in=f16,out=f32", "in=f64"}) {
    table(formats, 0, false, seeds, largest);
    if (std::string(formats) != "in=f64") table(formats, 0, true, seeds, largest);
    table(formats, 1, false, seeds, largest);
  }
}
