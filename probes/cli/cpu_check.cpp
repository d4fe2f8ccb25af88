// SPDX-License-Identifier: Apache-2.0
// Says in one sentence that the CPU is too old, before any code compiled for x86-64-v3 runs. Compiled for plain x86-64;
// calls only what libc itself supplies.
#include "probes/cli/cpu_check.hpp"

#include <cpuid.h>
#include <unistd.h>

#ifdef __AVX__
#error "compile this file with -march=x86-64: it must run on every CPU"
#endif

namespace {

CpuWords read_cpu() {
  CpuWords cpu;
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d)) cpu.leaf1_ecx = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) cpu.leaf7_ebx = b;
  if (__get_cpuid(0x80000001, &a, &b, &c, &d)) cpu.extended1_ecx = c;
  if (cpu.leaf1_ecx >> 27 & 1) {
    unsigned low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    cpu.xcr0 = low;
  }
  return cpu;
}

void say(const char* text) {
  const char* end = text;
  while (*end) ++end;
  if (write(STDERR_FILENO, text, static_cast<unsigned long>(end - text)) < 0) _exit(2);
}

// Priority 101, the first that programs may use: before the initialisers of every other file of this program.
__attribute__((constructor(101))) void check_cpu() {
  const char* missing = missing_of_v3(read_cpu());
  if (!missing) return;
  say("assay: this CPU or virtual machine lacks ");
  say(missing);
  say(", this build needs x86-64-v3 (Intel Haswell, AMD Zen or newer): run it on such a CPU, or change -march in CMakeLists.txt"
      " and build it here\n");
  _exit(2);
}

}  // namespace
