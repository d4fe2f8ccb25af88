// SPDX-License-Identifier: Apache-2.0
// Input families. Made from Philox words and integer bit patterns only: no libm, no <random>, no floating-point
// arithmetic that a compiler flag could change. The same bits under -O0, -O3, -march=native and -ffast-math.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "reference/tensor.hpp"

namespace assay {

enum class Family : std::uint8_t {
  integer,    // signed integers |v| <= limit: every partial sum in any order is exact
  reveal,     // A: odd integers of reveal_bits, B: -1, 0, 1: exact in fp32, wrong under tf32, bf16 or fp16 operands
  position,   // one 1 per row of A, B a unique code per element: the output is the address map
  ones,       // counts: c = k
  sign,       // +1 / -1: parity of c equals parity of k
  normal,     // integer-sum normal, bounded at 4.9 sigma: cancellation, the default
  uniform,    // [0,1) in 24 bits: non-negative
  heavy,      // normal times 2^g, g geometric: a few products dominate
  wide,       // normal times a power of two per row of A and per column of B, 2^-20..2^20
  cancel,     // K halves that cancel except for a small remainder
  two_level,  // rows that repeat two values: rounding errors align, sqrt(n) laws fail
  nan_one,    // normal with one NaN in A: its row of C is NaN, everything else clean
  inf_one,    // normal with +Inf in A against finite and zero columns of B: Inf and NaN where IEEE says
  subnormal,  // operands whose products or sums fall below the smallest normal
  // Rows of logits, for softmax and attention. The inner axis is the row.
  dyadic,      // multiples of 1/2, deviation 12.2: x - max is exact in any format, so only exp and the sum err
  one_hot,     // normal with one logit far above: by 128 (fp64: 1024) in half of the rows, by 16 in the others
  constant,    // one value per row: softmax is 1/n
  masked,      // normal with -Inf: a random share of half of the rows, a leading run of the others; never all of a row
  all_masked,  // masked, and one row of nothing but -Inf
  extreme,     // rows near -10^4, near 10^4, and of both
  shifted,     // normal plus a large power of two per row
  // Rows of activations, for normalisation and elementwise operations.
  offset,    // normal plus or minus 2^FillRule::limit, one sign per row: limit is the logarithm of mean over deviation
  balanced,  // +1 and -1 in equal number per row (one 0 when it is odd): mean 0, variance 1 without rounding
  patterns,  // every bit pattern of an 8- or 16-bit format in turn, NaN and Inf included; wider formats: random patterns
  // Data like that of models, in the left operand; the right one is normal.
  outlier,       // normal, a few channels (indices of the contracted axis) 32 or 64 times as large
  post_softmax,  // rows of attention weights: non-negative, of sum about 1, one element with an eighth to seven
  mel,           // log-mel frames as Whisper normalises them: correlated in time, in -1..1.5, clipped to one floor
  underflow,     // normal times a power of two so small that products, and sums of a thousand, are subnormal and inexact
  vanishing,     // logits: one is 0, the others have subnormal exponentials
};

std::string_view name(Family);
std::optional<Family> parse_family(std::string_view);
std::span<const Family> all_families();
/// Those made for products of two operands (gemm and what is computed as one).
std::span<const Family> product_families();
/// Those made for signals: products without attention weights.
std::span<const Family> signal_families();
/// Those made for rows of activations.
std::span<const Family> activation_families();
/// Those made for rows of logits.
std::span<const Family> logit_families();

/// Whether the K terms of a sum are exchangeable draws from one continuous law, so that T_iid may be used.
bool exchangeable(Family);
/// Whether a correct implementation must return exactly the rounded true value (given the limits hold).
bool exact(Family);

/// Whether operands, products or results are subnormal, so that flushing them shows.
bool underflows(Family);

/// Whether a format can hold a family. 8-bit and integer formats hold few: the others scale values beyond their range, or need
/// Inf or fine steps. `generate` and `fill` throw std::invalid_argument for the rest.
bool holds(DType, Family);

/// How an operand takes part in a product, so that a family can treat its contraction axis and its outer axis apart.
struct FillRule {
  Family family = Family::normal;
  int outer_axis = 0;      // index into Operand::dims of the non-contracted axis (rows of A, columns of B)
  int inner_axis = 0;      // index of the contracted axis (k)
  bool left = true;        // A-like (true) or B-like
  std::int64_t limit = 1;  // integer family: largest |v|; offset family: at most 24
  int exponent = 0;        // every finite value is multiplied by 2^exponent before it is rounded
  int inner_axes = 1;      // the contracted index runs over this many axes, from inner_axis on, the last one fastest
  // Elements at either end of the last axis that are +0; the others are drawn as if these were not there.
  std::int64_t zeros_before = 0, zeros_after = 0;
};

/// The bits of every logical element, row-major, in the operand's format. `seed` and operand.stream select the Philox key
/// and stream; equal arguments give equal bits on every machine and build.
std::vector<std::uint64_t> generate(const Operand&, const FillRule&, std::uint64_t seed);

/// Writes the generated elements into storage laid out as the operand says; bytes outside logical elements are untouched.
void fill(const Operand&, const FillRule&, std::uint64_t seed, std::span<std::byte> storage);

/// Largest integer L such that k products of integers up to L, in any order, stay exact: k*L*L <= 2^bits; also <= 2^p_operand.
/// Integer operands: k*L*L < 2^bits, bits = 31 for an int32 sum; also <= 127 for int8.
std::int64_t integer_limit(std::int64_t k, int exact_bits, DType operand);

/// Width of the reveal family's odd integers on the left: 13 for fp32, 30 for fp64 (more than fp32 holds), else p.
int reveal_bits(DType operand);

/// Generator version: part of every case id (g1). Bumped when any bit of any family changes.
inline constexpr int generator_version = 1;

}  // namespace assay
