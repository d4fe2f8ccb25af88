// SPDX-License-Identifier: Apache-2.0
// Cases drawn at random from the grammars of all operations: case k of seed S is a function of (S, k) alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "probes/ops/op.hpp"

namespace assay {

class RandomCases {
 public:
  /// `ops` empty: all. Throws CaseError for one that is none.
  RandomCases(std::uint64_t seed, const std::vector<std::string>& ops);

  /// The canonical id of case k: every key of its operation drawn, sizes near powers of two, tile edges and small primes,
  /// most other keys at their default. At most 50 MFLOP, one case in 50 up to 1 GFLOP.
  std::string draw(std::uint64_t k);
  /// Drawn and thrown away so far: combinations that a grammar refuses, and larger problems.
  std::uint64_t redrawn() const { return redrawn_; }

 private:
  std::uint64_t seed_, redrawn_ = 0;
  std::vector<const Op*> ops_;
};

}  // namespace assay
