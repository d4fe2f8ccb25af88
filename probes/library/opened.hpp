// SPDX-License-Identifier: Apache-2.0
// The BLAS libraries that this process has opened, so that the list of mapped files can say what they report of themselves.
#pragma once

#include <string>

#include "probes/library/library.hpp"

namespace assay {

/// The library opened from this real path, or nullptr.
const Cblas* opened_cblas(const std::string& path);

}  // namespace assay
