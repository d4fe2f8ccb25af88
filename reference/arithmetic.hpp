// SPDX-License-Identifier: Apache-2.0
// What a target declares: how it rounds (arithmetic) and which conventions it keeps (contract), each with its source.
#pragma once

#include <string>

#include "reference/dtype.hpp"

namespace assay {

enum class Accumulation : std::uint8_t {
  nearest,      // every addition rounded to nearest in the accumulator format, any order, FMA or not
  tensor_core,  // blocks of nb exact products aligned, truncated to F fraction bits, summed; published models
};

/// A convolution that multiplies something else than taps and samples; its errors are larger and spread between outputs.
enum class Transform : std::uint8_t { none, winograd_2, winograd_4, winograd_6, fft };

/// How one sum of k products is rounded. Every field is a fact about the target, not a tolerance.
struct Arithmetic {
  DType operand = DType::f32;  // format the operands are reduced to before they are multiplied
  Rounding operand_rounding = Rounding::nearest;
  DType accumulator = DType::f32;  // f32, f64, f16 or i32
  Accumulation accumulation = Accumulation::nearest;
  int block = 1;          // nb: products fused per step (tensor_core)
  int fraction_bits = 0;  // F: bits kept at alignment (tensor_core); below 23, sums keep no more than F either (e8m13)
  int splits = 1;         // split-K slices; their partial sums are stored in split_format
  DType split_format = DType::f32;
  DType output = DType::f32;
  // Elementary functions (exp, log, erf, tanh): largest documented error in units in the last place, at argument 0 and per unit
  // of |argument|. 2 and 0 is what maths libraries document; a fast exp that multiplies by log2(e) first errs more the larger
  // |x| is.
  double function_ulps = 2, function_ulps_per_x = 0;
  Transform transform = Transform::none;
  // Attention: formats in which scores and unnormalised or normalised probabilities are held between its two products.
  DType scores = DType::f32, probabilities = DType::f32;
  // Normalisation as x (gamma rstd) + (beta - mean gamma rstd): its errors grow with the mean, and 0 deviation does not give
  // beta.
  bool folded_shift = false;
  bool operator==(const Arithmetic&) const = default;
};

/// A convention a target promises, and where it promises it. An unpromised convention is POLICY, never wrong.
struct Promise {
  bool made = false;
  std::string source;
};

struct Contract {
  Promise beta_zero_ignores_c;    // beta = 0: C need not be valid
  Promise alpha_zero_ignores_ab;  // alpha = 0: A and B are not read
  Promise nan_propagates;         // 0*NaN and NaN + x are NaN
  Promise keeps_subnormals;       // neither inputs nor outputs are flushed
  Promise repeatable;             // same call, same process, same bits
  Promise nan_confined{};         // NaN or Inf reaches only results computed from it (Winograd and FFT cannot promise that)
  Promise masked_row_is_nan{};    // a row of nothing but -Inf gives NaN, as IEEE 754 arithmetic would ...
  Promise masked_row_is_zero{};   // ... or probabilities of zero; at most one of the two is promised
  Promise limit_at_infinity{};    // an activation of -Inf is its limit, not the NaN that -Inf * 0 gives
};

std::string describe(const Arithmetic&);

}  // namespace assay
