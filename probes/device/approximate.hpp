// SPDX-License-Identifier: Apache-2.0
// Errors of approximate units over bit patterns of fp32: measured against fp64 functions, beside what PTX documents.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace assay::device {

/// One unit: its function in fp64 and the largest error that the PTX ISA allows.
struct Unit {
  std::string_view name;
  double (*function)(double);
  double limit;    // relative, with subnormal results counted in units of the smallest normal number; or absolute
  bool absolute;   // sin, cos; lg2 for 1/2 <= x <= 2
  double largest;  // |x| up to which the limit is documented
};
std::span<const Unit> units();

struct UnitErrors {
  std::int64_t inputs = 0, special = 0, above = 0;  // special: NaN or Inf instead of a number, or a number instead of those
  double worst = 0;                                 // in the measure of the limit
  std::uint32_t worst_bits = 0, special_bits = 0;   // first input of its kind
};

/// Adds results y[i] of the inputs with bits first + i * step.
void note(const Unit&, UnitErrors&, std::uint32_t first, std::uint32_t step, std::span<const float> y);
/// Adds what was found on other inputs of the same unit.
void join(UnitErrors&, const UnitErrors&);
/// "ex2.approx.f32: 4294967296 inputs, largest relative error 2^-22.31 at 0x3f812345 (documented: 2^-22), ..."
std::string describe(const Unit&, const UnitErrors&);

/// Runs every unit of the device on the bit patterns 0, step, 2 step, ... below 2^32. Returns how many units left their
/// documented error or gave wrong special values; a line for each goes into `lines`. Throws like every use of a device.
int check_approximations(const std::string& driver, int ordinal, const std::map<std::string, std::string>& set,
                         std::uint32_t step, std::string& lines);

}  // namespace assay::device
