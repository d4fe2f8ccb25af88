// SPDX-License-Identifier: Apache-2.0
// For doubles of vendor libraries: see inside.hpp.
#include "tests/sim/driver.hpp"
#include "tests/sim/inside.hpp"

using namespace assay::sim;

#define ASSAY_SIM_DECLARE(name, result, arguments) extern "C" __attribute__((visibility("default"))) result name arguments;
ASSAY_SIM_INSIDE(ASSAY_SIM_DECLARE)
#undef ASSAY_SIM_DECLARE

int cuAssayContext() {
  return call("cuAssayContext", Needs::context, [](Driver&, Lock&) { return std::string(); });
}

int cuAssayArchitecture() {
  return settings().sm;
}

void* cuAssayMemory(unsigned long long at, std::size_t bytes) {
  try {
    return driver().memory.at(at, bytes);
  } catch (const Refusal&) {
    return nullptr;
  }
}

int cuAssayQueue(void* stream, int (*work)(void*), void (*release)(void*), void* data) {
  const std::shared_ptr<void> owned(data, release);
  return call("cuAssayQueue", Needs::context, [&](Driver& d, Lock&) {
    d.enqueue(d.stream(stream), [work, owned] {
      if (const int status = work(owned.get()); status != SUCCESS)
        throw Refusal(static_cast<Status>(status), "a library's kernel has failed");
    });
    return fmt::format("work of a library in {}", stream);
  });
}
