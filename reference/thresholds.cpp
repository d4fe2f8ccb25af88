// SPDX-License-Identifier: Apache-2.0
// The one table of thresholds. What is not here is derived where it is used; docs/numerics.md section 4 has the measurements.
#include <array>
#include <stdexcept>
#include <string>

#include "reference/bound.hpp"

namespace assay {
namespace {

constexpr auto table = std::to_array<Threshold>({
    {"iid_nearest", 10,
     "calibrated: 4.1e7 sequential sums of 512 normal products reach 5.19, the tail falls 20-fold per unit (bench/tightness "
     "tail)"},
    {"iid_tensor_core", 1,
     "calibrated: V100, A100 and H100 models reach 0.33 over 930,000 sums, k = 0 to 4096 (bench/tightness)"},
    {"iid_operand", 6,
     "derived: both roundings uniform, standard deviation at most sqrt(2/3) = 0.82 in these units: 7.3 sigma"},
    {"rms_nearest", 0.9, "calibrated: correct models reach 0.60 from 64 outputs on (bench/tightness)"},
    {"rms_tensor_core", 0.5, "calibrated: correct models reach 0.19 from 64 outputs on (bench/tightness)"},
    {"rms_output_rounding", 1.6, "calibrated: correct models give 1.00; rounding toward zero gives 2.0"},
    {"softmax_argument", 2.25,
     "derived: x - max, its product with log2(e) and that constant's own rounding (0.22 u) each move the argument of exp by u "
     "of it"},
    {"softmax_additions", 1.5,
     "calibrated: correct variants reach 0.28 of the gate where additions dominate it (bench/softmax_tightness); roundings of "
     "positive "
     "partial sums, equal values rounding alike, have a deviation below 0.24 sqrt(sum c^2) u"},
    {"softmax_rescales", 4,
     "calibrated: in random order the running maximum rescales the earlier sum once on average; errors of 4 full rescalings "
     "are "
     "10 deviations of what exp within 2 ulp makes of it"},
    {"gelu_erf_argument", 2, "derived: z / sqrt(2) moves by one rounding and by the constant's own"},
    {"gelu_tanh_argument", 7,
     "derived: z^3 and its factor round three times, the sum and the product with sqrt(2/pi) once each, both constants are "
     "rounded"},
    {"gelu_roundings", 4,
     "derived: 1 + erf, two products, one to spare for u^2; tanh as 1 - 2 / (exp(2w) + 1) needs 2.5 where its function term is "
     "half"},
    {"conv1d_winograd_2", 1, "calibrated: F(2,3) stays inside T_iid of the direct sum (bench/conv1d_tightness)"},
    {"conv1d_winograd_4", 4, "calibrated: F(4,3) amplifies roundings beyond T_iid of the direct sum (bench/conv1d_tightness)"},
    {"conv1d_winograd_6", 8, "calibrated: F(6,3), about twice the amplification of F(4,3)"},
    {"conv1d_winograd_few", 4,
     "calibrated: floor of the Winograd gate in units of u sqrt(sum max|x|^2 max|w|^2), felt below four channels "
     "(bench/conv1d_tightness)"},
    {"conv1d_fft", 8, "calibrated: FFT of whole rows, in units of u sum |x|_2 |w|_2 (bench/conv1d_tightness)"},
    {"norm_additions", 1.5,
     "derived: six deviations of 0.24 sqrt(sum c^2) u, roundings of growing partial sums, equal values rounding alike"},
    {"norm_walk", 4, "derived: iid_nearest for a walk without drift, 10 sqrt(1/6)"},
    {"norm_update", 4,
     "calibrated: what a running mean's rounding does to the sum of squares, in units of u |mean| deviation, reaches 1.9 "
     "(bench/layernorm_tightness)"},
    {"attention_function", 3.5,
     "derived: errors of exp within E and of either sign meet values of random sign, deviation at most E/sqrt(3): 6 "
     "deviations"},
    {"attention_weights", 4, "derived: roundings of 16-bit probabilities, deviation at most u/sqrt(3) of each: 6.9 deviations"},
    {"rms_least_outputs", 64, "calibrated: correct models reach an RMS of 1.58 below 64 outputs, 0.60 from 64 on"},
});

}  // namespace

const Threshold& threshold(std::string_view name) {
  for (const Threshold& t : table)
    if (t.name == name) return t;
  throw std::invalid_argument("no threshold is called " + std::string(name));
}

std::vector<Threshold> all_thresholds() {
  return {table.begin(), table.end()};
}

}  // namespace assay
