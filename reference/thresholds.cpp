// SPDX-License-Identifier: Apache-2.0
// The one table of thresholds. What is not here is derived where it is used; docs/numerics.md section 4 has the measurements.
#include <array>
#include <stdexcept>
#include <string>

#include "reference/bound.hpp"

namespace assay {
namespace {

constexpr std::array<Threshold, 7> table{{
    {"iid_nearest", 10, "calibrated: TODO"},
    {"iid_tensor_core", 1, "calibrated: TODO"},
    {"iid_operand", 6, "derived: TODO"},
    {"rms_nearest", 0.9, "calibrated: TODO"},
    {"rms_tensor_core", 0.5, "calibrated: TODO"},
    {"rms_output_rounding", 1.6, "calibrated: TODO"},
    {"rms_least_outputs", 64, "calibrated: TODO"},
}};

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
