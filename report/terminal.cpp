// SPDX-License-Identifier: Apache-2.0
// The table a person reads in the terminal.
#include "report/terminal.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "report/summary.hpp"

namespace assay::report {

namespace {

struct Style {
  std::string_view glyph, ascii, color;
};

constexpr Style style(Standing s) {
  switch (s) {
    case Standing::pass:
      return {"\u2713", "+", "32"};
    case Standing::fail:
      return {"\u2717", "x", "31;1"};
    case Standing::fault:
      return {"!", "!", "31;1"};
    case Standing::flaky:
      return {"\u2248", "~", "33;1"};
    case Standing::suspect:
      return {"?", "?", "33"};
    case Standing::waived:
      return {"\u00b7", ".", "33"};
    default:
      return {"\u2013", "-", "2"};
  }
}

/// Text with its width on the screen, which colour codes and UTF-8 continuation bytes do not add to.
struct Cell {
  std::string text;
  std::size_t width = 0;

  void add(std::string_view visible, std::string_view color = "") {
    text += color.empty() ? std::string(visible) : fmt::format("\x1b[{}m{}\x1b[0m", color, visible);
    for (const char c : visible) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
  }
  std::string padded(std::size_t to) const { return text + std::string(to > width ? to - width : 0, ' '); }
};

/// A name from a library or a file must not steer the terminal.
std::string harmless(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = ' ';
  return out;
}

using Counts = std::array<std::int64_t, standings>;

Cell count_cell(const Counts& n, const TerminalOptions& o) {
  const auto of = [&](Standing s) { return n[static_cast<std::size_t>(s)]; };
  const auto not_run = of(Standing::unsupported) + of(Standing::unavailable);
  std::int64_t ran = -not_run;
  for (const std::int64_t x : n) ran += x;

  Cell cell;
  const auto part = [&](Standing s, const std::string& number) {
    const Style look = style(s);
    if (cell.width > 0) cell.add(" ");
    cell.add(fmt::format("{} {} {}", o.unicode ? look.glyph : look.ascii, name(s), number), o.color ? look.color : "");
  };
  for (const Standing s : {Standing::fault, Standing::fail, Standing::flaky, Standing::suspect, Standing::waived})
    if (of(s) > 0) part(s, fmt::format("{}/{}", of(s), ran));
  if (cell.width == 0 && of(Standing::pass) > 0) part(Standing::pass, std::to_string(of(Standing::pass)));
  for (const Standing s : {Standing::unavailable, Standing::unsupported})
    if (of(s) > 0) part(s, std::to_string(of(s)));
  return cell;
}

struct Table {
  std::vector<std::string> targets, formats;
  std::map<std::pair<std::string, std::string>, Counts> counts;
};

void add_once(std::vector<std::string>& list, const std::string& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

std::string as_table(const std::string& op, const Table& t, const TerminalOptions& o) {
  std::vector<std::vector<Cell>> grid(1);
  grid[0].emplace_back().add(op);
  for (const std::string& f : t.formats) grid[0].emplace_back().add(f);
  for (const std::string& target : t.targets) {
    auto& row = grid.emplace_back();
    row.emplace_back().add(target);
    for (const std::string& f : t.formats) {
      const auto it = t.counts.find({target, f});
      row.push_back(it == t.counts.end() ? Cell{} : count_cell(it->second, o));
    }
  }
  std::vector<std::size_t> widths(grid[0].size(), 0);
  std::size_t total = 0;
  for (std::size_t column = 0; column < widths.size(); ++column) {
    for (const auto& row : grid) widths[column] = std::max(widths[column], row[column].width);
    total += widths[column] + 2;
  }
  if (total > static_cast<std::size_t>(std::max(o.width, 1)) + 2) return "";
  std::string out;
  for (const auto& row : grid) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) line += row[column].padded(widths[column]) + "  ";
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

/// Items after `head`, joined by separators and wrapped to the width, later lines indented.
std::string wrapped(Cell line, const std::vector<Cell>& items, std::string_view separator, int width) {
  constexpr std::string_view indent = "      ";
  std::string out;
  bool first = true;
  for (const Cell& item : items) {
    if (!first) line.add(separator);
    if (!first && line.width + 1 + item.width + separator.size() > static_cast<std::size_t>(std::max(width, 1))) {
      out += line.text + "\n";
      line = {};
      line.add(indent);
    } else {
      line.add(" ");
    }
    line.text += item.text, line.width += item.width;
    first = false;
  }
  return out + line.text + "\n";
}

/// One line per target where it fits: what a table would say in a row.
std::string as_list(const std::string& op, const Table& t, const TerminalOptions& o) {
  std::string out = op + "\n";
  for (const std::string& target : t.targets) {
    std::vector<Cell> cells;
    for (const std::string& f : t.formats) {
      const auto it = t.counts.find({target, f});
      if (it == t.counts.end()) continue;
      const Cell count = count_cell(it->second, o);
      cells.push_back({f + " " + count.text, f.size() + 1 + count.width});
    }
    Cell head;
    head.add("  " + target);
    out += wrapped(head, cells, ";", o.width);
  }
  return out;
}

/// Takes the targets on which nothing ran out of the table: most are levels that this CPU lacks. They are named below it.
std::string take_not_run(Table& t, const TerminalOptions& o) {
  std::string out;
  for (const Standing s : {Standing::unavailable, Standing::unsupported}) {
    std::vector<Cell> names;
    std::erase_if(t.targets, [&](const std::string& target) {
      bool only = true;
      for (const std::string& f : t.formats)
        if (const auto it = t.counts.find({target, f}); it != t.counts.end())
          for (std::size_t i = 0; i < standings; ++i) only &= i == static_cast<std::size_t>(s) || it->second[i] == 0;
      if (only) names.emplace_back().add(target);
      return only;
    });
    if (names.empty()) continue;
    const Style look = style(s);
    Cell head;
    head.add(fmt::format("{} {}:", o.unicode ? look.glyph : look.ascii, name(s)), o.color ? look.color : "");
    out += wrapped(head, names, ",", o.width);
  }
  return out;
}

bool utf8_locale() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {  // the first that is set and not empty decides
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    std::string text(value);
    std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text.find("utf-8") != std::string::npos || text.find("utf8") != std::string::npos;
  }
  return false;
}

bool set_and_not_empty(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

TerminalOptions terminal_options(int fd) {
  TerminalOptions o;
  o.unicode = utf8_locale();
  if (isatty(fd) == 0) return o;
  const char* term = std::getenv("TERM");
  o.color = !set_and_not_empty("NO_COLOR") && term != nullptr && std::string_view(term) != "dumb";
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) o.width = size.ws_col;
  return o;
}

std::string terminal_table(std::span<const Record> records, const TerminalOptions& o) {
  std::vector<std::string> ops;
  std::map<std::string, Table> tables;
  for (const Record& r : records) {
    const std::string op = harmless(r.op), target = harmless(full_target(r)), format = harmless(r.formats);
    add_once(ops, op);
    Table& t = tables[op];
    add_once(t.targets, target);
    add_once(t.formats, format);
    ++t.counts[{target, format}][static_cast<std::size_t>(standing(r))];
  }
  std::string out;
  for (const std::string& op : ops) {
    if (!out.empty()) out += "\n";
    Table& t = tables[op];
    const std::string not_run = take_not_run(t, o);
    const std::string table = as_table(op, t, o);
    out += (table.empty() ? as_list(op, t, o) : table) + not_run;
  }
  return out;
}

std::string terminal_failures(std::span<const Record> records, const TerminalOptions& o, std::size_t most) {
  std::string out;
  std::set<std::tuple<Standing, std::string, std::string, std::string, std::string, std::string>> shown;
  std::size_t more = 0;
  for (const Standing wanted : {Standing::fault, Standing::fail, Standing::flaky, Standing::waived})
    for (const Record& r : records) {
      if (standing(r) != wanted) continue;
      const bool another =
          shown.size() < most && shown.insert({wanted, r.op, r.formats, full_target(r), r.label, r.known_defect}).second;
      if (!another) {
        ++more;
        continue;
      }
      const Style look = style(wanted);
      Cell head;
      head.add(fmt::format("{} {}{}{}", o.unicode ? look.glyph : look.ascii, name(wanted), r.label.empty() ? "" : " ",
                           harmless(r.label)),
               o.color ? look.color : "");
      head.add(fmt::format(" {} {} on {}, {}", harmless(r.op), harmless(r.formats), harmless(full_target(r)),
                           failed_in(r.confirmation)));
      out += head.text + "\n";
      if (!r.reason.empty()) out += "    " + harmless(r.reason) + "\n";
      if (!r.known_defect.empty()) out += "    " + harmless(r.known_defect) + "\n";
      if (!r.waived.empty()) out += "    waived " + harmless(r.waived) + "\n";
      out += "    " + harmless(o.program + reproducer(r).substr(std::string_view("assay").size())) + "\n";
    }
  if (more > 0) out += fmt::format("and {} more, see report.md\n", more);
  return out;
}

}  // namespace assay::report
