// SPDX-License-Identifier: Apache-2.0
// report.md. Texts that come from libraries are escaped, clipped and kept on one line.
#include "report/markdown.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "report/picture.hpp"
#include "report/redact.hpp"

namespace assay::report {

namespace {

// Shares of the budget for the parts around the failures; the failures get what these leave.
constexpr std::size_t table_share = 12'000, not_run_share = 6'000, notes_share = 6'000, conditions_share = 10'000,
                      known_share = 6'000;
constexpr std::size_t examples_per_group = 1;

/// At most `bytes` bytes, not cutting a UTF-8 sequence.
std::string clipped(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  std::size_t end = bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

/// Text that stays text: no mark-up, no table border, no line break, no mention of a user or an issue.
std::string plain(std::string_view text, std::size_t bytes = 500) {
  std::string out;
  for (const char c : clipped(text, bytes)) {
    if (std::string_view("\\`*_[]<>|#@~").find(c) != std::string_view::npos) out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    if (c == '@' || c == '#') out += "\u200b";
  }
  return out;
}

/// One line inside a code span or block.
std::string code_text(std::string_view text, std::size_t bytes = 500) {
  std::string out = clipped(text, bytes);
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
    if (c == '`') c = '\'';
  }
  return out;
}

std::string code(std::string_view text, std::size_t bytes = 500) {
  return text.empty() ? "" : "`" + code_text(text, bytes) + "`";
}

/// A code span inside a table cell.
std::string cell_code(std::string_view text) {
  std::string out;
  for (const char c : code(text, 300)) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

/// Appends whole pieces while they fit, then says once how many did not.
class Bounded {
 public:
  explicit Bounded(std::size_t limit) : limit_(limit) {}
  void add(const std::string& piece) {
    if (dropped_ == 0 && text_.size() + piece.size() <= limit_)
      text_ += piece;
    else
      ++dropped_;
  }
  std::string finish(std::string_view noun) const {
    return dropped_ == 0 ? text_ : text_ + fmt::format("\n{} more {} left out here; all are in `run.jsonl`.\n", dropped_, noun);
  }

 private:
  std::string text_;
  std::size_t limit_, dropped_ = 0;
};

std::string library_line(const LibraryIdentity& l) {
  std::string out = code(l.path);
  if (!l.version.empty()) out += ", " + plain(l.version, 120);
  if (!l.core.empty()) out += ", core " + plain(l.core, 60);
  if (!l.build_id.empty()) out += ", build id " + code(l.build_id.substr(0, 16));
  if (!l.sha256.empty()) out += ", sha256 " + code(l.sha256.substr(0, 16));
  return out;
}

std::string numbers(const Comparison& c) {
  const std::int64_t bad = c.bad + c.over_iid;
  std::string out = fmt::format("- numbers: {} of {} elements out of bound", bad, c.compared);
  if (c.first_bad >= 0) out += fmt::format(", the first at index {}", c.first_bad);
  if (c.unwritten > 0) out += fmt::format("; {} never written", c.unwritten);
  if (c.nan_unexpected > 0) out += fmt::format("; {} NaN where a number is due", c.nan_unexpected);
  if (c.nan_missing > 0) out += fmt::format("; {} numbers where NaN is due", c.nan_missing);
  if (c.inf_mismatch > 0) out += fmt::format("; {} wrong infinities", c.inf_mismatch);
  if (c.subnormal_flushed > 0) out += fmt::format("; {} subnormals flushed to zero", c.subnormal_flushed);
  out += "\n";
  if (c.worst_index >= 0) {
    out += fmt::format("- worst element: index {}, got {:.17g} (bits {}), expected {:.17g} (bits {})", c.worst_index,
                       c.worst_got, code(c.worst_got_bits, 40), c.worst_expected, code(c.worst_expected_bits, 40));
    if (c.worst_ulp != std::numeric_limits<std::int64_t>::max())
      out += fmt::format(", {} ulp apart", c.worst_ulp);  // max: a NaN
    out += "\n";
  }
  out +=
      fmt::format("- error over bound: {:.4g} of the rigorous bound, {:.4g} of the statistical one; bias {:.3g}; checked {}\n",
                  c.max_over_hard, c.max_over_iid, c.bias, code(c.verification.empty() ? "whole" : c.verification, 60));
  return out;
}

std::string label_words(const Record& r) {
  static const std::map<std::string, std::string, std::less<>> words = {
      {"WRONG", "The result differs from the true one by more than correct arithmetic of the declared kind can."},
      {"UNWRITTEN", "Part of the output was never written."},
      {"OUT-OF-BOUNDS", "Memory outside the output was changed."},
      {"NAN-LEAK", "NaN from memory that must not be read reached the output."},
      {"NONDETERMINISTIC", "The same call on the same data gave different bits."},
      {"MODE", "The result is that of a lower precision than declared."},
      {"OVERFLOW-EXPECTED", "The true value may exceed the format, so infinity and a finite number are both accepted."},
      {"POLICY", "The library follows another convention than the case leans on; nobody promised this one."},
      {"MISTRUSTED", "The case could not have seen a fault, so its result says little."},
      {"BUILD", "One kernel source compiled in two ways gives different bits."}};
  const auto it = words.find(r.label);
  if (it != words.end()) return it->second;
  return r.verdict == Verdict::fault ? "The call crashed, hung or returned an error."
                                     : "The result is inside the bound, but its statistics are out of class.";
}

std::string failure(const Record& r) {
  std::string out = plain(r.reason.empty() ? label_words(r) : r.reason) + "\n\n";
  if (!r.known_defect.empty()) out += "- **known defect**: " + plain(r.known_defect, 600) + "\n";
  if (!r.waived.empty()) out += "- **waived** " + plain(r.waived, 600) + "\n";
  if (!r.tensors.empty()) out += "- tensors: " + code(r.tensors, 200) + " in the run folder\n";
  out += "- case: " + code(r.case_id) + (r.tags.empty() ? "" : " (" + plain(r.tags, 120) + ")") + "\n";
  out += "- target: " + code(full_target(r), 120);
  if (!r.algorithm.empty()) out += ", algorithm " + code(r.algorithm, 200);
  out += "\n";
  if (!r.library.path.empty()) out += "- library: " + library_line(r.library) + "\n";
  if (!r.arithmetic.empty()) out += "- declared arithmetic: " + plain(r.arithmetic, 300) + "\n";
  if (r.comparison) out += numbers(*r.comparison);
  out += "- " + failed_in(r.confirmation);
  if (r.repeats > 0) out += fmt::format("; {} of {} repeats bit for bit identical", r.repeats_identical, r.repeats);
  out += "\n";
  std::string conditions;
  for (const auto& [name, value] : r.conditions)
    conditions += (conditions.empty() ? "" : ", ") + plain(name, 60) + " = " + plain(value, 80);
  if (!conditions.empty()) out += "- conditions: " + clipped(conditions, 600) + "\n";
  const std::string region = bad_region(r);
  if (!region.empty()) out += "- bad elements listed: " + region + "\n\n```text\n" + picture(r) + "```\n";
  return out + "\nAgain:\n\n```sh\n" + code_text(reproducer(r), 1500) + "\n```\n\n";
}

/// Whether a record is told in full: wrong, or suspicious by its numbers. A convention or a blind case is a note.
bool in_detail(const Record& r) {
  const Standing s = standing(r);
  if (s == Standing::suspect) return r.label != "POLICY" && r.label != "MISTRUSTED";
  return s == Standing::fail || s == Standing::fault || s == Standing::flaky || s == Standing::waived;
}

/// Records that say the same thing about the same target.
struct Group {
  std::vector<const Record*> members;  // worst first
};

double severity(const Record& r) {
  const double x = r.comparison ? r.comparison->max_over_hard : 0;
  return x == x ? x : 1e308;  // NaN sorts as the worst
}

std::vector<Group> failure_groups(std::span<const Record> records) {
  std::vector<Group> groups;
  std::map<std::tuple<std::string, std::string, std::string, Standing, std::string, std::string>, std::size_t> at;
  for (const Record& r : records) {
    if (!in_detail(r)) continue;
    const Standing s = standing(r);
    const auto [it, fresh] = at.try_emplace({r.op, r.formats, full_target(r), s, r.label, r.known_defect}, groups.size());
    if (fresh) groups.emplace_back();
    groups[it->second].members.push_back(&r);
  }
  for (Group& g : groups)
    std::stable_sort(g.members.begin(), g.members.end(),
                     [](const Record* a, const Record* b) { return severity(*a) > severity(*b); });
  const auto rank = [](const Group& g) {  // faults and failures before flaky before suspect before waived
    const Standing s = standing(*g.members.front());
    return s == Standing::waived ? 3 : s == Standing::suspect ? 2 : s == Standing::flaky ? 1 : 0;
  };
  std::stable_sort(groups.begin(), groups.end(), [&](const Group& a, const Group& b) { return rank(a) < rank(b); });
  return groups;
}

/// The members after the examples, as pieces that each stand alone, so that a budget may stop after any of them.
void add_rest(Bounded& out, const Group& g) {
  constexpr std::size_t per_table = 20;
  for (std::size_t i = examples_per_group; i < g.members.size(); i += per_table) {
    const std::size_t end = std::min(g.members.size(), i + per_table);
    std::string piece =
        fmt::format("<details><summary>the same in {} more case{}</summary>\n\n", end - i, end - i == 1 ? "" : "s");
    piece += "| case | bad elements | error over bound | first bad | failed in |\n|---|---|---|---|---|\n";
    for (std::size_t j = i; j < end; ++j) {
      const Record& r = *g.members[j];
      const Comparison c = r.comparison.value_or(Comparison{});
      piece += fmt::format("| {} | {} of {} | {:.4g} | {} | {} |\n", cell_code(r.case_id), c.bad + c.over_iid, c.compared,
                           c.max_over_hard, c.first_bad, k_of_n(r.confirmation));
    }
    out.add(piece + "\nReplace the case in the command above to run one of them.\n\n</details>\n\n");
  }
}

std::string failures(const std::vector<Group>& groups, std::size_t budget) {
  if (groups.empty()) return "None.\n\n";
  Bounded out(budget);
  std::size_t number = 0;
  // The example of every group first: a reader must see each kind of failure before more of the same.
  std::vector<std::string> heads;
  for (const Group& g : groups) {
    const Record& r = *g.members.front();
    const std::string sure = confirmed(r) ? ", confirmed" : "";
    heads.push_back(fmt::format("### {}. {} {} on {}: {}{}{} ({} case{})\n\n", ++number, plain(r.op, 60), plain(r.formats, 60),
                                plain(full_target(r), 120), name(standing(r)), r.label.empty() ? "" : " " + plain(r.label, 40),
                                sure, g.members.size(), g.members.size() == 1 ? "" : "s") +
                    failure(r));
  }
  std::size_t heads_size = 0;
  for (const std::string& h : heads) heads_size += h.size();
  const bool room = heads_size < budget / 2;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    out.add(heads[i]);
    if (room) add_rest(out, groups[i]);
  }
  if (!room)
    for (const Group& g : groups) {
      if (g.members.size() > examples_per_group)
        out.add(fmt::format("More of {}:\n\n", plain(full_target(*g.members.front()), 120)));
      add_rest(out, g);
    }
  return out.finish("parts of this list are");
}

std::string counts_table(std::span<const Record> records) {
  std::vector<std::array<std::string, 3>> order;
  std::map<std::array<std::string, 3>, std::array<std::int64_t, standings>> rows;
  for (const Record& r : records) {
    const std::array<std::string, 3> at = {r.op, full_target(r), r.formats};
    const auto [it, fresh] = rows.try_emplace(at);
    if (fresh) order.push_back(at);
    ++it->second[static_cast<std::size_t>(standing(r))];
  }
  Bounded out(table_share);
  std::string header = "| op | target | format |", rule = "|---|---|---|";
  for (std::size_t s = 0; s < standings; ++s) {
    header += fmt::format(" {} |", name(static_cast<Standing>(s)));
    rule += "---|";
  }
  out.add(header + "\n" + rule + "\n");
  for (const auto& at : order) {
    std::string row = fmt::format("| {} | {} | {} |", plain(at[0], 60), plain(at[1], 120), plain(at[2], 60));
    for (const std::int64_t n : rows[at]) row += n == 0 ? " |" : fmt::format(" {} |", n);
    out.add(row + "\n");
  }
  return out.finish("rows are");
}

/// "- 12 x unavailable gemm fp32 on openblas:core=Zen: reason", most frequent first.
template <class Wanted>
std::string grouped_reasons(std::span<const Record> records, Wanted wanted, std::size_t share) {
  struct Line {
    int count = 0;
    const Record* example = nullptr;
  };
  std::map<std::string, Line> lines;
  for (const Record& r : records) {
    if (!wanted(r)) continue;
    Line& line = lines[fmt::format("{}{} {} on {}: {}", r.label.empty() ? "" : plain(r.label, 40) + ", ", name(standing(r)),
                                   plain(r.op + " " + r.formats, 120), plain(full_target(r), 120),
                                   plain(r.reason.empty() ? "no reason was recorded" : r.reason, 300))];
    ++line.count;
    if (line.example == nullptr) line.example = &r;
  }
  std::vector<std::pair<std::string, Line>> sorted(lines.begin(), lines.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  Bounded out(share);
  for (const auto& [text, line] : sorted)
    out.add(fmt::format("- {} x {} For example {}.\n", line.count, text, code(line.example->case_id, 200)));
  return sorted.empty() ? "" : out.finish("reasons are");
}

std::string profile_notes(const RunFacts& facts) {
  if (facts.notes.empty()) return "";
  Bounded out(notes_share);
  for (const std::string& line : facts.notes) out.add("- " + plain(redact(line), 700) + "\n");
  return "## Required, promised, waived\n\n" + out.finish("notes are") + "\n";
}

std::string known_defects(const Environment& e) {
  if (e.known_defects.empty()) return "";
  Bounded out(known_share);
  for (const std::string& line : e.known_defects) out.add("- " + plain(line, 700) + "\n");
  return "## Known defects of these libraries\n\nPublished, and not necessarily met by this run.\n\n" +
         out.finish("known defects are") + "\n";
}

std::string conditions(const Environment& e) {
  Bounded out(conditions_share);
  out.add("<details><summary>environment and libraries</summary>\n\n");
  const auto block = [&](std::string_view title, const std::map<std::string, std::string>& map, bool classes) {
    if (map.empty()) return;
    out.add(fmt::format("{}:\n\n", title));
    for (const auto& [name, value] : map) {
      const char kind = classes ? variable_class(name) : '\0';
      out.add(fmt::format("- {}: {}{}\n", plain(name, 80), plain(value, 300), kind == '\0' ? "" : fmt::format(" ({})", kind)));
    }
    out.add("\n");
  };
  block("Assay", e.assay, false);
  block("System", e.system, false);
  block("Variables that are set (N can change numbers, S selects code, D determinism, E evidence only)", e.variables, true);
  if (!e.libraries.empty()) {
    out.add("Libraries as mapped after use:\n\n");
    for (const LibraryIdentity& l : e.libraries) out.add("- " + library_line(l) + "\n");
    out.add("\n");
  }
  if (!e.command.empty()) out.add("Command: " + code(e.command, 1000) + "\n");
  return out.finish("lines are") + "\n</details>\n\n";
}

}  // namespace

std::string markdown_report(std::span<const Record> raw, const Environment& environment, const RunFacts& facts) {
  std::vector<Record> records;
  for (const Record& r : raw) records.push_back(redacted(r));
  RunFacts public_facts = facts;
  public_facts.folder = redact(facts.folder);
  public_facts.resume = redact(facts.resume);

  std::string probed = device_words(facts);
  probed.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(probed.front())));
  const std::string head =
      fmt::format("# Assay: {}\n\n**What to do next:** {}\n\n{}.\n\n", plain(headline(records, public_facts), 240),
                  code(next_command(records, public_facts), 1500), probed);
  const std::string table = profile_notes(public_facts) + "## Results\n\n" + counts_table(records) + "\n";
  const auto not_run = [](const Record& r) { return r.verdict == Verdict::unsupported || r.verdict == Verdict::unavailable; };
  const auto noted = [&](const Record& r) { return !r.label.empty() && !not_run(r) && !in_detail(r); };
  const std::string reasons = grouped_reasons(records, not_run, not_run_share),
                    notes = grouped_reasons(records, noted, notes_share);
  std::string tail;
  if (!notes.empty()) tail += "## Notes\n\n" + notes + "\n";
  if (!reasons.empty()) tail += "## What did not run\n\nNot run is not passed.\n\n" + reasons + "\n";
  tail += known_defects(environment);
  tail += "## Conditions\n\n" + conditions(redacted(environment));
  tail += "## Reporter's own comment\n\n";

  const std::string title = "## Failures and suspicious results\n\n";
  constexpr std::size_t slack = 200;  // the sentence that says what was left out
  const std::size_t used = head.size() + table.size() + title.size() + tail.size() + slack;
  return head + table + title + failures(failure_groups(records), markdown_limit - std::min(used, markdown_limit)) + tail;
}

}  // namespace assay::report
