// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/kernel.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "tests/emulator/machine.hpp"
#include "tests/sim/settings.hpp"
#include "tests/sim/status.hpp"

namespace assay::sim {
namespace {

/// While a kernel runs on this thread, an access to memory that is not there ends the kernel instead of the process. Device
/// pages and the inaccessible ones between them make it exact to 256 bytes; the checked build is exact to the byte.
class FaultGuard {
 public:
  explicit FaultGuard(const Memory& memory) {
    memory_of_kernel = &memory;
    struct sigaction action = {};
    action.sa_sigaction = end_kernel;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;  // left by a switch of fibers, never by a return
    sigaction(SIGSEGV, &action, &before_segv_);
    sigaction(SIGBUS, &action, &before_bus_);
  }
  ~FaultGuard() {
    sigaction(SIGSEGV, &before_segv_, nullptr);
    sigaction(SIGBUS, &before_bus_, nullptr);
    memory_of_kernel = nullptr;
  }
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;

 private:
  static void end_kernel(int signal, siginfo_t* info, void*) {
    if (!memory_of_kernel || !emulator::machine || !emulator::machine->running) {
      ::signal(signal, SIG_DFL);  // not the kernel's: back to the instruction, which now ends the process
      return;
    }
    const Address at = memory_of_kernel->device_address(info->si_addr);
    emulator::machine->find("out of bounds", "device memory",
                            fmt::format("{} touches {:#x}, where no memory is", emulator::text_of(*emulator::machine->running),
                                        at ? at : reinterpret_cast<std::uintptr_t>(info->si_addr)));
    emulator::end_launch();
  }

  static thread_local const Memory* memory_of_kernel;
  struct sigaction before_segv_, before_bus_;
};
thread_local const Memory* FaultGuard::memory_of_kernel = nullptr;

/// What a device makes of it. It would not notice a race or an uninitialised read; the checked device ends the launch all the
/// same.
Status status_of(const emulator::Finding& f) {
  if (f.kind == "out of bounds") return ERROR_ILLEGAL_ADDRESS;
  if (f.kind == "misaligned") return ERROR_MISALIGNED_ADDRESS;
  if (f.kind == "trap") return ERROR_ILLEGAL_INSTRUCTION;
  if (f.kind == "deadlock" || f.kind == "divergent barrier") return ERROR_LAUNCH_TIMEOUT;
  return ERROR_LAUNCH_FAILED;
}

/// Memory that a kernel may write, as it was before.
struct Before {
  std::span<std::byte> now;
  std::vector<std::byte> then;
};

/// Of every allocation that the arguments point into, once.
std::vector<Before> remember(const Memory& memory, const std::vector<Address>& pointers) {
  std::vector<Before> all;
  for (const Address p : pointers) {
    const std::span<std::byte> now = memory.allocation(p);
    const bool known = std::any_of(all.begin(), all.end(), [&](const Before& b) { return b.now.data() == now.data(); });
    if (!now.empty() && !known) all.push_back({now, {now.begin(), now.end()}});
  }
  return all;
}

std::vector<std::size_t> changed_bytes(const Before& b) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < b.then.size(); ++i)
    if (b.now[i] != b.then[i]) places.push_back(i);
  return places;
}

/// Plants `drop_store` and `guard` in the first allocation that the kernel changed.
void spoil_output(const std::vector<Before>& memory, const std::string& kernel, bool drop, bool beyond) {
  const std::size_t width = kernel.ends_with("f64") ? 8 : 4;
  for (const Before& b : memory) {
    const std::vector<std::size_t> changed = changed_bytes(b);
    if (changed.empty()) continue;
    const std::size_t store = changed[changed.size() / 2] / width * width, behind = changed.back() / width * width + width;
    if (drop)
      std::copy_n(b.then.begin() + static_cast<std::ptrdiff_t>(store), std::min(width, b.then.size() - store),
                  b.now.begin() + static_cast<std::ptrdiff_t>(store));
    if (beyond && behind + width > b.now.size()) announce("fault guard: nothing of the allocation is left behind the output");
    if (beyond && behind + width <= b.now.size())
      for (std::size_t i = 0; i < width; ++i) b.now[behind + i] ^= std::byte{0x55};
    return;
  }
}

}  // namespace

void run_kernel(const Memory& memory, const KernelRun& run) {
  const std::string name = run.kernel->name;
  const Circumstance here{.kernel = name, .build = run.build};
  if (fault("hang", here))
    while (true) pause();
  if (fault("sticky", here)) throw Refusal(ERROR_ILLEGAL_ADDRESS, name + ": planted fault sticky");
  if (const Fault* const f = fault("launch_fail", here))
    throw Refusal(static_cast<Status>(f->code.value_or(ERROR_LAUNCH_FAILED)), name + ": planted fault launch_fail");

  std::vector<std::byte> arguments = run.arguments;
  std::vector<Address> pointers;
  for (const std::size_t at : memory.translate(arguments)) {
    Address p;
    std::memcpy(&p, run.arguments.data() + at, sizeof p);
    pointers.push_back(p);
  }
  if (fault("k_tail", here)) lose_k_tail(name, arguments);
  const bool drop = fault("drop_store", here), beyond = fault("guard", here);
  const std::vector<Before> before = drop || beyond ? remember(memory, pointers) : std::vector<Before>();

  emulator::Options options;
  options.sm = settings().sm;
  options.flush_subnormals = fault("flush_subnormals", here) != nullptr;
  options.shared_limit_bytes = run.shared_limit_bytes;
  emulator::Report report;
  {
    const FaultGuard guard(memory);
    report = emulator::launch(*run.kernel, run.shape, arguments, options);
  }
  spoil_output(before, name, drop, beyond);
  for (const emulator::Finding& f : report.findings) announce(f.kind + ": " + f.what);
  if (!report.clean()) throw Refusal(status_of(report.findings.front()), "the context of this process is lost");
  if (fault("late_error", here)) throw Refusal(ERROR_ILLEGAL_ADDRESS, name + ": planted fault late_error");
}

}  // namespace assay::sim
