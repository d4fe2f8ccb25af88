// SPDX-License-Identifier: Apache-2.0
// Streams, events, graphs.
#include "tests/sim/driver.hpp"

using namespace assay::sim;

namespace {

void require_flags(unsigned flags, unsigned known) {
  if (flags & ~known) throw Refusal(ERROR_INVALID_VALUE, fmt::format("flags {:#x}; known are {:#x}", flags, known));
}

/// What may be waited for while it is recorded: nothing.
void require_not_captured(Stream& s, const char* doing) {
  if (!s.capture) return;
  s.capture->valid = false;
  throw Refusal(ERROR_STREAM_CAPTURE_UNSUPPORTED, fmt::format("{} on a stream that is being captured", doing));
}

const Event::Point& recorded(const Event& e) {
  if (!e.timed || !e.point) throw Refusal(ERROR_INVALID_HANDLE, "an event that was not recorded, or was made without timing");
  if (!e.point->job->done) throw Refusal(ERROR_NOT_READY, "nobody has waited for the event");
  return *e.point;
}

}  // namespace

ASSAY_SIM_ENTRY cuStreamCreate(CUstream* stream, unsigned flags) {
  return call("cuStreamCreate", Needs::context, [&](Driver& d, Lock&) {
    constexpr unsigned non_blocking = 1;
    require_flags(flags, non_blocking);
    checked(stream) = d.streams.add({.blocking = flags != non_blocking, .last = {}, .capture = {}});
    return fmt::format("{}", fmt::ptr(*stream));
  });
}

ASSAY_SIM_ENTRY cuStreamDestroy_v2(CUstream stream) {
  return call("cuStreamDestroy_v2", Needs::context, [&](Driver& d, Lock& lock) {
    const JobHandle last = d.streams.get(stream).last;
    d.streams.remove(stream);
    d.wait(last, lock);
    return fmt::format("{}", fmt::ptr(stream));
  });
}

ASSAY_SIM_ENTRY cuStreamSynchronize(CUstream stream) {
  return call("cuStreamSynchronize", Needs::context, [&](Driver& d, Lock& lock) {
    Stream& s = d.stream(stream);
    require_not_captured(s, "cuStreamSynchronize");
    d.wait(s.last, lock);
    return fmt::format("{}", fmt::ptr(stream));
  });
}

ASSAY_SIM_ENTRY cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  return call("cuStreamWaitEvent", Needs::context, [&](Driver& d, Lock&) {
    require_flags(flags, 0);
    Stream& s = d.stream(stream);
    require_not_captured(s, "cuStreamWaitEvent");
    const Event& e = d.events.get(event);
    if (!e.point) return std::string("an event that was never recorded: nothing to wait for");
    d.enqueue(s, nullptr);
    s.last->after.push_back(e.point->job);
    return fmt::format("{} waits for {}", fmt::ptr(stream), fmt::ptr(event));
  });
}

ASSAY_SIM_ENTRY cuEventCreate(CUevent* event, unsigned flags) {
  return call("cuEventCreate", Needs::context, [&](Driver& d, Lock&) {
    constexpr unsigned blocking_sync = 1, no_timing = 2;
    require_flags(flags, blocking_sync | no_timing);
    checked(event) = d.events.add({.timed = !(flags & no_timing), .point = {}});
    return fmt::format("{}", fmt::ptr(*event));
  });
}

ASSAY_SIM_ENTRY cuEventDestroy_v2(CUevent event) {
  return call("cuEventDestroy_v2", Needs::context, [&](Driver& d, Lock&) {
    d.events.remove(event);
    return fmt::format("{}", fmt::ptr(event));
  });
}

ASSAY_SIM_ENTRY cuEventRecord(CUevent event, CUstream stream) {
  return call("cuEventRecord", Needs::context, [&](Driver& d, Lock&) {
    Stream& s = d.stream(stream);
    require_not_captured(s, "cuEventRecord");
    Event& e = d.events.get(event);
    const auto point = std::make_shared<Event::Point>();
    d.enqueue(s, [at = std::weak_ptr(point)] {
      if (const auto here = at.lock()) here->time = std::chrono::steady_clock::now();
    });
    point->job = s.last;
    e.point = point;
    return fmt::format("{} in {}", fmt::ptr(event), fmt::ptr(stream));
  });
}

ASSAY_SIM_ENTRY cuEventSynchronize(CUevent event) {
  return call("cuEventSynchronize", Needs::context, [&](Driver& d, Lock& lock) {
    const Event& e = d.events.get(event);
    if (e.point) d.wait(e.point->job, lock);
    return fmt::format("{}", fmt::ptr(event));
  });
}

ASSAY_SIM_ENTRY cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return call("cuEventElapsedTime", Needs::context, [&](Driver& d, Lock&) {
    const auto from = recorded(d.events.get(start)).time, to = recorded(d.events.get(end)).time;
    checked(milliseconds) = std::chrono::duration<float, std::milli>(to - from).count();
    return std::string();
  });
}

ASSAY_SIM_ENTRY cuStreamBeginCapture_v2(CUstream stream, int mode) {
  return call("cuStreamBeginCapture_v2", Needs::context, [&](Driver& d, Lock&) {
    Stream& s = d.stream(stream);
    if (mode < 0 || mode > 2) throw Refusal(ERROR_INVALID_VALUE, fmt::format("capture mode {}", mode));
    if (&s == &d.legacy) throw Refusal(ERROR_STREAM_CAPTURE_UNSUPPORTED, "the legacy stream cannot be captured");
    if (s.capture) throw Refusal(ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream is already being captured");
    s.capture = Capture{.mode = mode, .thread = std::this_thread::get_id(), .works = {}, .valid = true};
    return fmt::format("{}", fmt::ptr(stream));
  });
}

ASSAY_SIM_ENTRY cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return call("cuStreamEndCapture", Needs::context, [&](Driver& d, Lock&) {
    Stream& s = d.stream(stream);
    if (!s.capture) throw Refusal(ERROR_INVALID_VALUE, "the stream is not being captured");
    checked(graph) = nullptr;
    const Capture got = *std::exchange(s.capture, std::nullopt);
    if (!got.valid) throw Refusal(ERROR_STREAM_CAPTURE_INVALIDATED, "an earlier call has spoilt the capture");
    *graph = d.graphs.add(got.works);
    return fmt::format("{} operations", got.works.size());
  });
}

ASSAY_SIM_ENTRY cuGraphInstantiateWithFlags(CUgraphExec* executable, CUgraph graph, unsigned long long flags) {
  return call("cuGraphInstantiateWithFlags", Needs::context, [&](Driver& d, Lock&) {
    require_flags(static_cast<unsigned>(flags), 0);
    checked(executable) = d.executables.add(d.graphs.get(graph));
    return std::string();
  });
}

ASSAY_SIM_ENTRY cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  return call("cuGraphLaunch", Needs::context, [&](Driver& d, Lock&) {
    Stream& s = d.stream(stream);
    const Graph& works = d.executables.get(executable);
    for (const Work& work : works) d.enqueue(s, work);
    return fmt::format("{} operations", works.size());
  });
}

ASSAY_SIM_ENTRY cuGraphExecDestroy(CUgraphExec executable) {
  return call("cuGraphExecDestroy", Needs::context, [&](Driver& d, Lock&) {
    d.executables.remove(executable);
    return std::string();
  });
}

ASSAY_SIM_ENTRY cuGraphDestroy(CUgraph graph) {
  return call("cuGraphDestroy", Needs::context, [&](Driver& d, Lock&) {
    d.graphs.remove(graph);
    return std::string();
  });
}
