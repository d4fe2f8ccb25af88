// SPDX-License-Identifier: Apache-2.0
// What judge and worker say to each other: length-prefixed JSON over a socket pair. Tensors go through the arena instead.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "probes/library/cuda.hpp"
#include "probes/ops/target.hpp"
#include "probes/run/arena.hpp"
#include "report/record.hpp"

namespace assay {

inline constexpr int worker_socket_fd = 3, worker_arena_fd = 4;

/// Rounding mode, flush-to-zero and denormals-are-zero of the calling thread; exception flags left out.
struct FloatControl {
  unsigned mxcsr = 0, x87 = 0;
  bool operator==(const FloatControl&) const = default;
};
FloatControl read_float_control();
void write_float_control(FloatControl);
std::string describe(FloatControl);

struct PrepareRequest {
  std::string case_id;
  TargetSpec target;
  std::vector<Region> regions;
};

enum class ReplyKind : std::uint8_t {
  ok,
  unsupported,
  unavailable,
  error,
  no_memory
};  // no_memory: of the device, for this case

struct Reply {
  ReplyKind kind = ReplyKind::ok;
  std::string reason;
  std::optional<CallReport> report;  // after execute
  double execute_ms = 0;
  FloatControl before, after;                      // around prepare or execute
  std::vector<report::LibraryIdentity> libraries;  // mapped files, sent when they changed
  std::vector<cuda::DeviceInfo> devices;           // what the driver describes, when asked
  std::vector<report::Gpu> gpus;                   // the same with everything that a record says, when a set was opened
  std::vector<std::string> complaints;             // of files that could not be opened
  std::string plan;                                // what cuDNN offers for a case, JSON
};

nlohmann::json to_json(const PrepareRequest&);
PrepareRequest prepare_from_json(const nlohmann::json&);
nlohmann::json to_json(const Reply&);
Reply reply_from_json(const nlohmann::json&);

/// One message. send returns false when the peer is gone; receive returns nothing on end of file.
bool send_message(int fd, const std::string& text);
std::optional<std::string> receive_message(int fd);

}  // namespace assay
