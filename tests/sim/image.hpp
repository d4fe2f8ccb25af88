// SPDX-License-Identifier: Apache-2.0
// What a module image says: PTX text or a cubin, read as a driver would to decide whether it can be loaded.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>

namespace assay::sim {

struct Entry {
  std::size_t parameter_bytes = 0, static_shared_bytes = 0;
  int registers = 0;  // of a thread; 0: the image does not say (PTX is not compiled)
  int threads = 0;    // the most of a block that it was compiled for; 0: any
};

struct Image {
  std::string build;  // "ptx" or "cubin"
  int sm = 0;         // compute capability times ten of the target
  std::map<std::string, Entry> entries;
};

/// PTX for a device `sm` under a driver that reads up to `newest`. Refuses with INVALID_PTX (no PTX; a target that is newer or
/// of another family) or UNSUPPORTED_PTX_VERSION; what() is the compiler's message.
Image read_ptx(std::string_view text, int sm, std::pair<int, int> newest);

/// A cubin (ELF, e_machine 190). The SM is in e_flags: bits 0-7 in ABI version 7 (CUDA 12, targets below sm_100), bits 8-15 in
/// version 8. Refuses with INVALID_IMAGE or, when the device does not run that SM, NO_BINARY_FOR_GPU.
Image read_cubin(const std::byte* bytes, int sm);

/// By its first bytes. Refuses a fat binary with NOT_SUPPORTED.
Image read_image(const void* image, int sm, std::pair<int, int> newest);

}  // namespace assay::sim
