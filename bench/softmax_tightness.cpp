// SPDX-License-Identifier: Apache-2.0
// How much of softmax's bounds its correct variants use, by family and width: what docs/numerics.md section 4.4 prints.
//   softmax_tightness [seeds] [largest n]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "probes/ops/softmax/softmax.hpp"
#include "reference/compare.hpp"

using namespace assay;

namespace {

struct Most {
  double hard = 0, gate = 0;
};

void measure(const Problem& p, const std::string& variant, std::uint64_t seed, Most& most) {
  const Op& op = find_op("softmax");
  std::vector<std::vector<std::byte>> memory;
  std::vector<Image> images;
  for (const Operand& o : p.operands) memory.emplace_back(static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype));
  for (std::vector<std::byte>& m : memory) images.push_back({m.data(), m.size()});
  fill(p.operands[0], p.fills[0], seed, memory[0]);
  const auto call =
      softmax::model_target().prepare(p, {.target = "model", .variant = variant, .library = {}, .environment = {}});
  call->load(images), call->execute(), call->store(images);
  const std::vector<std::span<const std::byte>> inputs(memory.begin(), memory.end());
  const Expected truth = op.expect(p, inputs, {}).at(0);
  const Arithmetic a = call->report().arithmetic;
  const Discrepancy d = compare(p.operands[1], memory[1], truth, op.bound(p, 0, truth, a), a, 0, false);
  most.hard = std::max(most.hard, d.max_over_hard), most.gate = std::max(most.gate, d.max_over_iid);
}

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 20;
  const std::int64_t largest = argc > 2 ? std::atoll(argv[2]) : 32768;
  for (const char* formats : {"in=f32", "in=bf16,out=f32", "in=f16,out=f32", "in=f64"})
    for (const char* kind : {"softmax", "log"}) {
      std::printf("%s, %s: largest error over T_hard / over T_iid\n%-11s", kind, formats, "n");
      for (const Family f : logit_families()) std::printf("%15s", std::string(name(f)).c_str());
      std::printf("\n");
      for (const std::int64_t n : {1, 2, 7, 33, 128, 256, 1000, 4096, 32768}) {
        if (n > largest) continue;
        std::printf("%-11lld", static_cast<long long>(n));
        for (const Family f : logit_families()) {
          const Problem p = make_problem("g1:softmax:rows=4,n=" + std::to_string(n) + ",kind=" + kind + "," + formats +
                                         ",fill=" + std::string(name(f)));
          Most most;
          for (const std::string& variant : softmax::model_target().variants)
            for (int seed = 1; seed <= seeds; ++seed) measure(p, variant, static_cast<std::uint64_t>(seed), most);
          std::printf("   %5.3f %6.3f", most.hard, most.gate);
        }
        std::printf("\n");
        std::fflush(stdout);
      }
    }
}
