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
  const std::pair<int, int> known[] = {
      {1, block_limit},                       // MAX_THREADS_PER_BLOCK
      {2, 1024},                              // MAX_BLOCK_DIM_X
      {3, 1024},                              // MAX_BLOCK_DIM_Y
      {4, 64},                                // MAX_BLOCK_DIM_Z
      {5, 0x7fffffff},                        // MAX_GRID_DIM_X
      {6, 65535},                             // MAX_GRID_DIM_Y
      {7, 65535},                             // MAX_GRID_DIM_Z
      {8, static_cast<int>(shared_default)},  // MAX_SHARED_MEMORY_PER_BLOCK
      {9, 65536},                             // TOTAL_CONSTANT_MEMORY
      {10, 32},                               // WARP_SIZE
      {12, register_limit},                   // MAX_REGISTERS_PER_BLOCK
      {13, 1000000},                          // CLOCK_RATE, kHz
      {15, 1},                                // GPU_OVERLAP
      {16, 8},                                // MULTIPROCESSOR_COUNT
      {17, 0},                                // KERNEL_EXEC_TIMEOUT
      {18, 0},                                // INTEGRATED
      {19, 0},                                // CAN_MAP_HOST_MEMORY
      {20, 0},                                // COMPUTE_MODE
      {31, 1},                                // CONCURRENT_KERNELS
      {32, 0},                                // ECC_ENABLED
      {33, 0},                                // PCI_BUS_ID
      {34, 0},                                // PCI_DEVICE_ID
      {35, 0},                                // TCC_DRIVER
      {36, 1000000},                          // MEMORY_CLOCK_RATE, kHz
      {37, 64},                               // GLOBAL_MEMORY_BUS_WIDTH
      {38, 1 << 20},                          // L2_CACHE_SIZE
      {39, a.threads},                        // MAX_THREADS_PER_MULTIPROCESSOR
      {40, 1},                                // ASYNC_ENGINE_COUNT
      {41, 1},                                // UNIFIED_ADDRESSING
      {50, 0},                                // PCI_DOMAIN_ID
      {75, a.sm / 10},                        // COMPUTE_CAPABILITY_MAJOR
      {76, a.sm % 10},                        // COMPUTE_CAPABILITY_MINOR
      {78, 0},                                // STREAM_PRIORITIES_SUPPORTED
      {81, a.shared_kib << 10},               // MAX_SHARED_MEMORY_PER_MULTIPROCESSOR
      {82, register_limit},                   // MAX_REGISTERS_PER_MULTIPROCESSOR
      {83, 0},                                // MANAGED_MEMORY
      {84, 0},                                // MULTI_GPU_BOARD
      {88, 0},                                // PAGEABLE_MEMORY_ACCESS
      {95, 0},                                // COOPERATIVE_LAUNCH
      {97, a.shared_optin_kib << 10},         // MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
      {106, a.blocks},                        // MAX_BLOCKS_PER_MULTIPROCESSOR
      {111, a.sm >= 80 ? 1024 : 0},           // RESERVED_SHARED_MEMORY_PER_BLOCK
      {115, 0},                               // MEMORY_POOLS_SUPPORTED
      {120, a.sm >= 90},                      // CLUSTER_LAUNCH
      {132, 0},                               // MULTICAST_SUPPORTED
      {133, 0},                               // MPS_ENABLED
  };
  for (const auto& [attribute, value] : known)
    if (attribute == number) return value;
  return std::nullopt;
}

}  // namespace assay::sim
