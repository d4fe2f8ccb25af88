// SPDX-License-Identifier: Apache-2.0
// Which targets a run has: the control, the libraries found, and their instruction-set and thread variants.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "probes/device/build.hpp"
#include "probes/library/cudnn_graph.hpp"
#include "probes/library/device_files.hpp"
#include "probes/library/library.hpp"
#include "probes/run/device_worker.hpp"
#include "probes/run/runner.hpp"

namespace assay {

namespace {

std::vector<Candidate> of_library(const FoundLibrary& found, const TargetChoice& choice) {
  // A large product on twenty instruction-set levels takes minutes and meets no kernel that a smaller one does not.
  const double variant_flops = choice.whole && !choice.named ? 1e9 : 0;
  // The reference BLAS runs at one or two GFLOP/s.
  const double slow_flops = choice.named ? 0 : choice.whole ? 4e9 : 1e9;
  std::vector<Candidate> out;
  TargetSpec plain{.target = found.family, .variant = {}, .library = found.path, .environment = {}};
  // Workers take turns: a pool of OpenMP threads that spins between calls would take the others' time, seven times over.
  if (found.family == "onednn") plain.environment["OMP_WAIT_POLICY"] = "passive";
  out.push_back(
      {.spec = plain, .only_tag = {}, .unavailable = {}, .largest_flops = found.family == "refblas" ? slow_flops : 0});
  const auto variant = [&](std::string name, std::map<std::string, std::string> environment,
                           std::string_view tag) -> Candidate& {
    TargetSpec s = plain;
    s.variant = std::move(name), s.environment.merge(environment), s.required = false;
    out.push_back(
        {.spec = s, .only_tag = choice.whole ? "" : std::string(tag), .unavailable = {}, .largest_flops = variant_flops});
    return out.back();
  };
  if (found.family == "openblas") {
    for (const CoreLevel& level : openblas_levels()) {
      Candidate& c = variant("core=" + level.name, {{"OPENBLAS_CORETYPE", level.name}}, "T32");
      if (!level.cpu_has_it) c.unavailable = fmt::format("this CPU has not the instructions of {}", level.name);
    }
    variant("threads=1", {{"OPENBLAS_NUM_THREADS", "1"}}, "T16");
  }
  if (found.family == "onednn") {
    for (const CoreLevel& level : onednn_levels()) {
      Candidate& c =
          variant("isa=" + level.name, {{"ONEDNN_MAX_CPU_ISA", level.name}, {"DNNL_MAX_CPU_ISA", level.name}}, "T32");
      if (!level.cpu_has_it) c.unavailable = fmt::format("this CPU has not the instructions of {}", level.name);
    }
    variant("layout=packed", {}, "T32");
    variant("threads=1", {{"OMP_NUM_THREADS", "1"}}, "T16");
  }
  if (found.family == "blis") variant("threads=1", {{"BLIS_NUM_THREADS", "1"}}, "T16");
  return out;
}

/// Targets inside this binary that only run when they are named: "planted:zero_element", "model:h100", "sim".
std::vector<TargetSpec> built_in() {
  std::vector<TargetSpec> out;
  std::set<std::string> seen;
  for (const Op& op : all_ops())
    for (const Target& t : op.targets)
      if (!t.on_device)
        for (const std::string& variant : t.variants) {
          TargetSpec s{.target = t.name, .variant = variant, .library = {}, .environment = {}};
          if (seen.insert(s.name()).second) out.push_back(std::move(s));
        }
  return out;
}

/// The device that kernels run on, or why there is none.
struct FoundDevice {
  cuda::DeviceInfo info;
  std::string unavailable;
};

/// Asked in a process of its own: the judge loads no driver.
FoundDevice ask_device(const std::string& driver, const TargetChoice& choice) {
  const int ordinal = choice.device;
  FoundDevice out;
  try {
    const Arena arena;
    Worker worker(
        {.target = "kernel", .variant = {}, .library = driver, .environment = device_environment(choice.keep_variables)},
        arena.fd());
    const Answer answer = worker.ask({{"do", "devices"}, {"driver", driver}}, 60);
    if (!answer.reply)
      out.unavailable = fmt::format("asking {} for its devices: {}", driver, answer.death);
    else if (answer.reply->kind != ReplyKind::ok)
      out.unavailable = answer.reply->reason;
    else if (static_cast<std::size_t>(ordinal) >= answer.reply->devices.size())
      out.unavailable = fmt::format("the driver {} has {} device{}, so there is no device {}", driver,
                                    answer.reply->devices.size(), answer.reply->devices.size() == 1 ? "" : "s", ordinal);
    else
      out.info = answer.reply->devices[static_cast<std::size_t>(ordinal)];
  } catch (const Unavailable& e) {
    out.unavailable = e.what();
  }
  return out;
}

/// Each once, by the name that records bear: nvrtc-ptx-O3 is nvrtc-ptx. Throws CaseError.
std::vector<std::string> builds_of(const TargetChoice& choice, const std::map<std::string, std::string>& files) {
  std::vector<std::string> out;
  const auto add = [&](const device::Build& b) {
    if (std::ranges::find(out, name(b)) == out.end()) out.push_back(name(b));
  };
  for (const std::string& b : choice.builds) {
    if (b == "all") {
      for (const device::Build& each : device::all_builds(files)) add(each);
      continue;
    }
    try {
      add(device::parse_build(b));
    } catch (const std::invalid_argument& e) {
      throw CaseError(e.what());
    }
  }
  if (out.empty()) out.push_back(files.contains("nvrtc") || !files.contains("nvcc") ? "nvrtc-cubin" : "nvcc-cubin");
  return out;
}

/// What runs on the device, or why there is none: kernels and libraries share it.
struct Gpu {
  std::map<std::string, std::string> files;  // by role
  FoundDevice device;
  bool here() const { return files.contains("cuda") && device.unavailable.empty(); }
  bool slow(const TargetChoice& choice) const {
    return device.info.name.find("simulated") != std::string::npos && !choice.named;
  }
};

Gpu find_gpu(const TargetChoice& choice) {
  Gpu out{find_device_files(choice.libraries), {}};
  if (const auto driver = out.files.find("cuda"); driver != out.files.end()) out.device = ask_device(driver->second, choice);
  return out;
}

/// Our kernels, every version in every build that was asked for.
std::vector<Candidate> of_kernels(const TargetChoice& choice, const Gpu& gpu, const std::vector<std::string>& builds) {
  std::vector<Candidate> out;
  const std::map<std::string, std::string>& files = gpu.files;
  const auto driver = files.find("cuda");
  std::set<std::string> versions;
  for (const Op& op : all_ops())
    for (const Target& t : op.targets)
      if (t.library_role == "cuda") versions.insert(t.variants.begin(), t.variants.end());
  for (const std::string& build : builds)
    for (const std::string& version : versions) {
      TargetSpec s{.target = "kernel",
                   .variant = version + "@" + build,
                   .library = {},
                   .environment = device_environment(choice.keep_variables)};
      if (driver != files.end()) s.library = driver->second;
      // Only what this build is made with: what else lies there does not decide its numbers.
      for (const std::string_view role : device::roles(device::parse_build(build)))
        if (const auto file = files.find(std::string(role)); file != files.end()) s.set.insert(*file);
      s.device = choice.device;
      out.push_back({.spec = std::move(s),
                     .only_tag = {},
                     .unavailable = gpu.device.unavailable,
                     .largest_flops = gpu.slow(choice) ? simulated_flops : 0});
    }
  return out;
}

/// The vendor's libraries in every mode that some operation has, all files from one set.
std::vector<Candidate> of_device_libraries(const TargetChoice& choice, const Gpu& gpu) {
  std::map<std::string, std::string> files = gpu.files;
  files.merge(find_library_files(choice.libraries));
  std::vector<Candidate> out;
  std::set<std::string> seen;
  const auto add = [&](const Target& t, const std::string& variant, bool required) {
    TargetSpec s{.target = t.name,
                 .variant = variant,
                 .library = {},
                 .environment = device_environment(choice.keep_variables),
                 .required = required};
    if (!seen.insert(s.name()).second) return;
    if (const auto file = files.find(t.library_role); file != files.end()) s.library = file->second;
    for (const char* const role : {"cuda", "nvrtc", "cublasLt", "cublas"})
      if (const auto file = files.find(role); file != files.end() && role != t.library_role) s.set.insert(*file);
    s.device = choice.device;
    std::string unavailable = gpu.device.unavailable;
    if (const std::string absent = t.library_role == "cudnn" ? cudnn::absent() : ""; !absent.empty())
      unavailable = absent;
    else if (s.library.empty())
      unavailable = fmt::format("no {} was found; install one, or name its file with --libraries {}=PATH", t.library_role,
                                t.library_role);
    else if (!s.set.contains("cuda"))
      unavailable = "no GPU driver (libcuda.so.1) was found; install one, or name its file with --libraries cuda=PATH";
    out.push_back({.spec = std::move(s),
                   .only_tag = {},
                   .unavailable = std::move(unavailable),
                   .largest_flops = gpu.slow(choice) ? simulated_flops : 0});
  };
  for (const Op& op : all_ops())
    for (const Target& t : op.targets)
      if (t.on_device && t.library_role != "cuda") {
        for (const std::string& variant : t.variants) add(t, variant, true);
        if (choice.whole)
          for (const std::string& variant : t.deep_variants) add(t, variant, false);
      }
  return out;
}

std::string no_match(const std::string& pattern, const std::vector<Candidate>& known) {
  std::set<std::string> names;
  for (const Candidate& c : known) names.insert(c.spec.target);
  return fmt::format("no target matches '{}'; there are {}, and their variants: see `assay list targets`", pattern,
                     fmt::join(names, ", "));
}

}  // namespace

std::vector<Candidate> choose_targets(const TargetChoice& choice) {
  std::vector<Candidate> known;
  known.push_back({.spec = {.target = "eigen", .variant = {}, .library = {}, .environment = {}},
                   .only_tag = {},
                   .unavailable = {},
                   .largest_flops = 0});
  for (const FoundLibrary& found : find_libraries(choice.libraries))
    for (Candidate& c : of_library(found, choice)) known.push_back(std::move(c));
  // A user who named none of them is not told of a GPU that is not there.
  const auto asked = [&](std::string_view start) {
    return std::ranges::any_of(choice.patterns, [&](const std::string& p) { return p.starts_with(start); });
  };
  const Gpu gpu = find_gpu(choice);
  const std::vector<std::string> builds = builds_of(choice, gpu.files);
  if (gpu.here() || asked("kernel"))
    for (Candidate& c : of_kernels(choice, gpu, builds)) known.push_back(std::move(c));
  if (gpu.here() || asked("cublas") || asked("cudnn"))
    for (Candidate& c : of_device_libraries(choice, gpu)) {
      if (c.unavailable.empty() || asked(c.spec.target)) known.push_back(std::move(c));
    }
  if (choice.patterns.empty()) return known;
  for (TargetSpec& s : built_in())
    known.push_back({.spec = std::move(s), .only_tag = {}, .unavailable = {}, .largest_flops = 0});
  std::vector<Candidate> out;
  for (const std::string& pattern : choice.patterns) {
    std::size_t before = out.size();
    for (const Candidate& c : known)
      if (fnmatch(pattern.c_str(), c.spec.name().c_str(), 0) == 0) {
        out.push_back(c);
        out.back().spec.required = true;  // named by the user
        out.back().only_tag.clear();
        if (c.spec.device < 0) out.back().largest_flops = 0;
      }
    if (out.size() == before) throw CaseError(no_match(pattern, known));
  }
  return out;
}

}  // namespace assay
