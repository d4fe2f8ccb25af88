// SPDX-License-Identifier: Apache-2.0
// Inputs made on a device against the host's, bit for bit.
#pragma once

#include <map>
#include <string>

namespace assay::device {

/// Makes `count` elements of every family and format that kernels/inputs.cu has. Returns how many of these tensors differ, and
/// puts one line for each into `lines`. Throws like every use of a device.
int check_inputs(const std::string& driver, int ordinal, const std::map<std::string, std::string>& set, long long count,
                 std::string& lines);

}  // namespace assay::device
