// SPDX-License-Identifier: Apache-2.0
// A libcuda with one device, enough to be described. Every function that is not answered in fake_driver_answers.cpp, and all of
// them in the stub, refuse aloud.
#include "probes/library/cuda_symbols.hpp"

using namespace assay::cuda;

#define FAKE_REFUSE(name, arguments)                         \
  extern "C" __attribute__((weak)) CUresult name arguments { \
    return FAKE_REFUSAL;                                     \
  }
ASSAY_CUDA_SYMBOLS(FAKE_REFUSE)
