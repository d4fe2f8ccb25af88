// SPDX-License-Identifier: Apache-2.0
// The cuBLASLt functions, structures and numbers that assay uses, declared here and nowhere else: the same in CUDA 12 and 13.
#pragma once

#include <cstddef>
#include <cstdint>

#include "probes/library/cublas_types.hpp"
#include "probes/library/cuda_symbols.hpp"

namespace assay::cuda {

using cublasLtHandle_t = struct cublasLtContext*;
using cublasLtMatmulDesc_t = struct cublasLtMatmulDescription*;
using cublasLtMatrixLayout_t = struct cublasLtMatrixLayout*;
using cublasLtMatmulPreference_t = struct cublasLtMatmulPreference*;
struct cublasLtMatmulAlgo_t {
  std::uint64_t data[8];
};
struct cublasLtMatmulHeuristicResult_t {
  cublasLtMatmulAlgo_t algo;
  std::size_t workspaceSize;
  cublasStatus_t state;
  float wavesCount;
  int reserved[4];
};

// name, arguments; every one returns cublasStatus_t. The three that say which library it is: cuda_libraries.hpp.
#define ASSAY_CUBLASLT_FUNCTIONS(X)                                                                                           \
  X(cublasLtCreate, (cublasLtHandle_t*))                                                                                      \
  X(cublasLtDestroy, (cublasLtHandle_t))                                                                                      \
  X(cublasLtMatmulDescCreate, (cublasLtMatmulDesc_t*, cublasComputeType_t, cudaDataType))                                     \
  X(cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t))                                                                        \
  X(cublasLtMatmulDescSetAttribute, (cublasLtMatmulDesc_t, int, const void*, std::size_t))                                    \
  X(cublasLtMatmulDescGetAttribute, (cublasLtMatmulDesc_t, int, void*, std::size_t, std::size_t*))                            \
  X(cublasLtMatrixLayoutCreate, (cublasLtMatrixLayout_t*, cudaDataType, std::uint64_t, std::uint64_t, std::int64_t))          \
  X(cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t))                                                                    \
  X(cublasLtMatrixLayoutSetAttribute, (cublasLtMatrixLayout_t, int, const void*, std::size_t))                                \
  X(cublasLtMatrixLayoutGetAttribute, (cublasLtMatrixLayout_t, int, void*, std::size_t, std::size_t*))                        \
  X(cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t*))                                                            \
  X(cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t))                                                            \
  X(cublasLtMatmulPreferenceSetAttribute, (cublasLtMatmulPreference_t, int, const void*, std::size_t))                        \
  X(cublasLtMatmulPreferenceGetAttribute, (cublasLtMatmulPreference_t, int, void*, std::size_t, std::size_t*))                \
  X(cublasLtMatmulAlgoGetHeuristic,                                                                                           \
    (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,          \
     cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int, cublasLtMatmulHeuristicResult_t*, int*))                        \
  X(cublasLtMatmulAlgoGetIds, (cublasLtHandle_t, cublasComputeType_t, cudaDataType, cudaDataType, cudaDataType, cudaDataType, \
                               cudaDataType, int, int*, int*))                                                                \
  X(cublasLtMatmulAlgoInit, (cublasLtHandle_t, cublasComputeType_t, cudaDataType, cudaDataType, cudaDataType, cudaDataType,   \
                             cudaDataType, int, cublasLtMatmulAlgo_t*))                                                       \
  X(cublasLtMatmulAlgoCheck,                                                                                                  \
    (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,          \
     cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, cublasLtMatmulHeuristicResult_t*))                                  \
  X(cublasLtMatmulAlgoCapGetAttribute, (const cublasLtMatmulAlgo_t*, int, void*, std::size_t, std::size_t*))                  \
  X(cublasLtMatmulAlgoConfigSetAttribute, (cublasLtMatmulAlgo_t*, int, const void*, std::size_t))                             \
  X(cublasLtMatmulAlgoConfigGetAttribute, (const cublasLtMatmulAlgo_t*, int, void*, std::size_t, std::size_t*))               \
  X(cublasLtMatmul, (cublasLtHandle_t, cublasLtMatmulDesc_t, const void* alpha, const void* a, cublasLtMatrixLayout_t,        \
                     const void* b, cublasLtMatrixLayout_t, const void* beta, const void* c, cublasLtMatrixLayout_t, void* d, \
                     cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t*, void* workspace, std::size_t, CUstream))

struct LtFunctions {
#define ASSAY_MEMBER(name, arguments) cublasStatus_t(*name) arguments = nullptr;
  ASSAY_CUBLASLT_FUNCTIONS(ASSAY_MEMBER)
#undef ASSAY_MEMBER
};

// name, value, type that the library stores
#define ASSAY_CUBLASLT_DESCRIPTION(X)                                 \
  X(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, 0, std::int32_t)               \
  X(CUBLASLT_MATMUL_DESC_SCALE_TYPE, 1, std::int32_t)                 \
  X(CUBLASLT_MATMUL_DESC_POINTER_MODE, 2, std::int32_t)               \
  X(CUBLASLT_MATMUL_DESC_TRANSA, 3, std::int32_t)                     \
  X(CUBLASLT_MATMUL_DESC_TRANSB, 4, std::int32_t)                     \
  X(CUBLASLT_MATMUL_DESC_TRANSC, 5, std::int32_t)                     \
  X(CUBLASLT_MATMUL_DESC_FILL_MODE, 6, std::int32_t)                  \
  X(CUBLASLT_MATMUL_DESC_EPILOGUE, 7, std::uint32_t)                  \
  X(CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8, const void*)                \
  X(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, 10, std::int64_t)         \
  X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, 11, void*)             \
  X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 12, std::int64_t)           \
  X(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE, 13, std::int64_t) \
  X(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 17, const void*)            \
  X(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, 18, const void*)            \
  X(CUBLASLT_MATMUL_DESC_C_SCALE_POINTER, 19, const void*)            \
  X(CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, 20, const void*)            \
  X(CUBLASLT_MATMUL_DESC_FAST_ACCUM, 25, std::int8_t)                 \
  X(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, 26, std::int32_t)
#define ASSAY_CUBLASLT_LAYOUT(X)                         \
  X(CUBLASLT_MATRIX_LAYOUT_TYPE, 0, std::uint32_t)       \
  X(CUBLASLT_MATRIX_LAYOUT_ORDER, 1, std::int32_t)       \
  X(CUBLASLT_MATRIX_LAYOUT_ROWS, 2, std::uint64_t)       \
  X(CUBLASLT_MATRIX_LAYOUT_COLS, 3, std::uint64_t)       \
  X(CUBLASLT_MATRIX_LAYOUT_LD, 4, std::int64_t)          \
  X(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 5, std::int32_t) \
  X(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 6, std::int64_t)
// Since CUDA 13.0.
#define ASSAY_CUBLASLT_LAYOUT_130(X) X(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE, 8, std::uint32_t)
#define ASSAY_CUBLASLT_PREFERENCE(X)                              \
  X(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 1, std::uint64_t)   \
  X(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 3, std::uint32_t) \
  X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 5, std::uint32_t) \
  X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 6, std::uint32_t) \
  X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 7, std::uint32_t) \
  X(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 8, std::uint32_t) \
  X(CUBLASLT_MATMUL_PREF_IMPL_MASK, 12, std::uint64_t)
// Lists: arrays of the type.
#define ASSAY_CUBLASLT_CAPABILITIES(X)                          \
  X(CUBLASLT_ALGO_CAP_SPLITK_SUPPORT, 0, std::int32_t)          \
  X(CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK, 1, std::uint32_t)  \
  X(CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT, 2, std::uint32_t)  \
  X(CUBLASLT_ALGO_CAP_TILE_IDS, 6, std::uint32_t)               \
  X(CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX, 7, std::int32_t)       \
  X(CUBLASLT_ALGO_CAP_STAGES_IDS, 13, std::uint32_t)            \
  X(CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, 15, std::uint64_t)  \
  X(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES, 16, std::uint32_t) \
  X(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES, 17, std::uint32_t) \
  X(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES, 18, std::uint32_t) \
  X(CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES, 19, std::uint32_t)
#define ASSAY_CUBLASLT_CONFIGURATION(X)                      \
  X(CUBLASLT_ALGO_CONFIG_ID, 0, std::int32_t)                \
  X(CUBLASLT_ALGO_CONFIG_TILE_ID, 1, std::uint32_t)          \
  X(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 2, std::int32_t)        \
  X(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 3, std::uint32_t) \
  X(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4, std::uint32_t)    \
  X(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 5, std::uint32_t)    \
  X(CUBLASLT_ALGO_CONFIG_STAGES_ID, 6, std::uint32_t)        \
  X(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 7, std::uint16_t)   \
  X(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 8, std::uint16_t)

// name, value
#define ASSAY_CUBLASLT_VALUES(X)               \
  X(CUBLASLT_ORDER_COL, 0)                     \
  X(CUBLASLT_ORDER_ROW, 1)                     \
  X(CUBLASLT_POINTER_MODE_HOST, 0)             \
  X(CUBLASLT_REDUCTION_SCHEME_NONE, 0)         \
  X(CUBLASLT_REDUCTION_SCHEME_INPLACE, 1)      \
  X(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, 2) \
  X(CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, 4)  \
  X(CUBLASLT_REDUCTION_SCHEME_MASK, 7)         \
  X(CUBLASLT_EPILOGUE_DEFAULT, 1)              \
  X(CUBLASLT_EPILOGUE_RELU, 2)                 \
  X(CUBLASLT_EPILOGUE_BIAS, 4)                 \
  X(CUBLASLT_EPILOGUE_RELU_BIAS, 6)            \
  X(CUBLASLT_EPILOGUE_GELU, 32)                \
  X(CUBLASLT_EPILOGUE_GELU_BIAS, 36)           \
  X(CUBLASLT_EPILOGUE_RELU_AUX, 130)           \
  X(CUBLASLT_EPILOGUE_RELU_AUX_BIAS, 134)      \
  X(CUBLASLT_EPILOGUE_GELU_AUX, 160)           \
  X(CUBLASLT_EPILOGUE_GELU_AUX_BIAS, 164)      \
  X(CUBLASLT_MATMUL_INNER_SHAPE_UNDEFINED, 0)  \
  X(CUBLASLT_MATMUL_INNER_SHAPE_MMA16816, 4)   \
  X(CUBLASLT_CLUSTER_SHAPE_AUTO, 0)            \
  X(CUBLASLT_CLUSTER_SHAPE_1x1x1, 2)           \
  X(CUBLASLT_CLUSTER_SHAPE_2x1x1, 3)           \
  X(CUBLASLT_CLUSTER_SHAPE_1x2x1, 5)           \
  X(CUBLASLT_CLUSTER_SHAPE_2x2x1, 6)

// cublasLtNumericalImplFlags_t; in the header these are macros, CUBLASLT_NUMERICAL_IMPL_FLAGS_NAME.
#define ASSAY_CUBLASLT_FLAGS(X) \
  X(FMA, 0x1)                   \
  X(TENSOR_OP_MASK, 0xfe)       \
  X(HMMA, 0x2)                  \
  X(IMMA, 0x4)                  \
  X(DMMA, 0x8)                  \
  X(ACCUMULATOR_16F, 0x1 << 8)  \
  X(ACCUMULATOR_32F, 0x2 << 8)  \
  X(ACCUMULATOR_64F, 0x4 << 8)  \
  X(ACCUMULATOR_32I, 0x8 << 8)  \
  X(INPUT_16F, 0x1 << 16)       \
  X(INPUT_16BF, 0x2 << 16)      \
  X(INPUT_TF32, 0x4 << 16)      \
  X(INPUT_32F, 0x8 << 16)       \
  X(INPUT_64F, 0x10 << 16)      \
  X(INPUT_8I, 0x20 << 16)       \
  X(INPUT_8F_E4M3, 0x40 << 16)  \
  X(INPUT_8F_E5M2, 0x80 << 16)

#define ASSAY_CUBLASLT_VALUES_130(X) X(CUBLASLT_BATCH_MODE_POINTER_ARRAY, 1)

#define ASSAY_CONSTANT(name, value, ...) inline constexpr int name = value;
ASSAY_CUBLASLT_DESCRIPTION(ASSAY_CONSTANT)
ASSAY_CUBLASLT_LAYOUT(ASSAY_CONSTANT)
ASSAY_CUBLASLT_LAYOUT_130(ASSAY_CONSTANT)
ASSAY_CUBLASLT_PREFERENCE(ASSAY_CONSTANT)
ASSAY_CUBLASLT_CAPABILITIES(ASSAY_CONSTANT)
ASSAY_CUBLASLT_CONFIGURATION(ASSAY_CONSTANT)
ASSAY_CUBLASLT_VALUES(ASSAY_CONSTANT)
ASSAY_CUBLASLT_VALUES_130(ASSAY_CONSTANT)
#undef ASSAY_CONSTANT
namespace lt_flags {
#define ASSAY_CONSTANT(name, value) inline constexpr std::uint64_t name = value;
ASSAY_CUBLASLT_FLAGS(ASSAY_CONSTANT)
#undef ASSAY_CONSTANT
}  // namespace lt_flags

}  // namespace assay::cuda
