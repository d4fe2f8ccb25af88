// SPDX-License-Identifier: Apache-2.0
// Start, versions, the device, its primary context.
#include <cstring>

#include "tests/sim/device.hpp"
#include "tests/sim/driver.hpp"

using namespace assay::sim;

namespace {

void require_device(int device) {
  if (device != 0) throw Refusal(ERROR_INVALID_DEVICE, fmt::format("device {}; there is only device 0", device));
}

const char* status_name(int code) {
  switch (code) {
#define ASSAY_SIM_NAME(name, number, text) \
  case number:                             \
    return "CUDA_" #name;
    ASSAY_SIM_STATUSES(ASSAY_SIM_NAME)
#undef ASSAY_SIM_NAME
    default:
      return nullptr;
  }
}
const char* status_text(int code) {
  switch (code) {
#define ASSAY_SIM_TEXT(name, number, text) \
  case number:                             \
    return text;
    ASSAY_SIM_STATUSES(ASSAY_SIM_TEXT)
#undef ASSAY_SIM_TEXT
    default:
      return nullptr;
  }
}

int say(const char* text, const char** out) {
  if (!out) return ERROR_INVALID_VALUE;
  *out = text;
  return text ? SUCCESS : ERROR_INVALID_VALUE;
}

}  // namespace

ASSAY_SIM_ENTRY cuGetErrorName(int code, const char** name) {
  return say(status_name(code), name);
}
ASSAY_SIM_ENTRY cuGetErrorString(int code, const char** text) {
  return say(status_text(code), text);
}

ASSAY_SIM_ENTRY cuInit(unsigned flags) {
  return call("cuInit", Needs::nothing, [&](Driver& d, Lock&) {
    if (flags != 0) throw Refusal(ERROR_INVALID_VALUE, "flags must be 0");
    d.initialised = true;
    return fmt::format("{}, sm_{}", device_name, settings().sm);
  });
}

ASSAY_SIM_ENTRY cuDriverGetVersion(int* version) {
  return call("cuDriverGetVersion", Needs::nothing, [&](Driver&, Lock&) {
    checked(version) = settings().driver;
    return std::string();
  });
}

ASSAY_SIM_ENTRY cuDeviceGetCount(int* count) {
  return call("cuDeviceGetCount", Needs::initialised, [&](Driver&, Lock&) {
    checked(count) = 1;
    return std::string();
  });
}

ASSAY_SIM_ENTRY cuDeviceGet(int* device, int ordinal) {
  return call("cuDeviceGet", Needs::initialised, [&](Driver&, Lock&) {
    require_device(ordinal);
    checked(device) = 0;
    return std::string();
  });
}

ASSAY_SIM_ENTRY cuDeviceGetName(char* name, int length, int device) {
  return call("cuDeviceGetName", Needs::initialised, [&](Driver&, Lock&) {
    require_device(device);
    if (length < 1) throw Refusal(ERROR_INVALID_VALUE, "no room for the name");
    checked(name) = '\0';
    std::strncat(name, device_name, static_cast<std::size_t>(length) - 1);
    return std::string();
  });
}

ASSAY_SIM_ENTRY cuDeviceGetAttribute(int* value, int number, int device) {
  return call("cuDeviceGetAttribute", Needs::initialised, [&](Driver&, Lock&) {
    require_device(device);
    const auto known = attribute(number, architecture(settings().sm));
    if (!known) throw Refusal(ERROR_INVALID_VALUE, fmt::format("the simulated device does not know attribute {}", number));
    checked(value) = *known;
    return fmt::format("attribute {} is {}", number, *known);
  });
}

ASSAY_SIM_ENTRY cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  return call("cuDeviceTotalMem_v2", Needs::initialised, [&](Driver& d, Lock&) {
    require_device(device);
    checked(bytes) = d.memory.limit_bytes();
    return std::string();
  });
}

ASSAY_SIM_ENTRY cuDevicePrimaryCtxRetain(CUcontext* context, int device) {
  return call("cuDevicePrimaryCtxRetain", Needs::initialised, [&](Driver& d, Lock&) {
    require_device(device);
    if (d.lost != SUCCESS) throw Refusal(static_cast<Status>(d.lost), "only a new process gets a new context");
    checked(context) = primary_context();
    ++d.retained;
    return std::string();
  });
}

ASSAY_SIM_ENTRY cuDevicePrimaryCtxRelease_v2(int device) {
  return call("cuDevicePrimaryCtxRelease_v2", Needs::initialised, [&](Driver& d, Lock&) {
    require_device(device);
    if (d.retained == 0) throw Refusal(ERROR_INVALID_CONTEXT, "the primary context is not retained");
    if (--d.retained == 0) d.memory.free_all();
    return fmt::format("{} left", d.retained);
  });
}

ASSAY_SIM_ENTRY cuCtxSetCurrent(CUcontext context) {
  return call("cuCtxSetCurrent", Needs::initialised, [&](Driver& d, Lock&) {
    if (context && (context != static_cast<void*>(primary_context()) || d.retained == 0))
      throw Refusal(ERROR_INVALID_CONTEXT, "not a context of this device");
    set_current_context(context);
    return std::string();
  });
}

ASSAY_SIM_ENTRY cuCtxSynchronize() {
  return call("cuCtxSynchronize", Needs::context, [&](Driver& d, Lock& lock) {
    d.require_no_capture("cuCtxSynchronize");
    d.wait_for_all(lock);
    return std::string();
  });
}
