// SPDX-License-Identifier: Apache-2.0
// report.md: what a person pastes into a bug report. Below 60,000 characters, personal names redacted.
#pragma once

#include <span>
#include <string>

#include "report/environment.hpp"
#include "report/record.hpp"
#include "report/summary.hpp"

namespace assay::report {

/// An issue body on the common trackers holds 65,536 characters; the rest is left to the reporter's own words.
inline constexpr std::size_t markdown_limit = 60'000;

std::string markdown_report(std::span<const Record>, const Environment&, const RunFacts&);

}  // namespace assay::report
