// SPDX-License-Identifier: Apache-2.0
// Names of verdicts, and the key of a record.
#include "report/record.hpp"

#include <array>

#include "report/redact.hpp"

namespace assay::report {

namespace {
constexpr std::array<std::string_view, 6> verdict_names = {"pass", "fail", "fault", "suspect", "unsupported", "unavailable"};
}

std::string_view name(Verdict v) {
  return verdict_names.at(static_cast<std::size_t>(v));
}

std::optional<Verdict> parse_verdict(std::string_view text) {
  for (std::size_t i = 0; i < verdict_names.size(); ++i)
    if (verdict_names[i] == text) return static_cast<Verdict>(i);
  return std::nullopt;
}

// The path is part of it because two files may be probed under one target name; it is redacted because the key of a
// record read back from a file must equal the key of the record that was written.
std::string key(const Record& r) {
  constexpr char separator = '\x1f';
  return r.case_id + separator + r.target + separator + r.variant + separator + redact(r.library.path);
}

}  // namespace assay::report
