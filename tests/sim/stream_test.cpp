// SPDX-License-Identifier: Apache-2.0
// Order: what waits for what, and what is only promised once somebody has waited.
#include <doctest/doctest.h>

#include <thread>

#include "tests/sim/simulated.hpp"

using namespace assay::sim_test;

namespace {

/// One byte on the device, filled and read through streams.
struct Cell {
  explicit Cell(const Device& d) : device(d), at(d.allocate(1)) {
    REQUIRE(set(0, nullptr) == 0);
    REQUIRE(device.synchronize() == 0);
  }
  int set(unsigned char value, Handle stream) const {
    return device.call("cuMemsetD8Async", at, value, std::size_t{1}, stream);
  }
  int read(unsigned char& value, Handle stream) const { return device.download(&value, at, 1, stream); }

  const Device& device;
  Address at;
};

constexpr int global_mode = 0, relaxed_mode = 2;

}  // namespace

TEST_CASE("nothing happens before somebody waits") {
  const Device device;
  const Cell cell(device);
  const Handle stream = device.stream();
  unsigned char got = 99, from = 5;
  CHECK(device.upload(cell.at, &from, 1, stream) == 0);
  CHECK(cell.read(got, stream) == 0);
  CHECK(got == 99);
  from = 6;  // a caller that reuses its buffer too early sees it
  CHECK(device.call("cuStreamSynchronize", stream) == 0);
  CHECK(got == 6);
}

TEST_CASE("a stream is in order") {
  const Device device;
  const Cell cell(device);
  const Handle stream = device.stream();
  unsigned char got[3] = {};
  for (unsigned char i = 0; i < 3; ++i) {
    CHECK(cell.set(static_cast<unsigned char>(i + 1), stream) == 0);
    CHECK(cell.read(got[i], stream) == 0);
  }
  CHECK(device.call("cuStreamSynchronize", stream) == 0);
  CHECK(got[0] == 1);
  CHECK(got[1] == 2);
  CHECK(got[2] == 3);
}

TEST_CASE("another stream sees a result only through an event") {
  for (const bool with_event : {false, true}) {
    const Device device;
    const Cell cell(device);
    const Handle writer = device.stream(), reader = device.stream(), written = device.event();
    unsigned char got = 99;
    CHECK(cell.set(7, writer) == 0);
    CHECK(device.call("cuEventRecord", written, writer) == 0);
    if (with_event) CHECK(device.call("cuStreamWaitEvent", reader, written, 0u) == 0);
    CHECK(cell.read(got, reader) == 0);
    CHECK(device.call("cuStreamSynchronize", reader) == 0);
    CHECK(got == (with_event ? 7 : 0));
    CHECK(device.synchronize() == 0);
    CHECK(cell.read(got, nullptr) == 0);
    CHECK(device.synchronize() == 0);
    CHECK(got == 7);
  }
}

TEST_CASE("an event stands for what was recorded at the time") {
  const Device device;
  const Cell cell(device);
  const Handle a = device.stream(), b = device.stream(), event = device.event();
  unsigned char got = 99;
  CHECK(cell.set(1, a) == 0);
  CHECK(device.call("cuEventRecord", event, a) == 0);
  CHECK(cell.set(2, a) == 0);
  CHECK(device.call("cuStreamWaitEvent", b, event, 0u) == 0);
  CHECK(device.call("cuEventRecord", event, a) == 0);  // does not move what b waits for
  CHECK(cell.read(got, b) == 0);
  CHECK(device.call("cuStreamSynchronize", b) == 0);
  CHECK(got == 1);
}

TEST_CASE("an event that was never recorded keeps nobody waiting") {
  const Device device;
  const Handle event = device.event();
  CHECK(device.call("cuStreamWaitEvent", device.stream(), event, 0u) == 0);
  CHECK(device.call("cuEventSynchronize", event) == 0);
}

TEST_CASE("the legacy stream is ordered with blocking streams and no others") {
  for (const unsigned flags : {0u, 1u}) {
    const Device device;
    const Cell cell(device);
    const Handle other = device.stream(flags);
    unsigned char got = 99;
    CHECK(cell.set(4, other) == 0);
    CHECK(cell.read(got, nullptr) == 0);
    CHECK(device.call("cuStreamSynchronize", Handle()) == 0);
    CHECK(got == (flags == 0 ? 4 : 0));
    CHECK(cell.set(5, nullptr) == 0);
    CHECK(cell.read(got, other) == 0);
    CHECK(device.call("cuStreamSynchronize", other) == 0);
    CHECK(got == (flags == 0 ? 5 : 4));
  }
}

TEST_CASE("elapsed time exists between recorded events that somebody has waited for") {
  const Device device;
  const Handle start = device.event(), end = device.event(), untimed = device.event(2);
  float ms = -1;
  CHECK(device.call("cuEventElapsedTime", &ms, start, end) == 400);
  const Softmax softmax(device, 20, 500);
  CHECK(softmax.upload() == 0);
  CHECK(device.call("cuEventRecord", start, Handle()) == 0);
  CHECK(softmax.launch(device.function(softmax_image(), "softmax_online_f32")) == 0);
  CHECK(device.call("cuEventRecord", end, Handle()) == 0);
  CHECK(device.call("cuEventRecord", untimed, Handle()) == 0);
  CHECK(device.call("cuEventElapsedTime", &ms, start, end) == 600);
  CHECK(device.call("cuEventSynchronize", end) == 0);
  CHECK(device.call("cuEventElapsedTime", &ms, start, end) == 0);
  CHECK(ms > 0);
  CHECK(device.call("cuEventElapsedTime", &ms, start, untimed) == 400);
}

TEST_CASE("threads may use one context, each its own stream") {
  const Device device;
  Handle context = nullptr;
  CHECK(device.call("cuDevicePrimaryCtxRetain", &context, 0) == 0);
  constexpr int threads = 4;
  int codes[threads], read[threads];
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      int worst = device.call("cuCtxSetCurrent", context);
      Handle stream = nullptr;
      Address at = 0;
      worst |= device.call("cuStreamCreate", &stream, 1u) | device.call("cuMemAlloc_v2", &at, std::size_t{1});
      unsigned char got = 0;
      for (int i = 0; i < 50; ++i) {
        worst |= device.call("cuMemsetD8Async", at, static_cast<unsigned char>(t + i), std::size_t{1}, stream);
        worst |= device.download(&got, at, 1, stream) | device.call("cuStreamSynchronize", stream);
        if (got != t + i) worst |= 1 << 20;
      }
      codes[t] = worst, read[t] = got;
    });
  for (std::thread& t : all) t.join();
  for (int t = 0; t < threads; ++t) {
    CHECK(codes[t] == 0);
    CHECK(read[t] == t + 49);
  }
}

TEST_CASE("a captured graph runs when it is launched, as often as it is") {
  const Device device;
  const Softmax softmax(device, 3, 200);
  const Handle f = device.function(softmax_image(), "softmax_online_f32"), stream = device.stream();
  std::vector<float> got(softmax.in.size(), -1.f);
  Handle graph = nullptr, executable = nullptr;
  CHECK(device.call("cuStreamBeginCapture_v2", stream, global_mode) == 0);
  CHECK(softmax.upload(stream) == 0);
  CHECK(device.call("cuMemsetD8Async", softmax.y, static_cast<unsigned char>(0), got.size() * 4, stream) == 0);
  CHECK(softmax.launch(f, stream) == 0);
  CHECK(device.download(got.data(), softmax.y, got.size() * 4, stream) == 0);
  CHECK(device.call("cuStreamEndCapture", stream, &graph) == 0);
  CHECK(device.call("cuGraphInstantiateWithFlags", &executable, graph, 0ull) == 0);
  CHECK(device.call("cuGraphDestroy", graph) == 0);
  CHECK(device.synchronize() == 0);
  CHECK(got == std::vector<float>(got.size(), -1.f));
  for (int replay = 0; replay < 2; ++replay) {
    got.assign(got.size(), -1.f);
    CHECK(device.call("cuGraphLaunch", executable, stream) == 0);
    CHECK(got[0] == -1.f);
    CHECK(device.call("cuStreamSynchronize", stream) == 0);
    CHECK(softmax.wrong(got) == 0);
  }
  CHECK(device.call("cuGraphExecDestroy", executable) == 0);
  CHECK(device.call("cuGraphLaunch", executable, stream) == 400);
}

TEST_CASE("a graph reads memory when it is replayed") {
  const Device device;
  const Softmax softmax(device, 3, 200);
  const Handle f = device.function(softmax_image(), "softmax_online_f32"), stream = device.stream();
  Handle graph = nullptr, executable = nullptr;
  CHECK(device.call("cuStreamBeginCapture_v2", stream, global_mode) == 0);
  CHECK(softmax.launch(f, stream) == 0);
  CHECK(device.call("cuStreamEndCapture", stream, &graph) == 0);
  CHECK(device.call("cuGraphInstantiateWithFlags", &executable, graph, 0ull) == 0);
  Softmax other = softmax;
  for (float& x : other.in) x = -x;
  CHECK(other.upload() == 0);
  CHECK(device.call("cuGraphLaunch", executable, Handle()) == 0);
  CHECK(other.wrong(other.result()) == 0);
  CHECK(device.call("cuMemFree_v2", other.x) == 0);
  CHECK(device.call("cuGraphLaunch", executable, stream) == 0);
  CHECK(device.call("cuStreamSynchronize", stream) == 700);
}

TEST_CASE("what a capture forbids spoils it") {
  const Device device;
  Handle graph = nullptr;
  Address at = 0;
  CHECK(device.call("cuStreamBeginCapture_v2", Handle(), global_mode) == 900);
  const auto capture = [&](Handle stream, int mode) { return device.call("cuStreamBeginCapture_v2", stream, mode); };
  const auto end = [&](Handle stream) { return device.call("cuStreamEndCapture", stream, &graph); };
  const Handle stream = device.stream();
  CHECK(end(stream) == 1);

  CHECK(capture(stream, global_mode) == 0);
  CHECK(capture(stream, global_mode) == 900);
  CHECK(device.call("cuStreamSynchronize", stream) == 900);
  CHECK(end(stream) == 901);

  CHECK(capture(stream, global_mode) == 0);
  CHECK(device.call("cuMemAlloc_v2", &at, std::size_t{16}) == 900);
  CHECK(end(stream) == 901);

  CHECK(capture(stream, relaxed_mode) == 0);
  CHECK(device.call("cuMemAlloc_v2", &at, std::size_t{16}) == 0);
  CHECK(end(stream) == 0);

  const Handle blocking = device.stream(0);
  CHECK(capture(blocking, relaxed_mode) == 0);
  CHECK(device.call("cuMemsetD8Async", at, static_cast<unsigned char>(0), std::size_t{1}, Handle()) == 906);
  CHECK(end(blocking) == 901);
}
