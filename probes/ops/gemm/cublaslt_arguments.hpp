// SPDX-License-Identifier: Apache-2.0
// A gemm Problem as arguments of cuBLASLt, and the arithmetic that cuBLASLt documents for what it chose. Pure: no library is
// touched.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "probes/library/cublaslt.hpp"
#include "probes/ops/gemm/gemm.hpp"

namespace assay::gemm {

/// The largest workspace an algorithm may ask for unless a mode says otherwise: 32 MiB, what NVIDIA recommends for sm_90
/// (cuBLAS documentation, cublasSetWorkspace), on every device, so that choices can be compared.
inline constexpr std::size_t lt_workspace_bytes = std::size_t{32} << 20;

/// A variant of the target "cublaslt". Each asks for one thing beyond the first answer of the heuristic.
struct LtMode {
  enum class Compute : std::uint8_t { standard, pedantic, tf32, f16acc, fast16bf } compute = Compute::standard;
  bool row_order = false;                            // order=row: layouts in CUBLASLT_ORDER_ROW
  std::size_t workspace_bytes = lt_workspace_bytes;  // workspace=0, workspace=4MiB: the most an algorithm may ask for
  bool any_reduction = true;                         // reduction=none: no split-K
  bool scales = false;             // scales: factors of the fp8 operands, 2 and 1/4, and 2 alpha: the same product
  bool fast_accumulation = false;  // fast_accum: fp8 sums are not promoted now and then
  int rank = 0;                    // rank=N: the heuristic's answer after N better ones
  int algorithm = -1;              // algorithm=N: of the enumeration instead
};
std::vector<std::string> lt_variants();
/// Further ones: the heuristic's other answers and the enumeration.
std::vector<std::string> lt_deep_variants();
/// Nothing when there is no such variant. "" is "heuristic".
std::optional<LtMode> parse_lt_mode(std::string_view variant);

/// Why this mode is not for this problem.
std::optional<std::string> lt_refuses(const Problem&, const LtMode&);

/// One matrix as stored: a layout descriptor's attributes and the operation applied to it.
struct LtMatrix {
  std::size_t operand = 0;  // of the Problem
  cuda::cudaDataType type = 0;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t ld = 1, batch_stride = 0;  // elements
  cuda::cublasOperation_t op = cuda::CUBLAS_OP_N;
  bool operator==(const LtMatrix&) const = default;
};

/// What one multiplication is told. D has C's layout and address.
/// cuBLASLt multiplies in either order. In the order in which C is not stored, D = C' = op(B)' op(A)' on the same memory. Its
/// bias has one number per row of D, ours one per column of C: a bias asks for D = C'.
struct LtArguments {
  LtMatrix a, b, c;
  int order = cuda::CUBLASLT_ORDER_COL;  // of all of them
  std::int32_t batch = 1;
  bool pointer_array = false;
  cuda::cublasComputeType_t compute = 0;
  cuda::cudaDataType scale = 0;
  DType scalar = DType::f32;  // format of alpha and beta
  std::uint32_t epilogue = cuda::CUBLASLT_EPILOGUE_DEFAULT;
  std::int64_t bias_stride = 0;  // between batch entries
  double alpha = 1, beta = 0;
  float scale_a = 1, scale_b = 1;  // of cuBLASLt's A and B
};
LtArguments lt_arguments(const Problem&, const LtMode&);

/// As documented for this compute type and algorithm on a device of this compute capability (90: 9.0).
Arithmetic lt_arithmetic(const Call&, const LtMode&, const cuda::lt::Choice&, int sm);
Contract lt_contract(const LtMode&);

/// Largest power of two, at most 256, that divides an address: what an operand promises an algorithm.
std::uint32_t lt_alignment(std::uint64_t address);

}  // namespace assay::gemm
