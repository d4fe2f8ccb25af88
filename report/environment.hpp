// SPDX-License-Identifier: Apache-2.0
// The conditions of a run, by allow-list: no host name, user, home path or serial number can get in.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "report/gpu.hpp"
#include "report/record.hpp"

namespace assay::report {

struct Environment {
  std::map<std::string, std::string> assay;   // version, commit, compiler, flags, generator, grammar
  std::map<std::string, std::string> system;  // os, kernel, libc, cpu, isa, logical_cpus, memory_gib, container
  std::map<std::string, std::string>
      variables;                           // allow-listed names found in the environment; values that may hold a path are "set"
  std::vector<LibraryIdentity> libraries;  // what workers really mapped
  std::vector<Gpu> gpus;                   // those that workers ran on
  std::string command;                     // arguments, paths redacted
  std::vector<std::string> known_defects;  // published defects in whose range a library of this run lies, a sentence each
};

/// Reads this machine: assay (version, commit, compiler, build), system and variables; the caller adds the rest.
/// Nothing outside the allow-list is looked at.
Environment read_environment();
/// Names that may be recorded with their value, and names recorded only as "set".
std::vector<std::string_view> allowed_variables();
/// What an allowed variable can do: 'N' changes numbers, 'S' selects code, 'D' determinism, 'E' evidence only; 0 if not
/// allowed.
char variable_class(std::string_view name);
/// CUDA variables of class N, S and D: a worker on a GPU starts without them unless the user asks to keep them, so that two
/// runs differ by what they record. Not among them: those that choose the device (CUDA_VISIBLE_DEVICES, CUDA_DEVICE_ORDER) and
/// the loader's, without which a container may not find its driver.
std::vector<std::string_view> cleared_variables();
/// The value as it is recorded: itself when it is short, plain and impersonal, otherwise "set".
std::string recorded_value(std::string_view name, std::string_view value);
/// Replaces the home directory, user and host name wherever they occur: "~", "USER", "HOST".
std::string redact(std::string_view text);

/// The loaded kernel module of the NVIDIA driver. Both empty when there is none; flavour is "open" or "proprietary".
struct KernelDriver {
  std::string version, flavour;
};
KernelDriver kernel_driver();
/// The same from the text of /proc/driver/nvidia/version.
KernelDriver parse_kernel_driver(std::string_view text);

}  // namespace assay::report
