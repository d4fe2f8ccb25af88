// SPDX-License-Identifier: Apache-2.0
// Reads and writes the one-line case id, and case lists with sections and brace sets.

#include "probes/ops/case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>

#include "reference/inputs.hpp"

namespace assay {
namespace {

constexpr std::size_t longest_id = 4096;
constexpr std::size_t most_ids = 1'000'000;        // of one list, after expansion
constexpr std::size_t most_id_bytes = 256u << 20;  // of one list, after expansion
constexpr std::array<std::string_view, 3> levels = {"quick", "standard", "deep"};

bool printable(char c) {
  return c > ' ' && c < '\x7f';
}

/// Shortened and made printable, so that a message stays one readable line whatever it quotes.
std::string quote(std::string_view text, std::size_t most = 120) {
  std::string out = "'";
  for (char c : text.substr(0, most)) {
    out += c == ' ' || printable(c) ? std::string(1, c) : fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return out + (text.size() > most ? "...'" : "'");
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\f\v";
  const auto first = text.find_first_not_of(blanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// Levenshtein distance, one row at a time.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t change = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, diagonal + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// "did you mean 'm'? Known: m, n, k": for a word that is none of `known`.
std::string suggest(std::string_view word, std::span<const std::string_view> known) {
  if (known.empty()) return "none is known";
  const auto nearest = std::min_element(known.begin(), known.end(), [&](auto a, auto b) {
    return distance(word.substr(0, 64), a) < distance(word.substr(0, 64), b);
  });
  return fmt::format("the nearest known one is '{}' (known: {})", *nearest, fmt::join(known, ", "));
}

/// The op's keys, then every common key it does not define itself.
std::vector<const Parameter*> full_grammar(std::span<const Parameter> grammar) {
  std::vector<const Parameter*> all;
  for (const Parameter& p : grammar) all.push_back(&p);
  for (const Parameter& p : common_parameters()) {
    if (std::none_of(grammar.begin(), grammar.end(), [&](const Parameter& own) { return own.name == p.name; }))
      all.push_back(&p);
  }
  return all;
}

std::string shortest(double value) {
  std::array<char, 64> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string range_of(const Parameter& p) {
  const bool whole = p.kind == ParameterKind::integer;
  const auto print = [&](double bound) { return whole ? fmt::format("{:.0f}", bound) : shortest(bound); };
  return fmt::format("{} from {} to {}", whole ? "an integer" : "a decimal number", print(p.least), print(p.most));
}

/// The one spelling of a value; throws CaseError when the parameter does not allow it.
std::string canonical_value(const Parameter& p, std::string_view text) {
  const auto wrong = [&](std::string_view expected) {
    return CaseError(fmt::format("key {} has the value {}, expected {}", p.name, quote(text), expected));
  };
  if (p.kind == ParameterKind::word) {
    if (std::find(p.choices.begin(), p.choices.end(), text) != p.choices.end()) return std::string(text);
    throw wrong("one of its words; " + suggest(text, p.choices));
  }
  if (p.kind == ParameterKind::integer) {
    const auto value = parse_number<std::int64_t>(text);
    // Ranges are held in double; every one lies within +-2^53, so the comparison in integers is exact.
    if (!value || *value < static_cast<std::int64_t>(p.least) || *value > static_cast<std::int64_t>(p.most))
      throw wrong(range_of(p));
    return std::to_string(*value);
  }
  const auto value = parse_number<double>(text);
  if (!value || !std::isfinite(*value) || !(*value >= p.least && *value <= p.most)) throw wrong(range_of(p));
  return shortest(*value);
}

struct Split {
  std::string_view op, rest;
};

/// Checks size, bytes and grammar version, then cuts "g1:OP:rest".
Split split_id(std::string_view id) {
  if (id.size() > longest_id) {
    throw CaseError(
        fmt::format("case id {} is {} characters long, expected at most {}: shorten it", quote(id, 40), id.size(), longest_id));
  }
  const auto odd = std::find_if_not(id.begin(), id.end(), printable);
  if (odd != id.end()) {
    throw CaseError(fmt::format("case id {} has the byte 0x{:02x} at position {}, expected printable characters without spaces",
                                quote(id), static_cast<unsigned char>(*odd), odd - id.begin() + 1));
  }
  const auto malformed = [&](std::string_view expected) {
    return CaseError(fmt::format("case id {} cannot be read: expected {}, such as g1:gemm:m=8,n=8,k=8", quote(id), expected));
  };
  const auto colon = id.find(':');
  const std::string_view version = id.substr(0, colon);
  const std::string_view digits = version.substr(std::min<std::size_t>(1, version.size()));
  const bool numbered = version.starts_with('g') && !digits.empty() && digits.find_first_not_of("0123456789") == digits.npos &&
                        digits.front() != '0';
  if (!numbered) throw malformed("it to begin with the grammar version 'g1:'");
  if (digits != fmt::to_string(generator_version)) {
    throw CaseError(
        fmt::format("case id {} was written for a newer Assay: it has grammar g{}, this Assay reads g{}; "
                    "use the Assay that wrote it",
                    quote(id), digits.substr(0, 12), generator_version));
  }
  if (colon == id.npos) throw malformed("g1:OP:key=value,...");
  const std::string_view after = id.substr(colon + 1);
  const auto second = after.find(':');
  const std::string_view op = after.substr(0, second);
  if (second == after.npos) throw malformed(fmt::format("a second ':' after the op name {}", quote(op, 40)));
  if (op.empty() || op.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != op.npos) {
    throw malformed(fmt::format("an op name of lower-case letters, digits and '_' instead of {}", quote(op, 40)));
  }
  return {op, after.substr(second + 1)};
}

/// An entry "3..7" of a brace set stands for 3,4,5,6,7. False: it is something else.
bool add_range(std::string_view entry, std::vector<std::string>& choices) {
  const auto dots = entry.find("..");
  if (dots == entry.npos) return false;
  const auto first = parse_number<std::int64_t>(entry.substr(0, dots)),
             last = parse_number<std::int64_t>(entry.substr(dots + 2));
  if (!first || !last) return false;
  if (!(0 <= *first && *first <= *last && *last - *first < static_cast<std::int64_t>(most_ids)))
    throw CaseError(fmt::format("the range {} runs backwards, below 0 or over too many values, expected one such as 1..64",
                                quote(entry, 40)));
  for (std::int64_t v = *first; v <= *last; ++v) choices.push_back(std::to_string(v));
  return true;
}

/// Every combination of the brace sets of one line, first set slowest. `ids` and `bytes` count the whole list.
std::vector<std::string> expand(std::string_view text, std::size_t& ids, std::size_t& bytes) {
  struct Piece {
    std::vector<std::string> choices;
  };
  std::vector<Piece> pieces;
  std::size_t count = 1;
  const auto require_few = [ids](std::size_t more) {
    if (ids + more > most_ids)
      throw CaseError(
          fmt::format("the brace sets expand to more than {} cases, expected at most that many in one list: "
                      "use smaller sets",
                      most_ids));
  };
  while (!text.empty()) {
    const auto open = text.find_first_of("{}");
    if (open == text.npos || open > 0) pieces.push_back({{std::string(text.substr(0, open))}});
    if (open == text.npos) break;
    if (text[open] == '}') throw CaseError("a '}' has no '{' before it: close only what was opened");
    const auto close = text.find_first_of("{}", open + 1);
    if (close == text.npos) throw CaseError("a '{' is not closed: add the missing '}'");
    if (text[close] == '{') throw CaseError("a brace set stands inside another, expected flat sets such as m={1,2}");
    Piece piece;
    std::string_view inside = text.substr(open + 1, close - open - 1);
    for (;;) {
      const auto comma = inside.find(',');
      const std::string_view entry = trim(inside.substr(0, comma));
      if (entry.empty()) throw CaseError("a brace set has an empty entry, expected values such as m={1,2}");
      if (!add_range(entry, piece.choices)) piece.choices.emplace_back(entry);
      require_few(piece.choices.size());
      if (comma == inside.npos) break;
      inside.remove_prefix(comma + 1);
    }
    count *= piece.choices.size();  // cannot overflow: at most 1e6 * 1e6
    require_few(count);
    pieces.push_back(std::move(piece));
    text.remove_prefix(close + 1);
  }
  std::vector<std::string> out = {""};
  for (const Piece& piece : pieces) {
    std::vector<std::string> longer;
    longer.reserve(out.size() * piece.choices.size());
    std::size_t total = bytes;
    for (const std::string& start : out) {
      for (const std::string& choice : piece.choices) {
        total += start.size() + choice.size();
        if (total > most_id_bytes) {
          throw CaseError(
              fmt::format("the brace sets expand to more than {} MiB of case ids: use smaller sets", most_id_bytes >> 20));
        }
        longer.push_back(start + choice);
      }
    }
    out = std::move(longer);
  }
  ids += out.size();
  for (const std::string& id : out) bytes += id.size();
  return out;
}

/// Position in `levels`; throws CaseError.
std::size_t level_index(std::string_view word) {
  const auto found = std::find(levels.begin(), levels.end(), word);
  if (found == levels.end()) {
    throw CaseError(fmt::format("level {} is unknown; {}", quote(word, 40), suggest(word, levels)));
  }
  return static_cast<std::size_t>(found - levels.begin());
}

}  // namespace

std::span<const Parameter> common_parameters() {
  static const std::vector<Parameter> parameters = {
      fill_parameter(all_families()),
      {"seed", ParameterKind::integer, "1", 0, 0x1p53, {}, "seed of every operand's random stream"},
      {"off", ParameterKind::integer, "0", 0, 64, {}, "elements between the start of an allocation and element 0"},
      {"place", ParameterKind::word, "start", 0, 0, {"start", "end"}, "operands start after, or end at, a guard page"},
      {"repeat", ParameterKind::integer, "2", 1, 1000, {}, "executions on the same data that must agree bit for bit"},
      {"callers", ParameterKind::integer, "1", 1, 16, {}, "application threads that make the call at once"},
      {"queue",
       ParameterKind::word,
       "plain",
       0,
       0,
       {"plain", "second", "graph", "busy"},
       "device targets only: on a stream of its own, on a second stream behind an event, captured and replayed, or beside "
       "another kernel"},
  };
  return parameters;
}

Parameter fill_parameter(std::span<const Family> families) {
  std::vector<std::string_view> names;
  for (const Family family : families) names.push_back(name(family));
  return {"fill", ParameterKind::word, "normal", 0, 0, names, "input family"};
}

const std::string& CaseId::word(std::string_view key) const {
  for (const auto& [name, value] : values) {
    if (name == key) return value;
  }
  throw CaseError(fmt::format("a case of op {} has no key {}, expected a key of its grammar", quote(op, 40), quote(key, 40)));
}

std::int64_t CaseId::integer(std::string_view key) const {
  const std::string& text = word(key);
  if (const auto value = parse_number<std::int64_t>(text)) return *value;
  throw CaseError(fmt::format("key {} has the value {}, expected an integer", quote(key, 40), quote(text)));
}

double CaseId::real(std::string_view key) const {
  const std::string& text = word(key);
  const auto value = parse_number<double>(text);
  if (value && std::isfinite(*value)) return *value;
  throw CaseError(fmt::format("key {} has the value {}, expected a finite decimal number", quote(key, 40), quote(text)));
}

void CaseId::set(std::string_view key, std::string value) {
  for (auto& [name, old] : values) {
    if (name == key) {
      old = std::move(value);
      return;
    }
  }
  throw CaseError(
      fmt::format("a case of op {} has no key {} to set, expected a key of its grammar", quote(op, 40), quote(key, 40)));
}

std::string case_op(std::string_view id) {
  return std::string(split_id(id).op);
}

CaseId parse_case(std::string_view id, std::span<const Parameter> grammar) {
  const auto [op, rest] = split_id(id);
  const auto all = full_grammar(grammar);
  std::vector<std::optional<std::string>> given(all.size());
  try {
    for (std::string_view left = rest; !left.empty();) {
      const auto comma = left.find(',');
      const std::string_view item = left.substr(0, comma);
      left.remove_prefix(comma == left.npos ? left.size() : comma + 1);
      if (comma != item.npos && left.empty()) throw CaseError("it ends in ',', expected another key=value or no comma");
      const auto equals = item.find('=');
      if (equals == item.npos) throw CaseError(fmt::format("{} has no '=', expected key=value", quote(item)));
      const std::string_view key = item.substr(0, equals);
      const auto found = std::find_if(all.begin(), all.end(), [&](const Parameter* p) { return p->name == key; });
      if (found == all.end()) {
        std::vector<std::string_view> names;
        for (const Parameter* p : all) names.push_back(p->name);
        throw CaseError(fmt::format("key {} with value {} is unknown; {}", quote(key, 40), quote(item.substr(equals + 1), 40),
                                    suggest(key, names)));
      }
      auto& slot = given[static_cast<std::size_t>(found - all.begin())];
      const std::string_view text = item.substr(equals + 1);
      if (slot) {
        throw CaseError(
            fmt::format("key {} is given twice, as {} and as {}, expected once", key, quote(*slot, 40), quote(text, 40)));
      }
      slot = canonical_value(**found, text);
    }
    CaseId parsed{std::string(op), {}};
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Parameter& p = *all[i];
      if (!given[i] && p.fallback.empty()) {
        const std::string expected =
            p.kind == ParameterKind::word ? fmt::format("one of: {}", fmt::join(p.choices, ", ")) : range_of(p);
        throw CaseError(
            fmt::format("the required key {} ({}) is missing, expected {}={}", p.name, p.meaning, p.name, expected));
      }
      parsed.values.emplace_back(p.name, given[i] ? *given[i] : canonical_value(p, p.fallback));
    }
    return parsed;
  } catch (const CaseError& error) {
    throw CaseError(fmt::format("case id {}: {}", quote(id), error.what()));
  }
}

std::string to_string(const CaseId& id, std::span<const Parameter> grammar) {
  std::string out = fmt::format("g{}:{}:", generator_version, id.op);
  const char* separator = "";
  for (const Parameter* p : full_grammar(grammar)) {
    const std::string value = canonical_value(*p, id.word(p->name));
    if (!p->fallback.empty() && value == canonical_value(*p, p->fallback)) continue;
    out += fmt::format("{}{}={}", separator, p->name, value);
    separator = ",";
  }
  return out;
}

std::vector<ListedCase> read_case_list(std::string_view text, std::string_view level, std::string_view where) {
  const std::size_t wanted = level.empty() ? levels.size() : level_index(level);
  std::vector<ListedCase> cases;
  std::size_t section = 0, ids = 0, bytes = 0;  // lines before the first section belong to every level
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  for (std::size_t number = 1; !text.empty(); ++number) {
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    line = trim(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    try {
      if (line.front() == '[') {
        if (line.back() != ']') throw CaseError(fmt::format("section {} has no closing ']'", quote(line, 40)));
        section = level_index(trim(line.substr(1, line.size() - 2)));
        continue;
      }
      if (line.size() > longest_id) {
        throw CaseError(fmt::format("the line is {} characters long, expected at most {}: split it", line.size(), longest_id));
      }
      const auto bar = line.find('|');
      const std::string_view tags = bar == line.npos ? std::string_view{} : trim(line.substr(bar + 1));
      if (!std::all_of(tags.begin(), tags.end(), [](char c) { return c == ' ' || printable(c); })) {
        throw CaseError(fmt::format("the tags {} hold a byte that is not printable ASCII", quote(tags)));
      }
      // Every line is read, whatever the level: a mistake in a deep case shows in the first quick run.
      for (std::string& id : expand(trim(line.substr(0, bar)), ids, bytes)) {
        split_id(id);
        if (section <= wanted) cases.push_back({std::move(id), std::string(tags), number});
      }
    } catch (const CaseError& error) {
      throw CaseError(fmt::format("{} line {}: {}", where, number, error.what()));
    }
  }
  return cases;
}

}  // namespace assay
