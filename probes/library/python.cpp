// SPDX-License-Identifier: Apache-2.0
#include "probes/library/python.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "probes/library/library.hpp"

extern char** environ;

namespace assay {

namespace {

namespace fs = std::filesystem;

/// Standard output of a program that ends within the time; throws LibraryError otherwise.
std::string output_of(const std::string& program, const char* code, int timeout_ms) {
  const auto refuse = [&](std::string_view why) {
    throw LibraryError(fmt::format("asking the Python {} for its folders: {}; name a working interpreter", program, why));
  };
  int pipe_ends[2];
  if (::pipe2(pipe_ends, O_CLOEXEC) != 0) refuse(std::strerror(errno));
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], 1);
  ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // a shim starts others: all of them can be ended
  const char* const arguments[] = {program.c_str(), "-c", code, nullptr};
  pid_t pid = -1;
  const int failed = ::posix_spawnp(&pid, program.c_str(), &actions, &attributes, const_cast<char* const*>(arguments), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  ::close(pipe_ends[1]);
  if (failed != 0) {
    ::close(pipe_ends[0]);
    refuse(std::strerror(failed));
  }
  std::string out;
  bool ended = false;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  while (!ended) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd wait{pipe_ends[0], POLLIN, 0};
    const int ready = left > 0 ? ::poll(&wait, 1, static_cast<int>(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0 || out.size() > (1u << 20)) break;
    char buffer[4096];
    const ssize_t got = ::read(pipe_ends[0], buffer, sizeof buffer);
    if (got > 0) out.append(buffer, static_cast<std::size_t>(got));
    ended = got == 0;
  }
  ::close(pipe_ends[0]);
  if (!ended) ::kill(-pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) refuse(fmt::format("no answer in {} seconds", timeout_ms / 1000));
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    refuse(WIFEXITED(status) ? fmt::format("it ended with exit code {}", WEXITSTATUS(status)) : "it died");
  return out;
}

}  // namespace

std::vector<std::string> python_folders(const std::string& python) {
  // sys is built in: with -c the current folder comes first in the path, and nothing may be imported from there.
  std::istringstream lines(output_of(python, "import sys\nfor p in sys.path: print(p)", 10000));
  std::vector<std::string> out;
  for (std::string line; std::getline(lines, line);) {
    std::error_code ignored;
    const std::string name = fs::path(line).filename().string();
    if (line.starts_with('/') && (name == "site-packages" || name == "dist-packages") && fs::is_directory(line, ignored))
      out.push_back(line);
  }
  return out;
}

WheelFile wheel_of(const std::string& folder, const std::string& file) {
  const std::string inside = fs::path(file).lexically_relative(folder).string();
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    // "nvidia_cublas_cu12-12.8.4.1.dist-info"
    const std::string name = entry.path().filename().string();
    const std::size_t dash = name.find('-');
    constexpr std::string_view suffix = ".dist-info";
    if (!name.starts_with("nvidia") || !name.ends_with(suffix) || dash == std::string::npos) continue;
    std::ifstream record(entry.path() / "RECORD");
    for (std::string line; std::getline(record, line);)
      if (line.starts_with(inside) && line.size() > inside.size() && line[inside.size()] == ',')
        return {name.substr(0, dash), name.substr(dash + 1, name.size() - suffix.size() - dash - 1)};
  }
  return {};
}

}  // namespace assay
