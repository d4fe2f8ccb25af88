// SPDX-License-Identifier: Apache-2.0
// A correct gemm taken apart into steps, so that a planted fault can spoil exactly one of them.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "probes/ops/gemm/blas.hpp"

namespace assay::gemm {

/// One execution in progress. Matrices are logical, row-major, decoded exactly: a (batch,m,k), b (batch,k,n), c, sum, out
/// (batch,m,n).
struct Work {
  const Problem& problem;
  const Call& call;
  Images images;
  int execution = 0;                           // how many executions of this prepared call came before
  std::vector<double>& remembered;             // survives from execution to execution of one prepared call
  std::vector<double> a = {}, b = {}, c = {};  // empty when BLAS does not read them
  std::vector<double> sum = {}, out = {};
  std::vector<bool> skipped = {};  // outputs that are not written; empty: all are

  Layout c_layout() const { return layout_c(call, problem); }
  std::byte* c_element(std::int64_t flat) const;
  /// An output chosen by the case's seed, not zero where there is one; -1 when C is empty.
  std::int64_t pick() const;
  /// Seed-dependent number below `limit` (0 when limit <= 0), another one for each `use`.
  std::int64_t choose(std::int64_t limit, std::uint32_t use) const;
  /// Calls change(out value, batch entry, row, column) for every output.
  void each(const std::function<void(double&, std::int64_t, std::int64_t, std::int64_t)>& change);
};

/// Sums of the products k0 <= l < k1, in that order, one FMA each in the compute format.
std::vector<double> partial_sums(const Work&, std::int64_t k0, std::int64_t k1);
/// f(z + bias) of one output.
double right_epilogue(const Work&, double z, std::int64_t entry, std::int64_t column);
/// to += from, rounded to `format`.
void add_rounded(std::vector<double>& to, const std::vector<double>& from, DType format);

/// The steps of one execution in order. A step left empty is done right.
struct Fault {
  std::string_view name, what;
  std::vector<std::string> cases = {};
  bool may_hide_in_noise = false;
  std::function<void(Work&)> operands = nullptr;                   // after A, B and C are read
  std::function<std::vector<double>(const Work&)> sums = nullptr;  // instead of partial_sums(work, 0, k)
  std::function<double(const Work&, double z, std::int64_t e, std::int64_t i, std::int64_t j)> epilogue = nullptr;
  std::function<void(Work&)> results = nullptr;  // after alpha, beta and epilogue, before C is written
  std::function<void(Work&)> memory = nullptr;   // after C is written
};

std::vector<Fault> value_faults();     // wrong numbers
std::vector<Fault> epilogue_faults();  // bias and activation
std::vector<Fault> conduct_faults();   // wrong memory, wrong process state, death

}  // namespace assay::gemm
