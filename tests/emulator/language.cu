// SPDX-License-Identifier: Apache-2.0
// Kernels that test the emulator itself: what CUDA defines, and what it leaves undefined.
#include "kernels/portable.cuh"
#include "tests/emulator/language.hpp"

namespace assay::emulator {

constexpr unsigned all = 0xffffffffu;

/// out[thread] = where it is, as one number.
__device__ inline void write_position(const LanguageArgs& g) {
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  g.out[block * blockDim.x * blockDim.y * blockDim.z + thread] =
      threadIdx.x + 100 * threadIdx.y + 10000 * threadIdx.z + 1000000ll * (blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z);
}

/// 12 results a lane.
template <class T>
__device__ void shuffles(long long* out) {
  const T mine = static_cast<T>(3 * threadIdx.x + 1);
  const int lane = static_cast<int>(threadIdx.x);
  const T got[12] = {__shfl_sync(all, mine, 5),          __shfl_sync(all, mine, lane + 1),  __shfl_sync(all, mine, 3, 8),
                     __shfl_up_sync(all, mine, 1),       __shfl_up_sync(all, mine, 3, 16),  __shfl_down_sync(all, mine, 1),
                     __shfl_down_sync(all, mine, 16),    __shfl_down_sync(all, mine, 5, 8), __shfl_xor_sync(all, mine, 1),
                     __shfl_xor_sync(all, mine, 16, 32), __shfl_xor_sync(all, mine, 12, 8), __shfl_xor_sync(all, mine, 31)};
  for (int i = 0; i < 12; ++i) out[lane * 12 + i] = static_cast<long long>(got[i]);
}

__device__ inline void votes(long long* out) {
  const unsigned lane = threadIdx.x, half = lane < 16 ? 0xffffu : 0xffff0000u;
  const long long got[14] = {__ballot_sync(all, lane % 3 == 0),
                             __ballot_sync(half, lane % 5 == 0),
                             __any_sync(all, lane == 31),
                             __any_sync(half, lane == 31),
                             __all_sync(all, lane < 32),
                             __all_sync(half, lane < 16),
                             __match_any_sync(all, static_cast<int>(lane % 4)),
                             __match_any_sync(half, 1.5f),
                             __reduce_add_sync(all, lane),
                             __reduce_add_sync(half, -static_cast<int>(lane)),
                             __reduce_min_sync(all, -static_cast<int>(lane)),
                             __reduce_max_sync(half, lane),
                             __reduce_xor_sync(all, 1u << lane),
                             __reduce_and_sync(all, ~(1u << lane))};
  for (int i = 0; i < 14; ++i) out[lane * 14 + i] = got[i];
}

__device__ inline void atomics(const LanguageArgs& g) {
  const unsigned id = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(&g.counters[0], id);
  atomicMax(&g.counters[1], id * 7919u % 1009u);
  atomicMin(&g.counters[2], id * 7919u % 1009u + 3u);
  for (unsigned seen = 0, expected = 0;; expected = seen) {  // addition by compare and swap
    seen = atomicCAS(&g.counters[3], expected, expected + 2u);
    if (seen == expected) break;
  }
  g.out[id] = atomicExch(&g.counters[4], id);
  atomicAdd(&g.y[0], 0.5f);
}

__device__ inline void barriers(const LanguageArgs& g) {
  ASSAY_SHARED(unsigned, seen, 96);
  const unsigned t = threadIdx.x;
  seen[t] = t;
  const int count = __syncthreads_count(seen[t] % 2 == 0);
  const int any = __syncthreads_or(t == 95), none = __syncthreads_or(0);
  const int every = __syncthreads_and(1), most = __syncthreads_and(t != 95);
  g.out[t] = seen[95 - t] + 1000 * (count + 100 * (any + 2 * none + 4 * every + 8 * most));
}

/// What shared memory holds before anyone writes, and the dynamic part behind the static one.
__device__ inline void shared_memory(const LanguageArgs& g) {
  ASSAY_SHARED(float, part, 64);
  ASSAY_DYNAMIC_SHARED(float, dynamic);
  const unsigned t = threadIdx.x;
  dynamic[t] = g.in[t];
  part[63 - t] = 2.f;
  __syncthreads();
  g.y[blockIdx.x * 64 + t] = dynamic[63 - t] * part[t];
}

__device__ inline void poison(const LanguageArgs& g) {
  ASSAY_SHARED(float, part, 64);
  const float before = part[threadIdx.x];
  g.y[blockIdx.x * 64 + threadIdx.x] = before;
  part[threadIdx.x] = 1.f;
}

/// Lets other fibers run, and orders nothing.
__device__ inline void pass_time(int rounds) {
  for (int i = 0; i < rounds; ++i) __shfl_sync(all, 1.f, 0);
}
__device__ inline void pass_time_alone(int rounds) {
  for (int i = 0; i < rounds; ++i) __shfl_sync(1u << threadIdx.x % 32, 1.f, static_cast<int>(threadIdx.x % 32));
}

constexpr int table[4] = {2, 3, 5, 7};

__device__ inline void misuse(const LanguageArgs& g) {
  ASSAY_SHARED(float, part, 64);
  ASSAY_SHARED(const float*, address, 1);
  ASSAY_SHARED(float, odd, 3);
  const unsigned t = threadIdx.x, lane = t % 32;
  float* const y = g.y + blockIdx.x * blockDim.x;
  switch (static_cast<Misuse>(g.which)) {
    case mask_without_self:
      y[t] = static_cast<float>(__ballot_sync(0xfffffffeu | (lane != 0), 1));
      break;
    case mask_with_exited_lane:
      if (lane == 7) return;
      y[t] = __shfl_xor_sync(all, 1.f, 0);
      break;
    case two_collectives_one_mask:
      if (lane < 16) {
        y[t] = static_cast<float>(__ballot_sync(all, 1));
      } else {
        y[t] = static_cast<float>(__any_sync(all, 1));
      }
      break;
    case shuffle_against_barrier:
      if (lane == 3) __syncthreads();
      y[t] = __shfl_sync(all, 1.f, 0);
      if (lane != 3) __syncthreads();
      break;
    case barrier_after_exit:
      if (t == 40) return;
      __syncthreads();
      break;
    case two_barriers:
      if (t < 32) {
        y[t] = 1.f;
        __syncthreads();
      } else {
        y[t] = 2.f;
        __syncthreads();
      }
      break;
    case absent_source:
      if (lane < 16) y[t] = __shfl_sync(0xffffu, 1.f, 20);
      break;
    case incomplete_mma: {
      float d[4];
      const unsigned a[4] = {}, b[2] = {};
      const float c[4] = {};
      if (lane == 31) return;
      mma_m16n8k16_bf16(d, a, b, c);
      break;
    }
    case trapped:
      if (t == 5) __trap();
      break;
    case misaligned_read:
      y[t] = *reinterpret_cast<const float*>(reinterpret_cast<const char*>(g.in) + 2);
      break;
    case unwritten_global:
      y[t] = y[t] + 1.f;
      break;
    case unwritten_shared:
      y[t] = part[t];
      break;
    case unwritten_in_one_block:
      if (blockIdx.x == 0) part[t] = 1.f;
      __syncthreads();
      y[t] = part[t];
      break;
    case past_shared:
      part[t] = 1.f;
      __syncthreads();
      y[t] = *(&part[0] + t + 1);
      break;
    case across_the_end:
      y[t] = static_cast<float>(*reinterpret_cast<const double*>(&odd[0] + 2));
      break;
    case past_global:
      g.y[gridDim.x * blockDim.x + t] = 1.f;
      break;
    case null_pointer:
      y[t] = g.in[4];
      break;
    case foreign_local: {
      const float mine[2] = {1.f, static_cast<float>(t)};
      if (t == 0) address[0] = mine;
      __syncthreads();
      y[t] = address[0][t % 2];
      __syncthreads();
      break;
    }
    case blocks_write_one_place:
      if (t == 0) g.y[0] = 1.f;
      break;
    case warps_write_one_place:
      if (lane == 0) part[0] = 1.f;
      break;
    case lanes_write_one_place:
      part[t / 32] = 1.f;
      break;
    case atomic_then_plain:
      atomicAdd(&g.counters[blockIdx.x], 1);
      y[t] = static_cast<float>(g.counters[blockIdx.x]);
      break;
    case no_syncwarp:
      part[t] = 1.f;
      y[t] = part[t ^ 1];
      break;
    case shuffle_is_no_barrier:
      part[t] = 1.f;
      y[t] = __shfl_sync(all, 1.f, 0) + part[t ^ 1];
      break;
    case race_after_syncwarp:
      __syncwarp();
      part[t] = 1.f;
      pass_time(1);
      y[t] = part[t ^ 1];
      break;
    case syncwarp_of_others:
      part[t] = 1.f;
      __syncwarp(lane < 16 ? 0xffffu : 0xffff0000u);
      y[t] = part[t ^ 16];
      break;
    case narrower_reader:
      if (t >= 32 || blockIdx.x != 0) break;
      reinterpret_cast<double*>(part)[t] = 1.;
      pass_time(1);
      y[t] = part[2 * (t ^ 1)];
      break;
    case read_then_write:
      part[t] = 1.f;
      __syncthreads();
      y[t] = part[t / 32 * 32];
      pass_time(1);  // all lanes have read
      part[t] = 2.f;
      break;
    case reader_in_other_warp:
      part[t] = 1.f;
      __syncthreads();
      if (lane == 0) y[t] = part[0];
      pass_time(4);
      if (t == 0) part[0] = 2.f;
      break;
    case late_reader_in_other_warp:  // after two groups of lanes of the writer's warp, which are ordered before it
      part[t] = 1.f;
      __syncthreads();
      if (t < 16) __syncwarp(0xffffu);
      if (t == 32) pass_time_alone(4);
      if (t % 16 == 0 && t != 48) y[t] = part[0];
      if (t < 32) {
        pass_time(8);
        __syncwarp();
      }
      if (t == 0) part[0] = 2.f;
      break;
    case atomics_then_reader:  // ordered after the atomic of its own warp only
      if (lane == 0) atomicAdd(&g.counters[blockIdx.x], 1);
      pass_time(4);
      __syncwarp();
      if (t == 1) y[t] = static_cast<float>(g.counters[blockIdx.x]);
      break;
    case last_block_reads: {  // right on hardware: ordered by a fence and an atomic
      if (t != 0) break;
      y[0] = 1.f;
      __threadfence();
      if (atomicAdd(&g.counters[0], 1u) == gridDim.x - 1) y[1] = g.y[0] + g.y[blockDim.x];
      break;
    }
    case ordered_by_syncwarp:
      part[t] = 1.f;
      __syncwarp();
      y[t] = part[t ^ 1];
      __syncwarp();
      part[t ^ 1] = 2.f;
      break;
    case ordered_by_half_masks:
      part[t] = 1.f;
      __syncwarp(lane < 16 ? 0xffffu : 0xffff0000u);
      y[t] = part[t ^ 15];
      break;
    case ordered_through_a_third_lane:  // 0 before 1 before 2, never 0 with 2
      if (lane == 0) part[t] = 1.f;
      if (lane < 2) __syncwarp(3u);
      if (lane == 1 || lane == 2) __syncwarp(6u);
      if (lane == 2) y[t] = part[t - 2];
      break;
    case neighbours_of_16_bits:
      reinterpret_cast<unsigned short*>(part)[t] = 1;
      break;
    case neighbours_of_8_bits:
      reinterpret_cast<unsigned char*>(part)[t] = 1;
      break;
    case readers_then_barrier_then_writer:
      part[t] = 1.f;
      __syncthreads();
      y[t] = part[0];
      __syncthreads();
      if (t == 63) part[0] = 2.f;
      break;
    case constants:
      y[t] = static_cast<float>(table[t % 4]);
      break;
    case misuse_end:
      break;
  }
}

/// d = a b + c with a (16,64) and b (64,8) of `which` 0 fp16, 1 bf16 (k 64), 2 tf32 (k 64), row by row, one warp, as a GEMM
/// kernel calls it; c and d are fp32 (16,8). in: a, b, c.
__device__ inline void multiply(const LanguageArgs& g) {
  const unsigned group = threadIdx.x / 4, t = threadIdx.x % 4;
  const float* const a = g.in;
  const float* const b = g.in + 16 * 64;
  const float* const c = b + 64 * 8;
  float d[4];
  for (unsigned i = 0; i < 4; ++i) d[i] = c[(group + i / 2 * 8) * 8 + 2 * t + i % 2];
  const auto narrow_pair = [&](float low, float high) {
    if (g.which == 0) return kernels::narrow<kernels::f16>(low).bits | unsigned{kernels::narrow<kernels::f16>(high).bits} << 16;
    return kernels::narrow<kernels::bf16>(low).bits | unsigned{kernels::narrow<kernels::bf16>(high).bits} << 16;
  };
  for (unsigned k = 0; k < 64; k += g.which == 2 ? 8 : 16) {
    unsigned x[4], y[2];
    for (unsigned r = 0; r < 4; ++r) {
      const float* const row = a + (group + r % 2 * 8) * 64 + k;
      x[r] =
          g.which == 2 ? __float_as_uint(row[t + r / 2 * 4]) : narrow_pair(row[2 * t + r / 2 * 8], row[2 * t + 1 + r / 2 * 8]);
    }
    for (unsigned r = 0; r < 2; ++r) {
      const float* const column = b + k * 8 + group;
      y[r] = g.which == 2 ? __float_as_uint(column[(t + r * 4) * 8])
                          : narrow_pair(column[(2 * t + r * 8) * 8], column[(2 * t + 1 + r * 8) * 8]);
    }
    const float before[4] = {d[0], d[1], d[2], d[3]};
    if (g.which == 0) mma_m16n8k16_f16(d, x, y, before);
    if (g.which == 1) mma_m16n8k16_bf16(d, x, y, before);
    if (g.which == 2) mma_m16n8k8_tf32(d, x, y, before);
  }
  for (unsigned i = 0; i < 4; ++i) g.y[(group + i / 2 * 8) * 8 + 2 * t + i % 2] = d[i];
}

}  // namespace assay::emulator

#define ASSAY_LANGUAGE(name, body)                                                    \
  extern "C" __global__ void language_##name(const assay::emulator::LanguageArgs g) { \
    assay::emulator::body;                                                            \
  }
ASSAY_LANGUAGE(position, write_position(g))
ASSAY_LANGUAGE(shuffle_float, shuffles<float>(g.out))
ASSAY_LANGUAGE(shuffle_double, shuffles<double>(g.out))
ASSAY_LANGUAGE(shuffle_int, shuffles<int>(g.out))
ASSAY_LANGUAGE(shuffle_unsigned, shuffles<unsigned>(g.out))
ASSAY_LANGUAGE(shuffle_long, shuffles<long long>(g.out))
ASSAY_LANGUAGE(votes, votes(g.out))
ASSAY_LANGUAGE(atomics, atomics(g))
ASSAY_LANGUAGE(barriers, barriers(g))
ASSAY_LANGUAGE(shared_memory, shared_memory(g))
ASSAY_LANGUAGE(poison, poison(g))
ASSAY_LANGUAGE(misuse, misuse(g))
ASSAY_LANGUAGE(multiply, multiply(g))
