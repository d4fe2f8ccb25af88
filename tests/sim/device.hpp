// SPDX-License-Identifier: Apache-2.0
// What the simulated device says about itself: limits of the architecture asked for, made-up sizes of a small machine.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

namespace assay::sim {

inline constexpr const char* device_name = "Assay simulated device";
inline constexpr int block_limit = 1024, register_limit = 65536;
inline constexpr std::size_t shared_default = 48 << 10;  // bytes a block gets without cuFuncSetAttribute

/// CUDA C++ Programming Guide, "Compute Capabilities": KiB of shared memory, threads and blocks of a multiprocessor, KiB of
/// shared memory that one block may ask for.
struct Architecture {
  int sm, shared_kib, shared_optin_kib, threads, blocks;
  std::size_t shared_optin_bytes() const { return static_cast<std::size_t>(shared_optin_kib) << 10; }
};
/// Throws std::invalid_argument when it is not listed.
const Architecture& architecture(int sm);

/// The newest PTX version (major, minor) that a driver of this number reads: PTX ISA, "Release History". Throws
/// std::invalid_argument for a number that no driver has.
std::pair<int, int> newest_ptx(int driver);

/// CU_DEVICE_ATTRIBUTE_* by number; nothing for one that the simulated device has no answer to.
std::optional<int> attribute(int number, const Architecture&);

}  // namespace assay::sim
