// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/device.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace assay::sim {
namespace {

constexpr Architecture architectures[] = {
    {75, 64, 64, 1024, 16},    {80, 164, 163, 2048, 32}, {86, 100, 99, 1536, 16},   {87, 164, 163, 1536, 16},
    {89, 100, 99, 1536, 24},   {90, 228, 227, 2048, 32}, {100, 228, 227, 2048, 32}, {103, 228, 227, 2048, 32},
    {110, 228, 227, 1536, 24}, {120, 100, 99, 1536, 24}, {121, 100, 99, 1536, 24},
};

struct Release {
  int driver;
  std::pair<int, int> ptx;
};
constexpr Release releases[] = {
    {11080, {7, 8}}, {12000, {8, 0}}, {12010, {8, 1}}, {12020, {8, 2}}, {12030, {8, 3}}, {12040, {8, 4}},
    {12050, {8, 5}}, {12060, {8, 5}}, {12080, {8, 7}}, {12090, {8, 8}}, {13000, {9, 0}},
};

}  // namespace

const Architecture& architecture(int sm) {
  for (const Architecture& a : architectures)
    if (a.sm == sm) return a;
  throw std::invalid_argument(fmt::format("no limits are known of sm_{}; add it to tests/sim/device.cpp", sm));
}

std::pair<int, int> newest_ptx(int driver) {
  for (const Release& r : releases)
    if (r.driver == driver) return r.ptx;
  throw std::invalid_argument(fmt::format("no driver version {} is known; expected one like 12080 or 13000", driver));
}

std::optional<int> attribute(int number, const Architecture& a) {
  switch (number) {
    case 1:
      return block_limit;  // MAX_THREADS_PER_BLOCK
    case 2:
      return 1024;  // MAX_BLOCK_DIM_X
    case 3:
      return 1024;  // MAX_BLOCK_DIM_Y
    case 4:
      return 64;  // MAX_BLOCK_DIM_Z
    case 5:
      return 0x7fffffff;  // MAX_GRID_DIM_X
    case 6:
      return 65535;  // MAX_GRID_DIM_Y
    case 7:
      return 65535;  // MAX_GRID_DIM_Z
    case 8:
      return shared_default;  // MAX_SHARED_MEMORY_PER_BLOCK
    case 9:
      return 65536;  // TOTAL_CONSTANT_MEMORY
    case 10:
      return 32;  // WARP_SIZE
    case 12:
      return register_limit;  // MAX_REGISTERS_PER_BLOCK
    case 13:
      return 1000000;  // CLOCK_RATE, kHz
    case 15:
      return 1;  // GPU_OVERLAP
    case 16:
      return 8;  // MULTIPROCESSOR_COUNT
    case 17:
      return 0;  // KERNEL_EXEC_TIMEOUT
    case 18:
      return 0;  // INTEGRATED
    case 19:
      return 0;  // CAN_MAP_HOST_MEMORY
    case 20:
      return 0;  // COMPUTE_MODE
    case 31:
      return 1;  // CONCURRENT_KERNELS
    case 32:
      return 0;  // ECC_ENABLED
    case 33:
      return 0;  // PCI_BUS_ID
    case 34:
      return 0;  // PCI_DEVICE_ID
    case 35:
      return 0;  // TCC_DRIVER
    case 36:
      return 1000000;  // MEMORY_CLOCK_RATE, kHz
    case 37:
      return 64;  // GLOBAL_MEMORY_BUS_WIDTH
    case 38:
      return 1 << 20;  // L2_CACHE_SIZE
    case 39:
      return a.threads;  // MAX_THREADS_PER_MULTIPROCESSOR
    case 40:
      return 1;  // ASYNC_ENGINE_COUNT
    case 41:
      return 1;  // UNIFIED_ADDRESSING
    case 50:
      return 0;  // PCI_DOMAIN_ID
    case 75:
      return a.sm / 10;  // COMPUTE_CAPABILITY_MAJOR
    case 76:
      return a.sm % 10;  // COMPUTE_CAPABILITY_MINOR
    case 78:
      return 0;  // STREAM_PRIORITIES_SUPPORTED
    case 81:
      return a.shared_kib << 10;  // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
    case 82:
      return register_limit;  // MAX_REGISTERS_PER_MULTIPROCESSOR
    case 83:
      return 0;  // MANAGED_MEMORY
    case 84:
      return 0;  // MULTI_GPU_BOARD
    case 88:
      return 0;  // PAGEABLE_MEMORY_ACCESS
    case 95:
      return 0;  // COOPERATIVE_LAUNCH
    case 97:
      return a.shared_optin_kib << 10;  // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    case 106:
      return a.blocks;  // MAX_BLOCKS_PER_MULTIPROCESSOR
    case 111:
      return a.sm >= 80 ? 1024 : 0;  // RESERVED_SHARED_MEMORY_PER_BLOCK
    case 115:
      return 0;  // MEMORY_POOLS_SUPPORTED
    case 120:
      return a.sm >= 90;  // CLUSTER_LAUNCH
    case 132:
      return 0;  // MULTICAST_SUPPORTED
    case 133:
      return 0;  // MPS_ENABLED
    default:
      return std::nullopt;
  }
}

}  // namespace assay::sim
