// SPDX-License-Identifier: Apache-2.0
// Target "eigen", the control of an op: what every one of them reports, and the target around its call.
#pragma once

#include <fmt/format.h>

#include <Eigen/Core>
#include <memory>
#include <optional>
#include <string>

#include "probes/ops/own_code.hpp"
#include "probes/ops/target.hpp"

namespace assay {

inline void add_eigen_facts(CallReport& r) {
  r.facts["version"] = fmt::format("Eigen {}.{}.{}", EIGEN_WORLD_VERSION, EIGEN_MAJOR_VERSION, EIGEN_MINOR_VERSION);
  r.facts["core"] = Eigen::SimdInstructionSetsInUse();
  r.facts["threads"] = "1";
}

/// Sums and functions in `compute`, one rounding to `out`.
inline CallReport eigen_report(DType in, DType compute, DType out, Contract contract) {
  CallReport r;
  r.arithmetic = plain_arithmetic(in, compute, out);
  r.contract = std::move(contract);
  add_eigen_facts(r);
  return r;
}

/// Call is made from a Problem. The binary uses OpenMP, so Eigen would; the setting is the process's own, and a worker serves
/// one target.
template <class Call>
Target eigen_control(std::string summary) {
  return {.name = "eigen",
          .summary = std::move(summary),
          .refuses = [](const Problem&, const TargetSpec& spec) -> std::optional<std::string> {
            if (!spec.variant.empty()) return fmt::format("eigen has no variant \"{}\"", spec.variant);
            return std::nullopt;
          },
          .prepare = [](const Problem& problem, const TargetSpec&) -> std::unique_ptr<assay::Call> {
            Eigen::setNbThreads(1);
            return std::make_unique<Call>(problem);
          }};
}

}  // namespace assay
