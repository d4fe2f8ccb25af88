// SPDX-License-Identifier: Apache-2.0
// A mathematical operation: its grammar, problem, truth, bound, cases and targets, as a value holding functions.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "probes/ops/problem.hpp"
#include "probes/ops/target.hpp"
#include "reference/bound.hpp"
#include "reference/compare.hpp"
#include "reference/expected.hpp"

namespace assay::cudnn {
struct Description;
}

namespace assay {

/// Host storage of every operand, in the order of Problem::operands.
using Storage = std::span<const std::span<const std::byte>>;

/// A call whose result is to be verified, beside its problem and data.
struct FinishedCall {
  std::span<const std::byte> output;  // storage of the main output
  const Arithmetic& arithmetic;
  std::uint64_t poison_bits;
  bool subnormals_kept;
};

/// What a verification found that did not compute the whole result again.
struct Verified {
  Discrepancy found;  // of the elements it did compare; their number is far below that of the output
  bool exact = false;
  std::string method;  // "panels:512+rows:16"
  std::string where;   // wrong regions, in words
};

/// One thing that can go wrong, planted on purpose. The selftest must catch it.
struct PlantedFault {
  std::string_view name;
  std::string_view what;           // one line for the table
  std::vector<std::string> cases;  // ids without seed; caught when any of them fails
  bool may_hide_in_noise = false;  // F2: one ulp, excused where it lies inside accumulation noise
  bool hangs = false;              // never returns: the selftest waits only briefly
};

struct Op {
  std::string_view name;
  std::string_view summary;
  std::vector<Parameter> grammar;                 // op's own keys; common ones are appended by the registry
  std::function<Problem(const CaseId&)> problem;  // throws CaseError on an impossible combination
  /// Truth from input storage, one per output operand in their order. `rows`: restrict to these rows (flattened leading dims
  /// of the first output; the same rows of every other); empty = all.
  std::function<std::vector<Expected>(const Problem&, Storage inputs, std::vector<std::int64_t> rows)> expect;
  /// `output`: which of the outputs.
  std::function<Bound(const Problem&, std::size_t output, const Expected&, const Arithmetic&)> bound;
  /// Rows on which a problem too long to be judged whole is judged; unset or empty: it is judged whole.
  std::function<std::vector<std::int64_t>(const Problem&)> sampled_rows{};
  /// A cheap look at the whole main output of a problem that is judged on rows: the rows in which something is out of line,
  /// sorted; they are judged as well. It decides nothing by itself, so it cannot raise a false alarm.
  std::function<std::vector<std::int64_t>(const Problem&, Storage inputs, std::span<const std::byte> output)> suspicious{};
  std::string_view looked_at_by{};  // what that look is, for the record: "combination", "range"
  /// The problem as a graph for cuDNN; unset: cuDNN has nothing like it. Throws Unsupported.
  std::function<cudnn::Description(const Problem&)> cudnn_graph{};
  /// Checks all of the main output of a large problem for a fraction of what its truth costs; nothing: compare it whole.
  /// A problem that it takes has sampled_rows.
  std::function<std::optional<Verified>(const Problem&, Storage inputs, const FinishedCall&)> verify{};
  std::string_view cases;  // the op's case list, embedded
  std::vector<Target> targets;
  std::vector<PlantedFault> faults;         // variants of its target "planted"
  std::vector<std::string> selftest_clean;  // ids without seed: correct models must pass all of them
};

/// The explicit list of ops. (Self-registering objects in a static library are silently dropped by the linker.)
std::span<const Op> all_ops();
/// Throws CaseError naming the known ops.
const Op& find_op(std::string_view name);
/// Parses an id against its op's grammar and builds its problem.
Problem make_problem(std::string_view id);
std::string canonical(std::string_view id);

}  // namespace assay
