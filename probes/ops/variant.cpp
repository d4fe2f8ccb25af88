// SPDX-License-Identifier: Apache-2.0
#include "probes/ops/variant.hpp"

#include <fmt/format.h>

#include <cstdlib>

namespace assay {

std::string variant_option(const TargetSpec& spec, std::string_view key) {
  return spec.variant.starts_with(key) ? spec.variant.substr(key.size()) : "";
}

void require_environment(const TargetSpec& spec, const char* variable, const std::string& value) {
  const char* set = std::getenv(variable);
  if (set == nullptr || value != set)
    throw Unavailable(fmt::format("{} needs {}={} in the environment before the library is loaded; it is {}", spec.name(),
                                  variable, value, set == nullptr ? "not set" : fmt::format("\"{}\"", set)));
}

}  // namespace assay
