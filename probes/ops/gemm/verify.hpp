// SPDX-License-Identifier: Apache-2.0
// Large gemms are verified by random combinations (reference/verify.hpp) instead of being computed again.
#pragma once

#include <optional>
#include <vector>

#include "probes/ops/gemm/gemm.hpp"

namespace assay::gemm {

/// The rows that are compared in full of a problem that is verified, empty for one that is compared whole: up to 1024^3, fp64,
/// an epilogue, inputs that hold NaN, Inf or subnormals.
std::vector<std::int64_t> sampled_rows(const Problem&);

/// `exact`: every partial sum is representable; all results are then multiples of `unit`.
std::optional<Verified> verify(const Problem&, Storage inputs, const FinishedCall&, bool exact, double unit);

}  // namespace assay::gemm
