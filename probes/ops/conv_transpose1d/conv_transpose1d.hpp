// SPDX-License-Identifier: Apache-2.0
// conv_transpose1d: PyTorch's ConvTranspose1d. What every target of it reads instead of parsing the case again.
#pragma once

#include <cstdint>
#include <vector>

#include "probes/ops/op.hpp"

namespace assay::conv_transpose1d {

/// Operands of the Problem, in this order: "X" (n,cin,l), "W" (cin,cout/groups,k), with a bias "B" (cout), "Y" (n,cout,lout).
/// Channels first: as listed, frames or taps innermost; channels last: X (n,l,cin), W (cin,k,cout/groups), Y (n,lout,cout) in
/// memory. W is dense; innermost rows of X and Y lie x_row and y_row elements apart.
struct Call {
  std::int64_t n = 0, cin = 0, cout = 0, l = 0, lout = 0, k = 0;
  std::int64_t stride = 1, dilation = 1;
  std::int64_t padl = 0, padr = 0;  // crop of the full output
  std::int64_t outpad = 0;          // outputs added on the right; lout counts them
  std::int64_t groups = 1;
  bool bias = false, channels_last = false;
  DType in = DType::f32, out = DType::f32;
  std::int64_t x_row = 0, y_row = 0;
};

Call call_of(const Problem&);
/// Products are summed in fp64 for fp64 data, else in fp32.
inline DType compute_format(const Call& c) {
  return c.in == DType::f64 ? DType::f64 : DType::f32;
}

Op make();

/// Targets, one file each; a library's file adds its target to make().
Target eigen_target();    // "eigen": the control
Target cblas_target();    // "openblas": its gemm, columns added by code of ours
Target model_target();    // "model": correct variants, variant = name
Target planted_target();  // "planted": one fault per variant
Target onednn_target();   // "onednn": its deconvolution, by path
Target kernel_target();   // "kernel": kernels/conv_transpose1d.cu
Target cudnn_target();    // "cudnn": its graph API
cudnn::Description cudnn_graph(const Problem&);
std::vector<PlantedFault> planted_faults();
std::vector<std::string> clean_cases();

}  // namespace assay::conv_transpose1d
