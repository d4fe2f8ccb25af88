// SPDX-License-Identifier: Apache-2.0
// Modules, functions, launches.
#include <cstring>

#include "tests/sim/device.hpp"
#include "tests/sim/driver.hpp"

using namespace assay::sim;

namespace {

constexpr int error_log_buffer = 5, error_log_bytes = 6;  // CU_JIT_ERROR_LOG_BUFFER, ..._SIZE_BYTES

/// The compiler's message into the caller's buffer, cut to its size.
void tell(const std::string& message, unsigned count, const int* options, void** values) {
  char* buffer = nullptr;
  void** size = nullptr;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == error_log_buffer) buffer = static_cast<char*>(values[i]);
    if (options[i] == error_log_bytes) size = &values[i];
  }
  if (!buffer || !size) return;
  const auto room = static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(*size));
  if (room == 0) return;
  const std::size_t used = message.copy(buffer, room - 1);
  buffer[used] = '\0';
  *size = reinterpret_cast<void*>(used + 1);
}

Function function_of(const Image& image, const std::string& name) {
  const auto found = image.entries.find(name);
  if (found == image.entries.end()) throw Refusal(ERROR_NOT_FOUND, fmt::format("the module has no entry {}", name));
  const assay::emulator::Kernel* const kernel = assay::emulator::find_kernel(name);
  if (!kernel) {
    announce(fmt::format("kernel {} is in the module, but not in the emulator", name));
    throw Refusal(ERROR_NOT_FOUND, fmt::format("the emulator has no kernel {}", name));
  }
  const Entry& e = found->second;
  if (e.parameter_bytes != 0 && e.parameter_bytes != kernel->args_bytes) {
    announce(fmt::format("kernel {} takes {} bytes of parameters in the module, {} in the emulator", name, e.parameter_bytes,
                         kernel->args_bytes));
    throw Refusal(ERROR_INVALID_IMAGE, "parameters differ from the emulator's");
  }
  return {name, image.build, kernel, e, shared_default - std::min(shared_default, e.static_shared_bytes)};
}

void require_launch_limits(const Function& f, const assay::kernels::Launch& l) {
  const std::uint64_t threads = std::uint64_t{l.block_x} * l.block_y * l.block_z;
  if (threads == 0 || threads > block_limit || l.block_x > 1024 || l.block_y > 1024 || l.block_z > 64)
    throw Refusal(ERROR_INVALID_VALUE, fmt::format("{}: block ({},{},{})", f.name, l.block_x, l.block_y, l.block_z));
  if (l.grid_x == 0 || l.grid_y == 0 || l.grid_z == 0 || l.grid_x > 0x7fffffffu || l.grid_y > 65535 || l.grid_z > 65535)
    throw Refusal(ERROR_INVALID_VALUE, fmt::format("{}: grid ({},{},{})", f.name, l.grid_x, l.grid_y, l.grid_z));
  if (l.shared_bytes > f.dynamic_limit)
    throw Refusal(ERROR_INVALID_VALUE, fmt::format("{}: {} bytes of dynamic shared memory, allowed are {}", f.name,
                                                   l.shared_bytes, f.dynamic_limit));
  if (f.entry.threads != 0 && threads > static_cast<unsigned>(f.entry.threads))
    throw Refusal(ERROR_LAUNCH_OUT_OF_RESOURCES,
                  fmt::format("{}: {} threads, compiled for {}", f.name, threads, f.entry.threads));
  // Registers are given to whole warps, in units of 8 for each thread.
  const std::uint64_t registers = (threads + 31) / 32 * 32 * ((static_cast<unsigned>(f.entry.registers) + 7) / 8 * 8);
  if (registers > register_limit)
    throw Refusal(ERROR_LAUNCH_OUT_OF_RESOURCES, fmt::format("{}: {} registers for a block", f.name, registers));
}

/// One structure by value is the only parameter of every kernel.
std::vector<std::byte> parameters_of(const Function& f, void** parameters, void** extra) {
  const std::byte* from = parameters ? static_cast<const std::byte*>(parameters[0]) : nullptr;
  constexpr std::uintptr_t end = 0, buffer_pointer = 1, buffer_size = 2;  // CU_LAUNCH_PARAM_*
  std::size_t bytes = f.kernel->args_bytes;
  for (void** at = extra; at && reinterpret_cast<std::uintptr_t>(*at) != end; at += 2) {
    if (reinterpret_cast<std::uintptr_t>(at[0]) == buffer_pointer) from = static_cast<const std::byte*>(at[1]);
    if (reinterpret_cast<std::uintptr_t>(at[0]) == buffer_size) bytes = *static_cast<const std::size_t*>(at[1]);
  }
  if (!from || (parameters && extra) || bytes != f.kernel->args_bytes)
    throw Refusal(ERROR_INVALID_VALUE, fmt::format("{}: expected one parameter of {} bytes", f.name, f.kernel->args_bytes));
  return {from, from + bytes};
}

/// What a launch can fail with at once; the context lives on.
void refuse_launch(const Function& f) {
  const Fault* const planted = fault("launch_fail", {.kernel = f.name, .build = f.build});
  if (!planted) return;
  const int code = planted->code.value_or(ERROR_LAUNCH_FAILED);
  if (code == ERROR_INVALID_VALUE || code == ERROR_OUT_OF_MEMORY || code == ERROR_LAUNCH_OUT_OF_RESOURCES)
    throw Refusal(static_cast<Status>(code), f.name + ": planted fault launch_fail");
}

}  // namespace

ASSAY_SIM_ENTRY cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count, int* options, void** values) {
  return call("cuModuleLoadDataEx", Needs::context, [&](Driver& d, Lock&) {
    d.require_no_capture("cuModuleLoadDataEx");
    if (!image) throw Refusal(ERROR_INVALID_VALUE, "no image");
    try {
      Image read = read_image(image, settings().sm, newest_ptx(settings().driver));
      const std::string said = fmt::format("{} for sm_{}, {} entries", read.build, read.sm, read.entries.size());
      checked(module) = d.modules.add({std::move(read)});
      return said;
    } catch (const Refusal& e) {
      tell(e.what(), count, options, values);
      throw;
    }
  });
}

ASSAY_SIM_ENTRY cuModuleUnload(CUmodule module) {
  return call("cuModuleUnload", Needs::context, [&](Driver& d, Lock& lock) {
    d.modules.get(module);
    d.wait_for_all(lock);
    d.modules.remove(module);
    return std::string();
  });
}

ASSAY_SIM_ENTRY cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  return call("cuModuleGetFunction", Needs::context, [&](Driver& d, Lock&) {
    if (!name || !*name) throw Refusal(ERROR_INVALID_VALUE, "no name");
    checked(function) = d.functions.add(function_of(d.modules.get(module).image, name));
    return std::string(name);
  });
}

ASSAY_SIM_ENTRY cuFuncGetAttribute(int* value, int number, CUfunction function) {
  return call("cuFuncGetAttribute", Needs::context, [&](Driver& d, Lock&) {
    const Function& f = d.functions.get(function);
    const auto known = [&]() -> std::size_t {
      switch (number) {
        case 0:
          return static_cast<std::size_t>(f.entry.threads ? f.entry.threads : block_limit);  // MAX_THREADS_PER_BLOCK
        case 1:
          return f.entry.static_shared_bytes;  // SHARED_SIZE_BYTES
        case 4:
          return static_cast<std::size_t>(f.entry.registers);  // NUM_REGS
        case 5:
        case 6:
          return static_cast<std::size_t>(settings().sm);  // PTX_VERSION, BINARY_VERSION
        case 8:
          return f.dynamic_limit;  // MAX_DYNAMIC_SHARED_SIZE_BYTES
        default:
          throw Refusal(ERROR_INVALID_VALUE, fmt::format("the simulated device does not know function attribute {}", number));
      }
    };
    checked(value) = static_cast<int>(known());
    return fmt::format("{}: attribute {} is {}", f.name, number, *value);
  });
}

ASSAY_SIM_ENTRY cuFuncSetAttribute(CUfunction function, int number, int value) {
  return call("cuFuncSetAttribute", Needs::context, [&](Driver& d, Lock&) {
    constexpr int dynamic_shared_bytes = 8, carveout = 9;
    Function& f = d.functions.get(function);
    const std::size_t most = architecture(settings().sm).shared_optin_bytes() - f.entry.static_shared_bytes;
    if (number != dynamic_shared_bytes && number != carveout)
      throw Refusal(ERROR_INVALID_VALUE, fmt::format("function attribute {} cannot be set", number));
    if (number == dynamic_shared_bytes) {
      if (value < 0 || static_cast<std::size_t>(value) > most)
        throw Refusal(ERROR_INVALID_VALUE, fmt::format("{}: {} bytes of shared memory, the most is {}", f.name, value, most));
      f.dynamic_limit = static_cast<std::size_t>(value);
    }
    return fmt::format("{}: attribute {} becomes {}", f.name, number, value);
  });
}

ASSAY_SIM_ENTRY cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                               unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** parameters,
                               void** extra) {
  return call("cuLaunchKernel", Needs::context, [&](Driver& d, Lock&) {
    const Function& f = d.functions.get(function);
    Stream& s = d.stream(stream);
    const assay::kernels::Launch shape{grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes};
    require_launch_limits(f, shape);
    refuse_launch(f);
    d.enqueue(s, [&d, run = KernelRun{f.kernel, f.build, shape, f.dynamic_limit + f.entry.static_shared_bytes,
                                      parameters_of(f, parameters, extra)}] {
      d.latest_kernel = run.kernel->name;
      d.latest_build = run.build;
      run_kernel(d.memory, run);
    });
    return fmt::format("{} ({}) grid ({},{},{}) block ({},{},{}) shared {}", f.name, f.build, grid_x, grid_y, grid_z, block_x,
                       block_y, block_z, shared_bytes);
  });
}
