// SPDX-License-Identifier: Apache-2.0
#include "probes/ops/gemm/cuda_declared.hpp"

namespace assay::gemm {

cuda::cudaDataType cuda_data_type(DType t) {
  switch (t) {
    case DType::f64:
      return cuda::CUDA_R_64F;
    case DType::f16:
      return cuda::CUDA_R_16F;
    case DType::bf16:
      return cuda::CUDA_R_16BF;
    case DType::e4m3:
      return cuda::CUDA_R_8F_E4M3;
    case DType::e5m2:
      return cuda::CUDA_R_8F_E5M2;
    case DType::i8:
      return cuda::CUDA_R_8I;
    case DType::i32:
      return cuda::CUDA_R_32I;
    default:
      return cuda::CUDA_R_32F;
  }
}

void allow_tensor_cores(Arithmetic& a, int sm, bool reduced_f32) {
  a.accumulation = Accumulation::tensor_core;
  a.block = (sm < 80 ? 4 : sm < 90 ? 8 : 16) / (reduced_f32 ? 2 : 1);
  a.fraction_bits = sm < 75 ? 23 : 24;
}

void promise_standard_arithmetic(Contract& c) {
  const char* const source =
      "cublas_api.h, cublasComputeType_t: \"_PEDANTIC types ensure standard arithmetic and exact specified internal storage "
      "format\"";
  c.nan_propagates = c.keeps_subnormals = c.nan_confined = {true, source};
}

}  // namespace assay::gemm
