// SPDX-License-Identifier: Apache-2.0
// One line of text for a declared arithmetic, as records and tables print it.
#include "reference/arithmetic.hpp"

namespace assay {

std::string describe(const Arithmetic& a) {
  const auto text = [](DType t) { return std::string(name(t)); };
  std::string s = text(a.operand) + " operands, ";
  if (a.accumulation == Accumulation::nearest)
    s += text(a.accumulator) + " sums to nearest";
  else
    s += "blocks of " + std::to_string(a.block) + " products truncated to " + std::to_string(a.fraction_bits) + " bits, " +
         text(a.accumulator) + " accumulator";
  if (a.splits > 1) s += ", " + std::to_string(a.splits) + " split-K partials in " + text(a.split_format);
  return s + ", " + text(a.output) + " output";
}

}  // namespace assay
