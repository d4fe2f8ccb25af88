// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/image.hpp"

#include <cstring>

#include "tests/sim/status.hpp"

namespace assay::sim {

Image read_image(const void* image, int sm, std::pair<int, int> newest) {
  constexpr unsigned fat_binary = 0xBA55ED50;
  const auto* const bytes = static_cast<const char*>(image);
  if (std::strncmp(bytes,
                   "\x7f"
                   "ELF",
                   4) == 0)
    return read_cubin(static_cast<const std::byte*>(image), sm);
  if (std::strncmp(bytes, reinterpret_cast<const char*>(&fat_binary), 4) == 0)
    throw Refusal(ERROR_NOT_SUPPORTED, "a fat binary; the simulated device reads PTX text and cubins");
  return read_ptx(bytes, sm, newest);
}

}  // namespace assay::sim
