// SPDX-License-Identifier: Apache-2.0
// One line of text for a declared arithmetic, as records and tables print it.
#include "reference/arithmetic.hpp"

namespace assay {

std::string describe(const Arithmetic& a) {
  const auto text = [](DType t) { return std::string(name(t)); };
  const auto number = [](double x) {
    std::string s = std::to_string(x);
    s.erase(s.find_last_not_of('0') + 1);
    return s.back() == '.' ? s.substr(0, s.size() - 1) : s;
  };
  std::string s = text(a.operand) + " operands, ";
  if (a.operand_rounding == Rounding::toward_zero) s = text(a.operand) + " operands by truncation, ";
  if (a.operand_rounding == Rounding::nearest_away) s = text(a.operand) + " operands with ties away from zero, ";
  if (is_integer(a.accumulator))
    s += "exact " + text(a.accumulator) + " sums";
  else if (a.accumulation == Accumulation::nearest)
    s += text(a.accumulator) + " sums to nearest";
  else
    s += "blocks of " + std::to_string(a.block) + " products truncated to " + std::to_string(a.fraction_bits) + " bits, " +
         text(a.accumulator) + " accumulator";
  if (a.splits > 1) s += ", " + std::to_string(a.splits) + " split-K partials in " + text(a.split_format);
  if (a.function_ulps != 2 || a.function_ulps_per_x != 0)
    s += ", functions within " + number(a.function_ulps) + " + " + number(a.function_ulps_per_x) + "|x| ulp";
  switch (a.transform) {
    case Transform::none:
      break;
    case Transform::winograd_2:
      s += ", Winograd F(2,3)";
      break;
    case Transform::winograd_4:
      s += ", Winograd F(4,3)";
      break;
    case Transform::winograd_6:
      s += ", Winograd F(6,3)";
      break;
    case Transform::fft:
      s += ", FFT";
      break;
  }
  if (a.scores != DType::f32 && a.scores != a.accumulator) s += ", scores held in " + text(a.scores);
  if (a.probabilities != DType::f32 && a.probabilities != a.accumulator)
    s += ", probabilities held in " + text(a.probabilities);
  if (a.folded_shift) s += ", mean folded into the shift";
  return s + ", " + text(a.output) + " output";
}

}  // namespace assay
