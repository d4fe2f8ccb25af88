// SPDX-License-Identifier: Apache-2.0
#include "probes/device/context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <optional>

namespace assay::device {

using cuda::CUdeviceptr;

namespace {

/// An owner whose release goes through the driver and whose failures are nobody's concern any more.
template <class Handle, class Release>
auto own(Handle handle, Release release) {
  return std::shared_ptr<std::remove_pointer_t<Handle>>(handle, release);
}

std::string text_of(const char* buffer, std::size_t bytes) {
  return {buffer, strnlen(buffer, bytes)};
}

}  // namespace

Context& Context::get(const std::string& driver_path, int ordinal) {
  static std::mutex mutex;
  static std::unique_ptr<Context> only;
  const std::lock_guard lock(mutex);
  const cuda::Driver& driver = cuda::Driver::open(driver_path);
  if (!only) only.reset(new Context(driver, ordinal));
  if (&only->driver_ != &driver || only->ordinal_ != ordinal)
    throw std::logic_error("a worker has one driver and one device; this one was asked for a second");
  only->make_current();
  return *only;
}

Context::Context(const cuda::Driver& driver, int ordinal) : driver_(driver), ordinal_(ordinal) {
  const auto& cu = driver_.fn();
  driver_.check(cu.cuInit(0), "starting the driver");
  cuda::CUdevice device = 0;
  driver_.check(cu.cuDeviceGet(&device, ordinal), fmt::format("opening device {}", ordinal));
  std::array<char, 256> name{};
  driver_.check(cu.cuDeviceGetName(name.data(), static_cast<int>(name.size()), device), "reading the device's name");
  name_ = text_of(name.data(), name.size());
  int major = 0, minor = 0;
  driver_.check(cu.cuDeviceGetAttribute(&major, cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
                "reading the compute capability");
  driver_.check(cu.cuDeviceGetAttribute(&minor, cuda::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
                "reading the compute capability");
  sm_ = 10 * major + minor;
  driver_.check(cu.cuDevicePrimaryCtxRetain(&context_, device), "making a context");
}

void Context::make_current() const {
  driver_.check(driver_.fn().cuCtxSetCurrent(context_), "making the context current");
}

Stream::Stream(const Context& context) : context_(context) {
  cuda::CUstream stream = nullptr;
  context.driver().check(context.driver().fn().cuStreamCreate(&stream, cuda::CU_STREAM_NON_BLOCKING), "making a stream");
  stream_ = own(stream, [&driver = context.driver()](cuda::CUstream s) { driver.fn().cuStreamDestroy_v2(s); });
}

void Stream::synchronize(std::string_view doing) const {
  context_.driver().check(context_.driver().fn().cuStreamSynchronize(get()), doing);
}

Event::Event(const Context& context, Timing timing) : context_(context) {
  cuda::CUevent event = nullptr;
  const unsigned flags = timing == Timing::yes ? 0 : cuda::CU_EVENT_DISABLE_TIMING;
  context.driver().check(context.driver().fn().cuEventCreate(&event, flags), "making an event");
  event_ = own(event, [&driver = context.driver()](cuda::CUevent e) { driver.fn().cuEventDestroy_v2(e); });
}

void Event::record(const Stream& stream) const {
  context_.driver().check(context_.driver().fn().cuEventRecord(get(), stream.get()), "recording an event");
}

void Event::wait(const Stream& stream) const {
  context_.driver().check(context_.driver().fn().cuStreamWaitEvent(stream.get(), get(), 0), "waiting for an event");
}

float Event::since(const Event& earlier) const {
  float ms = 0;
  context_.driver().check(context_.driver().fn().cuEventElapsedTime(&ms, earlier.get(), get()), "reading the device's clock");
  return ms;
}

Buffer::Buffer(const Context& context, std::size_t bytes) : context_(context), bytes_(bytes) {
  CUdeviceptr base = 0;
  context.driver().check(context.driver().fn().cuMemAlloc_v2(&base, bytes + 2 * guard_bytes),
                         fmt::format("allocating {} bytes of device memory", bytes + 2 * guard_bytes));
  base_ = std::shared_ptr<CUdeviceptr>(new CUdeviceptr(base), [&driver = context.driver()](CUdeviceptr* p) {
    driver.fn().cuMemFree_v2(*p);
    delete p;
  });
}

void Buffer::poison(const Stream& stream) const {
  context_.driver().check(context_.driver().fn().cuMemsetD8Async(*base_, 0xFF, bytes_ + 2 * guard_bytes, stream.get()),
                          "poisoning device memory");
}

void Buffer::copy_back(const Stream& stream, std::size_t from, std::span<std::byte> to) const {
  if (to.empty()) return;
  context_.driver().check(context_.driver().fn().cuMemcpyDtoHAsync_v2(to.data(), *base_ + from, to.size(), stream.get()),
                          "copying to the host");
}

void Buffer::upload(const Stream& stream, std::span<const std::byte> data) const {
  poison(stream);
  if (data.empty()) return;
  context_.driver().check(context_.driver().fn().cuMemcpyHtoDAsync_v2(address(), data.data(), data.size(), stream.get()),
                          "copying to the device");
  std::vector<std::byte> back(data.size());
  copy_back(stream, guard_bytes, back);
  stream.synchronize("copying to the device");
  if (!std::ranges::equal(back, data))
    throw cuda::CopyError("data changed on its way to the device and back, before any operation had run on it");
}

void Buffer::download(const Stream& stream, std::span<std::byte> data) const {
  std::vector<std::byte> again(data.size());
  copy_back(stream, guard_bytes, data);
  copy_back(stream, guard_bytes, again);
  stream.synchronize("waiting for the operation and copying its result");
  if (!std::ranges::equal(again, data))
    throw cuda::CopyError("two copies of one result to the host differ: the transfer is at fault, not the operation");
}

std::pair<std::size_t, std::size_t> Buffer::disturbed(const Stream& stream) const {
  using Guards = std::array<std::array<std::byte, guard_bytes>, 2>;
  const auto read = [&] {
    Guards g;
    copy_back(stream, 0, g[0]);
    copy_back(stream, guard_bytes + bytes_, g[1]);
    stream.synchronize("reading the guards");
    return g;
  };
  const auto other = [](const auto& guard) {
    return guard.size() - static_cast<std::size_t>(std::ranges::count(guard, std::byte{0xFF}));
  };
  const Guards guards = read();
  const std::pair<std::size_t, std::size_t> bytes{other(guards[0]), other(guards[1])};
  // A bit that the copy changed must not be taken for a write of the operation.
  if (bytes.first + bytes.second > 0 && read() != guards)
    throw cuda::CopyError("two copies of one guard to the host differ: the transfer is at fault, not the operation");
  return bytes;
}

Module::Module(const Context& context, std::span<const char> image, int jit_level) : context_(context) {
  std::array<char, 4096> log{};
  std::vector<int> options = {cuda::CU_JIT_ERROR_LOG_BUFFER, cuda::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::vector<void*> values = {log.data(), reinterpret_cast<void*>(log.size())};
  if (jit_level >= 0) {
    options.push_back(cuda::CU_JIT_OPTIMIZATION_LEVEL);
    values.push_back(reinterpret_cast<void*>(static_cast<std::uintptr_t>(jit_level)));
  }
  cuda::CUmodule module = nullptr;
  const int status = context.driver().fn().cuModuleLoadDataEx(&module, image.data(), static_cast<unsigned>(options.size()),
                                                              options.data(), values.data());
  log_ = text_of(log.data(), log.size());
  context.driver().check(status, log_.empty() ? "loading a kernel image" : fmt::format("loading a kernel image ({})", log_));
  module_ = own(module, [&driver = context.driver()](cuda::CUmodule m) { driver.fn().cuModuleUnload(m); });
}

cuda::CUfunction Module::function(const std::string& entry) const {
  cuda::CUfunction f = nullptr;
  context_.driver().check(context_.driver().fn().cuModuleGetFunction(&f, module_.get(), entry.c_str()),
                          fmt::format("finding the kernel {}", entry));
  return f;
}

void launch(const Context& context, cuda::CUfunction f, const kernels::Launch& l, std::span<const std::byte> args,
            const Stream& stream) {
  constexpr unsigned without_asking = 48 * 1024;
  const cuda::Driver& driver = context.driver();
  if (l.shared_bytes > without_asking)
    driver.check(driver.fn().cuFuncSetAttribute(f, cuda::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                static_cast<int>(l.shared_bytes)),
                 fmt::format("asking for {} bytes of shared memory", l.shared_bytes));
  void* parameters[] = {const_cast<std::byte*>(args.data())};
  driver.check(
      driver.fn().cuLaunchKernel(f, l.grid_x, l.grid_y, l.grid_z, l.block_x, l.block_y, l.block_z, l.shared_bytes, stream.get(),
                                 parameters, nullptr),
      fmt::format("launching {}x{}x{} blocks of {} threads", l.grid_x, l.grid_y, l.grid_z, l.block_x * l.block_y * l.block_z));
}

void Graph::begin(const Stream& stream) {
  context_.driver().check(
      context_.driver().fn().cuStreamBeginCapture_v2(stream.get(), cuda::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
      "beginning a capture");
}

void Graph::end(const Stream& stream) {
  const cuda::Driver& driver = context_.driver();
  cuda::CUgraph graph = nullptr;
  driver.check(driver.fn().cuStreamEndCapture(stream.get(), &graph), "ending a capture");
  const auto owner = own(graph, [&driver](cuda::CUgraph g) { driver.fn().cuGraphDestroy(g); });
  cuda::CUgraphExec exec = nullptr;
  driver.check(driver.fn().cuGraphInstantiateWithFlags(&exec, graph, 0), "instantiating a graph");
  exec_ = own(exec, [&driver](cuda::CUgraphExec e) { driver.fn().cuGraphExecDestroy(e); });
}

void Graph::launch(const Stream& stream) const {
  context_.driver().check(context_.driver().fn().cuGraphLaunch(exec_.get(), stream.get()), "launching a graph");
}

}  // namespace assay::device
