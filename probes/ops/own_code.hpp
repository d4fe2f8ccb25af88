// SPDX-License-Identifier: Apache-2.0
// What computations inside this binary promise of their conventions.
#pragma once

#include <string>

#include "reference/arithmetic.hpp"

namespace assay {

/// Operands as they are, sums of this format in any order to nearest, one rounding at the end.
inline Arithmetic plain_arithmetic(DType in, DType compute, DType out) {
  Arithmetic a;
  a.operand = in, a.accumulator = a.split_format = compute, a.output = out;
  return a;
}

/// Plain IEEE 754 code on one thread, by `source`: NaN goes where it belongs, subnormals stay, equal calls give equal bits.
inline Contract own_contract(std::string source) {
  Contract c;
  c.nan_propagates = c.nan_confined = c.keeps_subnormals = c.repeatable = Promise{true, std::move(source)};
  return c;
}

}  // namespace assay
