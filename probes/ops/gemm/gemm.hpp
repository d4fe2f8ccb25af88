// SPDX-License-Identifier: Apache-2.0
// gemm: C = f(alpha * op(A) * op(B) + beta * C + bias), batched. What every gemm target reads instead of parsing the case
// again.
#pragma once

#include <cstdint>
#include <vector>

#include "probes/ops/op.hpp"

namespace assay::gemm {

/// f of an epilogue, applied to the sum in the format it was added up in.
enum class Activation : std::uint8_t { none, relu, gelu_erf, gelu_tanh };

/// Everything a BLAS call needs. Leading dimensions and batch strides in elements, as passed to the library.
/// Operands of the Problem, in this order: "A" (batch,m,k), "B" (batch,k,n), "C" (batch,m,n), and "bias" (batch,n) where there
/// is one, in the format of C; C is inout when beta != 0.
struct Call {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  DType in = DType::f32, out = DType::f32;
  bool transpose_a = false, transpose_b = false;
  bool row_major = false;
  std::int64_t lda = 1, ldb = 1, ldc = 1;
  std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // 0 on A or B: one matrix shared by the whole batch
  double alpha = 1, beta = 0;
  bool pointer_array = false;  // mode=pointers: batch entries by pointer, in shuffled order
  bool bias = false;           // one number per column of C, of each batch entry its own
  Activation activation = Activation::none;

  bool has_epilogue() const { return bias || activation != Activation::none; }
};

Call call_of(const Problem&);

/// Position of batch entry `i` in the order a pointer-array call names them (a fixed odd-step permutation of 0..batch-1).
std::int64_t pointer_order(std::int64_t i, std::int64_t batch);

/// The op, ready for the registry.
Op make();

/// Targets, one file each.
std::vector<Target> cpu_targets();  // eigen, and CBLAS libraries opened by path (openblas, blis, refblas, cblas)
Target model_target();              // "model": correct accumulation models, variant = model name
Target planted_target();            // "planted": one fault per variant, through the real path
Target cublaslt_target();           // "cublaslt": cuBLASLt on a GPU, opened by path
Target kernel_target();             // "kernel": kernels/gemm.cu
Target cublas_target();             // "cublas": cuBLAS, opened by path
Target cudnn_target();              // "cudnn": its graph API
cudnn::Description cudnn_graph(const Problem&);
Target simulated_target();  // "sim": own address space, asynchronous queue, late sticky error, workspace
std::vector<PlantedFault> planted_faults();
std::vector<std::string> clean_cases();

}  // namespace assay::gemm
