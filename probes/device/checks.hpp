// SPDX-License-Identifier: Apache-2.0
// What tests/gpu/run asks of a device besides the cases: bits that are known exactly.
#pragma once

#include <map>
#include <string>

namespace assay::device {

/// Makes `count` elements of every family and format that kernels/inputs.cu has and compares them with the host's. Returns how
/// many of these tensors differ; one line for each goes into `lines`. Throws like every use of a device.
int check_inputs(const std::string& driver, int ordinal, const std::map<std::string, std::string>& set, long long count,
                 std::string& lines);

/// Runs kernels/compiler_traps.cu in every build that the files allow, but those with other arithmetic, and compares each word
/// with its plain twin. Returns how many (trap, build) differ; a line for each of them and one for each build.
int check_traps(const std::string& driver, int ordinal, const std::map<std::string, std::string>& set, std::string& lines);

}  // namespace assay::device
