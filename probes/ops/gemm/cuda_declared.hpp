// SPDX-License-Identifier: Apache-2.0
// What cuBLAS and cuBLASLt have in common: names of formats, and what both declare of sums and conventions.
#pragma once

#include "probes/library/cublas_types.hpp"
#include "reference/arithmetic.hpp"

namespace assay::gemm {

cuda::cudaDataType cuda_data_type(DType);

/// docs/numerics.md 2.1: products per fused step of 16-bit operands, half of it for TF32 and other reductions of fp32. Neither
/// library says whether a call used tensor cores or fused multiply-adds, so a step must allow both: its (block + 1) 2^-F + 2u
/// is at least block u with F = 24, not with the 25 that newer devices keep; and 24 allows what 25 does.
void allow_tensor_cores(Arithmetic&, int sm, bool reduced_f32);

/// PEDANTIC types: NaN and subnormals as IEEE 754 has them.
void promise_standard_arithmetic(Contract&);

}  // namespace assay::gemm
