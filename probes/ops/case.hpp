// SPDX-License-Identifier: Apache-2.0
// The one-line case id: input language, record key and reproducer.  g1:gemm:m=512,n=512,k=4096,fill=normal,seed=3
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reference/inputs.hpp"

namespace assay {

/// A case id or case list that cannot be used. what() is one sentence: what, where, expected, what to do.
struct CaseError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class ParameterKind : std::uint8_t { integer, real, word };

/// One key of an op's grammar. Defaults are left out of the canonical id, so a default never changes once released.
struct Parameter {
  std::string_view name;
  ParameterKind kind = ParameterKind::integer;
  std::string_view fallback;              // default, as text; empty: the key is required
  double least = 0, most = 0;             // numbers: allowed range, inclusive
  std::vector<std::string_view> choices;  // words: allowed values
  std::string_view meaning;
};

/// Keys every op has: fill, seed, off, place, repeat, callers.
std::span<const Parameter> common_parameters();
/// The key fill with these families. An op that does not take every family puts it last in its grammar; it then stands for the
/// common one.
Parameter fill_parameter(std::span<const Family>);

/// A parsed id. Values are canonical text, in the grammar's order, defaults present; to_string leaves defaults out.
struct CaseId {
  std::string op;
  std::vector<std::pair<std::string, std::string>> values;

  const std::string& word(std::string_view key) const;
  std::int64_t integer(std::string_view key) const;
  double real(std::string_view key) const;
  void set(std::string_view key, std::string value);
};

/// The op name between the first and second colon, checked for the grammar version; throws CaseError.
std::string case_op(std::string_view id);
CaseId parse_case(std::string_view id, std::span<const Parameter> grammar);
std::string to_string(const CaseId&, std::span<const Parameter> grammar);

/// One line of a case list: an id and the words after '|' (test family, shape name).
struct ListedCase {
  std::string id;
  std::string tags;
  std::size_t line = 0;  // of its list, counted from 1; 0: from no list
  bool operator==(const ListedCase&) const = default;
};

/// Reads a case list: '#' comments, [quick] [standard] [deep] sections (each level contains the ones before it),
/// brace sets that expand to every combination, with ranges: g1:gemm:m={1,2,3},n=7,k={8..12} | T01.
/// `where` names the file in messages. Ids are not checked against a grammar here.
std::vector<ListedCase> read_case_list(std::string_view text, std::string_view level, std::string_view where);

}  // namespace assay
