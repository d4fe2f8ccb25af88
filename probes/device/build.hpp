// SPDX-License-Identifier: Apache-2.0
// The compiler axis: one kernel source made into an image in several ways.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace assay::device {

enum class Maker : std::uint8_t {
  nvrtc_cubin,  // NVRTC, whichever file is loaded, down to machine code
  nvrtc_ptx,    // NVRTC to PTX, the driver does the rest
  nvrtc_ptxas,  // NVRTC to PTX, a given ptxas does the rest
  nvcc_cubin,   // a given nvcc
};

/// "nvrtc-cubin", "nvrtc-ptx-O0", "nvrtc-ptxas-fast", "nvcc-cubin-lower": words joined by '-'.
struct Build {
  Maker maker = Maker::nvrtc_cubin;
  int level = 3;       // -O0 ... -O3 of the part that makes machine code
  bool fast = false;   // --use_fast_math: a declared arithmetic of its own
  bool lower = false;  // for the lowest architecture of the device's family, which the device must run as well
};
/// Throws std::invalid_argument: one sentence with what is expected.
Build parse_build(std::string_view);
std::string name(const Build&);
/// Files that make it, by role: nvrtc, ptxas, nvcc.
std::vector<std::string_view> roles(const Build&);
/// One of each that the files at hand allow, most telling first.
std::vector<Build> all_builds(const std::map<std::string, std::string>& set);

struct Image {
  std::vector<char> bytes;
  bool ptx = false;      // text, to be compiled by the driver
  int sm = 0;            // what it was made for
  std::string compiler;  // "NVRTC 13.0 (PTX), ptxas 12.8.93"
  std::string digest;    // SHA-256 of bytes, 16 digits
  std::string ptx_digest;
};

/// Compiles `file` ("kernels/softmax.cu") for a device. `set`: files by role (nvrtc, ptxas, nvcc). Throws LibraryError when a
/// role is missing or NVRTC refuses source or architecture, CompileError when ptxas or nvcc does, with the compiler's own
/// words.
Image make_image(const Build&, const std::string& file, int sm, const std::map<std::string, std::string>& set);

/// A compiler that refuses our source.
struct CompileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace assay::device
