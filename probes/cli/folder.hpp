// SPDX-License-Identifier: Apache-2.0
// The folder of a run: made new, or taken up again with what it already holds.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "report/environment.hpp"
#include "report/jsonl.hpp"

namespace assay::cli {

class RunFolder {
 public:
  /// `out` empty: a new folder under assay-runs/ named by the time. Takes the lock before it reads or repairs anything.
  /// Throws report::FileError: unwritable, in use by another assay, already a run (without `resume`) or none (with it),
  /// damaged.
  RunFolder(const std::string& out, bool resume);

  const std::filesystem::path& path() const { return path_; }
  /// Of the part that is resumed: its records, and its conditions where environment.json could still be read.
  const std::vector<report::Record>& earlier() const { return earlier_; }
  const std::optional<report::Environment>& conditions() const { return conditions_; }

  void append(const report::Record& r) { writer_->append(r); }
  /// Writes a whole file or leaves the one that was there; throws report::FileError.
  void write(const char* name, const std::string& text) const;

 private:
  std::filesystem::path path_;
  std::unique_ptr<report::JsonlWriter> writer_;
  std::vector<report::Record> earlier_;
  std::optional<report::Environment> conditions_;
};

/// A resumed run must not mix results of two conditions: throws report::FileError that names the variable that differs.
void refuse_changed_variables(const report::Environment& then, const report::Environment& now);

}  // namespace assay::cli
