// SPDX-License-Identifier: Apache-2.0
// Hidden commands that tests/gpu/run calls on a machine with a GPU. Each is a process of its own, so the judge still loads no
// driver.
#include <fmt/format.h>

#include <set>

#include "probes/cli/commands.hpp"
#include "probes/device/inputs_check.hpp"
#include "probes/library/device_files.hpp"
#include "probes/library/library.hpp"
#include "probes/run/runner.hpp"
#include "reference/digest.hpp"
#include "report/jsonl.hpp"

namespace assay::cli {

int digests(const std::string& run) {
  // Per operation, version and format: one digest over the outputs of all cases, in the order of their ids.
  std::map<std::string, std::map<std::string, std::string>> groups;
  std::set<std::string> builds;
  for (const report::Record& r : report::read_jsonl(std::filesystem::path(run) / "run.jsonl").records) {
    // The emulator, which the digests come from, leaves out what is larger.
    if (r.target != "kernel" || r.output_digest.empty() || make_problem(r.case_id).flops > simulated_flops) continue;
    const std::size_t at = r.variant.find('@');
    builds.insert(r.variant.substr(at + 1));
    groups[fmt::format("{} {} {} {}", r.op, r.variant.substr(0, at), r.formats, r.variant.substr(at + 1))][r.case_id] =
        r.output_digest;
  }
  for (const auto& [group, outputs] : groups) {
    std::string all;
    for (const auto& [id, digest] : outputs) all += id + " " + digest + "\n";
    fmt::print("{} {} {}\n", group, outputs.size(), hex(digest_bytes(std::as_bytes(std::span(all)))));
  }
  return groups.empty() ? 2 : 0;
}

int device_inputs(const std::vector<std::string>& libraries, int device) {
  std::map<std::string, std::string> files = find_device_files(libraries);
  if (!files.contains("cuda"))
    throw LibraryError("no GPU driver (libcuda.so.1) was found; name its file with --libraries cuda=PATH");
  std::string lines;
  const int different = device::check_inputs(files["cuda"], device, files, 1 << 16, lines);
  fmt::print("{}", lines);
  return different == 0 ? 0 : 1;
}

}  // namespace assay::cli
