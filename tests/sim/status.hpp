// SPDX-License-Identifier: Apache-2.0
// The driver's result codes that the simulated device gives, by their real names, numbers and texts.
#pragma once

#include <stdexcept>
#include <string>

namespace assay::sim {

// name, code, what cuGetErrorString says
#define ASSAY_SIM_STATUSES(X)                                                                           \
  X(SUCCESS, 0, "no error")                                                                             \
  X(ERROR_INVALID_VALUE, 1, "invalid argument")                                                         \
  X(ERROR_OUT_OF_MEMORY, 2, "out of memory")                                                            \
  X(ERROR_NOT_INITIALIZED, 3, "initialization error")                                                   \
  X(ERROR_INVALID_DEVICE, 101, "invalid device ordinal")                                                \
  X(ERROR_INVALID_IMAGE, 200, "device kernel image is invalid")                                         \
  X(ERROR_INVALID_CONTEXT, 201, "invalid device context")                                               \
  X(ERROR_NO_BINARY_FOR_GPU, 209, "no kernel image is available for execution on the device")           \
  X(ERROR_INVALID_PTX, 218, "a PTX JIT compilation failed")                                             \
  X(ERROR_UNSUPPORTED_PTX_VERSION, 222, "the provided PTX was compiled with an unsupported toolchain.") \
  X(ERROR_INVALID_HANDLE, 400, "invalid resource handle")                                               \
  X(ERROR_NOT_FOUND, 500, "named symbol not found")                                                     \
  X(ERROR_NOT_READY, 600, "device not ready")                                                           \
  X(ERROR_ILLEGAL_ADDRESS, 700, "an illegal memory access was encountered")                             \
  X(ERROR_LAUNCH_OUT_OF_RESOURCES, 701, "too many resources requested for launch")                      \
  X(ERROR_LAUNCH_TIMEOUT, 702, "the launch timed out and was terminated")                               \
  X(ERROR_ILLEGAL_INSTRUCTION, 715, "an illegal instruction was encountered")                           \
  X(ERROR_MISALIGNED_ADDRESS, 716, "misaligned address")                                                \
  X(ERROR_LAUNCH_FAILED, 719, "unspecified launch failure")                                             \
  X(ERROR_NOT_SUPPORTED, 801, "operation not supported")                                                \
  X(ERROR_STREAM_CAPTURE_UNSUPPORTED, 900, "operation not permitted when stream is capturing")          \
  X(ERROR_STREAM_CAPTURE_INVALIDATED, 901, "operation failed due to a previous error during capture")   \
  X(ERROR_STREAM_CAPTURE_IMPLICIT, 906, "operation would make the legacy stream depend on a capturing blocking stream")

enum Status : int {
#define ASSAY_SIM_STATUS(name, code, text) name = code,
  ASSAY_SIM_STATUSES(ASSAY_SIM_STATUS)
#undef ASSAY_SIM_STATUS
};

/// Ends a call with this code; what() goes to the log, the caller sees only the code, as from a real driver.
struct Refusal : std::runtime_error {
  Refusal(Status code, const std::string& why) : std::runtime_error(why), status(code) {}
  Status status;
};

}  // namespace assay::sim
