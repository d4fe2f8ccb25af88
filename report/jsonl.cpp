// SPDX-License-Identifier: Apache-2.0
// run.jsonl: one write per record, cut back when the disk is full; a torn last line is tolerated on reading.
#include "report/jsonl.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <system_error>

namespace assay::report {

namespace {

std::string error_text(int error) {
  return std::generic_category().message(error);
}

std::string write_advice(int error) {
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) return "free space and run again with --resume";
  return "make it writable and run again with --resume";
}

/// Writes everything or returns the errno that stopped it.
int write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    if (n == 0) return ENOSPC;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
  return 0;
}

}  // namespace

JsonlWriter::JsonlWriter(const std::filesystem::path& path) : path_(path.string()) {
  fd_ = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0)
    throw FileError(
        fmt::format("cannot write records to {} ({}); name a writable folder with --out", path_, error_text(errno)));
  // Cutting back after a short write is right only for a single writer. A file system without locks is let pass.
  if (flock(fd_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    close(fd_);
    throw FileError(fmt::format("another assay is writing {}; wait for it or name another folder with --out", path_));
  }
}

JsonlWriter::~JsonlWriter() {
  close(fd_);
}

void JsonlWriter::append(const Record& r) {
  const std::string line = to_json(r) + '\n';
  struct stat before {};
  const bool known = fstat(fd_, &before) == 0;
  const int error = write_all(fd_, line);
  if (error == 0) return;
  // Fails on a device or a pipe, which keep no partial line to cut.
  const bool restored = known && ftruncate(fd_, before.st_size) == 0;
  throw FileError(fmt::format("cannot write a record to {} ({}), {}; {}", path_, error_text(error),
                              restored ? "the records before it are safe" : "its last line may be torn", write_advice(error)));
}

ReadResult read_jsonl(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    throw FileError(fmt::format("there is no record file {}; name the folder of a finished or interrupted run", path.string()));
  std::ifstream in(path, std::ios::binary);
  if (!in) throw FileError(fmt::format("cannot read {} ({}); make it readable", path.string(), error_text(errno)));

  ReadResult result;
  std::string line;
  for (std::int64_t number = 1; std::getline(in, line); ++number) {
    if (in.eof()) {  // no newline: the write of this record did not finish
      result.torn = true;
      return result;
    }
    const auto bytes = static_cast<std::int64_t>(line.size()) + 1;
    try {
      if (!line.empty()) result.records.push_back(record_from_json(line));
    } catch (const NotJson& e) {
      if (in.peek() == std::ifstream::traits_type::eof()) {
        result.torn = true;
        return result;
      }
      throw FileError(fmt::format("{} line {}: {}", path.string(), number, e.what()));
    } catch (const FileError& e) {
      throw FileError(fmt::format("{} line {}: {}", path.string(), number, e.what()));
    }
    result.good_bytes += bytes;
  }
  if (in.bad()) throw FileError(fmt::format("{} could not be read to its end; check the disk", path.string()));
  return result;
}

RunData read_run(const std::filesystem::path& folder) {
  RunData run;
  run.folder = folder.string();
  ReadResult read = read_jsonl(folder / "run.jsonl");
  run.records = std::move(read.records);
  std::error_code ignored;
  run.broken_off = read.torn || !std::filesystem::exists(folder / "report.md", ignored);
  const std::filesystem::path file = folder / "environment.json";
  if (!std::filesystem::exists(file, ignored)) return run;
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  try {
    run.environment = environment_from_json(text.str());
  } catch (const FileError& e) {
    throw FileError(fmt::format("{}: {}", file.string(), e.what()));
  }
  return run;
}

void cut_to(const std::filesystem::path& path, std::int64_t bytes) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (!error && (bytes < 0 || static_cast<std::uintmax_t>(bytes) > size))
    throw FileError(fmt::format("{} has {} bytes, cannot be cut to {}; read it again", path.string(), size, bytes));
  if (!error) std::filesystem::resize_file(path, static_cast<std::uintmax_t>(bytes), error);
  if (error)
    throw FileError(fmt::format("cannot cut the torn last line off {} ({}); make it writable", path.string(), error.message()));
}

}  // namespace assay::report
