// SPDX-License-Identifier: Apache-2.0
// The judge's handle on one worker: a fresh program per (library, environment) in a process group of its own.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <optional>
#include <string>

#include "probes/run/protocol.hpp"

namespace assay {

/// Set by the signal handler of the command line; every wait returns early once it is true.
extern std::atomic<bool> interrupted;

/// What came back from one question.
struct Answer {
  std::optional<Reply> reply;
  std::string death;  // one sentence when the worker died, hung or spoke nonsense; the worker is gone then
  bool timed_out = false;
  bool interrupted = false;  // by the user; the worker is gone
};

class Worker {
 public:
  /// Starts the program; throws Unavailable when the system cannot (no process, no memory).
  Worker(const TargetSpec&, int arena_fd);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  Answer ask(const nlohmann::json& request, double deadline_s);
  bool alive() const { return pid_ > 0; }
  /// The last bytes the library wrote to stdout or stderr, printable characters only.
  std::string output_tail() const;

 private:
  void kill_and_reap();
  std::string reap_sentence();

  pid_t pid_ = -1;
  int socket_ = -1, output_ = -1;
};

/// Body of the hidden `__worker` command: serves requests until its socket closes. Returns the exit code.
int worker_main();

}  // namespace assay
