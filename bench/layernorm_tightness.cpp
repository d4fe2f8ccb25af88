// SPDX-License-Identifier: Apache-2.0
// How much of layernorm's bounds its correct variants use, by output, family and width: what docs/numerics.md section 4.9
// prints.
//   layernorm_tightness [seeds] [largest n] [model]
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "probes/ops/layernorm/layernorm.hpp"
#include "reference/compare.hpp"

using namespace assay;

namespace {

struct Most {
  double hard = 0, gate = 0;
  std::int64_t bad = 0, blind = 0;
};

void measure(const Problem& p, const std::string& variant, std::uint64_t seed, std::array<Most, 3>& most) {
  const Op& op = find_op("layernorm");
  std::vector<std::vector<std::byte>> memory;
  std::vector<Image> images;
  for (const Operand& o : p.operands) memory.emplace_back(static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype));
  for (std::vector<std::byte>& m : memory) images.push_back({m.data(), m.size()});
  for (std::size_t i = 0; i < p.operands.size(); ++i)
    if (p.operands[i].access == Access::in) fill(p.operands[i], p.fills[i], seed, memory[i]);
  const auto call =
      layernorm::model_target().prepare(p, {.target = "model", .variant = variant, .library = {}, .environment = {}});
  call->load(images), call->execute(), call->store(images);
  const std::vector<std::span<const std::byte>> inputs(memory.begin(), memory.end());
  const std::vector<Expected> truth = op.expect(p, inputs, {});
  const Arithmetic a = call->report().arithmetic;
  const std::vector<std::size_t> outputs = p.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Discrepancy d =
        compare(p.operands[outputs[i]], memory[outputs[i]], truth[i], op.bound(p, i, truth[i], a), a, 0, true);
    // rms has no mean: its rstd is printed where layer's is.
    Most& m = most[i == 1 && outputs.size() == 2 ? 2 : i];
    m.hard = std::max(m.hard, d.max_over_hard), m.gate = std::max(m.gate, d.max_over_iid);
    m.bad += d.bad + d.over_iid, m.blind += d.blind_fraction >= 0.5;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 20;
  const std::int64_t largest = argc > 2 ? std::atoll(argv[2]) : 32768;
  const std::string only = argc > 3 ? argv[3] : "";
  std::int64_t alarms = 0;
  for (const char* formats : {"in=f32", "in=bf16,out=f32", "in=f16,out=f32", "in=f64"})
    for (const char* kind : {"layer", "rms"}) {
      std::printf("%s, %s: largest error of y, mean, rstd over T_iid, and of y over T_hard (! alarm, * blind)\n", kind,
                  formats);
      for (const std::int64_t n : {1, 2, 3, 7, 33, 128, 512, 1500, 3000, 4096, 32768}) {
        if (n > largest) continue;
        for (const char* fill : {"normal", "uniform", "heavy", "two_level", "constant", "extreme", "shifted", "subnormal",
                                 "balanced", "outlier", "offset,offset=1", "offset,offset=4", "offset,offset=7",
                                 "offset,offset=10", "offset,offset=13", "offset,offset=20"}) {
          if (std::string(formats).find("f16,") != std::string::npos && std::string(fill).find("=20") != std::string::npos)
            continue;
          for (const char* affine : {"", ",gamma=1,beta=1"}) {
            if (std::string(kind) == "rms" && affine[0] != 0) continue;
            const Problem p = make_problem("g1:layernorm:rows=8,n=" + std::to_string(n) + ",kind=" + kind + "," + formats +
                                           affine + ",stats=1,fill=" + fill);
            std::array<Most, 3> most{};
            for (const std::string& variant : layernorm::model_target().variants)
              if (only.empty() || variant == only)
                for (int seed = 1; seed <= seeds; ++seed) measure(p, variant, static_cast<std::uint64_t>(seed), most);
            const std::int64_t bad = most[0].bad + most[1].bad + most[2].bad;
            alarms += bad;
            std::printf("  %6lld %-18s%-16s %6.3f %6.3f %6.3f   %6.3f%s%s\n", static_cast<long long>(n), fill, affine,
                        most[0].gate, most[1].gate, most[2].gate, most[0].hard, bad > 0 ? " !" : "",
                        most[0].blind > 0 ? " *" : "");
            std::fflush(stdout);
          }
        }
      }
    }
  std::printf("alarms: %lld\n", static_cast<long long>(alarms));
}
