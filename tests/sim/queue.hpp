// SPDX-License-Identifier: Apache-2.0
// Streams: jobs in order, and what each waits for. Nothing runs before somebody waits for it, and then only what the wait
// needs: the slowest device that a caller must reckon with. So a missing synchronise or a missing event shows every time, not
// by luck.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace assay::sim {

/// What the device does when the job's turn comes. Throws Refusal when it fails; that ends the context.
using Work = std::function<void()>;

struct Job {
  Work work;
  std::vector<std::shared_ptr<Job>> after;  // run first
  bool done = false;
};
using JobHandle = std::shared_ptr<Job>;

struct Capture {
  int mode = 0;  // 0 global, 1 of this thread, 2 relaxed
  std::thread::id thread;
  std::vector<Work> works;
  bool valid = true;
};

struct Stream {
  bool blocking = true;  // ordered with the legacy stream
  JobHandle last;
  std::optional<Capture> capture;
};

struct Event {
  bool timed = true;
  struct Point {
    JobHandle job;
    std::chrono::steady_clock::time_point time;
  };
  std::shared_ptr<Point> point;  // the latest record
};

using Lock = std::unique_lock<std::mutex>;

/// Runs jobs on the thread that waits, one at a time, with the lock given back meanwhile.
class Engine {
 public:
  void finish(const JobHandle&, Lock&);
  /// What ended the context, 0 when nothing did. Jobs after it are dropped.
  int error() const { return error_; }

 private:
  void run(Job&, Lock&);

  int error_ = 0;
  bool running_ = false;
  std::condition_variable idle_;
};

}  // namespace assay::sim
