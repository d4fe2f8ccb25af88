// SPDX-License-Identifier: Apache-2.0
// The text of every kernel file, embedded in the program: what NVRTC compiles, and what a report can quote.
#pragma once

#include <span>
#include <string_view>

namespace assay::kernels {

struct Source {
  std::string_view name;  // as it is included: "kernels/softmax.cu"
  std::string_view text;
};

/// All files of this folder that a kernel is made of, in alphabetical order.
std::span<const Source> sources();

}  // namespace assay::kernels
