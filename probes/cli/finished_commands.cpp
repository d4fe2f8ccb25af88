// SPDX-License-Identifier: Apache-2.0
// compare, report: what is made of finished runs. No library under test, no device.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

#include "probes/cli/commands.hpp"
#include "report/compare_runs.hpp"
#include "report/junit.hpp"
#include "report/summary.hpp"

namespace assay::cli {

int compare(const std::string& run_a, const std::string& run_b) {
  const report::RunData a = report::read_run(run_a), b = report::read_run(run_b);
  const report::RunComparison c = report::compare_runs(a, b);
  const char* program = std::getenv("ASSAY_PROGRAM");
  fmt::print("{}",
             report::comparison_text(c, a, b, program == nullptr || *program == '\0' ? "assay" : report::shell_word(program)));
  return report::exit_code(c);
}

int report_as_junit(const std::string& run, bool strict) {
  fmt::print("{}", report::junit_report(report::read_run(run), strict));
  if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "cannot write the report");
  return 0;
}

}  // namespace assay::cli
