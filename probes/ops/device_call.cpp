// SPDX-License-Identifier: Apache-2.0
#include "probes/ops/device_call.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/neighbour.hpp"
#include "probes/device/loaded.hpp"

namespace assay {

namespace {

constexpr int neighbour_rounds = 2000;

const std::string& driver_of(const TargetSpec& spec) {
  if (spec.driver().empty())
    throw Unavailable("no GPU driver (libcuda.so.1) was found; install one, or name its file with --libraries cuda=PATH");
  return spec.driver();
}

}  // namespace

DeviceCall::DeviceCall(const Problem& problem, const TargetSpec& spec)
    : problem_(problem),
      spec_(spec),
      context_(device::Context::get(driver_of(spec), std::max(0, spec.device))),
      stream_(context_),
      begin_(context_, device::Event::Timing::yes),
      end_(context_, device::Event::Timing::yes) {
  for (const Operand& o : problem.operands)
    buffers_.emplace_back(context_, static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype));
}

void* DeviceCall::element0(std::size_t operand) const {
  const Operand& o = problem_.operands[operand];
  return device::device_pointer(buffers_[operand].address() + static_cast<std::size_t>(o.offset) * size_bytes(o.dtype));
}

const device::Buffer& DeviceCall::scratch(std::size_t bytes, std::string what) {
  return extras_.emplace_back(Extra{device::Buffer(context_, bytes), std::move(what), true}).buffer;
}

const device::Buffer& DeviceCall::constant(std::span<const std::byte> content, std::string what) {
  const Extra& e = extras_.emplace_back(Extra{device::Buffer(context_, content.size()), std::move(what), false});
  e.buffer.upload(stream_, content);
  return e.buffer;
}

void DeviceCall::load(Images images) {
  context_.make_current();
  for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].upload(stream_, {images[i].storage, images[i].bytes});
  for (const Extra& e : extras_)
    if (e.poisoned) e.buffer.poison(stream_);
  stream_.synchronize("copying the operands to the device");
}

void DeviceCall::execute() {
  context_.make_current();
  const std::string& queue = problem_.queue;
  begin_.record(stream_);
  if (queue == "graph") {
    if (!graph_) graph_.emplace(context_, stream_, [&] { queue_on(stream_); });
    graph_->launch(stream_);
  } else if (queue == "second") {
    // Nothing else is queued there, so only the events order the operation after its copies and before the next ones.
    if (!other_) other_.emplace(context_), ready_.emplace(context_), done_.emplace(context_);
    ready_->record(stream_), ready_->wait(*other_);
    queue_on(*other_);
    done_->record(*other_), done_->wait(stream_);
  } else {
    if (queue == "busy") start_neighbour();
    queue_on(stream_);
  }
  end_.record(stream_);
}

void DeviceCall::store(Images images) {
  context_.make_current();
  guard_bytes_ = 0, guard_place_.clear();
  const auto note = [&](std::pair<std::size_t, std::size_t> disturbed, const std::string& role) {
    if (disturbed.first + disturbed.second == 0) return;
    if (guard_bytes_ == 0)
      guard_place_ = fmt::format("{} {}, on the device", disturbed.first ? "before the start of" : "after the end of", role);
    guard_bytes_ += static_cast<std::int64_t>(disturbed.first + disturbed.second);
  };
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    buffers_[i].download(stream_, {images[i].storage, images[i].bytes});
    note(buffers_[i].disturbed(stream_), problem_.operands[i].role);
  }
  for (const Extra& e : extras_) note(e.buffer.disturbed(stream_), e.what);
  device_ms_ += end_.since(begin_);
}

CallReport DeviceCall::report() {
  CallReport r;
  r.bytes_outside = guard_bytes_, r.outside = guard_place_;
  r.facts["core"] = context_.name();
  r.facts["version"] =
      fmt::format("CUDA driver {}.{}", context_.driver().version() / 1000, context_.driver().version() % 1000 / 10);
  r.facts["sm"] = fmt::format("{}", context_.sm());
  std::size_t bytes = 0;
  for (const device::Buffer& b : buffers_) bytes += b.bytes();
  for (const Extra& e : extras_) bytes += e.buffer.bytes();
  r.facts["device ms"] = fmt::format("{:.3f}", device_ms_);
  r.facts["device MiB"] = fmt::format("{:.3f}", static_cast<double>(bytes) / 1048576);
  fill(r);
  return r;
}

void DeviceCall::start_neighbour() {
  // Something else for the device to do meanwhile, on a stream and on memory of its own.
  const std::vector<device::Build> builds = device::all_builds(spec_.set);
  if (builds.empty())
    throw Unavailable("queue=busy needs NVRTC or nvcc to compile the neighbour; name one with --libraries nvrtc=PATH");
  if (!other_) other_.emplace(context_), neighbour_memory_.emplace(context_, kernels::neighbour_bytes);
  const device::Loaded& neighbour = device::load_once(context_, builds.front(), "kernels/neighbour.cu", spec_.set);
  const kernels::NeighbourArgs args{static_cast<float*>(device::device_pointer(neighbour_memory_->address())),
                                    neighbour_rounds};
  device::launch(context_, neighbour.module.function("neighbour_busy"), kernels::neighbour_launch(),
                 std::as_bytes(std::span(&args, 1)), *other_);
}

}  // namespace assay
