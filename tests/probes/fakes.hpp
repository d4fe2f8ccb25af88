// SPDX-License-Identifier: Apache-2.0
// What the tests of libraries share: where the stand-in libraries lie (tests/fakes), and how a refusal is read.
#pragma once

#include <dlfcn.h>

#include <cmath>
#include <functional>
#include <string>

#include "probes/library/library.hpp"

namespace assay {

inline std::string fake(const std::string& name) {
  return std::string(ASSAY_BINARY_DIR "/fakes/") + name + ".so";
}

/// Debian's OpenBLAS; tests that need a real library say so and pass when it is not there.
inline const char* const debian_openblas = "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0";

/// A real library that is no BLAS, wherever this system keeps it.
inline std::string system_libm() {
  Dl_info info{};
  ::dladdr(::dlsym(RTLD_DEFAULT, "cbrt"), &info);
  return info.dli_fname;
}

/// The message of the LibraryError that f throws; "" when it throws none.
inline std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const LibraryError& e) {
    return e.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace assay
