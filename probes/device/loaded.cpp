// SPDX-License-Identifier: Apache-2.0
#include "probes/device/loaded.hpp"

#include <memory>
#include <mutex>

namespace assay::device {

const Loaded& load_once(const Context& context, const Build& build, const std::string& file,
                        const std::map<std::string, std::string>& set) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Loaded>> all;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Loaded>& slot = all[file + "@" + name(build)];
  if (!slot) {
    Image image = make_image(build, file, context.sm(), set);
    Module module(context, image.bytes, image.ptx ? build.level : -1);
    slot = std::make_unique<Loaded>(Loaded{std::move(image), std::move(module)});
  }
  return *slot;
}

}  // namespace assay::device
