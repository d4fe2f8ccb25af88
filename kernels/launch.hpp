// SPDX-License-Identifier: Apache-2.0
// What a kernel is, as plain data: read by the host, by NVRTC and by the emulator, so nothing is included here.
#pragma once

namespace assay::kernels {

/// Grid and block in units of blocks and threads; dynamic shared memory in bytes (static arrays are in the code).
struct Launch {
  unsigned grid_x = 1, grid_y = 1, grid_z = 1;
  unsigned block_x = 1, block_y = 1, block_z = 1;
  unsigned shared_bytes = 0;
};

/// One version of an op's kernel. The entry of format F is named OP_NAME_F ("softmax_online_bf16"); each takes the op's Args by
/// value as its only parameter.
struct Version {
  const char* name;
  const char* order;    // in which order it sums
  const char* formats;  // storage formats it exists for, separated by blanks
  int lowest_sm = 0;    // 80: needs sm_80
};

constexpr unsigned ceil_div(long long a, long long b) {
  return static_cast<unsigned>((a + b - 1) / b);
}

}  // namespace assay::kernels
