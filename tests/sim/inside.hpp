// SPDX-License-Identifier: Apache-2.0
// What a double of a vendor's library needs of the simulated device: its memory and its streams. Exported by the simulated
// libcuda under names that no driver has; the double finds them in the libcuda.so.1 that the process has mapped, as the real
// library finds its driver.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#define ASSAY_SIM_INSIDE(X)                                  \
  X(cuAssayContext, int, ())                                 \
  X(cuAssayArchitecture, int, ())                            \
  X(cuAssayMemory, void*, (unsigned long long, std::size_t)) \
  X(cuAssayQueue, int, (void* stream, int (*)(void*), void (*)(void*), void* data))

namespace assay::sim {

struct SimulatedDevice {
#define ASSAY_SIM_MEMBER(name, result, arguments) result(*name) arguments = nullptr;
  ASSAY_SIM_INSIDE(ASSAY_SIM_MEMBER)
#undef ASSAY_SIM_MEMBER

  /// Of the libcuda.so.1 that is mapped; nullptr when none is, or it is no simulated one.
  static const SimulatedDevice* find() {
    static const SimulatedDevice device = [] {
      SimulatedDevice in;
      if (void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) {
#define ASSAY_SIM_FIND(name, result, arguments) in.name = reinterpret_cast<result(*) arguments>(::dlsym(driver, #name));
        ASSAY_SIM_INSIDE(ASSAY_SIM_FIND)
#undef ASSAY_SIM_FIND
        ::dlclose(driver);
      }
      return in;
    }();
    return device.cuAssayQueue ? &device : nullptr;
  }

  /// 0 when the calling thread has a context that works, else the driver's status.
  int context() const {
    return cuAssayContext();
  }
  /// 120: sm_120.
  int sm() const {
    return cuAssayArchitecture();
  }
  /// The host's view of a range of device memory; nullptr unless it lies inside one allocation.
  template <class T = std::byte>
  T* memory(const void* at, std::size_t bytes) const {
    return static_cast<T*>(cuAssayMemory(reinterpret_cast<unsigned long long>(at), bytes));
  }
  /// Appends to the stream, or to the graph that is captured from it. What `work` returns when its turn comes, other than 0, is
  /// the driver's status that ends the context. Returns the driver's status.
  int queue(void* stream, std::function<int()> work) const {
    using Work = std::function<int()>;
    return cuAssayQueue(
        stream, [](void* data) { return (*static_cast<Work*>(data))(); }, [](void* data) { delete static_cast<Work*>(data); },
        new Work(std::move(work)));
  }
};

}  // namespace assay::sim
