// SPDX-License-Identifier: Apache-2.0
#include "probes/ops/gemm/verify.hpp"

#include <fmt/format.h>

#include "reference/rows.hpp"
#include "reference/verify.hpp"

namespace assay::gemm {
namespace {

constexpr double whole_flops = 2.0 * 1024 * 1024 * 1024;
constexpr std::int64_t row_samples = 16;

bool takes(const Problem& p) {
  const Call c = call_of(p);
  const Family family = p.fills[0].family;
  const bool hard_values = family == Family::nan_one || family == Family::inf_one || underflows(family);
  const bool copies = p.id.word("fill") == "one_hot";  // exact without whole numbers: a combination is not
  return p.flops > whole_flops && c.alpha != 0 && c.in != DType::f64 && !c.has_epilogue() && !hard_values && !copies;
}

std::string in_words(const std::vector<reference::WrongRegion>& regions) {
  constexpr std::size_t most = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, regions.size()); ++i) {
    const reference::WrongRegion& r = regions[i];
    text += fmt::format("{} {} at C[{},{},{}]", text.empty() ? "; wrong" : ",", r.kind(), r.batch, r.row, r.column);
    if (r.rows * r.columns > 1) text += fmt::format(" of {}x{}", r.rows, r.columns);
  }
  return text + (regions.size() > most ? fmt::format(" and {} more", regions.size() - most) : "");
}

}  // namespace

std::vector<std::int64_t> sampled_rows(const Problem& p) {
  if (!takes(p)) return {};
  const Operand& c = p.operands[2];
  return sample_rows(c.dims[0] * c.dims[1], row_samples, p.seed);
}

std::optional<Verified> verify(const Problem& p, Storage inputs, const FinishedCall& call, bool exact, double unit) {
  if (!takes(p)) return std::nullopt;
  const Call c = call_of(p);
  // A scalar is passed to the library in the format it computes in.
  const double alpha = round_to(DType::f32, c.alpha), beta = round_to(DType::f32, c.beta);
  const reference::Verification v = reference::verify({.a = p.operands[0],
                                                       .b = p.operands[1],
                                                       .c = p.operands[2],
                                                       .a_storage = inputs[0],
                                                       .b_storage = inputs[1],
                                                       .c_storage = call.output,
                                                       .c0_storage = beta == 0 ? std::span<const std::byte>{} : inputs[2],
                                                       .alpha = alpha,
                                                       .beta = beta,
                                                       .arithmetic = call.arithmetic,
                                                       .exchangeable = exchangeable(p.fills[0].family),
                                                       .exact = exact,
                                                       .unit = unit,
                                                       .poison_bits = call.poison_bits,
                                                       .subnormals_kept = call.subnormals_kept},
                                                      p.seed);
  if (!v.panels) return std::nullopt;
  Verified out{v.found, v.exact, v.method(), in_words(v.regions)};
  out.found.median_bound_over_rms = v.smallest_fault;
  if (v.exact) out.found.compared = element_count(p.operands[2]);  // each of them took part in combinations that leave nothing
  // Combinations that are out of line as a whole, and no single element that is: the precision is not the declared one.
  out.found.rms_over_statistic = std::max(out.found.rms_over_statistic, v.sigma);
  out.found.rms_exceeded = out.found.rms_exceeded || !v.clean();
  return out;
}

}  // namespace assay::gemm
