// SPDX-License-Identifier: Apache-2.0
// The algorithm census of a run: which algorithm each library took for each case.
#pragma once

#include <string>
#include <vector>

#include "report/record.hpp"

namespace assay::report {

/// algorithms.jsonl: a line for each record of a library that tells its algorithm, whatever the verdict; "" when none does.
/// Sorted by case, target and variant. It holds nothing that two builds of one library must differ in (no path, version, time
/// or device), so that `diff` of two runs' files shows the choices that changed.
std::string algorithm_census(const std::vector<Record>&);

}  // namespace assay::report
