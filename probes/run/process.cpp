// SPDX-License-Identifier: Apache-2.0
#include "probes/run/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

namespace assay {

std::atomic<bool> interrupted{false};

namespace {

/// The environment of this process with the variant's own variables set, or taken out where their value is empty.
std::vector<std::string> child_environment(const std::map<std::string, std::string>& own) {
  std::vector<std::string> out;
  for (char** e = environ; *e; ++e) {
    const std::string entry = *e;
    if (!own.contains(entry.substr(0, entry.find('=')))) out.push_back(entry);
  }
  for (const auto& [key, value] : own)
    if (!value.empty()) out.push_back(key + "=" + value);
  return out;
}

// Only async-signal-safe calls: the parent may have OpenMP threads.
[[noreturn]] void become_worker(int socket, int arena, int output, pid_t parent, char* const* arguments,
                                char* const* environment) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  const int s = fcntl(socket, F_DUPFD, 10), a = fcntl(arena, F_DUPFD, 10), o = fcntl(output, F_DUPFD, 10);
  dup2(s, worker_socket_fd);
  dup2(a, worker_arena_fd);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  dup2(o, 1);
  dup2(o, 2);
  close(s), close(a), close(o), close(null);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  // The worker, not the judge, is what the kernel should kill when memory runs out.
  const int score = open("/proc/self/oom_score_adj", O_WRONLY);
  if (score >= 0) {
    [[maybe_unused]] const ssize_t written = write(score, "1000", 4);
    close(score);
  }
  for (int sig : {SIGINT, SIGTERM, SIGPIPE, SIGHUP, SIGXFSZ}) signal(sig, SIG_DFL);
  execve("/proc/self/exe", arguments, environment);
  _exit(127);
}

}  // namespace

Worker::Worker(const TargetSpec& spec, int arena_fd) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    throw Unavailable(fmt::format("cannot start a worker (socketpair: {})", std::strerror(errno)));
  output_ = memfd_create("assay-output", MFD_CLOEXEC);
  fcntl(output_, F_SETFL, O_APPEND);
  std::vector<std::string> environment = child_environment(spec.environment);
  std::vector<char*> envp;
  for (std::string& e : environment) envp.push_back(e.data());
  envp.push_back(nullptr);
  char name[] = "assay", command[] = "__worker";
  char* argv[] = {name, command, nullptr};
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) become_worker(pair[1], arena_fd, output_, parent, argv, envp.data());
  close(pair[1]);
  socket_ = pair[0];
  if (pid_ < 0) {
    const int error = errno;
    close(socket_), close(output_);
    throw Unavailable(
        fmt::format("cannot start a worker (fork: {}); close other programs or raise the process limit", std::strerror(error)));
  }
  setpgid(pid_, pid_);
  const timeval patience{10, 0};  // for the rest of a message whose head has come
  setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

Worker::~Worker() {
  kill_and_reap();
  if (socket_ >= 0) close(socket_);
  if (output_ >= 0) close(output_);
}

void Worker::kill_and_reap() {
  if (pid_ <= 0) return;
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

std::string Worker::reap_sentence() {
  // The socket is closed, so the process is ending or has ended; a grace period, then force.
  int status = 0;
  for (int i = 0; i < 200; ++i) {
    const pid_t got = waitpid(pid_, &status, WNOHANG);
    if (got == pid_) {
      kill(-pid_, SIGKILL);  // anything it may have started
      pid_ = -1;
      if (WIFEXITED(status)) return fmt::format("the library ended the process (exit code {})", WEXITSTATUS(status));
      const int sig = WTERMSIG(status);
      return fmt::format("the process was killed by SIG{} ({}){}", sigabbrev_np(sig) ? sigabbrev_np(sig) : "?",
                         sigdescr_np(sig) ? sigdescr_np(sig) : "unknown",
                         sig == SIGKILL ? ", perhaps by the kernel because memory ran out" : "");
    }
    usleep(5000);
  }
  kill_and_reap();
  return "the process closed its connection but did not end";
}

Answer Worker::ask(const nlohmann::json& request, double deadline_s) {
  Answer answer;
  const auto died = [&] { answer.death = reap_sentence(); };
  if (!send_message(socket_, request.dump())) {
    died();
    return answer;
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(deadline_s);
  for (;;) {
    if (interrupted) {
      kill_and_reap();
      answer.interrupted = true;
      return answer;
    }
    const double left_ms = std::chrono::duration<double, std::milli>(end - std::chrono::steady_clock::now()).count();
    if (!(left_ms > 0)) {
      kill_and_reap();
      answer.timed_out = true;
      answer.death = fmt::format("the call did not return within {:.3g} s and was stopped", deadline_s);
      return answer;
    }
    pollfd p{socket_, POLLIN, 0};
    const int ready = poll(&p, 1, static_cast<int>(std::min(left_ms, 200.0)) + 1);
    if (ready > 0) break;
  }
  const std::optional<std::string> text = receive_message(socket_);
  if (!text) {
    died();
    return answer;
  }
  try {
    answer.reply = reply_from_json(nlohmann::json::parse(*text));
  } catch (const std::exception&) {
    kill_and_reap();
    answer.death = "the worker sent an unreadable answer: its memory was overwritten";
  }
  return answer;
}

std::string Worker::output_tail() const {
  constexpr off_t most = 400;
  const off_t size = lseek(output_, 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::min(size, most)), '\0');
  if (pread(output_, text.data(), text.size(), size - static_cast<off_t>(text.size())) < 0) return {};
  for (char& c : text)
    if (c < ' ' || c > '~') c = ' ';
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace assay
