// SPDX-License-Identifier: Apache-2.0
// What one case needs on the judge's side, made once and shared by all targets: inputs, their layout, and the truth.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "probes/ops/op.hpp"
#include "probes/run/arena.hpp"
#include "reference/digest.hpp"

namespace assay {

inline constexpr std::byte gap_byte{0xFF};  // every format reads it as NaN: data read from outside an operand shows

/// Inputs of one execution and, once asked for, their truth.
struct DataSet {
  std::uint64_t seed = 0;
  std::vector<std::vector<std::byte>> storage;  // per operand, gaps filled with gap_byte; empty for pure outputs
  std::vector<std::int64_t> rows;               // output rows that the truth covers; empty: all
  std::vector<Expected> expected;               // per output, once asked for
  double reference_ms = 0;
  std::vector<std::pair<Arithmetic, std::vector<Bound>>> bounds;  // per declared arithmetic seen, per output
};

class Truth {
 public:
  /// Throws CaseError (bad id) or Unavailable (not enough memory, checked before any is taken).
  explicit Truth(const std::string& case_id);

  const Op& op() const { return *op_; }
  const Problem& problem() const { return problem_; }
  const Layout& layout() const { return layout_; }
  const std::vector<std::size_t>& outputs() const { return outputs_; }  // operand indices
  /// The case's own data, and other data for the second call (its truth on sampled rows when the problem is large).
  DataSet& first() { return first_; }
  DataSet& second();
  const std::vector<Expected>& expected(DataSet&);
  /// From here on the data set's truth covers every row.
  void judge_whole(DataSet&) const;
  /// From here on the data set's truth covers these rows (sorted) as well.
  static void judge_more(DataSet&, const std::vector<std::int64_t>& rows);
  /// Bounds of every output; computed once per arithmetic, since most targets of a case declare the same one.
  const std::vector<Bound>& bounds(DataSet&, const Arithmetic&);
  /// Of the first data set; computed once.
  const std::string& input_digest();
  const std::string& reference_digest();

 private:
  DataSet make(std::uint64_t seed) const;

  const Op* op_;
  Problem problem_;
  Layout layout_;
  std::vector<std::size_t> outputs_;
  DataSet first_;
  std::optional<DataSet> second_;
  std::string input_digest_, reference_digest_;
};

}  // namespace assay
