// SPDX-License-Identifier: Apache-2.0
// Planted faults of conduct: memory that is not the call's, process state left changed, and every way to die.
// The numbers are right where the call returns.
#include <immintrin.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cfenv>
#include <cstdlib>
#include <cstring>
#include <new>

#include "probes/ops/gemm/planted.hpp"

namespace assay::gemm {

namespace {

const char* const tiny = "g1:gemm:m=8,n=6,k=16,fill=integer";
const char* const tiny_real = "g1:gemm:m=8,n=6,k=16,fill=normal";

/// Hides where a pointer comes from, so that the compiler neither warns about nor removes a deliberate wild access.
template <typename T>
T* opaque(T* p) {
  asm volatile("" : "+r"(p));
  return p;
}

void write_outside(Work& w, std::ptrdiff_t byte) {
  std::byte* at = opaque(w.images[2].storage + byte);
  std::memset(at, 0, size_bytes(w.call.out));
}

void write_in_gap(Work& w) {
  const std::int64_t inner = w.call.row_major ? w.call.n : w.call.m, outer = w.call.row_major ? w.call.m : w.call.n;
  // Behind the last line there is no gap inside the allocation: a C of one line has none.
  if (w.call.ldc <= inner || outer < 2 || w.call.batch == 0) return;
  std::memset(element(w.call.out, w.images[2].storage, w.c_layout().offset + inner), 0, size_bytes(w.call.out));
}

void overwrite_input(Work& w) {
  if (w.images[0].bytes > 0)
    w.images[0].storage[w.problem.operands[0].offset * static_cast<std::int64_t>(size_bytes(w.call.in))] ^= std::byte{1};
}

void read_past_end(Work& w) {
  // Unseen unless a guard page lies there.
  const volatile std::byte* end = opaque(w.images[0].storage + w.images[0].bytes);
  (void)end[0];
}

void wild_write(Work&) {
  // An address in the first page, which is never mapped.
  *opaque(reinterpret_cast<volatile int*>(std::uintptr_t{8})) = 1;
}

void scribble_heap(Work&) {
  // 4 KiB of 'A' over one block's end and its neighbours' bookkeeping; the allocator finds out when the blocks are freed.
  char* blocks[4];
  for (char*& b : blocks) b = opaque(static_cast<char*>(std::malloc(2000)));
  for (char* b : blocks) std::memset(opaque(b - 16), 'A', 2000 + 16 + 16);
  for (char* b : blocks) std::free(opaque(b));
}

void exhaust_memory(Work&) {
  // Address space only: nothing is touched, so no other process feels it. 64 GiB is refused earlier under any sane limit.
  constexpr std::size_t step = std::size_t{1} << 30;
  for (int taken = 0; taken < 64; ++taken)
    if (mmap(nullptr, step, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) == MAP_FAILED) break;
  throw std::bad_alloc();
}

void divide_by_zero(Work&) {
  // The instruction itself: in C++ the compiler may assume that it never happens.
  asm volatile("xorl %%ecx, %%ecx\n\tmovl $1, %%eax\n\tcltd\n\tidivl %%ecx" ::: "eax", "ecx", "edx", "cc");
}

}  // namespace

std::vector<Fault> conduct_faults() {
  std::vector<Fault> t;
  t.push_back({.name = "write_past_end",
               .what = "one element is written behind the end of C",
               .cases = {tiny, tiny_real},
               .memory = [](Work& w) { write_outside(w, static_cast<std::ptrdiff_t>(w.images[2].bytes)); }});
  t.push_back({.name = "write_before_start",
               .what = "one element is written before the start of C",
               .cases = {tiny, tiny_real},
               .memory = [](Work& w) { write_outside(w, -static_cast<std::ptrdiff_t>(size_bytes(w.call.out))); }});
  t.push_back({.name = "write_in_gap",
               .what = "the gap between two columns of C is written to (loose ldc)",
               .cases = {"g1:gemm:m=8,n=6,k=16,padc=3,fill=integer", "g1:gemm:m=8,n=6,k=16,padc=3,order=row,fill=normal"},
               .memory = write_in_gap});
  t.push_back({.name = "input_overwritten",
               .what = "one bit of A is changed by the call",
               .cases = {tiny, tiny_real},
               .memory = overwrite_input});
  t.push_back({.name = "read_past_end",
               .what = "one byte is read behind the end of A",
               .cases = {"g1:gemm:m=8,n=6,k=16,fill=integer,place=end"},
               .memory = read_past_end});
  t.push_back({.name = "rounding_left_changed",
               .what = "the rounding mode is left at upward",
               .cases = {tiny, tiny_real},
               .memory = [](Work&) { std::fesetround(FE_UPWARD); }});
  t.push_back({.name = "flush_left_on", .what = "flush-to-zero is left on", .cases = {tiny, tiny_real}, .memory = [](Work&) {
                 _mm_setcsr(_mm_getcsr() | 0x8040);
               }});  // MXCSR bits 15 FTZ and 6 DAZ
  t.push_back({.name = "segfault", .what = "the call crashes", .cases = {tiny}, .memory = wild_write});
  t.push_back({.name = "hang", .what = "the call never returns", .cases = {tiny}, .memory = [](Work&) {
                 while (true) pause();
               }});
  t.push_back({.name = "exit_call", .what = "the call ends the process with exit(0)", .cases = {tiny}, .memory = [](Work&) {
                 std::exit(0);
               }});
  t.push_back({.name = "sigfpe", .what = "the call divides an integer by zero", .cases = {tiny}, .memory = divide_by_zero});
  t.push_back(
      {.name = "sigill", .what = "the call executes an instruction this CPU lacks", .cases = {tiny}, .memory = [](Work&) {
         asm volatile("ud2");
       }});
  t.push_back({.name = "heap_scribbled",
               .what = "the call overwrites the allocator's bookkeeping",
               .cases = {tiny},
               .memory = scribble_heap});
  t.push_back({.name = "memory_exhausted",
               .what = "the call takes memory until it is refused, then gives up",
               .cases = {tiny},
               .memory = exhaust_memory});
  return t;
}

}  // namespace assay::gemm
