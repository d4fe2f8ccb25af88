// SPDX-License-Identifier: Apache-2.0
// Variants of library targets are written "key=value" and come with environment variables that must be set before loading.
#pragma once

#include <string>
#include <string_view>

#include "probes/ops/target.hpp"

namespace assay {

/// The part of the variant after `key` ("core="), empty when the variant is another.
std::string variant_option(const TargetSpec&, std::string_view key);

/// Throws Unavailable unless the worker was started with variable=value.
void require_environment(const TargetSpec&, const char* variable, const std::string& value);

}  // namespace assay
