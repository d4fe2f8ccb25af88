// SPDX-License-Identifier: Apache-2.0
// Descriptions of GPUs that need not be here, from data/device-properties, embedded when assay is built.
#pragma once

#include <span>
#include <string_view>

namespace assay {

struct EmbeddedDevice {
  std::string_view name;  // "rtx-5090"
  std::string_view json;  // {"name", "sm", "source", "properties": as cuDNN's device properties descriptor takes them}
};
std::span<const EmbeddedDevice> embedded_devices();

}  // namespace assay
