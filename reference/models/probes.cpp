// SPDX-License-Identifier: Apache-2.0
#include "reference/models/probes.hpp"

#include <algorithm>

namespace assay::models {

std::span<const Probe> addition_probes() {
  constexpr double ulp = 0x1p-23;
  static const std::vector<Probe> all{
      {"P1", "1 + 0.75 ulp", {{0, 0, 1, 1}, {1, 1, 0.75 * 0x1p-11, 0x1p-12}}, 1, ulp},
      {"P2", "-1 - 0.75 ulp", {{0, 0, -1, 1}, {1, 1, -0.75 * 0x1p-11, 0x1p-12}}, -1, ulp},
      {"P3", "1 - 0.75 ulp", {{0, 0, 1, 1}, {1, 1, -0.75 * 0x1p-11, 0x1p-12}}, 1, ulp},
      {"P4", "1 + 7 * 2^-24", {{0, 0, 1, 1}, {1, 7, 0x1p-12, 0x1p-12}}, 1, ulp},
      {"P5", "1 + 15 * 2^-25", {{0, 0, 1, 1}, {1, 15, 0x1p-12, 0x1p-13}}, 1, ulp},
      {"P6", "2^-24 + 1 - 1", {{0, 0, 0x1p-12, 0x1p-12}, {1, 1, 1, 1}, {2, 2, -1, 1}}, 0, 0x1p-24},
      {"P7", "2^-25 + 1 - 1", {{0, 0, 0x1p-12, 0x1p-13}, {1, 1, 1, 1}, {2, 2, -1, 1}}, 0, 0x1p-25},
      {"P8", "1 + 15 * 2^-14", {{0, 0, 1, 1}, {1, 15, 0x1p-7, 0x1p-7}}, 1, 0x1p-14},
      {"P9", "2048 at 0, 1 at 32", {{0, 0, 2048, 1}, {32, 32, 1, 1}}, 2048, 1},
      {"P10", "2^127 + 2^127 - 2^127", {{0, 1, 0x1p64, 0x1p63}, {2, 2, -0x1p64, 0x1p63}}, 0, 0x1p127},
  };
  return all;
}

Probe counting_probe(DType operand) {
  const double m = operand == DType::f16 ? 0x1p15 : 0x1p40;
  return {"P11", "ones that survive", {{0, probe_k - 1, 1, 1}, {0, 0, m, m}, {1, 1, -m, m}}, 0, 1};
}

ProbeOperands operands_of(const Probe& p) {
  ProbeOperands o{std::vector<double>(probe_k), std::vector<double>(probe_k)};
  for (const Term& t : p.terms)
    for (std::int64_t l = t.first; l <= t.last; ++l) {
      o.a[static_cast<std::size_t>(l)] = t.x;
      o.b[static_cast<std::size_t>(l)] = t.y;
    }
  return o;
}

bool representable(const Probe& p, DType operand) {
  return std::ranges::all_of(p.terms,
                             [&](const Term& t) { return round_to(operand, t.x) == t.x && round_to(operand, t.y) == t.y; });
}

double answer(const Probe& p, const Model& m) {
  const ProbeOperands o = operands_of(p);
  return answer(p, m.dot(o.a.data(), 1, o.b.data(), 1, probe_k));
}

OrderProfile order_profile(DType operand, std::int64_t k, std::size_t rows) {
  // 8192 ones stay below half a unit in the last place of the mark: 2^13 of 2^40 (ulp 2^17), 2^-11 of 2^15 (ulp 2^-8). An fp16
  // one is its smallest subnormal then, which every fp16 unit takes as it is.
  OrderProfile p{k, operand == DType::f16 ? 0x1p15 : 0x1p40, operand == DType::f16 ? 0x1p-24 : 1, {}};
  for (std::size_t r = 0; r < rows; ++r) {
    const auto near = static_cast<std::int64_t>(r) + 1;
    const auto half = static_cast<std::int64_t>(rows / 2);
    p.partner.push_back(k - 1 <= static_cast<std::int64_t>(rows) ? std::min(near, k - 1)
                        : near <= half                           ? near
                                       : half + (k - 1 - half) * (near - half) / (static_cast<std::int64_t>(rows) - half));
  }
  return p;
}

std::vector<double> survivors(const OrderProfile& p, const Model& m) {
  std::vector<double> out, a(static_cast<std::size_t>(p.k));
  const double one = 1;
  for (std::size_t r = 0; r < p.partner.size(); ++r) {
    for (std::int64_t l = 0; l < p.k; ++l) a[static_cast<std::size_t>(l)] = p.a(r, l);
    out.push_back(m.dot(a.data(), 1, &one, 0, p.k) / p.one);
  }
  return out;
}

}  // namespace assay::models
