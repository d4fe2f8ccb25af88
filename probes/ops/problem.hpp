// SPDX-License-Identifier: Apache-2.0
// An op's parameters plus its named operands. Poison, guards, replay, reproducers and records all read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "probes/ops/case.hpp"
#include "reference/inputs.hpp"
#include "reference/tensor.hpp"

namespace assay {

/// Conventions a case leans on: a mismatch there is POLICY unless the target's contract promises it.
enum class Convention : std::uint8_t {
  beta_zero_ignores_c,
  alpha_zero_ignores_ab,
  nan_propagates,
  keeps_subnormals,
  masked_row,
  infinite_argument
};

struct Problem {
  CaseId id;
  std::vector<Operand> operands;
  std::vector<FillRule> fills;  // one per operand; outputs (Access::out) are poisoned instead
  std::vector<Convention> leans_on;
  std::uint64_t seed = 0;
  std::int64_t repeat = 2;      // executions on the same data that must agree bit for bit
  std::int64_t callers = 1;     // application threads that make the call at once, each on its own copy
  std::string queue = "plain";  // how a device target queues the operation: plain, second, graph, busy
  bool place_at_end = false;    // operands end at a guard page instead of starting after one
  double flops = 0;
  std::string formats;  // column of the table: "fp32", "bf16>fp32"

  const Operand& operand(std::string_view role) const;
  std::size_t operand_index(std::string_view role) const;
  /// Indices of the operands that the call writes, the main result first.
  std::vector<std::size_t> outputs() const;
};

}  // namespace assay
