// SPDX-License-Identifier: Apache-2.0
// Conditions on a problem in the words of its case id:  op=gemm m=1 bias=1 or op=gemm n=1 bias=1
// A term is KEY, or KEY%NUMBER (the remainder), an operator = != < <= > >= ~ (has this word), and a word, a number or @KEY, the
// value of another key; = and != take alternatives, in=bf16|f16. Terms of a clause must all hold, one of the clauses must.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "probes/ops/case.hpp"

namespace assay {

/// Key to value, as text: "op" -> "gemm", "m" -> "1", "core" -> "Haswell".
using Facts = std::map<std::string, std::string, std::less<>>;

class Predicate {
 public:
  enum class Test : std::uint8_t { equal, unequal, less, at_most, greater, at_least, has_word };
  struct Term {
    std::string key;
    std::int64_t modulus = 0;  // 0: the value itself
    Test test = Test::equal;
    std::vector<std::string> values;  // "@key" is the value of that key
  };
  using Clause = std::vector<Term>;

  Predicate() = default;  // holds for nothing
  /// Every clause begins with op=NAME; its other keys are those of that op, or core or algorithm, with values that the op
  /// takes. Throws CaseError: one sentence.
  static Predicate parse(std::string_view text);

  bool holds(const Facts&) const;
  const std::vector<Clause>& clauses() const { return clauses_; }
  bool empty() const { return clauses_.empty(); }

 private:
  std::vector<Clause> clauses_;
};

}  // namespace assay
