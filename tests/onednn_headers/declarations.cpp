// SPDX-License-Identifier: Apache-2.0
// Compiles only when what assay declares of oneDNN agrees with the library's own headers: arguments, numbers, sizes.
#include <oneapi/dnnl/dnnl.h>

#include <cstddef>
#include <type_traits>

#include "probes/library/onednn_symbols.hpp"

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

using assay::onednn::ExecArgument;
using assay::onednn::RawVersion;
using assay::onednn::Symbols;
namespace o = assay::onednn;

#define ASSAY_COMPARE(name, ...) static_assert(same<decltype(&::name), decltype(Symbols::name)>, #name);
ASSAY_ONEDNN_BOTH(ASSAY_COMPARE)
ASSAY_COMPARE(dnnl_primitive_attr_set_fpmath_mode)
#if DNNL_VERSION_MAJOR == 2
ASSAY_ONEDNN_2(ASSAY_COMPARE)
#if DNNL_VERSION_MINOR >= 6
ASSAY_ONEDNN_2_6(ASSAY_COMPARE)
static_assert(dnnl_softmax_accurate == o::softmax_accurate && dnnl_softmax_log == o::softmax_log);
#endif
static_assert(same<decltype(&dnnl_post_ops_append_sum), int (*)(void*, float)>);
static_assert(same<decltype(&dnnl_post_ops_append_eltwise), int (*)(void*, float, int, float, float)>);
static_assert(sizeof(dnnl_memory_desc_t) <= o::memory_descriptor_room &&
              sizeof(dnnl_matmul_desc_t) <= o::operation_descriptor_room);
static_assert(sizeof(dnnl_convolution_desc_t) <= o::operation_descriptor_room &&
              sizeof(dnnl_layer_normalization_desc_t) <= o::operation_descriptor_room &&
              sizeof(dnnl_eltwise_desc_t) <= o::operation_descriptor_room &&
              sizeof(dnnl_softmax_desc_t) <= o::operation_descriptor_room);
static_assert(dnnl_eltwise_relu == 0x1f && dnnl_eltwise_linear == 0x7f && dnnl_eltwise_gelu_erf == 0x30 &&
              dnnl_eltwise_gelu_tanh == 0xcf && dnnl_eltwise_swish == 0xdf);
static_assert(dnnl_cpu_isa_avx2_vnni == 0x407 && dnnl_cpu_isa_avx512_core_amx == 0x3e7);
#else
ASSAY_ONEDNN_3(ASSAY_COMPARE)
static_assert(same<decltype(&dnnl_post_ops_append_sum), int (*)(void*, float, std::int32_t, int)>);
static_assert(same<decltype(&dnnl_post_ops_append_eltwise), int (*)(void*, int, float, float)>);
static_assert(dnnl_eltwise_relu == 0x20 && dnnl_eltwise_linear == 0x26 && dnnl_eltwise_gelu_erf == 0x31 &&
              dnnl_eltwise_gelu_tanh == 0x2b && dnnl_eltwise_swish == 0x2c);
static_assert(dnnl_softmax_accurate == o::softmax_accurate && dnnl_softmax_log == o::softmax_log);
#if DNNL_VERSION_MINOR >= 9
static_assert(dnnl_rms_norm == o::rms_flag);
#endif
static_assert(dnnl_f64 == 7 && dnnl_cpu_isa_avx2_vnni == 0xf && dnnl_cpu_isa_avx2_vnni_2 == 0x1f);
static_assert(dnnl_cpu_isa_avx512_core_fp16 == 0x1ef && dnnl_cpu_isa_avx512_core_amx == 0xfef &&
              dnnl_cpu_isa_avx512_core_amx_fp16 == 0x1fef);
#endif

static_assert(sizeof(dnnl_version_t) == sizeof(RawVersion) && offsetof(dnnl_version_t, hash) == offsetof(RawVersion, hash));
static_assert(offsetof(dnnl_version_t, cpu_runtime) == offsetof(RawVersion, cpu_runtime));
static_assert(sizeof(dnnl_exec_arg_t) == sizeof(ExecArgument) &&
              offsetof(dnnl_exec_arg_t, memory) == offsetof(ExecArgument, memory));
static_assert(dnnl_success == o::success && dnnl_out_of_memory == o::out_of_memory &&
              dnnl_invalid_arguments == o::invalid_arguments);
static_assert(dnnl_unimplemented == o::unimplemented && dnnl_runtime_error == o::runtime_error &&
              dnnl_not_required == o::not_required);
static_assert(dnnl_f16 == 1 && dnnl_bf16 == 2 && dnnl_f32 == 3 && dnnl_data_type_undef == 0);
static_assert(dnnl_cpu == o::engine_cpu && dnnl_stream_default_flags == o::stream_default &&
              dnnl_scratchpad_mode_user == o::scratchpad_user);
static_assert(dnnl_format_tag_any == o::format_any && dnnl_fpmath_mode_strict == o::math_strict);
static_assert(dnnl_query_impl_info_str == o::query_implementation && dnnl_query_scratchpad_md == o::query_scratchpad);
static_assert(dnnl_query_weights_md == o::query_weights && dnnl_query_src_md == o::query_source &&
              dnnl_query_dst_md == o::query_destination);
static_assert(dnnl_forward_training == o::forward_training && dnnl_forward_inference == o::forward_inference);
static_assert(dnnl_convolution_direct == o::convolution_direct && dnnl_convolution_auto == o::convolution_auto &&
              dnnl_deconvolution_direct == o::deconvolution_direct && dnnl_binary_add == o::binary_add);
static_assert(dnnl_use_scale == o::scale_flag(DNNL_VERSION_MAJOR) && dnnl_use_shift == o::shift_flag(DNNL_VERSION_MAJOR));
static_assert(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) == o::post_op_argument(DNNL_VERSION_MAJOR, 0) &&
              DNNL_ARG_ATTR_MULTIPLE_POST_OP(2) == o::post_op_argument(DNNL_VERSION_MAJOR, 2));
static_assert(DNNL_ARG_SRC_1 == 2 && DNNL_ARG_MEAN == 49 && DNNL_ARG_VARIANCE == 50 && DNNL_ARG_SCALE == 51 &&
              DNNL_ARG_SHIFT == 52);
static_assert(DNNL_ARG_SRC == 1 && DNNL_ARG_DST == 17 && DNNL_ARG_WEIGHTS == 33 && DNNL_ARG_BIAS == 41 &&
              DNNL_ARG_SCRATCHPAD == o::argument_scratchpad);
static_assert(DNNL_RUNTIME_SEQ == o::runtime_sequential && DNNL_RUNTIME_OMP == o::runtime_openmp &&
              DNNL_RUNTIME_TBB == o::runtime_tbb);
static_assert(DNNL_RUNTIME_THREADPOOL == o::runtime_threadpool && DNNL_RUNTIME_SYCL == o::runtime_sycl);
static_assert(dnnl_cpu_isa_sse41 == 1 && dnnl_cpu_isa_avx == 3 && dnnl_cpu_isa_avx2 == 7 && dnnl_cpu_isa_avx512_core == 0x27);
static_assert(dnnl_cpu_isa_avx512_core_vnni == 0x67 && dnnl_cpu_isa_avx512_core_bf16 == 0xe7);

}  // namespace
