// SPDX-License-Identifier: Apache-2.0
// How much of conv1d's bounds its correct variants use, by variant, family and channels: docs/numerics.md section 4.8.
//   conv1d_tightness [seeds] [largest cin]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "probes/ops/conv1d/targets.hpp"
#include "reference/compare.hpp"

using namespace assay;

namespace {

struct Most {
  double hard = 0, gate = 0;
};

void measure(const std::string& id, const std::string& variant, std::uint64_t seed, Most& most) {
  const Problem p = make_problem(id);
  const Op& op = find_op("conv1d");
  std::vector<std::vector<std::byte>> memory;
  std::vector<Image> images;
  for (const Operand& o : p.operands) memory.emplace_back(static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype));
  for (std::vector<std::byte>& m : memory) images.push_back({m.data(), m.size()});
  for (std::size_t i = 0; i + 1 < memory.size(); ++i) fill(p.operands[i], p.fills[i], seed, memory[i]);
  const Target models = conv1d::model_target();
  const TargetSpec spec{.target = "model", .variant = variant, .library = {}, .environment = {}};
  if (models.refuses(p, spec)) return;
  const auto call = models.prepare(p, spec);
  call->load(images), call->execute(), call->store(images);
  const std::vector<std::span<const std::byte>> inputs(memory.begin(), memory.end());
  const Expected truth = op.expect(p, inputs, {}).at(0);
  const Arithmetic a = call->report().arithmetic;
  const Discrepancy d = compare(p.operands.back(), memory.back(), truth, op.bound(p, 0, truth, a), a, 0, false);
  most.hard = std::max(most.hard, d.max_over_hard), most.gate = std::max(most.gate, d.max_over_iid);
}

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 20;
  const long long largest = argc > 2 ? std::atoll(argv[2]) : 256;
  for (const char* formats : {"in=f32", "in=f16,out=f32", "in=f64"}) {
    std::printf("%s: largest error over T_hard / over T_iid, n=1, cout=4, l=48, k=3, padl=padr=1, bias\n%-22s", formats, "cin");
    const Family families[] = {Family::integer, Family::normal, Family::uniform,   Family::heavy,
                               Family::wide,    Family::cancel, Family::two_level, Family::sign};
    for (const Family f : families) std::printf("%15s", std::string(name(f)).c_str());
    std::printf("\n");
    for (const std::string& variant : conv1d::model_target().variants)
      for (const long long cin : {1, 4, 32, 256}) {
        if (cin > largest) continue;
        std::printf("%-14s%8lld", variant.c_str(), cin);
        for (const Family f : families) {
          Most most;
          for (int seed = 1; seed <= seeds; ++seed)
            measure("g1:conv1d:cin=" + std::to_string(cin) + ",cout=4,l=48,k=3,padl=1,padr=1,bias=1," + formats +
                        ",fill=" + std::string(name(f)),
                    variant, static_cast<std::uint64_t>(seed), most);
          std::printf("   %5.3f %6.3f", most.hard, most.gate);
        }
        std::printf("\n");
        std::fflush(stdout);
      }
  }
}
