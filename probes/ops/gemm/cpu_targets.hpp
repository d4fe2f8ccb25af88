// SPDX-License-Identifier: Apache-2.0
// What the CPU targets of gemm share.
#pragma once

#include <map>
#include <string>

#include "probes/library/library.hpp"
#include "probes/ops/gemm/gemm.hpp"

namespace assay::gemm {

Target eigen_target();
/// A CBLAS opened by path under the name of its family.
Target cblas_target(std::string name, std::string summary);
/// The library that a target names, opened, its variant confirmed; throws Unavailable. Every op that calls a CBLAS uses it.
const Cblas& open_cblas(const TargetSpec&);
/// What it says of itself.
std::map<std::string, std::string> facts_of(const Cblas&);
/// oneDNN's matmul, opened by path.
Target onednn_target();

/// A host image as elements: where element 0 of the operand lies.
template <class T>
T* first_element(const Image& image, const Operand& operand) {
  return reinterpret_cast<T*>(image.storage) + operand.offset;
}

}  // namespace assay::gemm
