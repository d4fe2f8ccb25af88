// SPDX-License-Identifier: Apache-2.0
// Case lists compiled in (generated from probes/ops/<op>/<op>.cases), so that the binary works when it is copied alone.
#pragma once

#include <string_view>

namespace assay {
std::string_view embedded_cases(std::string_view op);
}  // namespace assay
