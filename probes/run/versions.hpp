// SPDX-License-Identifier: Apache-2.0
// What the libraries of a run say of themselves, asked before its first case.
#pragma once

#include <string>
#include <vector>

#include "probes/run/runner.hpp"
#include "report/record.hpp"

namespace assay {

/// Every file that these targets open and that tells its version, once, with that version; opened in processes of their own.
/// What cannot be opened is left out: its target says why.
std::vector<report::LibraryIdentity> library_versions(const std::vector<Candidate>&, double deadline_s);

/// The version text of this file ("" when it told none), by its path or its path as records write it.
std::string version_of(const std::vector<report::LibraryIdentity>&, const std::string& path);

}  // namespace assay
