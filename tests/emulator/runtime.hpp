// SPDX-License-Identifier: Apache-2.0
// What emulated CUDA code calls: position, shared memory, barriers, warp collectives, atomics, traps. Nothing of the standard
// library: its functions, compiled with the checker's hooks, could be the ones that the emulator itself gets linked.
#pragma once

#include <cstddef>

namespace assay::emulator {

/// An entry of a kernel file. `run` is the body for one thread; it reads the thread's position from the running fiber.
struct Kernel {
  const char* name;  // "softmax_online_bf16"
  void (*run)(const void* args);
  std::size_t args_bytes;
};

/// A code place, taken where a default argument is filled in.
struct CodePlace {
  const char* file;
  int line;
};
constexpr CodePlace code_here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return {file, line};
}

struct Index3 {
  unsigned x, y, z;
};
/// Of the running fiber; rewritten whenever a fiber is resumed.
struct Position {
  Index3 thread, block, block_dim, grid_dim;
  unsigned lane;
};
extern Position position;

/// The block's array behind one ASSAY_SHARED; `key` is unique to the declaration (and its template arguments).
void* shared_array(const void* key, std::size_t bytes, std::size_t alignment, const char* name);
void* dynamic_shared();

/// __syncthreads; returns the sum over all threads of `predicate`, which the variants of the barrier ask for.
int barrier(int predicate, CodePlace);

/// A collective of the lanes in `mask`. Each lane brings a structure of its own; the lane that completes the group runs
/// `finish` on all of them (nullptr: the lane is absent), then everyone goes on.
struct Collective {
  const char* name;
  void (*finish)(void* const (&lanes)[32]);
};
void collective(unsigned mask, const Collective& kind, void* mine, CodePlace);

/// What `finish` may notice: a lane reads one that does not take part, or not all 32 lanes are there.
void report_absent_source(int lane, int source);
void report_incomplete_warp(const char* instruction);
/// __syncwarp: accesses of the lanes before it are ordered before those after it.
void order_lanes(void* const (&lanes)[32]);

/// Every atomic operation calls this first, with the code place it is reported by.
void touch_atomic(const void* at, std::size_t bytes, const void* code);

[[noreturn]] void trap(CodePlace);

/// The sm that the launch asked for.
int current_sm();

/// One operation in a rounding mode of IEEE 754: 'n' nearest, 'z' toward zero, 'u' up, 'd' down.
float rounded_add(float a, float b, char mode);
float rounded_multiply(float a, float b, char mode);
float rounded_divide(float a, float b, char mode);
float rounded_fma(float a, float b, float c, char mode);
float rounded_sqrt(float a, char mode);
double rounded_add(double a, double b, char mode);
double rounded_multiply(double a, double b, char mode);
double rounded_divide(double a, double b, char mode);
double rounded_fma(double a, double b, double c, char mode);
double rounded_sqrt(double a, char mode);
/// To an integer as the instruction cvt does: the nearest representable one beyond the range, 0 for NaN.
long long rounded_integer(double x, char mode, long long lowest, long long highest);
float rounded_float(double x, char mode);

}  // namespace assay::emulator
