// SPDX-License-Identifier: Apache-2.0
// Workers that work with CUDA files: the variables they start without, and what they map when they open a set.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "report/gpu.hpp"
#include "report/record.hpp"

namespace assay {

/// For TargetSpec::environment: variables that change numbers or select code are taken out (report::cleared_variables) unless
/// they are to be kept; those that are set here are listed in every record. No image comes from the driver's cache, which
/// another driver may have filled.
std::map<std::string, std::string> device_environment(bool keep_variables);

struct OpenedSet {
  std::vector<report::LibraryIdentity> mapped;  // in the order of the maps, without digests; version: as each says itself
  std::vector<report::Gpu> gpus;
  std::vector<std::string> complaints;  // one sentence for each file that could not be opened
};
/// Opens these files (by role) in a process of their own.
OpenedSet open_in_worker(const std::map<std::string, std::string>& files, double deadline_s = 120);

}  // namespace assay
