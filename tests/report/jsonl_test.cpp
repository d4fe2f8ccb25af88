// SPDX-License-Identifier: Apache-2.0
// run.jsonl survives a full disk, a torn last line and a second writer.
#include "report/jsonl.hpp"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <sstream>

#include "fixtures.hpp"

using namespace assay::report;
using namespace assay::report::fixtures;

namespace {

std::string contents(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

template <class F>
std::string sentence(F f) {
  try {
    f();
  } catch (const FileError& e) {
    return e.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("appended records are read back in order, across two writers one after the other") {
  const TemporaryFolder folder;
  const auto path = folder.path / "run.jsonl";
  {
    JsonlWriter writer(path);
    writer.append(passing());
    writer.append(failing());
  }
  JsonlWriter(path).append(not_run(Verdict::unavailable, true));
  const ReadResult result = read_jsonl(path);
  REQUIRE(result.records.size() == 3);
  CHECK(result.records[1].label == "WRONG");
  CHECK(result.records[2].verdict == Verdict::unavailable);
  CHECK_FALSE(result.torn);
  CHECK(result.good_bytes == static_cast<std::int64_t>(std::filesystem::file_size(path)));
}

TEST_CASE("a record file cut at any byte loses only its last record, and a resumed run appends cleanly") {
  const TemporaryFolder folder;
  const auto path = folder.path / "run.jsonl";
  const std::string first = to_json(passing()) + "\n", second = to_json(failing()) + "\n";
  for (std::size_t kept = 1; kept < second.size(); ++kept) {
    write(path, first + second.substr(0, kept));
    const ReadResult result = read_jsonl(path);
    REQUIRE(result.records.size() == 1);
    REQUIRE(result.torn);
    REQUIRE(result.good_bytes == static_cast<std::int64_t>(first.size()));
  }
  cut_to(path, read_jsonl(path).good_bytes);
  JsonlWriter(path).append(failing());
  CHECK(contents(path) == first + second);
}

TEST_CASE("a last line of garbage is torn, the same line earlier is an error with its number") {
  const TemporaryFolder folder;
  const auto path = folder.path / "run.jsonl";
  const std::string good = to_json(passing()) + "\n", zeros(40, '\0');
  write(path, good + zeros + "\n");
  const ReadResult result = read_jsonl(path);
  CHECK(result.torn);
  CHECK(result.records.size() == 1);
  write(path, good + zeros + "\n" + good);
  const std::string error = sentence([&] { read_jsonl(path); });
  CHECK(contains(error, path.string() + " line 2: "));
  CHECK(contains(error, "damaged"));
}

TEST_CASE("a newer record at the end is refused, not taken for a torn line") {
  const TemporaryFolder folder;
  const auto path = folder.path / "run.jsonl";
  std::string newer = to_json(passing());
  newer.replace(newer.find("1.3"), 3, "2.0");
  write(path, to_json(passing()) + "\n" + newer + "\n");
  const std::string error = sentence([&] { read_jsonl(path); });
  CHECK(contains(error, "line 2"));
  CHECK(contains(error, "newer Assay (schema 2.0), this one reads 1.x; use a newer assay"));
}

TEST_CASE("an empty record file is a run without records") {
  const TemporaryFolder folder;
  write(folder.path / "run.jsonl", "");
  const ReadResult result = read_jsonl(folder.path / "run.jsonl");
  CHECK(result.records.empty());
  CHECK_FALSE(result.torn);
  CHECK(result.good_bytes == 0);
}

TEST_CASE("what is no record file is refused in one sentence") {
  const TemporaryFolder folder;
  CHECK(contains(sentence([&] { read_jsonl(folder.path / "absent.jsonl"); }), "absent.jsonl"));
  CHECK(contains(sentence([&] { read_jsonl(folder.path); }), "no record file"));
  CHECK(contains(sentence([&] { read_jsonl("/dev/zero"); }), "no record file"));
  CHECK(contains(sentence([&] { JsonlWriter(folder.path / "none" / "run.jsonl"); }), "--out"));
}

TEST_CASE("cutting never makes a file longer") {
  const TemporaryFolder folder;
  const auto path = folder.path / "run.jsonl";
  write(path, "abc");
  CHECK(contains(sentence([&] { cut_to(path, 4); }), "3 bytes"));
  CHECK(contains(sentence([&] { cut_to(path, -1); }), "3 bytes"));
  CHECK(contents(path) == "abc");
}

TEST_CASE("a second writer of the same file is refused") {
  const TemporaryFolder folder;
  const auto path = folder.path / "run.jsonl";
  const JsonlWriter writer(path);
  CHECK(contains(sentence([&] { JsonlWriter second(path); }), "another assay is writing"));
}

TEST_CASE("a device that is full gives a sentence, not silence") {
  JsonlWriter writer("/dev/full");
  const std::string error = sentence([&] { writer.append(passing()); });
  CHECK(contains(error, "/dev/full"));
  CHECK(contains(error, "free space and run again with --resume"));
}

TEST_CASE("when a write comes up short the file is cut back to its last whole record") {
  const TemporaryFolder folder;
  const auto path = folder.path / "run.jsonl";
  const std::string line = to_json(failing()) + "\n";
  // A file size limit stops a write in its middle just as a full disk does. In a child: the limit holds for the process.
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{line.size() + line.size() / 2, RLIM_INFINITY};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) _exit(10);
    JsonlWriter writer(path);
    writer.append(failing());
    const std::string error = sentence([&] { writer.append(failing()); });
    _exit(contains(error, "the records before it are safe; free space and run again with --resume") ? 0 : 11);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(contents(path) == line);
}
