// SPDX-License-Identifier: Apache-2.0
// Hidden commands that tests/gpu/run calls on a machine with a GPU. Each is a process of its own, so the judge still loads no
// driver.
#include <fmt/format.h>

#include <set>

#include "probes/cli/commands.hpp"
#include "probes/device/approximate.hpp"
#include "probes/device/checks.hpp"
#include "probes/library/cuda.hpp"
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
  double in_calls_s = 0, on_device_s = 0, memory_mib = 0;
  std::string first, last;
  for (const report::Record& r : report::read_jsonl(std::filesystem::path(run) / "run.jsonl").records) {
    in_calls_s += r.execute_ms * 1e-3;
    if (const auto at = r.conditions.find("library device MiB"); at != r.conditions.end())
      memory_mib = std::max(memory_mib, std::strtod(at->second.c_str(), nullptr));
    if (const auto at = r.conditions.find("library device ms"); at != r.conditions.end())
      on_device_s += std::strtod(at->second.c_str(), nullptr) * 1e-3;
    (first.empty() ? first : last) = r.started;
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
  fmt::print(stderr,
             "the device was busy with operations for {:.1f} s ({:.1f} s of the host in first calls) between {} and {}, at "
             "most {:.1f} MiB of device memory at once\n",
             on_device_s, in_calls_s, first, last, memory_mib);
  return groups.empty() ? 2 : 0;
}

int device_check(const std::string& what, const std::vector<std::string>& libraries, int device, std::uint32_t step) {
  std::map<std::string, std::string> files = find_device_files(libraries);
  if (!files.contains("cuda"))
    throw LibraryError("no GPU driver (libcuda.so.1) was found; name its file with --libraries cuda=PATH");
  std::string lines;
  int different = 0;
  try {
    different = what == "traps"    ? device::check_traps(files["cuda"], device, files, lines)
                : what == "inputs" ? device::check_inputs(files["cuda"], device, files, 1 << 16, lines)
                                   : device::check_approximations(files["cuda"], device, files, step, lines);
  } catch (const cuda::Error& e) {
    lines += fmt::format("{}: {}\n", what, e.what());
    different = 1;
  } catch (const cuda::CopyError& e) {
    lines += fmt::format("{}: {}\n", what, e.what());
    different = 1;
  }
  fmt::print("{}", lines);
  return different == 0 ? 0 : 1;
}

}  // namespace assay::cli
