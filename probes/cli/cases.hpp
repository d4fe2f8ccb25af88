// SPDX-License-Identifier: Apache-2.0
// From --level, --op, --tag, --cases and --case to the list of cases of a run.
#pragma once

#include <string>
#include <vector>

#include "probes/ops/case.hpp"

namespace assay::cli {

struct CaseQuery {
  std::string level;                   // "quick", "standard", "deep"; empty with `ids` or `files` alone
  std::vector<std::string> ops, tags;  // empty: all
  std::vector<std::string> files;      // case lists of the user, all their sections
  std::vector<std::string> ids;        // single cases
};

/// Canonical, in list order, each once. A list beside the program (cases/OP.cases) wins over the embedded one.
/// Throws CaseError: unknown level, op or file; a line that is not a case (file and line are named); nothing selected.
std::vector<ListedCase> select_cases(const CaseQuery&);

}  // namespace assay::cli
