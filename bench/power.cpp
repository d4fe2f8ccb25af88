// SPDX-License-Identifier: Apache-2.0
// What the bounds see: share of elements over T_hard and over the gate min(T_hard, T_iid) when one thing is wrong. A fault
// of a whole tensor is caught when any element is over; these shares say with how much to spare.      power [seeds]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "../tests/reference/tightness.hpp"

using namespace assay;

namespace {

using Values = std::vector<double>;

/// One sum computed wrongly, from its operands. `dot` is the correct model.
struct Fault {
  const char* name;
  std::function<double(const models::Model&, Values a, Values b)> sum;
};

double dot(const models::Model& m, const Values& a, const Values& b) {
  return m.dot(a.data(), 1, b.data(), 1, static_cast<std::int64_t>(a.size()));
}

Values rounded(Values v, DType t) {
  for (double& x : v) x = round_to(t, x);
  return v;
}

/// TF32: 11 significant bits of an fp32 number, to nearest even or cut.
Values tf32(Values v, bool nearest) {
  for (double& x : v) {
    auto bits = static_cast<std::uint32_t>(encode(DType::f32, x));
    if (nearest) bits += 0xfff + (bits >> 13 & 1);
    x = decode(DType::f32, bits & ~0x1fffu);
  }
  return v;
}

double without(const models::Model& m, Values a, const Values& b, std::size_t first, std::size_t count) {
  for (std::size_t l = first; l < std::min(a.size(), first + count); ++l) a[l] = 0;
  return dot(m, a, b);
}

double in_slices(const models::Model& m, const Values& a, const Values& b, std::size_t slices, DType t) {
  double sum = 0;
  for (std::size_t s = 0; s < slices; ++s) {
    const std::size_t first = a.size() * s / slices, last = a.size() * (s + 1) / slices;
    const double part = m.dot(a.data() + first, 1, b.data() + first, 1, static_cast<std::int64_t>(last - first));
    sum = round_to(DType::f32, sum + round_to(t, part));
  }
  return sum;
}

double accumulated_in(const Values& a, const Values& b, DType t) {
  double sum = 0;
  for (std::size_t l = 0; l < a.size(); ++l) sum = round_to(t, sum + a[l] * b[l]);
  return sum;
}

const Fault faults[] = {
    {"none", [](auto& m, Values a, Values b) { return dot(m, a, b); }},
    {"one product dropped", [](auto& m, Values a, Values b) { return without(m, a, b, a.size() * 5 / 7, 1); }},
    {"last 8 of k dropped", [](auto& m, Values a, Values b) { return without(m, a, b, a.size() - 8, 8); }},
    {"last 16 of k dropped", [](auto& m, Values a, Values b) { return without(m, a, b, a.size() - 16, 16); }},
    {"TF32 operands, nearest", [](auto& m, Values a, Values b) { return dot(m, tf32(a, true), tf32(b, true)); }},
    {"TF32 operands, cut", [](auto& m, Values a, Values b) { return dot(m, tf32(a, false), tf32(b, false)); }},
    {"bf16 operands", [](auto& m, Values a, Values b) { return dot(m, rounded(a, DType::bf16), rounded(b, DType::bf16)); }},
    {"fp16 accumulator", [](auto&, Values a, Values b) { return accumulated_in(a, b, DType::f16); }},
    {"bf16 accumulator", [](auto&, Values a, Values b) { return accumulated_in(a, b, DType::bf16); }},
    {"4 partials stored in bf16", [](auto& m, Values a, Values b) { return in_slices(m, a, b, 4, DType::bf16); }},
    {"4 partials stored in fp16", [](auto& m, Values a, Values b) { return in_slices(m, a, b, 4, DType::f16); }},
};

struct Share {
  double hard = 0, gate = 0;
  bool rms = false;
};

Share measure(const Fault& f, const models::Model& m, DType input, Family family, std::int64_t k, int seeds) {
  std::int64_t over_hard = 0, over_gate = 0, all = 0, alarms = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : over_hard, over_gate, all, alarms)
  for (int seed = 0; seed < seeds; ++seed) {
    const tightness::Setting s{&m, family, input, DType::f32, 16, 16, k, 1, 0, false, static_cast<std::uint64_t>(seed)};
    const tightness::Case c = tightness::make_case(s);
    const Bound b = product_sum_bound(c.expected, m.arithmetic, exchangeable(family), c.exact);
    const Operand out = tightness::packed("C", DType::f32, {1, s.m, s.n}, 0);
    std::vector<std::byte> storage(4 * s.m * s.n);
    for (std::int64_t e = 0; e < s.m * s.n; ++e) {
      const Values x(c.a.begin() + e / s.n * k, c.a.begin() + (e / s.n + 1) * k);
      Values y(k);
      for (std::int64_t l = 0; l < k; ++l) y[l] = c.b[l * s.n + e % s.n];
      store_bits(DType::f32, storage.data() + 4 * e, encode(DType::f32, f.sum(m, x, y)));
    }
    const Discrepancy d = compare(out, storage, c.expected, b, m.arithmetic, 0, true);
    over_hard += d.bad;
    over_gate += d.bad + d.over_iid;
    all += d.compared;
    alarms += d.rms_exceeded;
  }
  const double percent = 100.0 / static_cast<double>(all);
  return {static_cast<double>(over_hard) * percent, static_cast<double>(over_gate) * percent, alarms == seeds};
}

}  // namespace

int main(int argc, char** argv) {
  const int seeds = argc > 1 ? std::atoi(argv[1]) : 4;
  std::printf("per cent of elements over T_hard / over the gate; * = the RMS gate alarms on every seed\n");
  for (const char* name : {"sequential_fma", "h100"})
    for (const Family family : {Family::normal, Family::uniform}) {
      const models::Model& m = *models::find_model(name);
      const DType input = m.arithmetic.operand;
      for (const Fault& f : faults) {
        const bool reduces_operands = std::strstr(f.name, "operands") != nullptr;
        if (input == DType::bf16 && reduces_operands) continue;  // they are 16 bits already
        std::printf("%-15s %-8s %-26s", name, assay::name(family).data(), f.name);
        for (const std::int64_t k : {64, 1024, 8192}) {
          const Share s = measure(f, m, input, family, k, seeds);
          std::printf("   %5.1f /%5.1f %s", s.hard, s.gate, s.rms ? "*" : " ");
        }
        std::printf("\n");
      }
    }
}
