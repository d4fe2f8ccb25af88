// SPDX-License-Identifier: Apache-2.0
// Compiles only when what assay declares of the driver, NVRTC, NVML, cuBLAS and cuDNN agrees with the headers at hand.
#define __CUDA_API_VERSION_INTERNAL  // the exported names themselves, not the macros that rename them
#include <cuda.h>
#include <nvrtc.h>

#include <type_traits>

#include "probes/library/cublas.hpp"
#include "probes/library/cuda_libraries.hpp"
#include "probes/library/cuda_symbols.hpp"
#include "probes/library/nvml.hpp"
#include "probes/library/nvrtc.hpp"

namespace {

// What the C ABI sees: every pointer alike, every enumeration an int.
template <class T>
using Plain = std::conditional_t<std::is_pointer_v<T>, const void*, std::conditional_t<std::is_enum_v<T>, int, T>>;
template <class F>
struct Shape;
template <class R, class... A>
struct Shape<R (*)(A...)> {
  using type = Plain<R>(Plain<A>...);
};
template <class Theirs, class Ours>
constexpr bool same = std::is_same_v<typename Shape<Theirs>::type, typename Shape<Ours>::type>;

namespace c = assay::cuda;

#define ASSAY_COMPARE(name, ...) static_assert(same<decltype(&::name), decltype(c::Functions::name)>, #name);
ASSAY_CUDA_SYMBOLS(ASSAY_COMPARE)
ASSAY_CUDA_OPTIONAL(ASSAY_COMPARE)
#undef ASSAY_COMPARE
static_assert(sizeof(CUdeviceptr) == sizeof(c::CUdeviceptr) && sizeof(CUdevice) == sizeof(c::CUdevice));

#define ASSAY_COMPARE(name) static_assert(::name == c::name, #name);
ASSAY_COMPARE(CUDA_SUCCESS)
ASSAY_COMPARE(CUDA_ERROR_OUT_OF_MEMORY)
ASSAY_COMPARE(CUDA_ERROR_STUB_LIBRARY)
ASSAY_COMPARE(CUDA_ERROR_NO_DEVICE)
ASSAY_COMPARE(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
ASSAY_COMPARE(CU_DEVICE_ATTRIBUTE_ECC_ENABLED)
ASSAY_COMPARE(CU_DEVICE_ATTRIBUTE_CLOCK_RATE)
ASSAY_COMPARE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
ASSAY_COMPARE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
ASSAY_COMPARE(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)
ASSAY_COMPARE(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
ASSAY_COMPARE(CU_JIT_ERROR_LOG_BUFFER)
ASSAY_COMPARE(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
ASSAY_COMPARE(CU_JIT_OPTIMIZATION_LEVEL)
ASSAY_COMPARE(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)
ASSAY_COMPARE(CU_STREAM_NON_BLOCKING)
ASSAY_COMPARE(CU_EVENT_DISABLE_TIMING)
ASSAY_COMPARE(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
#undef ASSAY_COMPARE
// cuda::Error::sticky names these by number.
static_assert(CUDA_ERROR_ECC_UNCORRECTABLE == 214 && CUDA_ERROR_NVLINK_UNCORRECTABLE == 220 && CUDA_ERROR_CONTAINED == 226);
static_assert(CUDA_ERROR_ILLEGAL_ADDRESS == 700 && CUDA_ERROR_LAUNCH_TIMEOUT == 702 && CUDA_ERROR_ASSERT == 710);
static_assert(CUDA_ERROR_HARDWARE_STACK_ERROR == 714 && CUDA_ERROR_ILLEGAL_INSTRUCTION == 715);
static_assert(CUDA_ERROR_MISALIGNED_ADDRESS == 716 && CUDA_ERROR_INVALID_ADDRESS_SPACE == 717);
static_assert(CUDA_ERROR_INVALID_PC == 718 && CUDA_ERROR_LAUNCH_FAILED == 719);

#define ASSAY_COMPARE(name, ...) static_assert(same<decltype(&::name), decltype(assay::nvrtc::Functions::name)>, #name);
ASSAY_NVRTC_SYMBOLS(ASSAY_COMPARE)
ASSAY_COMPARE(nvrtcGetErrorString)
#undef ASSAY_COMPARE
static_assert(NVRTC_SUCCESS == 0);

}  // namespace

#ifdef HAVE_NVML  // check.sh says which headers the compared set has
#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>
namespace {
namespace n = assay::nvml;
#define ASSAY_COMPARE(name, ...) static_assert(same<decltype(&::name), decltype(n::Functions::name)>, #name);
ASSAY_NVML_SYMBOLS(ASSAY_COMPARE)
ASSAY_NVML_OPTIONAL(ASSAY_COMPARE)
ASSAY_COMPARE(nvmlErrorString)
#undef ASSAY_COMPARE
#define ASSAY_COMPARE(name) static_assert(static_cast<int>(::name) == n::name, #name);
ASSAY_COMPARE(NVML_SUCCESS)
ASSAY_COMPARE(NVML_ERROR_NOT_SUPPORTED)
ASSAY_COMPARE(NVML_CLOCK_SM)
ASSAY_COMPARE(NVML_CLOCK_MEM)
ASSAY_COMPARE(NVML_TEMPERATURE_GPU)
ASSAY_COMPARE(NVML_MEMORY_ERROR_TYPE_CORRECTED)
ASSAY_COMPARE(NVML_MEMORY_ERROR_TYPE_UNCORRECTED)
ASSAY_COMPARE(NVML_VOLATILE_ECC)
#undef ASSAY_COMPARE
static_assert(nvmlClocksThrottleReasonSwPowerCap == 0x004 && nvmlClocksThrottleReasonHwThermalSlowdown == 0x040);
static_assert(NVML_FEATURE_DISABLED == 0 && NVML_DEVICE_MIG_DISABLE == 0);
}  // namespace
#endif

#ifdef HAVE_CUBLAS
#include <cublasLt.h>
#include <cublas_v2.h>

#include "tests/cuda_headers/cublaslt.hpp"
#define ASSAY_COMPARE(name, ...) static_assert(same<decltype(&::name), decltype(c::LibraryFunctions::name)>, #name);
ASSAY_CUBLASLT_SYMBOLS(ASSAY_COMPARE)
ASSAY_CUBLAS_SYMBOLS(ASSAY_COMPARE)
static_assert(MAJOR_VERSION == 0 && MINOR_VERSION == 1 && PATCH_LEVEL == 2);
#undef ASSAY_COMPARE

#define ASSAY_COMPARE(name, ...) static_assert(same<decltype(&::name), decltype(c::CublasFunctions::name)>, #name);
ASSAY_CUBLAS_FUNCTIONS(ASSAY_COMPARE)
#if CUBLAS_VERSION >= 130100
ASSAY_CUBLAS_EMULATION_131_FUNCTIONS(ASSAY_COMPARE)
#endif
#undef ASSAY_COMPARE
// Of an overloaded name the function that the library exports; the others, for older callers, take a cudaDataType at the end.
using Op = cublasOperation_t;
using GemmEx = cublasStatus_t (*)(cublasHandle_t, Op, Op, int, int, int, const void*, const void*, cudaDataType, int,
                                  const void*, cudaDataType, int, const void*, void*, cudaDataType, int, cublasComputeType_t,
                                  cublasGemmAlgo_t);
using GemmStridedBatchedEx = cublasStatus_t (*)(cublasHandle_t, Op, Op, int, int, int, const void*, const void*, cudaDataType,
                                                int, long long, const void*, cudaDataType, int, long long, const void*, void*,
                                                cudaDataType, int, long long, int, cublasComputeType_t, cublasGemmAlgo_t);
using GemmBatchedEx = cublasStatus_t (*)(cublasHandle_t, Op, Op, int, int, int, const void*, const void* const[], cudaDataType,
                                         int, const void* const[], cudaDataType, int, const void*, void* const[], cudaDataType,
                                         int, int, cublasComputeType_t, cublasGemmAlgo_t);
#define ASSAY_COMPARE(name, type)                                                              \
  static_assert(static_cast<type>(&::name) != nullptr, #name " is exported with these types"); \
  static_assert(same<type, decltype(c::CublasFunctions::name)>, #name);
ASSAY_COMPARE(cublasGemmEx, GemmEx)
ASSAY_COMPARE(cublasGemmStridedBatchedEx, GemmStridedBatchedEx)
ASSAY_COMPARE(cublasGemmBatchedEx, GemmBatchedEx)
#if CUBLAS_VERSION >= 120900
using SetStrategy = cublasStatus_t (*)(cublasHandle_t, cublasEmulationStrategy_t);
ASSAY_COMPARE(cublasSetEmulationStrategy, SetStrategy)
#endif
#undef ASSAY_COMPARE

#define ASSAY_COMPARE(name, ...) static_assert(static_cast<int>(::name) == c::name, #name);
ASSAY_CUBLAS_STATUSES(ASSAY_COMPARE)
ASSAY_CUBLAS_OPERATIONS(ASSAY_COMPARE)
ASSAY_CUDA_DATA_TYPES(ASSAY_COMPARE)
ASSAY_CUBLAS_COMPUTE_TYPES(ASSAY_COMPARE)
ASSAY_CUBLAS_MATH_MODES(ASSAY_COMPARE)
ASSAY_CUBLAS_MODES(ASSAY_COMPARE)
#if CUBLAS_VERSION >= 120900
ASSAY_CUBLAS_COMPUTE_TYPES_129(ASSAY_COMPARE)
ASSAY_CUBLAS_MATH_MODES_129(ASSAY_COMPARE)
ASSAY_CUBLAS_EMULATION_129(ASSAY_COMPARE)
#endif
#if CUBLAS_VERSION >= 130100
ASSAY_CUBLAS_COMPUTE_TYPES_131(ASSAY_COMPARE)
ASSAY_CUBLAS_MATH_MODES_131(ASSAY_COMPARE)
ASSAY_CUDA_EMULATION_131(ASSAY_COMPARE)
#endif
#undef ASSAY_COMPARE
#ifdef HAVE_CUDNN
#define ASSAY_COMPARE(name, ...) static_assert(same<decltype(&::name), decltype(c::LibraryFunctions::name)>, #name);
#include <cudnn.h>
ASSAY_CUDNN_SYMBOLS(ASSAY_COMPARE)
ASSAY_COMPARE(cudnnGetMaxDeviceVersion)
#endif
#endif
