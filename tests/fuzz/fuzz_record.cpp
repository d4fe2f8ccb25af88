// SPDX-License-Identifier: Apache-2.0
// Records, environments and whole run.jsonl files, from any bytes.

#include <sys/mman.h>

#include "fuzz.hpp"
#include "report/jsonl.hpp"

using namespace assay::report;

namespace {

/// What can be read is written so that it reads back as the same text.
template <class Read>
void round_trip(std::string_view text, Read read_text) {
  try {
    const std::string once = to_json(read_text(text));
    fuzz::require(to_json(read_text(once)) == once, "another text after a round trip: " + once);
  } catch (const FileError& error) {
    fuzz::require_sentence(error.what());
  }
}

void read_whole_file(std::string_view text) {
  static const int fd = memfd_create("run.jsonl", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  fuzz::require(ftruncate(fd, 0) == 0 && pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()),
                "the scratch file could not be written");
  try {
    const ReadResult result = read_jsonl(path);
    const auto size = static_cast<std::int64_t>(text.size());
    fuzz::require(result.good_bytes >= 0 && result.good_bytes <= size, "good_bytes lies outside the file");
    fuzz::require(result.torn || result.good_bytes == size, "bytes were left out of a file that is not torn");
    fuzz::require(result.good_bytes == 0 || text[static_cast<std::size_t>(result.good_bytes) - 1] == '\n', "cut inside a line");
  } catch (const FileError& error) {
    fuzz::require_sentence(error.what());
  }
}

void one(std::string_view input) {
  round_trip(input.substr(0, input.find('\n')), record_from_json);
  round_trip(input, environment_from_json);
  read_whole_file(input);
}

}  // namespace

int main(int argc, char** argv) {
  return fuzz::run(argc, argv,
                   {one,
                    {"\"schema\":\"1.2\"",
                     "\"schema\":\"2.0\"",
                     "\"1.9\"",
                     "null",
                     "true",
                     "[]",
                     "{}",
                     "[[[[",
                     "\"nan\"",
                     "\"-inf\"",
                     "1e999",
                     "-1",
                     "\"9223372036854775807\"",
                     "\"9223372036854775808\"",
                     "\\u0000",
                     "\\ud800",
                     "\"pass\"",
                     "\"fail\"",
                     "\"verdict\":",
                     "\"comparison\":",
                     "\"library\":",
                     ",",
                     "\n",
                     "\xff"}});
}
