// SPDX-License-Identifier: Apache-2.0
// The list of known defects that this program uses.
#pragma once

#include <vector>

#include "probes/diagnose/known.hpp"

namespace assay::cli {

/// data/known_defects.json beside the program wins over the embedded list. Throws CaseError when it cannot be used.
std::vector<KnownDefect> known_defects();

/// The table of `assay list known`: id, component, range, devices, probing case, source.
void list_known();

}  // namespace assay::cli
