// SPDX-License-Identifier: Apache-2.0
// Compiles only when what assay declares of cuBLASLt agrees with the header at hand. Part of declarations.cpp.
#pragma once

#include <cublasLt.h>

#include "probes/library/cublaslt_symbols.hpp"

namespace {

#define ASSAY_COMPARE(name, ...) static_assert(same<decltype(&::name), decltype(c::LtFunctions::name)>, #name);
ASSAY_CUBLASLT_FUNCTIONS(ASSAY_COMPARE)
#undef ASSAY_COMPARE

#define ASSAY_COMPARE(name, ...) static_assert(static_cast<long long>(::name) == c::name, #name);
ASSAY_CUBLASLT_DESCRIPTION(ASSAY_COMPARE)
ASSAY_CUBLASLT_LAYOUT(ASSAY_COMPARE)
ASSAY_CUBLASLT_PREFERENCE(ASSAY_COMPARE)
ASSAY_CUBLASLT_CAPABILITIES(ASSAY_COMPARE)
ASSAY_CUBLASLT_CONFIGURATION(ASSAY_COMPARE)
ASSAY_CUBLASLT_VALUES(ASSAY_COMPARE)
#if CUDART_VERSION >= 13000 || CUBLAS_VERSION >= 130000
ASSAY_CUBLASLT_LAYOUT_130(ASSAY_COMPARE)
ASSAY_CUBLASLT_VALUES_130(ASSAY_COMPARE)
#endif
#undef ASSAY_COMPARE

#define ASSAY_COMPARE(name, ...) static_assert(CUBLASLT_NUMERICAL_IMPL_FLAGS_##name == c::lt_flags::name, #name);
ASSAY_CUBLASLT_FLAGS(ASSAY_COMPARE)
#undef ASSAY_COMPARE

static_assert(sizeof(::cublasLtMatmulAlgo_t) == sizeof(c::cublasLtMatmulAlgo_t));
using Theirs = ::cublasLtMatmulHeuristicResult_t;
using Ours = c::cublasLtMatmulHeuristicResult_t;
static_assert(sizeof(Theirs) == sizeof(Ours) && offsetof(Theirs, workspaceSize) == offsetof(Ours, workspaceSize));
static_assert(offsetof(Theirs, state) == offsetof(Ours, state) && offsetof(Theirs, wavesCount) == offsetof(Ours, wavesCount));

}  // namespace
