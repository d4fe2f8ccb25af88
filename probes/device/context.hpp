// SPDX-License-Identifier: Apache-2.0
// The device side as owning handles over the driver API: context, stream, event, buffer with guards, module, graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/launch.hpp"
#include "probes/library/cuda.hpp"

namespace assay::device {

/// The primary context of one GPU. One per process: a worker has one library set and one device.
class Context {
 public:
  /// Opens the driver on first use. Throws LibraryError (no driver file, a foreign one), cuda::Error (no such device).
  static Context& get(const std::string& driver_path, int ordinal);

  const cuda::Driver& driver() const { return driver_; }
  int ordinal() const { return ordinal_; }
  int sm() const { return sm_; }  // 90: compute capability 9.0
  const std::string& name() const { return name_; }
  /// Of the calling thread; the driver keeps one current context per thread.
  void make_current() const;

 private:
  Context(const cuda::Driver&, int ordinal);
  const cuda::Driver& driver_;
  int ordinal_ = 0, sm_ = 0;
  std::string name_;
  cuda::CUcontext context_ = nullptr;
};

/// Handles are closed in the order they were not opened; a destructor never throws (after a sticky error every call fails).
class Stream {
 public:
  explicit Stream(const Context&);
  void synchronize(std::string_view doing) const;
  cuda::CUstream get() const { return stream_.get(); }

 private:
  const Context& context_;
  std::shared_ptr<std::remove_pointer_t<cuda::CUstream>> stream_;
};

class Event {
 public:
  enum class Timing { no, yes };
  explicit Event(const Context&, Timing = Timing::no);
  void record(const Stream&) const;
  void wait(const Stream&) const;  // the stream goes on when the event has happened
  /// Milliseconds of the device from `earlier` to this one; both timed, recorded and waited for.
  float since(const Event& earlier) const;
  cuda::CUevent get() const { return event_.get(); }

 private:
  const Context& context_;
  std::shared_ptr<std::remove_pointer_t<cuda::CUevent>> event_;
};

/// Device memory between two guard bands of 0xFF bytes (NaN in every format, so that an over-read shows in the results).
class Buffer {
 public:
  static constexpr std::size_t guard_bytes = 512;

  Buffer(const Context&, std::size_t bytes);
  cuda::CUdeviceptr address() const { return *base_ + guard_bytes; }
  std::size_t bytes() const { return bytes_; }
  /// Guards and contents to 0xFF.
  void poison(const Stream&) const;
  /// Copies to the device, and back again to see that the copy is right. Throws cuda::Error.
  void upload(const Stream&, std::span<const std::byte>) const;
  /// Copies back twice; both must agree.
  void download(const Stream&, std::span<std::byte>) const;
  /// Guard bytes that no longer are 0xFF, before the start and after the end.
  std::pair<std::size_t, std::size_t> disturbed(const Stream&) const;

 private:
  void copy_back(const Stream&, std::size_t from, std::span<std::byte>) const;
  const Context& context_;
  std::size_t bytes_;
  std::shared_ptr<cuda::CUdeviceptr> base_;
};

/// Device address as the pointer that kernel arguments hold.
inline void* device_pointer(cuda::CUdeviceptr p) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(p));
}

/// A loaded image: PTX text (compiled by the driver) or a cubin.
class Module {
 public:
  /// `jit_level`: 0 to 4 for PTX; -1: the driver's own.
  Module(const Context&, std::span<const char> image, int jit_level);
  cuda::CUfunction function(const std::string& entry) const;
  const std::string& log() const { return log_; }

 private:
  const Context& context_;
  std::string log_;
  std::shared_ptr<std::remove_pointer_t<cuda::CUmodule>> module_;
};

/// Queues one launch; `args` is the kernel's only parameter.
void launch(const Context&, cuda::CUfunction, const kernels::Launch&, std::span<const std::byte> args, const Stream&);

/// What was queued between capture and end, to be launched again and again.
class Graph {
 public:
  template <class Queue>
  Graph(const Context& context, const Stream& stream, Queue queue) : context_(context) {
    begin(stream);
    queue();
    end(stream);
  }
  void launch(const Stream&) const;

 private:
  void begin(const Stream&);
  void end(const Stream&);
  const Context& context_;
  std::shared_ptr<std::remove_pointer_t<cuda::CUgraphExec>> exec_;
};

}  // namespace assay::device
