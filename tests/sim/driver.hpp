// SPDX-License-Identifier: Apache-2.0
// The state of the simulated driver, one per process, and what every entry does first and last.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <string>
#include <utility>

#include "probes/library/cuda_symbols.hpp"
#include "tests/sim/image.hpp"
#include "tests/sim/kernel.hpp"
#include "tests/sim/queue.hpp"
#include "tests/sim/settings.hpp"
#include "tests/sim/status.hpp"

// The product's declarations, at the top as a toolkit's header has them: an entry that is defined with other arguments does
// not compile.
using namespace assay::cuda;
extern "C" {
#define ASSAY_SIM_DECLARE(name, arguments) CUresult name arguments;
ASSAY_CUDA_SYMBOLS(ASSAY_SIM_DECLARE)
#undef ASSAY_SIM_DECLARE
}
#define ASSAY_SIM_ENTRY extern "C" __attribute__((visibility("default"))) int

namespace assay::sim {

struct Module {
  Image image;
};

struct Function {
  std::string name, build;
  const emulator::Kernel* kernel;
  Entry entry;
  std::size_t dynamic_limit;  // bytes of dynamic shared memory that a launch may ask for
};

using Graph = std::vector<Work>;

/// What a caller gets: the driver's handle types are pointers to structures that nobody knows.
struct NewHandle {
  void* thing;
  template <class T>
  operator T*() const {
    return static_cast<T*>(thing);
  }
};

/// Things that a caller knows by an address. One that was destroyed is refused, and its address is not used again.
template <class T>
class Handles {
 public:
  NewHandle add(T thing) {
    all_.push_back(std::make_unique<T>(std::move(thing)));
    known_[all_.back().get()] = true;
    return {all_.back().get()};
  }
  T& get(void* handle) {
    const auto found = known_.find(static_cast<T*>(handle));
    if (found == known_.end() || !found->second)
      throw Refusal(ERROR_INVALID_HANDLE, fmt::format("{} is none of this context's handles", handle));
    return *found->first;
  }
  void remove(void* handle) {
    get(handle) = {};
    known_[static_cast<T*>(handle)] = false;
  }
  template <class Visit>
  void each(Visit visit) {
    for (auto i = all_.rbegin(); i != all_.rend(); ++i)
      if (known_[i->get()]) visit(**i);
  }

 private:
  std::vector<std::unique_ptr<T>> all_;
  std::map<T*, bool> known_;
};

struct Driver {
  std::atomic<int> calls_inside = 0;
  std::mutex mutex;
  bool initialised = false;
  int retained = 0;  // how often the primary context is
  int lost = 0;      // the error that a synchronise has shown; every later call gives it
  std::size_t allocations = 0, copies_to_host = 0;
  std::string latest_kernel, latest_build;  // that has run
  Memory memory{settings().memory_bytes};
  Engine engine;
  Stream legacy{.blocking = true, .last = {}, .capture = {}};  // handle 0 (and 1)
  Handles<Stream> streams;
  Handles<Event> events;
  Handles<Module> modules;
  Handles<Function> functions;
  Handles<Graph> graphs, executables;

  Stream& stream(void* handle);
  /// Appends to a stream, or to the graph that is being captured from it.
  void enqueue(Stream&, Work);
  /// Waits for a job and shows what went wrong by then.
  void wait(const JobHandle&, Lock&);
  /// Everything that was enqueued anywhere, the youngest stream first.
  void wait_for_all(Lock&);
  /// Calls that a capture forbids spoil it.
  void require_no_capture(const char* doing);
};
Driver& driver();

enum class Needs : std::uint8_t { nothing, initialised, context };

/// The body of an entry: checks the state, turns a Refusal into its code, writes the log line. `body(driver, lock)` returns
/// what the log says of the call.
template <class Body>
int call(const char* name, Needs needs, Body body);

void require_state(const Driver&, Needs);
void set_current_context(void*);
NewHandle primary_context();

template <class T>
T& checked(T* pointer) {
  if (!pointer) throw Refusal(ERROR_INVALID_VALUE, "a null pointer for a result");
  return *pointer;
}

struct Inside {
  explicit Inside(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Inside() { --count_; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  std::atomic<int>& count_;
};

template <class Body>
int call(const char* name, Needs needs, Body body) {
  int code = SUCCESS;
  std::string text;
  try {
    Driver& d = driver();
    const Inside inside(d.calls_inside);
    Lock lock(d.mutex);
    require_state(d, needs);
    text = body(d, lock);
  } catch (const Refusal& e) {
    code = e.status;
    text = e.what();
  } catch (const std::exception& e) {
    announce(fmt::format("{}: {}", name, e.what()));
    std::abort();
  }
  log_call(name, text, code);
  return code;
}

}  // namespace assay::sim
