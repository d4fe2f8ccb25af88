// SPDX-License-Identifier: Apache-2.0
// A call on a GPU, whoever computes it: memory, copies, guards and queues. What differs is what is put on the queue.
#pragma once

#include <list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "probes/device/context.hpp"
#include "probes/ops/target.hpp"

namespace assay {

/// Every operand in guarded device memory, on the device of the TargetSpec. Honours Problem::queue.
class DeviceCall : public Call {
 public:
  void load(Images) final;
  void execute() final;
  void store(Images) final;
  CallReport report() final;

 protected:
  /// Throws Unavailable (no driver was found), LibraryError, cuda::Error.
  DeviceCall(const Problem&, const TargetSpec&);

  const Problem& problem() const { return problem_; }
  const TargetSpec& spec() const { return spec_; }
  device::Context& context() const { return context_; }
  const device::Stream& stream() const { return stream_; }
  /// Device address of the operand's first logical element.
  void* element0(std::size_t operand) const;
  /// Further device memory of this call: poisoned before every execution, its guards watched. `what`: "the workspace".
  const device::Buffer& scratch(std::size_t bytes, std::string what);
  /// The same, kept as it was uploaded.
  const device::Buffer& constant(std::span<const std::byte>, std::string what);

  /// Starts the operation there, perhaps while the stream is being captured.
  virtual void queue_on(const device::Stream&) = 0;
  /// Arithmetic, contract, algorithm, plan; adds facts to those of the device.
  virtual void fill(CallReport&) = 0;

 private:
  struct Extra {
    device::Buffer buffer;
    std::string what;
    bool poisoned;
  };
  void start_neighbour();

  Problem problem_;
  TargetSpec spec_;
  device::Context& context_;
  device::Stream stream_;
  device::Event begin_, end_;
  double device_ms_ = 0;  // of all executions so far
  std::vector<device::Buffer> buffers_;
  std::list<Extra> extras_;
  std::optional<device::Stream> other_;
  std::optional<device::Event> ready_, done_;
  std::optional<device::Graph> graph_;
  std::optional<device::Buffer> neighbour_memory_;
  std::int64_t guard_bytes_ = 0;
  std::string guard_place_;
};

}  // namespace assay
