// SPDX-License-Identifier: Apache-2.0
// cublasLtMatmul of the double: arguments checked at the call, computed when the stream's turn comes.
#include "tests/sim/cublaslt/double.hpp"
#include "tests/sim/cublaslt/product.hpp"

namespace assay::sim::lt {

namespace {

constexpr int illegal_address = 700;

DType format_of(int type) {
  return type == CUDA_R_8I        ? DType::i8
         : type == CUDA_R_32I     ? DType::i32
         : type == CUDA_R_8F_E4M3 ? DType::e4m3
         : type == CUDA_R_64F     ? DType::f64
         : type == CUDA_R_16F     ? DType::f16
         : type == CUDA_R_16BF    ? DType::bf16
                                  : DType::f32;
}

/// One operand of a whole batch, by address on the device.
struct Stored {
  const void* at = nullptr;
  DType format = DType::f32;
  std::int64_t rows = 0, columns = 0, ld = 1, stride = 0;
  bool by_rows = false, pointers = false;

  Stored(const void* address, const Attributes& l)
      : at(address),
        format(format_of(l.as<int>(CUBLASLT_MATRIX_LAYOUT_TYPE))),
        rows(l.as<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_ROWS)),
        columns(l.as<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_COLS)),
        ld(l.as<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_LD)),
        stride(l.as<std::int64_t>(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)),
        by_rows(l.as<int>(CUBLASLT_MATRIX_LAYOUT_ORDER) == CUBLASLT_ORDER_ROW),
        pointers(l.as<std::uint32_t>(CUBLASLT_MATRIX_LAYOUT_BATCH_MODE) == CUBLASLT_BATCH_MODE_POINTER_ARRAY) {}

  std::int64_t elements() const { return by_rows ? (rows - 1) * ld + columns : (columns - 1) * ld + rows; }

  /// Of one batch entry; false when it does not lie inside one allocation.
  bool view(const SimulatedDevice& device, std::int64_t entry, bool transposed, View& to) const {
    const auto size = static_cast<std::int64_t>(size_bytes(format));
    const std::byte* first = static_cast<const std::byte*>(at) + (pointers ? 0 : entry * stride * size);
    if (pointers) {
      const auto* const list = device.memory<const void*>(static_cast<const void* const*>(at) + entry, sizeof(void*));
      if (list == nullptr) return false;
      first = static_cast<const std::byte*>(*list);
    }
    to.at = device.memory(first, static_cast<std::size_t>(elements() * size));
    to.format = format;
    to.row = by_rows ? ld : 1, to.column = by_rows ? 1 : ld;
    if (transposed) std::swap(to.row, to.column);
    return to.at != nullptr;
  }
};

/// A call with all that it was given, copied: descriptors may go before its turn comes.
struct Matmul {
  const SimulatedDevice* device = nullptr;
  Stored a, b, c, d;
  bool transpose_a = false, transpose_b = false;
  std::int64_t batch = 1;
  Product product;
  const void* bias = nullptr;
  std::int64_t bias_stride = 0;
  const void *scale_a = nullptr, *scale_b = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  bool overruns = false, greedy = false;

  int run() const {
    for (std::int64_t e = 0; e < batch; ++e) {
      Product p = product;
      const bool reads_c = p.beta != 0 || p.reads_c;
      if (!a.view(*device, e, transpose_a, p.a) || !b.view(*device, e, transpose_b, p.b) || !d.view(*device, e, false, p.d) ||
          (reads_c && !c.view(*device, e, false, p.c)))
        return illegal_address;
      if (bias != nullptr) {
        const std::size_t size = size_bytes(d.format);
        p.bias = device->memory(static_cast<const std::byte*>(bias) + e * bias_stride * static_cast<std::int64_t>(size),
                                static_cast<std::size_t>(p.m) * size);
        if (p.bias == nullptr) return illegal_address;
      }
      for (const void* const factor : {scale_a, scale_b}) {
        const float* const at = factor == nullptr ? nullptr : device->memory<float>(factor, sizeof(float));
        if (factor != nullptr && at == nullptr) return illegal_address;
        if (at != nullptr) p.alpha *= static_cast<double>(*at);
      }
      if (workspace_bytes > 0) {
        std::byte* const all = device->memory(workspace, workspace_bytes + (greedy ? 64 : 0));
        if (all == nullptr) return illegal_address;
        if (p.partials == Partials::in_workspace)
          p.workspace = all + static_cast<std::int64_t>(size_bytes(p.slice_format)) * p.slices * p.m * p.n * e;
        if (greedy) std::memset(all + workspace_bytes, 0, 64);
      }
      compute(p);
      if (overruns) store_bits(d.format, p.d.at + d.elements() * static_cast<std::int64_t>(size_bytes(d.format)), 0);
    }
    return 0;
  }
};

std::map<std::string, std::string> facts(const Algorithm& a, const Checked& o, int sm) {
  const auto text = [](auto number) { return std::to_string(number); };
  return {{"id", text(a.id)},
          {"tile", text(a.tile)},
          {"stages", text(a.stages)},
          {"splitk", text(a.splits)},
          {"reduction", text(a.reduction)},
          {"swizzle", text(a.swizzle)},
          {"custom", text(a.custom)},
          {"version", text(version())},
          {"sm", text(sm)},
          {"m", text(o.m)},
          {"n", text(o.n)},
          {"k", text(o.k)},
          {"batch", text(o.batch)},
          {"order", o.d->as<int>(CUBLASLT_MATRIX_LAYOUT_ORDER) == CUBLASLT_ORDER_ROW ? "row" : "col"},
          {"opa", o.description->as<int>(CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_T ? "t" : "n"},
          {"opb", o.description->as<int>(CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_T ? "t" : "n"},
          {"epilogue", text(o.description->as<std::uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE))}};
}

Product product(const Algorithm& a, const Checked& o, const void* alpha, const void* beta) {
  const Attributes& d = *o.description;
  Product p;
  p.m = o.m, p.n = o.n, p.k = o.k;
  p.scale = format_of(d.as<int>(CUBLASLT_MATMUL_DESC_SCALE_TYPE));
  p.alpha = decode(p.scale, load_bits(p.scale, static_cast<const std::byte*>(alpha)));
  p.beta = decode(p.scale, load_bits(p.scale, static_cast<const std::byte*>(beta)));
  p.operands = a.compute == CUBLAS_COMPUTE_32F_FAST_TF32   ? DType::tf32
               : a.compute == CUBLAS_COMPUTE_32F_FAST_16BF ? DType::bf16
                                                           : format_of(a.type_a);
  p.sums = a.type_a == CUDA_R_64F            ? DType::f64
           : a.compute == CUBLAS_COMPUTE_16F ? DType::f16
           : a.type_a == CUDA_R_8I           ? DType::i32
                                             : DType::f32;
  p.tensor_cores = a.id == 66;
  // "Allows" a narrower format: without tensor cores there is no reason to take it.
  if (!p.tensor_cores) p.operands = format_of(a.type_a);
  p.block = p.operands == DType::tf32 ? 4 : 8;
  p.slices = a.splits;
  p.partials = a.reduction == CUBLASLT_REDUCTION_SCHEME_INPLACE ? Partials::in_place : Partials::in_workspace;
  p.slice_format = a.reduction == CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE ? format_of(a.type_c) : p.sums;
  if (p.slice_format == DType::f16 && a.reduction == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) p.slice_format = DType::f32;
  const auto e = static_cast<int>(d.as<std::uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE));
  p.function = (e & CUBLASLT_EPILOGUE_RELU) != 0   ? Function::relu
               : (e & CUBLASLT_EPILOGUE_GELU) != 0 ? Function::gelu
                                                   : Function::none;
  return p;
}

bool aligned(const void* at, std::uint32_t bytes) {
  return reinterpret_cast<std::uintptr_t>(at) % bytes == 0;
}

}  // namespace

}  // namespace assay::sim::lt

using namespace assay::sim::lt;
using assay::DType;

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t layout_a, const void* b, cublasLtMatrixLayout_t layout_b, const void* beta,
                              const void* c, cublasLtMatrixLayout_t layout_c, void* d, cublasLtMatrixLayout_t layout_d,
                              const cublasLtMatmulAlgo_t* algo, void* workspace, std::size_t workspace_bytes, CUstream stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const Checked o = check(operation, layout_a, layout_b, layout_c, layout_d);
  if (o.status != CUBLAS_STATUS_SUCCESS) return o.status;
  if (alpha == nullptr || beta == nullptr || a == nullptr || b == nullptr || d == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (algo == nullptr || c != d) {
    announce(algo == nullptr ? "a call that leaves the choice to the library is not simulated"
                             : "D apart from C is not simulated");
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const Algorithm chosen = read(*algo);
  std::size_t needed = 0;
  if (const cublasStatus_t status = require(chosen, o, needed); status != CUBLAS_STATUS_SUCCESS) return status;
  if (needed > workspace_bytes || (needed > 0 && (workspace == nullptr || !aligned(workspace, 16))))
    return CUBLAS_STATUS_INVALID_VALUE;
  for (const void* const at : {a, b, c, static_cast<const void*>(d)})
    if (!aligned(at, alignment_of(chosen))) return CUBLAS_STATUS_INVALID_VALUE;
  const assay::sim::SimulatedDevice* const device = assay::sim::SimulatedDevice::find();
  if (device == nullptr || device->context() != 0) return CUBLAS_STATUS_NOT_INITIALIZED;

  const std::map<std::string, std::string> known = facts(chosen, o, device->sm());
  if (planted("refuse", known)) return CUBLAS_STATUS_EXECUTION_FAILED;
  const Attributes& description = *o.description;
  Matmul call{.device = device,
              .a = Stored(a, *o.a),
              .b = Stored(b, *o.b),
              .c = Stored(c, *o.c),
              .d = Stored(d, *o.d),
              .transpose_a = description.as<int>(CUBLASLT_MATMUL_DESC_TRANSA) == CUBLAS_OP_T,
              .transpose_b = description.as<int>(CUBLASLT_MATMUL_DESC_TRANSB) == CUBLAS_OP_T,
              .batch = o.batch,
              .product = product(chosen, o, alpha, beta),
              .workspace = workspace,
              .workspace_bytes = needed};
  if ((description.as<std::uint32_t>(CUBLASLT_MATMUL_DESC_EPILOGUE) & CUBLASLT_EPILOGUE_BIAS) != 0 &&
      !planted("no_bias", known)) {
    call.bias = description.as<const void*>(CUBLASLT_MATMUL_DESC_BIAS_POINTER);
    call.bias_stride = description.as<std::int64_t>(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE);
  }
  if (o.a->as<int>(CUBLASLT_MATRIX_LAYOUT_TYPE) == CUDA_R_8F_E4M3) {
    call.scale_a = description.as<const void*>(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
    call.scale_b = description.as<const void*>(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER);
  } else if (description.as<const void*>(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER) != nullptr ||
             description.as<const void*>(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) != nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  Product& p = call.product;
  p.loses_last_product = planted("k_tail", known), p.loses_last_slice = planted("lost_slice", known);
  if (planted("no_scale", known)) call.scale_a = nullptr;
  p.reads_c = planted("read_c", known), p.repeats_edge_row = planted("edge_row", known);
  if (call.a.format == DType::f32 && p.operands == DType::f32 && planted("tf32", known)) p.operands = DType::tf32;
  if (planted("narrow_slice", known)) p.slice_format = call.d.format;
  call.overruns = planted("overrun", known), call.greedy = planted("greedy", known);
  return device->queue(stream, [call] { return call.run(); }) == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
