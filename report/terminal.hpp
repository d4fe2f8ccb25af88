// SPDX-License-Identifier: Apache-2.0
// The table a person reads in the terminal: a glyph and a word in every cell, colour only on top of them.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "report/record.hpp"

namespace assay::report {

struct TerminalOptions {
  bool color = false;
  bool unicode = false;
  int width = 80;                 // columns; a table that is wider becomes a list
  std::string program = "assay";  // how commands to type begin
};

/// For this descriptor: colour on a terminal unless NO_COLOR or TERM=dumb, UTF-8 by locale, width of the terminal or 80.
TerminalOptions terminal_options(int fd);

/// Per op: a row per target, a column per format, in the order of the records. Ends in a newline; empty without records.
std::string terminal_table(std::span<const Record>, const TerminalOptions&);

/// One failure of each kind (op, format, target, label), at most `most`, with reason and the command that repeats it; then how
/// many more results failed.
std::string terminal_failures(std::span<const Record>, const TerminalOptions&, std::size_t most = 5);

}  // namespace assay::report
