// SPDX-License-Identifier: Apache-2.0
// Where in the output the bad elements lie, in words and as a few lines of ASCII.
#pragma once

#include <string>

#include "report/record.hpp"

namespace assay::report {

/// "rows 3 to 3, columns 448 to 511 of 512 x 512"; empty when the record names no bad element or no shape.
std::string bad_region(const Record&);
/// The last two dims squeezed into at most 16 x 64 characters: '#' holds a bad element, '.' none that is listed.
/// Ends in a line that says how many of how many bad elements are drawn. Empty like bad_region.
std::string picture(const Record&);

}  // namespace assay::report
