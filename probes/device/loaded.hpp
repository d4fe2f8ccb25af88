// SPDX-License-Identifier: Apache-2.0
// Kernel files of ours, compiled and loaded: once per process, build and file.
#pragma once

#include <map>
#include <string>

#include "probes/device/build.hpp"
#include "probes/device/context.hpp"

namespace assay::device {

struct Loaded {
  Image image;
  Module module;
};

/// A worker has one build, but an op may be asked for many problems. Throws as make_image does, and cuda::Error.
const Loaded& load_once(const Context&, const Build&, const std::string& file, const std::map<std::string, std::string>& set);

}  // namespace assay::device
