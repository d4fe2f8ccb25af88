// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/queue.hpp"

#include "tests/sim/settings.hpp"
#include "tests/sim/status.hpp"

namespace assay::sim {

void Engine::finish(const JobHandle& wanted, Lock& lock) {
  while (wanted && !wanted->done) {
    if (running_) {
      idle_.wait(lock);
      continue;
    }
    JobHandle next = wanted;
    for (bool descends = true; descends;) {
      descends = false;
      for (const JobHandle& before : next->after)
        if (!before->done) {
          next = JobHandle(before);
          descends = true;
          break;
        }
    }
    run(*next, lock);
  }
}

void Engine::run(Job& job, Lock& lock) {
  if (job.work && error_ == 0) {
    int failed = 0;
    running_ = true;
    lock.unlock();
    try {
      job.work();
    } catch (const Refusal& e) {
      failed = e.status;
      announce(e.what());
    }
    lock.lock();
    running_ = false;
    error_ = failed;
  }
  job.done = true;
  job.after.clear();
  job.work = nullptr;
  idle_.notify_all();
}

}  // namespace assay::sim
