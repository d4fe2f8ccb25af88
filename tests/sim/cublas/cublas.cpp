// SPDX-License-Identifier: Apache-2.0
// A libcublas that computes on the simulated device from the very arguments it is given: for tests only, never installed. What
// it does not understand it refuses, aloud where the real library would have it. Its environment:
//   ASSAY_SIM_CUBLAS_VERSION=130100   what it says it is; decides which compute types it knows
//   ASSAY_SIM_CUBLAS_FAULT=NAME[:key=value]...[,NAME...]
// Keys narrow a fault down, with * and ?: routine compute in out m n k batch version sm.
//   create_fail         cublasCreate gives 1
//   execution_fail      a routine gives 13
//   silent_tf32         fp32 operands of CUBLAS_COMPUTE_32F lose 13 bits
//   k_tail              sums of two or more products lose the last
//   f16_sums            16-bit operands are added in fp16
//   beta_zero_reads_c   C is read and multiplied by 0
//   beta_ignored        beta counts as 0
//   nan_swallowed       a NaN counts as 0
//   flush_subnormals    subnormal operands and results count as 0
//   edge_tile           the last row of a tile of 32 that is not full repeats the row before
//   bit_flip            every third product has one wrong bit
//   overrun             one element after the last is written
#include "probes/library/cublas.hpp"

#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>

#include "tests/sim/cublas/product.hpp"
#include "tests/sim/inside.hpp"
#include "tests/sim/library_faults.hpp"

// The product's declarations, so that an entry that is defined with other arguments does not compile.
using namespace assay::cuda;
extern "C" {
#define ASSAY_SIM_DECLARE(name, arguments) cublasStatus_t name arguments;
ASSAY_CUBLAS_FUNCTIONS(ASSAY_SIM_DECLARE)
ASSAY_CUBLAS_GEMMS(ASSAY_SIM_DECLARE)
ASSAY_CUBLAS_EMULATION_129_FUNCTIONS(ASSAY_SIM_DECLARE)
ASSAY_CUBLAS_EMULATION_131_FUNCTIONS(ASSAY_SIM_DECLARE)
#undef ASSAY_SIM_DECLARE
}
#define ASSAY_SIM_ENTRY extern "C" __attribute__((visibility("default")))

struct assay::cuda::cublasContext {
  void* stream = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  int pointer_mode = CUBLAS_POINTER_MODE_HOST, math = CUBLAS_DEFAULT_MATH;
  int* mantissa_bits = nullptr;
};

namespace {

using namespace assay;
using namespace assay::sim;
using cublas::Operands;
using cublas::Sums;

constexpr int illegal_address = 700, misaligned_address = 716;  // CUresult

constexpr const char* fault_names[] = {"create_fail",       "execution_fail", "silent_tf32",   "k_tail",
                                       "f16_sums",          "beta_ignored",   "nan_swallowed", "flush_subnormals",
                                       "beta_zero_reads_c", "edge_tile",      "bit_flip",      "overrun"};
constexpr const char* fault_keys[] = {"routine", "compute", "in", "out", "m", "n", "k", "batch", "version", "sm"};

void announce(const std::string& text) {
  std::fprintf(stderr, "simulated cuBLAS: %s\n", text.c_str());
}

int version() {
  static const int v = [] {
    const char* const text = std::getenv("ASSAY_SIM_CUBLAS_VERSION");
    const int n = text ? std::atoi(text) : 130100;
    if (n < 120000 || n >= 140000) {
      announce("ASSAY_SIM_CUBLAS_VERSION must be a version of CUDA 12 or 13, such as 130100");
      std::abort();
    }
    return n;
  }();
  return v;
}

const LibraryFaults& faults() {
  static const LibraryFaults all("ASSAY_SIM_CUBLAS_FAULT", fault_names, fault_keys);
  return all;
}

std::set<cublasContext*>& handles() {
  static std::set<cublasContext*> all;
  return all;
}
std::mutex& handles_mutex() {
  static std::mutex one;
  return one;
}
bool known(cublasContext* h) {
  const std::lock_guard lock(handles_mutex());
  return handles().contains(h);
}

std::optional<DType> format_of(cudaDataType t) {
  switch (t) {
    case CUDA_R_64F:
      return DType::f64;
    case CUDA_R_32F:
      return DType::f32;
    case CUDA_R_16F:
      return DType::f16;
    case CUDA_R_16BF:
      return DType::bf16;
    case CUDA_R_8I:
      return DType::i8;
    case CUDA_R_32I:
      return DType::i32;
    default:
      return std::nullopt;
  }
}

/// One side of a product: where its batch entries are.
struct Side {
  const void* at = nullptr;            // the first, or the array of all
  const void* const* array = nullptr;  // in device memory; nullptr: by stride
  DType format = DType::f32;
  std::int64_t row = 1, column = 1, stride = 0;
};

struct Request {
  const char* routine;
  cublasContext* handle;
  std::int64_t m, n, k, batch;
  const void *alpha, *beta;
  Side a, b, c;
  cublas::Arithmetic arithmetic;
  std::map<std::string, std::string> facts;
  bool asks_alignment = false;  // of pointers in arrays
};

/// Host views of the entry's matrix; nullptr, and a word on stderr, when it is not inside one allocation.
std::byte* view(const SimulatedDevice& device, const Request& r, const Side& s, std::int64_t entry, std::int64_t rows,
                std::int64_t columns, const char* what) {
  const auto size = static_cast<std::int64_t>(size_bytes(s.format));
  const auto* address = static_cast<const std::byte*>(s.at) + entry * s.stride * size;
  if (s.array != nullptr) {
    const void* const* const all = device.memory<const void*>(s.array, static_cast<std::size_t>(r.batch) * sizeof(void*));
    if (all == nullptr) {
      announce(std::string(r.routine) + ": the array of pointers to " + what + " is not in device memory");
      return nullptr;
    }
    address = static_cast<const std::byte*>(all[entry]);
  }
  const std::int64_t elements = (rows - 1) * s.row + (columns - 1) * s.column + 1;
  std::byte* const host = device.memory(address, static_cast<std::size_t>(elements * size));
  if (host == nullptr) announce(std::string(r.routine) + ": " + what + " leaves its allocation");
  return host;
}

bool aligned(const Request& r, const std::byte* host) {
  const std::uintptr_t bytes = r.k % 8 == 0 ? 16 : r.k % 2 == 0 ? 4 : 1;
  return !r.asks_alignment || reinterpret_cast<std::uintptr_t>(host) % bytes == 0;
}

/// alpha or beta: now from the host, or from the device when the product's turn comes.
struct Scalar {
  double value = 0;
  const void* device = nullptr;

  static Scalar host(const void* at, DType t) { return {decode(t, load_bits(t, static_cast<const std::byte*>(at))), nullptr}; }
  bool read(const SimulatedDevice& from, DType t) {
    if (device == nullptr) return true;
    const std::byte* const at = from.memory(device, size_bytes(t));
    if (at != nullptr) value = decode(t, load_bits(t, at));
    return at != nullptr;
  }
};

std::atomic<int> products_so_far = 0;

/// All batch entries. Returns what the driver would report at the next synchronise.
int run(const Request& r, Scalar alpha, Scalar beta, void* workspace, std::size_t workspace_bytes, int* mantissa_bits) {
  const SimulatedDevice& device = *SimulatedDevice::find();
  const auto planted = [&](const char* name) { return faults().planted(name, r.facts); };
  if (!alpha.read(device, r.arithmetic.scalar) || !beta.read(device, r.arithmetic.scalar)) {
    announce(std::string(r.routine) + ": a scalar is not in device memory, where the pointer mode says it is");
    return illegal_address;
  }
  if (workspace_bytes > 0) {  // any bytes: what a kernel leaves there
    std::byte* const scratch = device.memory(workspace, workspace_bytes);
    if (scratch == nullptr) return illegal_address;
    std::memset(scratch, 0x5A, std::min<std::size_t>(workspace_bytes, 4096));
  }
  cublas::Product p;
  p.m = r.m, p.n = r.n, p.k = r.k, p.alpha = alpha.value, p.beta = beta.value, p.arithmetic = r.arithmetic;
  p.spoilt = {.loses_last_product = planted("k_tail"),
              .beta_zero_reads_c = planted("beta_zero_reads_c"),
              .ignores_beta = planted("beta_ignored"),
              .swallows_nan = planted("nan_swallowed"),
              .flushes = planted("flush_subnormals"),
              .repeats_edge_row = planted("edge_tile"),
              .flips_a_bit = ++products_so_far % 3 == 0 && planted("bit_flip"),
              .overruns = planted("overrun")};
  p.c_format = r.c.format, p.c_row = r.c.row, p.c_column = r.c.column;
  if (r.m == 0 || r.n == 0) return 0;
  int bits = -1;
  for (std::int64_t e = 0; e < r.batch; ++e) {
    p.c = view(device, r, r.c, e, r.m, r.n, "C");
    if (p.c == nullptr) return illegal_address;
    if (!aligned(r, p.c)) return misaligned_address;
    if (r.k > 0) {
      const std::byte *const a = view(device, r, r.a, e, r.m, r.k, "A"), *const b = view(device, r, r.b, e, r.k, r.n, "B");
      if (a == nullptr || b == nullptr) return illegal_address;
      if (!aligned(r, a) || !aligned(r, b)) return misaligned_address;
      p.a = {a, r.a.format, r.a.row, r.a.column}, p.b = {b, r.b.format, r.b.row, r.b.column};
    }
    bits = std::max(bits, cublas::compute(p));
  }
  if (mantissa_bits != nullptr && r.arithmetic.operands == Operands::fixed_point) {
    std::byte* const at = device.memory(mantissa_bits, sizeof bits);
    if (at == nullptr) return illegal_address;
    std::memcpy(at, &bits, sizeof bits);
  }
  return 0;
}

cublasStatus_t submit(Request r) {
  const SimulatedDevice* const device = SimulatedDevice::find();
  const cublasContext& h = *r.handle;
  r.arithmetic.sm = device->sm();
  r.facts.insert({{"routine", r.routine},
                  {"in", std::string(name(r.a.format))},
                  {"out", std::string(name(r.c.format))},
                  {"m", std::to_string(r.m)},
                  {"n", std::to_string(r.n)},
                  {"k", std::to_string(r.k)},
                  {"batch", std::to_string(r.batch)},
                  {"version", std::to_string(version())},
                  {"sm", std::to_string(device->sm())}});
  if (faults().planted("execution_fail", r.facts)) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (faults().planted("silent_tf32", r.facts) && r.a.format == DType::f32 && r.arithmetic.operands == Operands::as_they_are)
    r.arithmetic.operands = Operands::tf32;
  if (faults().planted("f16_sums", r.facts) && size_bytes(r.a.format) == 2) r.arithmetic.sums = Sums::f16;
  Scalar alpha{0, r.alpha}, beta{0, r.beta};
  if (h.pointer_mode == CUBLAS_POINTER_MODE_HOST) {
    if (device->memory(r.alpha, 1) != nullptr || device->memory(r.beta, 1) != nullptr) {
      announce(std::string(r.routine) + ": a scalar is in device memory, the pointer mode says host");
      return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    alpha = Scalar::host(r.alpha, r.arithmetic.scalar), beta = Scalar::host(r.beta, r.arithmetic.scalar);
  }
  const int status =
      device->queue(h.stream, [r, alpha, beta, workspace = h.workspace, bytes = h.workspace_bytes, mantissa = h.mantissa_bits] {
        return run(r, alpha, beta, workspace, bytes, mantissa);
      });
  return status == 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

struct Types {
  cudaDataType a, b, c;
};

/// cuBLAS documentation, cublasGemmEx, table of supported combinations; nothing where it has none, or this double has not.
std::optional<cublas::Arithmetic> arithmetic_of(const Types& t, cublasComputeType_t compute, int math) {
  cublas::Arithmetic a;
  const bool pedantic = (math & 15) == CUBLAS_PEDANTIC_MATH;
  const auto all = [&](cudaDataType x) { return t.a == x && t.b == x && t.c == x; };
  const bool half = t.a == t.b && (t.a == CUDA_R_16F || t.a == CUDA_R_16BF) && (t.c == t.a || t.c == CUDA_R_32F);
  switch (compute) {
    case CUBLAS_COMPUTE_64F_EMULATED_FIXEDPOINT:
      a.operands = Operands::fixed_point;
      [[fallthrough]];
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      a.sums = Sums::f64, a.scalar = DType::f64;
      return all(CUDA_R_64F) ? std::optional(a) : std::nullopt;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
      a.sums = Sums::f64, a.scalar = DType::i32;  // whole numbers below 2^53
      return t.a == CUDA_R_8I && t.b == CUDA_R_8I && t.c == CUDA_R_32I ? std::optional(a) : std::nullopt;
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
      a.sums = Sums::f16, a.scalar = DType::f16;
      return all(CUDA_R_16F) ? std::optional(a) : std::nullopt;
    case CUBLAS_COMPUTE_32F_EMULATED_16BFX9:
      a.operands = Operands::three_bf16;
      return all(CUDA_R_32F) ? std::optional(a) : std::nullopt;
    case CUBLAS_COMPUTE_32F_FAST_TF32:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
      a.operands = compute == CUBLAS_COMPUTE_32F_FAST_TF32  ? Operands::tf32
                   : compute == CUBLAS_COMPUTE_32F_FAST_16F ? Operands::f16
                                                            : Operands::bf16;
      a.sums = Sums::tensor_core;
      return all(CUDA_R_32F) ? std::optional(a) : std::nullopt;
    case CUBLAS_COMPUTE_32F:
      if (half && !pedantic) a.sums = Sums::tensor_core;
      if (all(CUDA_R_32F) && (math & 15) == CUBLAS_TF32_TENSOR_OP_MATH) a.operands = Operands::tf32, a.sums = Sums::tensor_core;
      [[fallthrough]];
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      return half || all(CUDA_R_32F) ? std::optional(a) : std::nullopt;
    default:
      return std::nullopt;
  }
}

bool knows(cublasComputeType_t compute) {
#define ASSAY_SIM_CASE(name, value) \
  if (compute == value) return true;
  ASSAY_CUBLAS_COMPUTE_TYPES(ASSAY_SIM_CASE)
  if (version() >= 120900) {
    ASSAY_CUBLAS_COMPUTE_TYPES_129(ASSAY_SIM_CASE)
  }
  if (version() >= 130100) {
    ASSAY_CUBLAS_COMPUTE_TYPES_131(ASSAY_SIM_CASE)
  }
#undef ASSAY_SIM_CASE
  return false;
}

bool is_operation(cublasOperation_t op) {
  return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == 2;  // 2: conjugate transposed, of real numbers the same as transposed
}

struct Gemm {
  const char* routine;
  cublasContext* handle;
  cublasOperation_t op_a, op_b;
  int m, n, k;
  const void *alpha, *a;
  Types types;
  int lda;
  long long stride_a;
  const void* b;
  int ldb;
  long long stride_b;
  const void *beta, *c;
  int ldc;
  long long stride_c;
  int batch;
  cublasComputeType_t compute;
  cublasGemmAlgo_t algorithm;
  bool arrays;
};

cublasStatus_t gemm(const Gemm& g) {
  if (!known(g.handle)) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool plain_a = g.op_a == CUBLAS_OP_N, plain_b = g.op_b == CUBLAS_OP_N;
  const bool sizes = g.m >= 0 && g.n >= 0 && g.k >= 0 && g.batch >= 0 && g.stride_a >= 0 && g.stride_b >= 0 && g.stride_c >= 0;
  const bool steps =
      g.lda >= std::max(1, plain_a ? g.m : g.k) && g.ldb >= std::max(1, plain_b ? g.k : g.n) && g.ldc >= std::max(1, g.m);
  const bool algorithm = (g.algorithm >= -1 && g.algorithm <= 23) || (g.algorithm >= 99 && g.algorithm <= 115);
  if (!is_operation(g.op_a) || !is_operation(g.op_b) || !sizes || !steps || g.alpha == nullptr || g.beta == nullptr ||
      !knows(g.compute) || !algorithm)
    return CUBLAS_STATUS_INVALID_VALUE;
  // Documented of int8 products alone.
  if ((g.compute == CUBLAS_COMPUTE_32I || g.compute == CUBLAS_COMPUTE_32I_PEDANTIC) && (g.lda % 4 != 0 || g.ldb % 4 != 0))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto arithmetic = arithmetic_of(g.types, g.compute, g.handle->math);
  if (!arithmetic) {
    announce(std::string(g.routine) + " with these types and compute type " + std::to_string(g.compute) +
             " is not supported, or not simulated");
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  Request r{.routine = g.routine,
            .handle = g.handle,
            .m = g.m,
            .n = g.n,
            .k = g.k,
            .batch = g.batch,
            .alpha = g.alpha,
            .beta = g.beta,
            .a = {},
            .b = {},
            .c = {},
            .arithmetic = *arithmetic,
            .facts = {{"compute", std::to_string(g.compute)}}};
  const auto side = [&](const void* at, cudaDataType t, int ld, bool plain, long long stride) {
    return Side{at,    g.arrays ? static_cast<const void* const*>(at) : nullptr, *format_of(t), plain ? 1 : ld, plain ? ld : 1,
                stride};
  };
  r.a = side(g.a, g.types.a, g.lda, plain_a, g.stride_a), r.b = side(g.b, g.types.b, g.ldb, plain_b, g.stride_b);
  r.c = side(g.c, g.types.c, g.ldc, true, g.stride_c);
  r.asks_alignment = g.arrays && (r.arithmetic.sums == Sums::tensor_core || r.arithmetic.operands == Operands::three_bf16 ||
                                  size_bytes(r.a.format) == 2);
  // What a library may do with 16-bit results of long sums, unless it is told not to.
  const bool may_reduce = !(g.handle->math & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
  if (r.arithmetic.sums == Sums::tensor_core && size_bytes(r.c.format) == 2 && g.k >= 64 && may_reduce) r.arithmetic.slices = 2;
  return submit(std::move(r));
}

template <class T>
cublasStatus_t gemv(const char* routine, cublasContext* h, cublasOperation_t op, int m, int n, const T* alpha, const T* a,
                    int lda, const T* x, int incx, const T* beta, T* y, int incy) {
  if (!known(h)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!is_operation(op) || m < 0 || n < 0 || lda < std::max(1, m) || incx == 0 || incy == 0 || alpha == nullptr ||
      beta == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  if (incx < 0 || incy < 0) {
    announce(std::string(routine) + " with a negative increment is not simulated");
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;  // y stays, as in the reference BLAS
  const bool plain = op == CUBLAS_OP_N;
  const DType t = sizeof(T) == 8 ? DType::f64 : DType::f32;
  cublas::Arithmetic arithmetic;
  arithmetic.scalar = t, arithmetic.sums = t == DType::f64 ? Sums::f64 : Sums::f32;
  return submit({.routine = routine,
                 .handle = h,
                 .m = plain ? m : n,
                 .n = 1,
                 .k = plain ? n : m,
                 .batch = 1,
                 .alpha = alpha,
                 .beta = beta,
                 .a = {a, nullptr, t, plain ? 1 : lda, plain ? lda : 1, 0},
                 .b = {x, nullptr, t, incx, 1, 0},
                 .c = {y, nullptr, t, incy, 1, 0},
                 .arithmetic = arithmetic,
                 .facts = {}});
}

/// Sets one thing of a handle.
template <class Set>
cublasStatus_t set(cublasContext* h, bool valid, Set body) {
  if (!known(h)) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!valid) return CUBLAS_STATUS_INVALID_VALUE;
  body();
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

ASSAY_SIM_ENTRY int cublasGetProperty(int which, int* value) {
  if (value == nullptr || which < 0 || which > 2) return CUBLAS_STATUS_INVALID_VALUE;
  *value = which == 0 ? version() / 10000 : which == 1 ? version() / 100 % 100 : version() % 100;
  return CUBLAS_STATUS_SUCCESS;
}
ASSAY_SIM_ENTRY std::size_t cublasGetCudartVersion() {
  return version() >= 130000 ? 13000 : 12000 + static_cast<std::size_t>(version() / 100 % 100) * 10;
}

ASSAY_SIM_ENTRY int cublasCreate_v2(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = nullptr;
  const SimulatedDevice* const device = SimulatedDevice::find();
  if (device == nullptr || device->context() != 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (faults().planted("create_fail", {{"version", std::to_string(version())}, {"sm", std::to_string(device->sm())}}))
    return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext;
  const std::lock_guard lock(handles_mutex());
  handles().insert(*handle);
  return CUBLAS_STATUS_SUCCESS;
}
ASSAY_SIM_ENTRY int cublasDestroy_v2(cublasHandle_t h) {
  const std::lock_guard lock(handles_mutex());
  if (handles().erase(h) == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete h;
  return CUBLAS_STATUS_SUCCESS;
}

ASSAY_SIM_ENTRY int cublasSetStream_v2(cublasHandle_t h, void* stream) {
  // Documented: the workspace goes back to the library's own.
  return set(h, true, [&] { h->stream = stream, h->workspace = nullptr, h->workspace_bytes = 0; });
}
ASSAY_SIM_ENTRY int cublasSetWorkspace_v2(cublasHandle_t h, void* workspace, std::size_t bytes) {
  const bool valid = reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0 && (workspace != nullptr || bytes == 0);
  return set(h, valid, [&] { h->workspace = workspace, h->workspace_bytes = bytes; });
}
ASSAY_SIM_ENTRY int cublasSetPointerMode_v2(cublasHandle_t h, int mode) {
  return set(h, mode == CUBLAS_POINTER_MODE_HOST || mode == CUBLAS_POINTER_MODE_DEVICE, [&] { h->pointer_mode = mode; });
}
ASSAY_SIM_ENTRY int cublasSetMathMode(cublasHandle_t h, int mode) {
  const int base = mode & 15;
  const bool valid =
      (mode & ~31) == 0 && (base <= 3 || (base == 4 && version() >= 120900) || (base == 8 && version() >= 130100));
  return set(h, valid, [&] { h->math = mode; });
}
ASSAY_SIM_ENTRY int cublasSetAtomicsMode(cublasHandle_t h, int mode) {
  return set(h, mode == CUBLAS_ATOMICS_NOT_ALLOWED || mode == CUBLAS_ATOMICS_ALLOWED, [] {});
}
ASSAY_SIM_ENTRY int cublasSetEmulationStrategy(cublasHandle_t h, int strategy) {
  return set(h, strategy >= 0 && strategy <= 2, [] {});
}
ASSAY_SIM_ENTRY int cublasSetFixedPointEmulationMantissaControl(cublasHandle_t h, int control) {
  return set(h, control == CUDA_EMULATION_MANTISSA_CONTROL_DYNAMIC, [] {});  // fixed control is not simulated
}
ASSAY_SIM_ENTRY int cublasSetFixedPointEmulationMantissaBitCountPointer(cublasHandle_t h, int* bits) {
  return set(h, true, [&] { h->mantissa_bits = bits; });
}

ASSAY_SIM_ENTRY int cublasGemmEx(cublasHandle_t h, int op_a, int op_b, int m, int n, int k, const void* alpha, const void* a,
                                 int type_a, int lda, const void* b, int type_b, int ldb, const void* beta, void* c, int type_c,
                                 int ldc, int compute, int algorithm) {
  return gemm({"cublasGemmEx", h, op_a, op_b, m, n,       k,         alpha, a, {type_a, type_b, type_c}, lda, 0, b, ldb, 0,
               beta,           c, ldc,  0,    1, compute, algorithm, false});
}
ASSAY_SIM_ENTRY int cublasGemmStridedBatchedEx(cublasHandle_t h, int op_a, int op_b, int m, int n, int k, const void* alpha,
                                               const void* a, int type_a, int lda, long long stride_a, const void* b,
                                               int type_b, int ldb, long long stride_b, const void* beta, void* c, int type_c,
                                               int ldc, long long stride_c, int batch, int compute, int algorithm) {
  return gemm({"cublasGemmStridedBatchedEx",
               h,
               op_a,
               op_b,
               m,
               n,
               k,
               alpha,
               a,
               {type_a, type_b, type_c},
               lda,
               stride_a,
               b,
               ldb,
               stride_b,
               beta,
               c,
               ldc,
               stride_c,
               batch,
               compute,
               algorithm,
               false});
}
ASSAY_SIM_ENTRY int cublasGemmBatchedEx(cublasHandle_t h, int op_a, int op_b, int m, int n, int k, const void* alpha,
                                        const void* const a[], int type_a, int lda, const void* const b[], int type_b, int ldb,
                                        const void* beta, void* const c[], int type_c, int ldc, int batch, int compute,
                                        int algorithm) {
  return gemm({"cublasGemmBatchedEx",
               h,
               op_a,
               op_b,
               m,
               n,
               k,
               alpha,
               a,
               {type_a, type_b, type_c},
               lda,
               0,
               b,
               ldb,
               0,
               beta,
               c,
               ldc,
               0,
               batch,
               compute,
               algorithm,
               true});
}
ASSAY_SIM_ENTRY int cublasSgemv_v2(cublasHandle_t h, int op, int m, int n, const float* alpha, const float* a, int lda,
                                   const float* x, int incx, const float* beta, float* y, int incy) {
  return gemv("cublasSgemv", h, op, m, n, alpha, a, lda, x, incx, beta, y, incy);
}
ASSAY_SIM_ENTRY int cublasDgemv_v2(cublasHandle_t h, int op, int m, int n, const double* alpha, const double* a, int lda,
                                   const double* x, int incx, const double* beta, double* y, int incy) {
  return gemv("cublasDgemv", h, op, m, n, alpha, a, lda, x, incx, beta, y, incy);
}
