// SPDX-License-Identifier: Apache-2.0
#include "probes/run/device_worker.hpp"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "probes/run/process.hpp"
#include "report/environment.hpp"

namespace assay {

std::map<std::string, std::string> device_environment(bool keep_variables) {
  std::map<std::string, std::string> out;
  if (keep_variables) return out;
  for (const std::string_view name : report::cleared_variables())
    if (std::getenv(std::string(name).c_str()) != nullptr) out[std::string(name)] = "";
  out["CUDA_CACHE_DISABLE"] = "1", out["CUDA_MODULE_LOADING"] = "LAZY";
  return out;
}

OpenedSet open_in_worker(const std::map<std::string, std::string>& files, double deadline_s) {
  OpenedSet out;
  try {
    const Arena arena;
    Worker worker({.target = "set", .variant = {}, .library = {}, .environment = device_environment(false)}, arena.fd());
    Answer answer = worker.ask({{"do", "open"}, {"files", files}}, deadline_s);
    if (!answer.reply) {
      out.complaints.push_back("opening the set: " + answer.death);
    } else {
      out = {std::move(answer.reply->libraries), std::move(answer.reply->gpus), std::move(answer.reply->complaints)};
      if (answer.reply->kind != ReplyKind::ok) out.complaints.push_back(answer.reply->reason);
    }
  } catch (const Unavailable& e) {
    out.complaints.emplace_back(e.what());
  }
  return out;
}

}  // namespace assay
