// SPDX-License-Identifier: Apache-2.0
// The state of the launch in progress, shared by scheduler and checker. One launch at a time runs, on one OS thread.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/emulator/emulator.hpp"
#include "tests/emulator/fiber.hpp"
#include "tests/emulator/runtime.hpp"

namespace assay::emulator {

enum class State : std::uint8_t { ready, at_barrier, in_collective, exited };

/// One CUDA thread.
struct Fiber {
  Context context;
  Index3 index;
  unsigned number;  // in the block: x fastest
  State state;
  CodePlace waits_at;
  int barrier_result;
  unsigned lane() const { return number % 32; }
  unsigned warp() const { return number / 32; }
};

/// Lanes that have arrived at one collective.
struct Group {
  unsigned mask, arrived;
  const Collective* kind;
  void* lanes[32];
};

/// One ASSAY_SHARED array or the dynamic part; its own allocation, so that AddressSanitizer knows its end.
struct SharedArray {
  const void* key;
  std::string name;
  std::size_t bytes;
  std::unique_ptr<std::byte, void (*)(void*)> memory;
};

struct Machine {
  const Kernel* kernel = nullptr;
  const void* args = nullptr;
  Options options;
  Report report;
  std::set<std::string> reported;  // kind and code places
  std::mt19937_64 random;

  std::vector<Fiber> fibers;
  std::vector<Fiber*> next;               // ready, in order of release
  std::vector<std::vector<Group>> warps;  // open collectives of each warp
  Fiber* running = nullptr;
  Context scheduler;
  unsigned alive = 0, at_barrier = 0;
  int barrier_sum = 0;
  bool stop = false;  // end the launch
  std::exception_ptr failure;

  std::vector<SharedArray> shared;
  std::byte* dynamic_memory = nullptr;
  std::size_t shared_bytes = 0;

  /// Adds a finding unless this kind was reported for the same places.
  void find(const std::string& kind, const std::string& places, const std::string& what);
  void run_block(Index3 block);

 private:
  void release_barrier();
  void resolve_standstill();
  void order_round(std::vector<Fiber*>&);
  friend int barrier(int, CodePlace);
};

/// The launch in progress.
extern Machine* machine;

/// Hardware would not go on here: the running fiber stops, and so does the launch.
[[noreturn]] void end_launch();

/// A new array of the block, poisoned. Throws when the limit of shared memory is passed. key nullptr: the dynamic part.
void* add_shared(Machine&, const void* key, std::size_t bytes, std::size_t alignment, const char* name);

std::string text(CodePlace);
std::string text(Index3);  // "(3,0,0)"
/// "thread (3,0,0) of block (1,0,0)"
std::string text_of(const Fiber&);

}  // namespace assay::emulator
