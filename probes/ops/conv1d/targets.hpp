// SPDX-License-Identifier: Apache-2.0
// Targets of conv1d, one file each; a library's file adds its target to make().
#pragma once

#include <string>
#include <vector>

#include "probes/ops/op.hpp"

namespace assay::conv1d {

Target eigen_target();                                       // "eigen": the control
Target cblas_target(std::string name, std::string summary);  // unrolled signal, then the library's ?gemm
Target onednn_target();                                      // "onednn": its convolution, by path
Target cudnn_target();                                       // "cudnn": its graph API
cudnn::Description cudnn_graph(const Problem&);
Target kernel_target();   // "kernel": kernels/conv1d.cu
Target model_target();    // "model": correct variants, variant = name
Target planted_target();  // "planted": one fault per variant
std::vector<PlantedFault> planted_faults();
std::vector<std::string> clean_cases();

}  // namespace assay::conv1d
