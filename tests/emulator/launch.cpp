// SPDX-License-Identifier: Apache-2.0
// A launch: its limits, its blocks one after another, its shared memory.
#include <xmmintrin.h>

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <numeric>
#include <stdexcept>

#include "tests/emulator/checker.hpp"
#include "tests/emulator/emulator.hpp"
#include "tests/emulator/machine.hpp"

namespace assay::emulator {
namespace {

void require(bool holds, const Kernel& kernel, const std::string& what) {
  if (!holds) throw std::invalid_argument("launch of " + std::string(kernel.name) + ": " + what);
}

void require_limits(const Kernel& kernel, const kernels::Launch& l, std::size_t args_bytes, const Options& o) {
  const auto size = [](unsigned x, unsigned y, unsigned z) { return text(Index3{x, y, z}); };
  require(args_bytes == kernel.args_bytes, kernel,
          "got " + std::to_string(args_bytes) + " bytes of arguments, expected " + std::to_string(kernel.args_bytes));
  require(l.block_x && l.block_y && l.block_z && l.block_x <= 1024 && l.block_y <= 1024 && l.block_z <= 64 &&
              std::uint64_t{l.block_x} * l.block_y * l.block_z <= 1024,
          kernel, "block " + size(l.block_x, l.block_y, l.block_z) + " exceeds 1024 threads, (1024,1024,64), or is empty");
  require(l.grid_x && l.grid_y && l.grid_z && l.grid_x <= 0x7fffffffu && l.grid_y <= 65535 && l.grid_z <= 65535, kernel,
          "grid " + size(l.grid_x, l.grid_y, l.grid_z) + " exceeds (2147483647,65535,65535) or is empty");
  require(l.shared_bytes <= o.shared_limit_bytes, kernel,
          std::to_string(l.shared_bytes) + " bytes of dynamic shared memory exceed the limit of " +
              std::to_string(o.shared_limit_bytes));
}

/// The control register of a device that flushes subnormal operands and results, while it lives.
class Rounding {
 public:
  explicit Rounding(bool flush) : before_(_mm_getcsr()) { _mm_setcsr(flush ? before_ | 0x8040u : before_); }
  ~Rounding() { _mm_setcsr(before_); }
  Rounding(const Rounding&) = delete;
  Rounding& operator=(const Rounding&) = delete;

 private:
  unsigned before_;
};

/// Visits 0..count-1, each once.
class BlockOrder {
 public:
  BlockOrder(std::uint64_t count, const Options& o, std::mt19937_64& random) : count_(count) {
    if (o.schedule == Schedule::reverse) first_ = count - 1, stride_ = count - 1;
    if (o.schedule != Schedule::random || count < 2) return;
    first_ = random() % count;
    do stride_ = 1 + random() % (count - 1);
    while (std::gcd(stride_, count) != 1);
  }
  std::uint64_t at(std::uint64_t i) const {
    return static_cast<std::uint64_t>((first_ + static_cast<unsigned __int128>(i) * stride_) % count_);
  }

 private:
  std::uint64_t count_, first_ = 0, stride_ = 1;
};

void make_fibers(Machine& m, const kernels::Launch& l) {
  for (unsigned z = 0; z < l.block_z; ++z)
    for (unsigned y = 0; y < l.block_y; ++y)
      for (unsigned x = 0; x < l.block_x; ++x)
        m.fibers.push_back({{}, {x, y, z}, static_cast<unsigned>(m.fibers.size()), State::ready, {"", 0}, 0});
  m.warps.resize((m.fibers.size() + 31) / 32);
}

/// The launch that the runtime sees, for as long as this lives.
class Current {
 public:
  explicit Current(Machine& m) {
    machine = &m;
    checker_launch();
  }
  ~Current() {
    checker_end_launch();
    machine = nullptr;
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

}  // namespace

void* add_shared(Machine& m, const void* key, std::size_t bytes, std::size_t alignment, const char* name) {
  m.shared_bytes += bytes;
  require(m.shared_bytes <= m.options.shared_limit_bytes, *m.kernel,
          "shared array " + std::string(name) + " brings shared memory to " + std::to_string(m.shared_bytes) +
              " bytes, more than the limit of " + std::to_string(m.options.shared_limit_bytes));
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment < 16 ? 16 : alignment, bytes) != 0) throw std::bad_alloc();
  std::memset(memory, 0xff, bytes);
  m.shared.push_back({key, name, bytes, {static_cast<std::byte*>(memory), std::free}});
  checker_add_shared(m.shared.back());
  return memory;
}

Report launch(const Kernel& kernel, const kernels::Launch& l, std::span<const std::byte> args, const Options& options) {
  const std::lock_guard lock(launch_mutex());
  require_limits(kernel, l, args.size(), options);

  Machine m;
  m.kernel = &kernel;
  m.args = args.data();
  m.options = options;
  m.random.seed(options.seed);
  make_fibers(m, l);
  position.block_dim = {l.block_x, l.block_y, l.block_z};
  position.grid_dim = {l.grid_x, l.grid_y, l.grid_z};
  const Current current(m);
  if (l.shared_bytes > 0) {
    add_shared(m, nullptr, l.shared_bytes, 128, "dynamic shared memory");
    m.dynamic_memory = m.shared.back().memory.get();
  }
  {
    const Rounding rounding(options.flush_subnormals);
    const std::uint64_t blocks = std::uint64_t{l.grid_x} * l.grid_y * l.grid_z;
    const BlockOrder order(blocks, options, m.random);
    for (std::uint64_t i = 0; i < blocks && !m.stop; ++i) {
      const std::uint64_t b = order.at(i);
      m.run_block({static_cast<unsigned>(b % l.grid_x), static_cast<unsigned>(b / l.grid_x % l.grid_y),
                   static_cast<unsigned>(b / l.grid_x / l.grid_y)});
    }
  }
  if (m.failure) std::rethrow_exception(m.failure);
  return std::move(m.report);
}

}  // namespace assay::emulator
