// SPDX-License-Identifier: Apache-2.0
#include "probes/diagnose/predicate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <optional>
#include <utility>

#include "probes/ops/op.hpp"

namespace assay {

namespace {

using Test = Predicate::Test;
using Term = Predicate::Term;

constexpr std::size_t longest = 1000;

// Longer operators first: "<=" begins with "<".
constexpr std::array<std::pair<std::string_view, Test>, 7> operators = {{{"!=", Test::unequal},
                                                                         {"<=", Test::at_most},
                                                                         {">=", Test::at_least},
                                                                         {"<", Test::less},
                                                                         {">", Test::greater},
                                                                         {"=", Test::equal},
                                                                         {"~", Test::has_word}}};

/// Facts of a result that no case has: predicates may ask for them.
bool of_a_result(std::string_view key) {
  return key == "core" || key == "algorithm";
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value != value) return std::nullopt;
  return value;
}

std::optional<std::int64_t> integer(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, std::string_view by) {
  std::vector<std::string_view> out;
  for (;;) {
    const std::size_t at = text.find(by);
    out.push_back(text.substr(0, at));
    if (at == text.npos) return out;
    text.remove_prefix(at + by.size());
  }
}

CaseError wrong(std::string_view term, std::string_view expected) {
  return CaseError(fmt::format("the condition '{}' cannot be read: expected {}", term.substr(0, 60), expected));
}

Term parse_term(std::string_view text) {
  Term term;
  const std::size_t at = text.find_first_of("!<>=~");
  if (at == text.npos || at == 0) throw wrong(text, "KEY=VALUE, with = != < <= > >= or ~");
  std::string_view key = text.substr(0, at), rest = text.substr(at);
  const auto found = std::ranges::find_if(operators, [&](const auto& o) { return rest.starts_with(o.first); });
  if (found == operators.end()) throw wrong(text, "one of = != < <= > >= ~ after the key");
  term.test = found->second;
  rest.remove_prefix(found->first.size());
  if (const std::size_t percent = key.find('%'); percent != key.npos) {
    const auto modulus = integer(key.substr(percent + 1));
    if (!modulus || *modulus < 1) throw wrong(text, "a positive number after %");
    term.modulus = *modulus, key = key.substr(0, percent);
  }
  term.key = key;
  for (const std::string_view value : split(rest, "|")) {
    if (value.empty() || value == "@") throw wrong(text, "a value after the operator");
    term.values.emplace_back(value);
  }
  if (term.values.size() > 1 && term.test != Test::equal && term.test != Test::unequal)
    throw wrong(text, "one value: alternatives go with = and != only");
  return term;
}

const Parameter* parameter(const Op& op, std::string_view key) {
  for (const Parameter& p : op.grammar)
    if (p.name == key) return &p;
  for (const Parameter& p : common_parameters())
    if (p.name == key) return &p;
  return nullptr;
}

/// Every key is one that the op has, every word one that the key takes: a misspelt condition would hold for nothing.
void check(const Term& term, const Op& op, std::string_view text) {
  const Parameter* const p = parameter(op, term.key);
  if (p == nullptr && !of_a_result(term.key)) throw wrong(text, fmt::format("a key of {}, or core or algorithm", op.name));
  const bool numeric = p != nullptr && p->kind != ParameterKind::word;
  const bool ordered = term.test != Test::equal && term.test != Test::unequal && term.test != Test::has_word;
  if ((ordered || term.modulus != 0) && !numeric) throw wrong(text, "a key whose values are numbers");
  if (term.modulus != 0 && p->kind != ParameterKind::integer) throw wrong(text, "a key whose values are whole numbers");
  if (term.test == Test::has_word && !of_a_result(term.key)) throw wrong(text, "~ with core or algorithm only");
  for (const std::string& value : term.values) {
    if (value.front() == '@') {
      const Parameter* const other = parameter(op, value.substr(1));
      if (other == nullptr || (numeric && other->kind == ParameterKind::word))
        throw wrong(text, fmt::format("@ and a key of {} of the same kind", op.name));
    } else if (numeric && !number(value)) {
      throw wrong(text, "a number");
    } else if (p != nullptr && !numeric && std::ranges::find(p->choices, value) == p->choices.end()) {
      // out=same is resolved to the format that in names, so every format is a value of out.
      const Parameter* const in = p->name == "out" ? parameter(op, "in") : nullptr;
      if (in == nullptr || std::ranges::find(in->choices, value) == in->choices.end())
        throw wrong(text, fmt::format("one of the words that {} takes", p->name));
    }
  }
}

bool term_holds(const Term& term, const Facts& facts) {
  const auto found = facts.find(term.key);
  if (found == facts.end()) return false;
  std::string left = found->second;
  if (term.modulus != 0) {
    const auto value = integer(left);
    if (!value) return false;
    left = std::to_string(*value % term.modulus);
  }
  const auto right = [&](const std::string& value) -> std::string_view {
    if (value.front() != '@') return value;
    const auto other = facts.find(std::string_view(value).substr(1));
    return other == facts.end() ? std::string_view{} : other->second;
  };
  const auto same = [&](const std::string& value) {
    const auto a = number(left), b = number(right(value));
    return a && b ? *a == *b : left == right(value);
  };
  const auto against = [&](auto compare) {
    const auto a = number(left), b = number(right(term.values.front()));
    return a && b && compare(*a, *b);
  };
  switch (term.test) {
    case Test::equal:
      return std::ranges::any_of(term.values, same);
    case Test::unequal:
      return std::ranges::none_of(term.values, same);
    case Test::less:
      return against(std::less<>{});
    case Test::at_most:
      return against(std::less_equal<>{});
    case Test::greater:
      return against(std::greater<>{});
    case Test::at_least:
      return against(std::greater_equal<>{});
    case Test::has_word:
      return std::ranges::any_of(split(left, " "), [&](std::string_view word) { return word == right(term.values.front()); });
  }
  return false;
}

}  // namespace

Predicate Predicate::parse(std::string_view text) {
  if (!std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; }))
    throw CaseError("a condition holds a byte that is not printable ASCII: expected words such as op=gemm m=1");
  if (text.empty() || text.size() > longest)
    throw wrong(text, fmt::format("1 to {} characters such as op=gemm m=1 bias=1", longest));
  Predicate out;
  for (const std::string_view clause_text : split(text, " or ")) {
    Clause clause;
    const Op* op = nullptr;
    for (const std::string_view word : split(clause_text, " ")) {
      Term term = parse_term(word);
      if ((op == nullptr) != (term.key == "op")) throw wrong(clause_text, "op=NAME once, first in every clause");
      if (op == nullptr) {
        if (term.test != Test::equal || term.values.size() != 1 || term.modulus != 0)
          throw wrong(word, "op=NAME with one operation");
        op = &find_op(term.values.front());
      } else {
        check(term, *op, word);
      }
      clause.push_back(std::move(term));
    }
    out.clauses_.push_back(std::move(clause));
  }
  return out;
}

bool Predicate::holds(const Facts& facts) const {
  return std::ranges::any_of(clauses_, [&](const Clause& clause) {
    return std::ranges::all_of(clause, [&](const Term& term) { return term_holds(term, facts); });
  });
}

}  // namespace assay
