// SPDX-License-Identifier: Apache-2.0
// neighbour_busy: shared memory, barriers and fused multiply-adds for a while. What it computes is checked by nobody.
#include "kernels/neighbour.hpp"
#include "kernels/portable.cuh"

extern "C" __global__ void neighbour_busy(const assay::kernels::NeighbourArgs g) {
  using namespace assay::kernels;
  ASSAY_SHARED(float, shared, neighbour_threads);
  float x = static_cast<float>(threadIdx.x);
  for (int i = 0; i < g.rounds; ++i) {
    shared[threadIdx.x] = x;
    __syncthreads();
    x = fused(shared[(threadIdx.x + 1) % neighbour_threads], 0.5f, x);
    __syncthreads();
  }
  g.scratch[blockIdx.x * neighbour_threads + threadIdx.x] = x;
}
