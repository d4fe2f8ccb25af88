// SPDX-License-Identifier: Apache-2.0
// A run as JUnit XML, which CI servers and test dashboards read.
#pragma once

#include <string>

#include "report/jsonl.hpp"

namespace assay::report {

/// One testsuite per operation, its properties the conditions of the run; one testcase per result, named by its case, its
/// class "op.target". A wrong or flaky result is a failure, a fault an error, unsupported and unavailable are skipped. A
/// suspect one is a failure when `strict`; otherwise it passes and says so in system-out. A run that was broken off has one
/// error more. Well-formed XML 1.0 in UTF-8 whatever the texts hold. Throws FileError for a run without any result.
std::string junit_report(const RunData&, bool strict);

}  // namespace assay::report
