// SPDX-License-Identifier: Apache-2.0
// compare, report: what is made of finished runs. No library under test, no device.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>

#include "probes/cli/commands.hpp"
#include "report/compare_runs.hpp"
#include "report/junit.hpp"
#include "report/summary.hpp"

namespace assay::cli {

namespace {

/// Throws when not all of it was written: a report that is cut short must not look whole.
void print_whole(const std::string& text) {
  fmt::print("{}", text);
  if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "cannot write the report");
}

int compare(const std::string& run_a, const std::string& run_b) {
  const report::RunData a = report::read_run(run_a), b = report::read_run(run_b);
  const report::RunComparison c = report::compare_runs(a, b);
  const char* program = std::getenv("ASSAY_PROGRAM");
  const bool named = program != nullptr && *program != '\0';
  try {
    print_whole(report::comparison_text(c, a, b, named ? report::shell_word(program) : "assay"));
  } catch (const std::system_error& e) {  // a reader that has seen enough does not make two runs equal
    if (e.code().value() != EPIPE) throw;
  }
  return report::exit_code(c);
}

struct Arguments {
  std::string run_a, run_b, run, format;
  bool strict = false;
};

}  // namespace

void add_finished_commands(CLI::App& app, int& code) {
  const auto args = std::make_shared<Arguments>();
  CLI::App* cmd = app.add_subcommand("compare", "which verdicts, output bits, algorithms and conditions differ in two runs");
  cmd->add_option("run_a", args->run_a, "a run folder")->required();
  cmd->add_option("run_b", args->run_b, "another, of the same cases on the same targets")->required();
  cmd->footer(
      "Exit codes: 0 the same verdicts, bits and algorithms (conditions may differ); 1 some differ; 2 the runs cannot be\n"
      "compared; 3 the same as far as both go, but one has results that the other lacks, or was broken off.\n");
  cmd->callback([args, &code] { code = compare(args->run_a, args->run_b); });

  cmd = app.add_subcommand("report", "a finished run in another format, on standard output");
  cmd->add_option("run", args->run, "a run folder")->required();
  cmd->add_option("--format", args->format, "junit: XML for CI servers")->required()->check(CLI::IsMember({"junit"}));
  cmd->add_flag("--strict", args->strict, "a suspect result is a failure");
  cmd->footer("Exit codes: 0 written; 2 not written. Whether the run passed is told by the exit code of assay run.\n");
  cmd->callback([args] { print_whole(report::junit_report(report::read_run(args->run), args->strict)); });
}

}  // namespace assay::cli
