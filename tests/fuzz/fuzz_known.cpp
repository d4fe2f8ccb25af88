// SPDX-License-Identifier: Apache-2.0
// Lists of known defects and their conditions, from any bytes.
#include "fuzz.hpp"
#include "probes/diagnose/known.hpp"

using namespace assay;

namespace {

void one(std::string_view input) {
  try {
    for (const KnownDefect& d : read_known_defects(input, "fuzz.json")) {
      fuzz::require(d.predicate.empty() == d.case_id.empty(), "a case without a condition: " + d.id);
      in_range(d, {.component = d.component, .version = d.from, .sm = {}});
    }
  } catch (const CaseError& error) {
    fuzz::require_sentence(error.what());
  }
  try {
    fuzz::require(!Predicate::parse(input).empty(), "a condition without clauses");
  } catch (const CaseError& error) {
    fuzz::require_sentence(error.what());
  }
  loaded_library(input, input);
}

}  // namespace

int main(int argc, char** argv) {
  return fuzz::run(argc, argv,
                   {one,
                    {"op=gemm", "m=1", " or ", "@n", "%64!=0", "|", "in=bf16", "algorithm~id=66", "\"when\": \"",
                     "\"sm\": [\"9.0\"]", "13.1.0"}});
}
