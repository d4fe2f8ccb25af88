// SPDX-License-Identifier: Apache-2.0
// What the layernorm targets in this binary share: a row with its parameters in, a row with its statistics out.
#pragma once

#include <vector>

#include "probes/ops/layernorm/layernorm.hpp"
#include "probes/ops/own_code.hpp"
#include "probes/ops/row_memory.hpp"

namespace assay::layernorm {

/// Scale and shift of every column: 1 and 0 where the case has none.
template <class T>
struct Columns {
  std::vector<T> gamma, beta;

  Columns(const Problem& p, const Call& c, Images images)
      : gamma(static_cast<std::size_t>(c.n), T{1}), beta(static_cast<std::size_t>(c.n), T{0}) {
    if (c.gamma) gamma = read_run<T>(p.operands[c.g], images[c.g], 0, c.n);
    if (c.beta) beta = read_run<T>(p.operands[c.b], images[c.b], 0, c.n);
  }
};

template <class T>
void write_statistics(const Problem& p, const Call& c, Images images, std::int64_t row, T mean, T rstd) {
  if (!c.stats) return;
  if (!c.rms) write_run(p.operands[c.m], images[c.m], row, std::vector<T>{mean}, 1);
  write_run(p.operands[c.r], images[c.r], row, std::vector<T>{rstd}, 1);
}

}  // namespace assay::layernorm
