// SPDX-License-Identifier: Apache-2.0
// run.jsonl and environment.json: writer that survives a full disk, reader that survives a torn last line.
#pragma once

#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "report/environment.hpp"
#include "report/record.hpp"

namespace assay::report {

/// what() is one sentence: what, where, expected, what to do.
struct FileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Not JSON at all, as opposed to JSON of the wrong shape: what a torn line looks like.
struct NotJson : FileError {
  using FileError::FileError;
};

std::string to_json(const Record&);              // one line, no newline; UTF-8; NaN and Inf as strings "nan" "inf" "-inf"
Record record_from_json(std::string_view line);  // throws FileError; unknown fields ignored; newer major refused
std::string to_json(const Environment&);         // indented
Environment environment_from_json(std::string_view text);

/// One GPU as an object of environment.json, on one line, and back; throws FileError.
std::string to_json(const Gpu&);
Gpu gpu_from_json(std::string_view);

/// Appends records, personal names redacted, each flushed to the kernel in one write. On a short write the file is cut back to
/// the last whole record.
class JsonlWriter {
 public:
  /// Opens for append (creates); throws FileError when that is impossible, or when another writer has the file open.
  explicit JsonlWriter(const std::filesystem::path&);
  ~JsonlWriter();
  JsonlWriter(const JsonlWriter&) = delete;
  JsonlWriter& operator=(const JsonlWriter&) = delete;
  /// Throws FileError (disk full, ...) after restoring the file; nothing already written is lost.
  void append(const Record&);

 private:
  int fd_ = -1;
  std::string path_;
};

struct ReadResult {
  std::vector<Record> records;
  bool torn = false;            // the last line was incomplete and left out
  std::int64_t good_bytes = 0;  // length of the file up to the last whole record
};
/// Reads a run.jsonl. A torn last line is reported; any other bad line throws FileError with its line number.
ReadResult read_jsonl(const std::filesystem::path&);

/// A run folder as read back.
struct RunData {
  std::string folder;  // as it was named
  std::vector<Record> records;
  std::optional<Environment> environment;  // absent: there is no environment.json
  bool broken_off = false;                 // a torn last record, or no report.md, which a run writes at its end
};
/// Throws FileError: no run, damaged, or of another major version.
RunData read_run(const std::filesystem::path&);

/// Cuts a file back to its first `bytes` bytes (ReadResult::good_bytes) before a resumed run appends to it; throws FileError.
void cut_to(const std::filesystem::path&, std::int64_t bytes);

}  // namespace assay::report
