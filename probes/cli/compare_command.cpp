// SPDX-License-Identifier: Apache-2.0
// compare, report: what is made of finished runs. No library under test, no device.
#include <fmt/format.h>

#include <cstdlib>

#include "probes/cli/commands.hpp"
#include "report/compare_runs.hpp"
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

}  // namespace assay::cli
