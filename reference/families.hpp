// SPDX-License-Identifier: Apache-2.0
// Inside of the generator: a family is a pure function from an element's position to a bit pattern.
#pragma once

#include <cstdint>

#include "reference/format_bits.hpp"
#include "reference/inputs.hpp"

namespace assay {

/// Where an element stands. All three advance by constants along any axis, so a chunk is a start and a step.
struct Position {
  std::uint64_t index = 0;  // logical row-major index, broadcast axes left out: equal storage, equal value
  std::uint64_t line = 0;   // row of A, column of B (batch included), or outer coordinate of an addend
  std::uint64_t inner = 0;  // along the contracted axis
};

/// What a family may know: the format, the rule, the key, and the shape of the contraction.
struct Recipe {
  const Format* format = nullptr;
  FillRule rule;
  bool addend = false;  // C of alpha*A*B + beta*C: no contracted axis
  std::uint64_t seed = 0;
  std::uint32_t stream = 0;
  std::uint64_t count = 0;       // distinct elements
  std::uint64_t length = 0;      // k, extent of the contracted axis
  std::uint64_t inner_step = 0;  // change of Position::index along it
};

/// Bits of `count` elements that start at `first` and advance by `step`.
void draw(const Recipe&, Position first, const Position& step, std::int64_t count, std::uint64_t* bits);

}  // namespace assay
