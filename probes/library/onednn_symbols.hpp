// SPDX-License-Identifier: Apache-2.0
// The functions of oneDNN that assay calls, declared here and nowhere else: exported names and C signatures of majors 2 and 3.
// Handles are void*, enumerations int, as the C ABI passes them. Where the majors differ the member says which it is for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace assay::onednn {

using Status = int;  // dnnl_status_t
inline constexpr Status success = 0, out_of_memory = 1, invalid_arguments = 2, unimplemented = 3,
                        last_implementation_reached = 4, runtime_error = 5, not_required = 6;

/// dnnl_version_t, the same in both majors.
struct RawVersion {
  int major, minor, patch;
  const char* hash;
  unsigned cpu_runtime, gpu_runtime;
};

/// dnnl_exec_arg_t
struct ExecArgument {
  int argument;
  void* memory;
};

inline constexpr int engine_cpu = 1;
inline constexpr unsigned stream_default = 1;
inline constexpr int scratchpad_user = 1;
inline constexpr int format_any = 1;
inline constexpr int math_strict = 0;
inline constexpr int query_implementation = 8, query_scratchpad = 136, query_source = 129, query_weights = 131,
                     query_destination = 133;
inline constexpr int argument_scratchpad = 80;
inline constexpr int forward_training = 64, forward_inference = 96;
inline constexpr int softmax_accurate = 0x30000, softmax_log = 0x30001, binary_add = 0x1fff0;
inline constexpr int convolution_direct = 1, convolution_auto = 3, deconvolution_direct = 0xa;
/// DNNL_ARG_ATTR_MULTIPLE_POST_OP(0); the next one's is twice as far.
constexpr int post_op_argument(int major, int index) {
  return (major == 2 ? 16384 : 32768) * (index + 1);
}
/// Bits of dnnl_normalization_flags_t.
constexpr unsigned scale_flag(int major) {
  return major == 2 ? 0x8 : 0x2;
}
constexpr unsigned shift_flag(int major) {
  return major == 2 ? 0x10 : 0x4;
}
inline constexpr unsigned rms_flag = 0x20;  // major 3
inline constexpr unsigned runtime_sequential = 1, runtime_openmp = 2, runtime_tbb = 4, runtime_threadpool = 8,
                          runtime_sycl = 0x200;

// Descriptors of major 2 are structures that the caller owns: dnnl_memory_desc_t has 696 bytes, dnnl_matmul_desc_t 2800,
// dnnl_convolution_desc_t 6256 (major 2.6). The library writes them whole, so the room is generous; a test measures what it
// touches.
inline constexpr std::size_t memory_descriptor_room = 2048, operation_descriptor_room = 16384;

// name, return type, arguments
#define ASSAY_ONEDNN_BOTH(X)                                                                                           \
  X(dnnl_version, const RawVersion*, ())                                                                               \
  X(dnnl_get_effective_cpu_isa, int, ())                                                                               \
  X(dnnl_engine_create, Status, (void** engine, int kind, std::size_t index))                                          \
  X(dnnl_engine_destroy, Status, (void*))                                                                              \
  X(dnnl_stream_create, Status, (void** stream, void* engine, unsigned flags))                                         \
  X(dnnl_stream_wait, Status, (void*))                                                                                 \
  X(dnnl_stream_destroy, Status, (void*))                                                                              \
  X(dnnl_memory_create, Status, (void** memory, const void* descriptor, void* engine, void* data))                     \
  X(dnnl_memory_set_data_handle, Status, (void* memory, void* data))                                                   \
  X(dnnl_memory_destroy, Status, (void*))                                                                              \
  X(dnnl_memory_desc_get_size, std::size_t, (const void* descriptor))                                                  \
  X(dnnl_primitive_attr_create, Status, (void**))                                                                      \
  X(dnnl_primitive_attr_destroy, Status, (void*))                                                                      \
  X(dnnl_primitive_attr_set_scratchpad_mode, Status, (void* attributes, int mode))                                     \
  X(dnnl_primitive_attr_set_post_ops, Status, (void* attributes, const void* post_ops))                                \
  X(dnnl_post_ops_create, Status, (void**))                                                                            \
  X(dnnl_post_ops_destroy, Status, (void*))                                                                            \
  X(dnnl_primitive_desc_query, Status, (const void* descriptor, int what, int index, void* result))                    \
  X(dnnl_primitive_desc_query_md, const void*, (const void* descriptor, int what, int index))                          \
  X(dnnl_primitive_desc_destroy, Status, (void*))                                                                      \
  X(dnnl_primitive_create, Status, (void** primitive, const void* descriptor))                                         \
  X(dnnl_primitive_execute, Status, (const void* primitive, void* stream, int count, const ExecArgument* arguments))   \
  X(dnnl_primitive_destroy, Status, (void*))                                                                           \
  X(dnnl_reorder_primitive_desc_create, Status,                                                                        \
    (void** descriptor, const void* from, void* from_engine, const void* to, void* to_engine, const void* attributes)) \
  X(dnnl_post_ops_append_binary, Status, (void* post_ops, int algorithm, const void* descriptor))

#define ASSAY_ONEDNN_2(X)                                                                                                      \
  X(dnnl_memory_desc_init_by_strides, Status,                                                                                  \
    (void* descriptor, int rank, const std::int64_t* dims, int type, const std::int64_t* strides))                             \
  X(dnnl_memory_desc_init_by_tag, Status, (void* descriptor, int rank, const std::int64_t* dims, int type, int tag))           \
  X(dnnl_matmul_desc_init, Status, (void* operation, const void* src, const void* weights, const void* bias, const void* dst)) \
  X(dnnl_primitive_desc_create, Status,                                                                                        \
    (void** descriptor, const void* operation, const void* attributes, void* engine, const void* forward))                     \
  X(dnnl_binary_desc_init, Status, (void* operation, int algorithm, const void* src0, const void* src1, const void* dst))      \
  X(dnnl_eltwise_forward_desc_init, Status,                                                                                    \
    (void* operation, int kind, int algorithm, const void* data, float alpha, float beta))                                     \
  X(dnnl_layer_normalization_forward_desc_init, Status,                                                                        \
    (void* operation, int kind, const void* data, const void* statistics, float epsilon, unsigned flags))                      \
  X(dnnl_dilated_convolution_forward_desc_init, Status,                                                                        \
    (void* operation, int kind, int algorithm, const void* src, const void* weights, const void* bias, const void* dst,        \
     const std::int64_t* strides, const std::int64_t* dilates, const std::int64_t* padding_left,                               \
     const std::int64_t* padding_right))                                                                                       \
  X(dnnl_dilated_deconvolution_forward_desc_init, Status,                                                                      \
    (void* operation, int kind, int algorithm, const void* src, const void* weights, const void* bias, const void* dst,        \
     const std::int64_t* strides, const std::int64_t* dilates, const std::int64_t* padding_left,                               \
     const std::int64_t* padding_right))

// Younger than the major's first release: null where the library has not got it.
#define ASSAY_ONEDNN_2_6(X)                    \
  X(dnnl_softmax_v2_forward_desc_init, Status, \
    (void* operation, int kind, int algorithm, const void* src, const void* dst, int axis))

#define ASSAY_ONEDNN_3(X)                                                                                                 \
  X(dnnl_memory_desc_create_with_strides, Status,                                                                         \
    (void** descriptor, int rank, const std::int64_t* dims, int type, const std::int64_t* strides))                       \
  X(dnnl_memory_desc_create_with_tag, Status, (void** descriptor, int rank, const std::int64_t* dims, int type, int tag)) \
  X(dnnl_memory_desc_destroy, Status, (void*))                                                                            \
  X(dnnl_matmul_primitive_desc_create, Status,                                                                            \
    (void** descriptor, void* engine, const void* src, const void* weights, const void* bias, const void* dst,            \
     const void* attributes))                                                                                             \
  X(dnnl_softmax_forward_primitive_desc_create, Status,                                                                   \
    (void** descriptor, void* engine, int kind, int algorithm, const void* src, const void* dst, int axis,                \
     const void* attributes))                                                                                             \
  X(dnnl_binary_primitive_desc_create, Status,                                                                            \
    (void** descriptor, void* engine, int algorithm, const void* src0, const void* src1, const void* dst,                 \
     const void* attributes))                                                                                             \
  X(dnnl_eltwise_forward_primitive_desc_create, Status,                                                                   \
    (void** descriptor, void* engine, int kind, int algorithm, const void* src, const void* dst, float alpha, float beta, \
     const void* attributes))                                                                                             \
  X(dnnl_layer_normalization_forward_primitive_desc_create, Status,                                                       \
    (void** descriptor, void* engine, int kind, const void* src, const void* dst, const void* statistics, float epsilon,  \
     unsigned flags, const void* attributes))                                                                             \
  X(dnnl_convolution_forward_primitive_desc_create, Status,                                                               \
    (void** descriptor, void* engine, int kind, int algorithm, const void* src, const void* weights, const void* bias,    \
     const void* dst, const std::int64_t* strides, const std::int64_t* dilates, const std::int64_t* padding_left,         \
     const std::int64_t* padding_right, const void* attributes))                                                          \
  X(dnnl_deconvolution_forward_primitive_desc_create, Status,                                                             \
    (void** descriptor, void* engine, int kind, int algorithm, const void* src, const void* weights, const void* bias,    \
     const void* dst, const std::int64_t* strides, const std::int64_t* dilates, const std::int64_t* padding_left,         \
     const std::int64_t* padding_right, const void* attributes))

// Names whose arguments changed with the major: one pointer each, cast at the call.
#define ASSAY_ONEDNN_CHANGED(X)                                                                   \
  X(dnnl_post_ops_append_eltwise) /* 2: (ops, float scale, alg, alpha, beta); 3: without scale */ \
  X(dnnl_post_ops_append_sum)     /* 2: (ops, float scale); 3: (ops, scale, int32 zero point, type) */

/// Every member is set, save those of the other major and the optional ones.
struct Symbols {
  int major = 0;
#define ASSAY_MEMBER(name, result, arguments) result(*name) arguments = nullptr;
  ASSAY_ONEDNN_BOTH(ASSAY_MEMBER)
  ASSAY_ONEDNN_2(ASSAY_MEMBER)
  ASSAY_ONEDNN_3(ASSAY_MEMBER)
  ASSAY_ONEDNN_2_6(ASSAY_MEMBER)
  ASSAY_MEMBER(dnnl_primitive_attr_set_fpmath_mode, Status, (void* attributes, int mode))  // optional: since 2.5
#undef ASSAY_MEMBER
#define ASSAY_MEMBER(name) void* name = nullptr;
  ASSAY_ONEDNN_CHANGED(ASSAY_MEMBER)
#undef ASSAY_MEMBER
};

/// Resolves the table of this major from a dlopen handle. Throws LibraryError naming a missing function.
Symbols resolve(void* handle, int major, const std::string& path);

/// The one place where a status becomes an exception: Refused for unimplemented and invalid arguments, std::runtime_error for
/// the rest.
void check(Status, const char* call);
const char* status_word(Status);

}  // namespace assay::onednn
