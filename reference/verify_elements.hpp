// SPDX-License-Identifier: Apache-2.0
// Chosen elements of a product in full: value, magnitudes, bound and comparison, and where the wrong ones lie.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/verify.hpp"
#include "reference/verify_panels.hpp"

namespace assay::reference {

struct WrongElement {
  std::int64_t row, column;
};

/// Gate of the RMS of errors over their statistic for this accumulation.
double rms_gate(const Arithmetic&);

/// Compares C at rows x columns (both sorted), adds to `found` and to `wrong`. Cost 3 k per element.
void compare_rectangle(const FinishedGemm&, const Product&, std::int64_t batch, const std::vector<std::int64_t>& rows,
                       const std::vector<std::int64_t>& columns, Discrepancy& found, std::vector<WrongElement>& wrong);

/// Compares all of a few rows; B is read once and never copied whole.
void compare_rows(const FinishedGemm&, const Product&, std::int64_t batch, const std::vector<std::int64_t>& rows,
                  Discrepancy& found, std::vector<WrongElement>& wrong);

/// Where |C| is `limit` or more, or NaN; stops beyond `most`.
std::vector<WrongElement> elements_from(const View& c, double limit, std::int64_t most);

/// alpha * dot + beta * c0 of one element in fp64.
double true_value(const Product&, std::int64_t row, std::int64_t column);

/// Gathers wrong elements of one batch entry that lie within 16 rows and columns of each other.
void add_regions(std::int64_t batch, std::vector<WrongElement> wrong, std::vector<WrongRegion>& regions);

}  // namespace assay::reference
