// SPDX-License-Identifier: Apache-2.0
// Case ids, case lists and the problems they describe, from any bytes.

#include <algorithm>

#include "fuzz.hpp"
#include "probes/ops/op.hpp"

using namespace assay;

namespace {

/// An id that can be read has one canonical form, which reads as the same case.
void read_id(std::string_view text) {
  try {
    const Op& op = find_op(case_op(text));
    const CaseId id = parse_case(text, op.grammar);
    const std::string canonical_id = to_string(id, op.grammar);
    const CaseId again = parse_case(canonical_id, op.grammar);
    fuzz::require(again.values == id.values, "another case after a round trip: " + canonical_id);
    fuzz::require(to_string(again, op.grammar) == canonical_id, "two canonical forms: " + canonical_id);
    const Problem problem = op.problem(id);
    for (const Operand& operand : problem.operands) {
      fuzz::require(operand.span >= 0 && operand.offset >= 0, "negative size of operand " + operand.role + ": " + canonical_id);
    }
  } catch (const CaseError& error) {
    fuzz::require_sentence(error.what());
  }
}

void read_list(std::string_view text) {
  try {
    const auto all = read_case_list(text, "", "fuzz.cases");
    const auto quick = read_case_list(text, "quick", "fuzz.cases");
    fuzz::require(quick.size() <= all.size() && all.size() <= 1'000'000, "sizes of a list's levels");
    for (std::size_t i = 0; i < std::min<std::size_t>(all.size(), 50); ++i) {
      fuzz::require(all[i].id.find_first_of("{}|# ") == std::string::npos, "unexpanded id: " + all[i].id);
      read_id(all[i].id);
    }
  } catch (const CaseError& error) {
    fuzz::require_sentence(error.what());
  }
}

void one(std::string_view input) {
  read_id(input);
  read_list(input);
}

}  // namespace

int main(int argc, char** argv) {
  return fuzz::run(argc, argv,
                   {one, {"g1:gemm:",    "g2:",   "m=",   "n=",        "k=",      "batch=",   "alpha=",    "beta=",
                          "fill=normal", "seed=", "off=", "place=end", "repeat=", "callers=", "in=bf16",   "out=f32",
                          "order=row",   "ta=t",  ",",    "{1,2}",     "{",       "}",        "[quick]\n", "[deep]\n",
                          " | T01",      "#",     "\n",   "1e30",      "-0",      "nan",      "16777216",  "1048576"}});
}
