// SPDX-License-Identifier: Apache-2.0
// How much of the activations' bounds their correct variants use, by kind, family and format: docs/numerics.md section 4 prints
// it.
//   activation_tightness [seeds] [variant]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "probes/ops/activation/activation.hpp"
#include "reference/compare.hpp"

using namespace assay;

namespace {

/// Largest error over its bound; -1 when something is over the bound or of the wrong class.
double measure(const Problem& p, const std::string& variant, std::uint64_t seed) {
  const Op& op = find_op("activation");
  std::vector<std::vector<std::byte>> memory;
  std::vector<Image> images;
  for (const Operand& o : p.operands) memory.emplace_back(static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype));
  for (std::vector<std::byte>& m : memory) images.push_back({m.data(), m.size()});
  for (std::size_t i = 0; i + 1 < p.operands.size(); ++i) fill(p.operands[i], p.fills[i], seed, memory[i]);
  const auto call =
      activation::model_target().prepare(p, {.target = "model", .variant = variant, .library = {}, .environment = {}});
  call->load(images), call->execute(), call->store(images);
  const std::vector<std::span<const std::byte>> inputs(memory.begin(), memory.end());
  const Expected truth = op.expect(p, inputs, {}).at(0);
  const Arithmetic a = call->report().arithmetic;
  const Discrepancy d = compare(p.operands.back(), memory.back(), truth, op.bound(p, 0, truth, a), a, 0, true);
  return d.bad > 0 ? -1 : d.max_over_hard;
}

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 20;
  const std::string only = argc > 2 ? argv[2] : "";
  std::int64_t alarms = 0, elements = 0;
  for (const char* formats : {"in=f32", "in=f64", "in=bf16,out=f32", "in=f16,out=f32", "in=bf16", "in=f16"})
    for (const char* kind : {"gelu_erf", "gelu_tanh", "silu", "relu"})
      for (const char* bias : {"0", "1"}) {
        std::printf("%-9s bias=%s %-16s", kind, bias, formats);
        for (const Family f : activation::families()) {
          double most = 0;
          const Problem p = make_problem(std::string("g1:activation:rows=8,n=257,kind=") + kind + ",bias=" + bias + "," +
                                         formats + ",fill=" + std::string(name(f)));
          for (const std::string& variant : activation::model_target().variants) {
            if (!only.empty() && only != variant) continue;
            for (int seed = 1; seed <= seeds; ++seed) {
              const double over = measure(p, variant, static_cast<std::uint64_t>(seed));
              if (over < 0) {
                ++alarms;
                std::printf(" ALARM %s seed %d", variant.c_str(), seed);
              }
              // A result narrower than what it was computed in meets its bound at every midpoint: nothing to measure.
              if (variant != "wide") most = std::max(most, over);
              elements += 8 * 257;
            }
          }
          std::printf(" %s %.2f", std::string(name(f)).c_str(), most);
        }
        std::printf("\n");
        std::fflush(stdout);
      }
  std::printf("%lld elements, %lld alarms\n", static_cast<long long>(elements), static_cast<long long>(alarms));
  return alarms > 0;
}
