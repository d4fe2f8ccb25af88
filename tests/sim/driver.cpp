// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/driver.hpp"

namespace assay::sim {
namespace {

thread_local void* current = nullptr;

/// Goes when the library is closed, unless a thread is still inside a call (a planted hang).
struct Owner {
  Driver* driver = new Driver;
  ~Owner() {
    if (driver->calls_inside == 0) delete driver;
  }
};

}  // namespace

Driver& driver() {
  static Owner one;
  return *one.driver;
}

void set_current_context(void* context) {
  current = context;
}
NewHandle primary_context() {
  return {&driver()};
}

void require_state(const Driver& d, Needs needs) {
  if (needs == Needs::nothing) return;
  if (!d.initialised) throw Refusal(ERROR_NOT_INITIALIZED, "cuInit was not called");
  if (needs == Needs::initialised) return;
  if (d.lost != SUCCESS) throw Refusal(static_cast<Status>(d.lost), "an earlier kernel has spoilt the context of this process");
  if (!current || d.retained == 0) throw Refusal(ERROR_INVALID_CONTEXT, "no context is current to this thread");
}

Stream& Driver::stream(void* handle) {
  constexpr std::uintptr_t legacy_handle = 1;
  return !handle || reinterpret_cast<std::uintptr_t>(handle) == legacy_handle ? legacy : streams.get(handle);
}

void Driver::enqueue(Stream& s, Work work) {
  if (s.capture) {
    s.capture->works.push_back(std::move(work));
    return;
  }
  auto job = std::make_shared<Job>();
  job->work = std::move(work);
  const auto follow = [&](const Stream& before) {
    if (before.last && !before.last->done) job->after.push_back(before.last);
  };
  follow(s);
  if (&s == &legacy) {
    streams.each([&](Stream& other) {
      if (!other.blocking) return;
      if (other.capture) {
        other.capture->valid = false;
        throw Refusal(ERROR_STREAM_CAPTURE_IMPLICIT, "work on the legacy stream while a blocking stream is being captured");
      }
      follow(other);
    });
  } else if (s.blocking) {
    follow(legacy);
  }
  s.last = job;
}

void Driver::wait(const JobHandle& job, Lock& lock) {
  engine.finish(job, lock);
  if (engine.error() == SUCCESS) return;
  lost = engine.error();
  throw Refusal(static_cast<Status>(lost), "a kernel has spoilt the context of this process");
}

void Driver::wait_for_all(Lock& lock) {
  std::vector<JobHandle> lasts;
  streams.each([&](Stream& s) { lasts.push_back(s.last); });
  lasts.push_back(legacy.last);
  for (const JobHandle& job : lasts) wait(job, lock);
}

void Driver::require_no_capture(const char* doing) {
  streams.each([&](Stream& s) {
    if (!s.capture || s.capture->mode == 2 || (s.capture->mode == 1 && s.capture->thread != std::this_thread::get_id())) return;
    s.capture->valid = false;
    throw Refusal(ERROR_STREAM_CAPTURE_UNSUPPORTED, fmt::format("{} while a stream is being captured", doing));
  });
}

}  // namespace assay::sim
