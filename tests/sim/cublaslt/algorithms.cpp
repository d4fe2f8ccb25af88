// SPDX-License-Identifier: Apache-2.0
// The double's algorithms: what they can be, which one the heuristic prefers, what each needs.
#include <algorithm>
#include <array>
#include <bit>

#include "tests/sim/cublaslt/double.hpp"

namespace assay::sim::lt {

namespace {

/// 1: one sum per element, fused multiply-adds. 6: the same in slices (split-K). 66: tensor cores, in slices or not.
struct Ability {
  std::int32_t id;
  bool tensor_cores;
  std::uint32_t reductions;  // 0: no split-K
  std::uint32_t swizzle;
  std::int32_t custom;
  std::array<std::uint32_t, 2> tiles, stages;
};
constexpr Ability abilities[] = {
    {1, false, 0, 1, 0, {15, 20}, {0, 0}},
    {6, false, CUBLASLT_REDUCTION_SCHEME_MASK, 0, 1, {18, 20}, {0, 0}},
    {66, true, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE, 1, 2, {20, 23}, {14, 21}},
};

const Ability* ability(std::int32_t id) {
  for (const Ability& a : abilities)
    if (a.id == id) return &a;
  return nullptr;
}

bool is_16_bit(int type) {
  return type == CUDA_R_16F || type == CUDA_R_16BF;
}

/// cuBLAS documentation, cublasLtMatmul: the tables of supported types, as far as the double has them.
bool types_are_known(int compute, int scale, int a, int b, int c) {
  if (a != b) return false;
  switch (compute) {
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      return scale == CUDA_R_64F && a == CUDA_R_64F && c == CUDA_R_64F;
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      return scale == CUDA_R_32F &&
             ((a == CUDA_R_32F && c == a) ||
              (a == CUDA_R_8F_E4M3 && compute == CUBLAS_COMPUTE_32F && (c == CUDA_R_32F || is_16_bit(c))) ||
              (is_16_bit(a) && (c == a || c == CUDA_R_32F)));
    case CUBLAS_COMPUTE_32F_FAST_TF32:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      return scale == CUDA_R_32F && a == CUDA_R_32F && c == a;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
      return scale == CUDA_R_32I && a == CUDA_R_8I && c == CUDA_R_32I;
    case CUBLAS_COMPUTE_16F:
      return scale == CUDA_R_16F && a == CUDA_R_16F && c == a;
    default:
      return false;
  }
}

bool has_tensor_cores_for(int compute, int type) {
  if (type == CUDA_R_8F_E4M3) return true;
  if (compute == CUBLAS_COMPUTE_32F_FAST_TF32 || compute == CUBLAS_COMPUTE_32F_FAST_16BF) return true;
  return is_16_bit(type) && compute != CUBLAS_COMPUTE_32F_PEDANTIC;
}

bool can(const Ability& a, int compute, int type) {
  return a.tensor_cores ? has_tensor_cores_for(compute, type) : type != CUDA_R_8F_E4M3;
}

std::uint64_t flags_of(const Ability& a, int compute, int type) {
  const std::uint64_t input = compute == CUBLAS_COMPUTE_32F_FAST_TF32   ? lt_flags::INPUT_TF32
                              : compute == CUBLAS_COMPUTE_32F_FAST_16BF ? lt_flags::INPUT_16BF
                              : type == CUDA_R_64F                      ? lt_flags::INPUT_64F
                              : type == CUDA_R_8I                       ? lt_flags::INPUT_8I
                              : type == CUDA_R_8F_E4M3                  ? lt_flags::INPUT_8F_E4M3
                              : type == CUDA_R_32F                      ? lt_flags::INPUT_32F
                              : type == CUDA_R_16F                      ? lt_flags::INPUT_16F
                                                                        : lt_flags::INPUT_16BF;
  const std::uint64_t sums = type == CUDA_R_64F              ? lt_flags::ACCUMULATOR_64F
                             : type == CUDA_R_8I             ? lt_flags::ACCUMULATOR_32I
                             : compute == CUBLAS_COMPUTE_16F ? lt_flags::ACCUMULATOR_16F
                                                             : lt_flags::ACCUMULATOR_32F;
  return input | sums | (a.tensor_cores ? lt_flags::HMMA : lt_flags::FMA);
}

std::size_t bytes_of(int type) {
  return type == CUDA_R_64F                            ? 8
         : type == CUDA_R_32F || type == CUDA_R_32I    ? 4
         : type == CUDA_R_8I || type == CUDA_R_8F_E4M3 ? 1
                                                       : 2;
}

template <class Value>
cublasStatus_t answer(const Value* from, std::size_t count, void* to, std::size_t bytes, std::size_t* written) {
  const std::size_t whole = count * sizeof(Value);
  if (bytes == 0 && written == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (written != nullptr) *written = whole;
  if (bytes == 0) return CUBLAS_STATUS_SUCCESS;
  if (to == nullptr || bytes != whole) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(to, from, whole);
  return CUBLAS_STATUS_SUCCESS;
}
template <class Value>
cublasStatus_t answer(Value from, void* to, std::size_t bytes, std::size_t* written) {
  return answer(&from, 1, to, bytes, written);
}

Algorithm make(const Ability& ability, int compute, int type_a, int type_c) {
  Algorithm a{};
  a.id = ability.id, a.splits = 1, a.compute = compute, a.type_a = type_a, a.type_c = type_c;
  a.made = algorithm_is_made;
  return a;
}

bool known_epilogue(std::uint32_t e) {
  constexpr int known[] = {CUBLASLT_EPILOGUE_DEFAULT,   CUBLASLT_EPILOGUE_RELU, CUBLASLT_EPILOGUE_BIAS,
                           CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS};
  return std::ranges::find(known, static_cast<int>(e)) != std::end(known);
}

cublasStatus_t check_layout(const Attributes& l) {
  const int order = l.as<int>(CUBLASLT_MATRIX_LAYOUT_ORDER);
  if (order != CUBLASLT_ORDER_COL && order != CUBLASLT_ORDER_ROW) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto inner =
      l.as<std::int64_t>(order == CUBLASLT_ORDER_COL ? CUBLASLT_MATRIX_LAYOUT_ROWS : CUBLASLT_MATRIX_LAYOUT_COLS);
  const auto outer =
      l.as<std::int64_t>(order == CUBLASLT_ORDER_COL ? CUBLASLT_MATRIX_LAYOUT_COLS : CUBLASLT_MATRIX_LAYOUT_ROWS);
  if (inner <= 0 || outer <= 0 || l.as<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_LD) < inner) return CUBLAS_STATUS_INVALID_VALUE;
  if (l.as<int>(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (l.as<std::uint32_t>(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE) > 1) return CUBLAS_STATUS_INVALID_VALUE;
  return l.as<std::int64_t>(7) == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;  // planar complex
}

}  // namespace

Algorithm read(const cublasLtMatmulAlgo_t& algo) {
  return std::bit_cast<Algorithm>(algo);
}

std::uint32_t alignment_of(const Algorithm& a) {
  return a.id == 66 ? 16 : static_cast<std::uint32_t>(bytes_of(a.type_a));
}

Checked check(const void* operation, const void* a, const void* b, const void* c, const void* d) {
  Checked out{.description = description(operation), .a = layout(a), .b = layout(b), .c = layout(c), .d = layout(d)};
  const auto fail = [&](cublasStatus_t status) {
    out.status = status;
    return out;
  };
  if (!out.description || !out.a || !out.b || !out.c || !out.d) return fail(CUBLAS_STATUS_INVALID_VALUE);
  for (const Attributes* l : {out.a, out.b, out.c, out.d})
    if (const cublasStatus_t status = check_layout(*l); status != CUBLAS_STATUS_SUCCESS) return fail(status);
  const Attributes& o = *out.description;
  const auto op_a = o.as<int>(CUBLASLT_MATMUL_DESC_TRANSA), op_b = o.as<int>(CUBLASLT_MATMUL_DESC_TRANSB);
  for (const int op : {op_a, op_b})
    if (op != CUBLAS_OP_N && op != CUBLAS_OP_T) return fail(CUBLAS_STATUS_INVALID_VALUE);
  const auto rows = [](const Attributes& l) { return l.as<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_ROWS); };
  const auto columns = [](const Attributes& l) { return l.as<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_COLS); };
  out.m = rows(*out.d), out.n = columns(*out.d);
  out.k = op_a == CUBLAS_OP_N ? columns(*out.a) : rows(*out.a);
  const bool fits = (op_a == CUBLAS_OP_N ? rows(*out.a) : columns(*out.a)) == out.m &&
                    (op_b == CUBLAS_OP_N ? rows(*out.b) : columns(*out.b)) == out.k &&
                    (op_b == CUBLAS_OP_N ? columns(*out.b) : rows(*out.b)) == out.n && rows(*out.c) == out.m &&
                    columns(*out.c) == out.n;
  if (!fits) return fail(CUBLAS_STATUS_INVALID_VALUE);
  out.batch = out.d->as<int>(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
  const auto mode = out.d->as<std::uint32_t>(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE);
  for (const Attributes* l : {out.a, out.b, out.c})
    if (l->as<int>(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) != out.batch ||
        l->as<std::uint32_t>(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE) != mode)
      return fail(CUBLAS_STATUS_INVALID_VALUE);
  const auto e = o.as<std::uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE);
  if (!known_epilogue(e)) {
    const bool real = e < 1024 && (e & ~0x3FFu) == 0 && e > 36;
    if (real) announce("epilogue " + std::to_string(e) + " is not simulated");
    return fail(real ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_INVALID_VALUE);
  }
  if ((e & CUBLASLT_EPILOGUE_BIAS) != 0 && o.as<std::uint64_t>(CUBLASLT_MATMUL_DESC_BIAS_POINTER) == 0)
    return fail(CUBLAS_STATUS_INVALID_VALUE);
  for (const int unused : {CUBLASLT_MATMUL_DESC_POINTER_MODE, CUBLASLT_MATMUL_DESC_TRANSC})
    if (o.as<int>(unused) != 0) {
      announce("attribute " + std::to_string(unused) + " of an operation is simulated with its default only");
      return fail(CUBLAS_STATUS_NOT_SUPPORTED);
    }
  const auto type = [](const Attributes& l) { return l.as<int>(CUBLASLT_MATRIX_LAYOUT_TYPE); };
  if (type(*out.c) != type(*out.d) ||
      !types_are_known(o.as<int>(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE), o.as<int>(CUBLASLT_MATMUL_DESC_SCALE_TYPE), type(*out.a),
                       type(*out.b), type(*out.c)))
    return fail(CUBLAS_STATUS_NOT_SUPPORTED);
  return out;
}

cublasStatus_t require(const Algorithm& a, const Checked& o, std::size_t& workspace_bytes) {
  const Ability* const can_be = ability(a.id);
  if (a.made != algorithm_is_made || can_be == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (a.compute != o.description->as<int>(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE) ||
      a.type_a != o.a->as<int>(CUBLASLT_MATRIX_LAYOUT_TYPE) || a.type_c != o.c->as<int>(CUBLASLT_MATRIX_LAYOUT_TYPE))
    return CUBLAS_STATUS_INVALID_VALUE;
  const bool known = std::ranges::find(can_be->tiles, a.tile) != can_be->tiles.end() &&
                     std::ranges::find(can_be->stages, a.stages) != can_be->stages.end() && a.swizzle <= can_be->swizzle &&
                     a.custom <= static_cast<std::uint32_t>(can_be->custom) && a.inner == 0;
  const sim::SimulatedDevice* const device = sim::SimulatedDevice::find();
  const bool clusters = can_be->tensor_cores && device != nullptr && device->sm() >= 90;
  if (!known || (a.cluster != CUBLASLT_CLUSTER_SHAPE_AUTO && !clusters)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool split = a.splits > 1;
  if (a.splits < 1 || split != (a.reduction != CUBLASLT_REDUCTION_SCHEME_NONE)) return CUBLAS_STATUS_INVALID_VALUE;
  if (split && ((can_be->reductions & a.reduction) == 0 || !std::has_single_bit(a.reduction) || a.splits > o.k))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  // cuBLAS documentation, cublasLtMatmul: fp8 kernels of these devices want A transposed and B not.
  const bool other_order = o.d->as<int>(CUBLASLT_MATRIX_LAYOUT_ORDER) == CUBLASLT_ORDER_ROW;
  const auto op = [&](int which) { return o.description->as<int>(which); };
  if (a.type_a == CUDA_R_8F_E4M3 &&
      (other_order || op(CUBLASLT_MATMUL_DESC_TRANSA) != CUBLAS_OP_T || op(CUBLASLT_MATMUL_DESC_TRANSB) != CUBLAS_OP_N))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const std::uint32_t alignment = alignment_of(a);
  for (const Attributes* l : {o.a, o.b, o.c})
    if (alignment == 16 && l->as<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_LD) *
                                   static_cast<std::int64_t>(bytes_of(l->as<int>(CUBLASLT_MATRIX_LAYOUT_TYPE))) % 16 !=
                               0)
      return CUBLAS_STATUS_NOT_SUPPORTED;
  // Partial sums of every slice, or one counter.
  const std::size_t outputs = static_cast<std::size_t>(o.m) * static_cast<std::size_t>(o.n) * static_cast<std::size_t>(o.batch);
  const std::size_t partial = a.reduction == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE ? bytes_of(a.type_c)
                              : a.type_a == CUDA_R_64F                             ? 8
                                                                                   : 4;
  workspace_bytes = !split                                             ? 0
                    : a.reduction == CUBLASLT_REDUCTION_SCHEME_INPLACE ? 256
                                                                       : outputs * partial * static_cast<std::size_t>(a.splits);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace assay::sim::lt

using namespace assay::sim::lt;

cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t handle, cublasComputeType_t compute, cudaDataType scale,
                                        cudaDataType a, cudaDataType b, cudaDataType c, cudaDataType d, int wanted, int* ids,
                                        int* count) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (wanted <= 0 || ids == nullptr || count == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *count = 0;
  if (c != d || !types_are_known(compute, scale, a, b, c)) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (auto i = std::rbegin(abilities); i != std::rend(abilities) && *count < wanted; ++i)  // in no order that helps
    ids[(*count)++] = i->id;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute, cudaDataType scale, cudaDataType a,
                                      cudaDataType b, cudaDataType c, cudaDataType d, int id, cublasLtMatmulAlgo_t* algo) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Ability* const found = ability(id);
  if (algo == nullptr || found == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (c != d || !types_are_known(compute, scale, a, b, c) || !can(*found, compute, a)) return CUBLAS_STATUS_NOT_SUPPORTED;
  *algo = std::bit_cast<cublasLtMatmulAlgo_t>(make(*found, compute, a, c));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* algo, int which, void* to, std::size_t bytes,
                                                 std::size_t* written) {
  if (algo == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Algorithm a = read(*algo);
  const Ability* const can_be = ability(a.id);
  if (a.made != algorithm_is_made || can_be == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  switch (which) {
    case CUBLASLT_ALGO_CAP_SPLITK_SUPPORT:
      return answer(std::int32_t{can_be->reductions != 0}, to, bytes, written);
    case CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK:
      return answer(can_be->reductions, to, bytes, written);
    case CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT:
      return answer(can_be->swizzle, to, bytes, written);
    case CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX:
      return answer(can_be->custom, to, bytes, written);
    case CUBLASLT_ALGO_CAP_TILE_IDS:
      return answer(can_be->tiles.data(), can_be->tiles.size(), to, bytes, written);
    case CUBLASLT_ALGO_CAP_STAGES_IDS:
      return answer(can_be->stages.data(), can_be->tensor_cores ? 2u : 0u, to, bytes, written);
    case CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS:
      return answer(flags_of(*can_be, a.compute, a.type_a), to, bytes, written);
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES:
      return answer(alignment_of(a), to, bytes, written);
    default:
      announce("capability " + std::to_string(which) + " is not simulated");
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

namespace {

// attribute, member
#define ASSAY_SIM_CONFIGURATION(X)                    \
  X(CUBLASLT_ALGO_CONFIG_TILE_ID, tile)               \
  X(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, splits)          \
  X(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, reduction) \
  X(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, swizzle)      \
  X(CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, custom)       \
  X(CUBLASLT_ALGO_CONFIG_STAGES_ID, stages)           \
  X(CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, inner)       \
  X(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, cluster)

}  // namespace

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algo, int which, const void* value,
                                                    std::size_t bytes) {
  if (algo == nullptr || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  Algorithm a = read(*algo);
  switch (which) {
#define ASSAY_SIM_SET(attribute, member)                              \
  case attribute:                                                     \
    if (bytes != sizeof a.member) return CUBLAS_STATUS_INVALID_VALUE; \
    std::memcpy(&a.member, value, bytes);                             \
    break;
    ASSAY_SIM_CONFIGURATION(ASSAY_SIM_SET)
#undef ASSAY_SIM_SET
    default:  // the id is read-only
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  *algo = std::bit_cast<cublasLtMatmulAlgo_t>(a);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algo, int which, void* value, std::size_t bytes,
                                                    std::size_t* written) {
  if (algo == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Algorithm a = read(*algo);
  switch (which) {
    case CUBLASLT_ALGO_CONFIG_ID:
      return answer(a.id, value, bytes, written);
#define ASSAY_SIM_GET(attribute, member) \
  case attribute:                        \
    return answer(a.member, value, bytes, written);
      ASSAY_SIM_CONFIGURATION(ASSAY_SIM_GET)
#undef ASSAY_SIM_GET
    default:
      return CUBLAS_STATUS_INVALID_VALUE;
  }
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algo, cublasLtMatmulHeuristicResult_t* result) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (algo == nullptr || result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Checked o = check(operation, a, b, c, d);
  result->state = o.status != CUBLAS_STATUS_SUCCESS ? o.status : require(read(*algo), o, result->workspaceSize);
  result->wavesCount = 1;
  return result->state;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wishes, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results, int* count) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Attributes* const p = preference(wishes);
  if (p == nullptr || wanted <= 0 || results == nullptr || count == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *count = 0;
  const Checked o = check(operation, a, b, c, d);
  if (o.status != CUBLAS_STATUS_SUCCESS) return o.status;
  const auto compute = o.description->as<int>(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE);
  const auto type_a = o.a->as<int>(CUBLASLT_MATRIX_LAYOUT_TYPE), type_c = o.c->as<int>(CUBLASLT_MATRIX_LAYOUT_TYPE);
  const auto offer = [&](std::int32_t id, std::uint32_t tile, std::uint32_t stages, std::int32_t splits,
                         std::uint32_t reduction) {
    const Ability& can_be = *ability(id);
    if (*count == wanted || !can(can_be, compute, type_a)) return;
    Algorithm algo = make(can_be, compute, type_a, type_c);
    algo.tile = tile, algo.stages = stages, algo.splits = splits, algo.reduction = reduction;
    std::size_t workspace = 0;
    if ((reduction & ~p->as<std::uint32_t>(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)) != 0 ||
        require(algo, o, workspace) != CUBLAS_STATUS_SUCCESS ||
        workspace > p->as<std::uint64_t>(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES) ||
        (flags_of(can_be, compute, type_a) & ~p->as<std::uint64_t>(CUBLASLT_MATMUL_PREF_IMPL_MASK)) != 0)
      return;
    for (const int which : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                            CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
      if (p->as<std::uint32_t>(which) < alignment_of(algo)) return;
    results[(*count)++] = {.algo = std::bit_cast<cublasLtMatmulAlgo_t>(algo),
                           .workspaceSize = workspace,
                           .state = CUBLAS_STATUS_SUCCESS,
                           .wavesCount = 0.5F,
                           .reserved = {}};
  };
  // Long sums under small outputs are cut into slices, as real heuristics do.
  if (o.k >= 256 && o.m * o.n <= 16384) {
    offer(66, 20, 14, 4, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    offer(66, 20, 14, 4, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE);
    offer(6, 20, 0, 3, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    offer(6, 18, 0, 2, CUBLASLT_REDUCTION_SCHEME_INPLACE);
  }
  offer(66, 20, 14, 1, CUBLASLT_REDUCTION_SCHEME_NONE);
  offer(1, 20, 0, 1, CUBLASLT_REDUCTION_SCHEME_NONE);
  offer(1, 15, 0, 1, CUBLASLT_REDUCTION_SCHEME_NONE);
  return *count == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
}
