// SPDX-License-Identifier: Apache-2.0
// Targets "cudnn": an op's graph, in the plan that one of cuDNN's heuristics chooses or in a named engine's.
#pragma once

#include <functional>

#include "probes/library/cudnn_graph.hpp"
#include "probes/ops/target.hpp"

namespace assay {

/// What a plan declares of its products and sums: its numerical notes, on tensor cores of this SM. `terms`: of each sum.
/// Throws Unsupported where a note has no bound here.
Arithmetic cudnn_arithmetic(const cudnn::Candidate&, DType in, DType out, std::int64_t terms, int sm);

/// For graphs that multiply no matrices: their engines carry the note of tensor cores too, but have nothing to use them for.
cudnn::Candidate cudnn_without_products(cudnn::Candidate);

/// Exponentials as fast as the device has them: CUDA C++ programming guide, __expf, 2 + floor(abs(1.173 x)) ulp.
inline void cudnn_functions(Arithmetic& a) {
  a.function_ulps = 2, a.function_ulps_per_x = 1.173;
}

struct CudnnFamily {
  std::string summary;
  std::function<cudnn::Description(const Problem&)> graph;  // throws Unsupported
  std::function<Arithmetic(const Problem&, const cudnn::Candidate&, int sm)> arithmetic;
  /// `deep` tries 0 to engines - 1: what cuDNN 9.19 to 9.28 number for these graphs, and a few more for the next.
  int engines = 16;
};

Target cudnn_target(const CudnnFamily&);

}  // namespace assay
