// SPDX-License-Identifier: Apache-2.0
// Where the tests' stand-in libraries lie (tests/fakes).
#pragma once

#include <string>

namespace assay {
inline std::string fake(const std::string& name) {
  return std::string(ASSAY_BINARY_DIR "/fakes/") + name + ".so";
}
/// Debian's OpenBLAS; tests that need a real library say so and pass when it is not there.
inline const char* const debian_openblas = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0";
}  // namespace assay
