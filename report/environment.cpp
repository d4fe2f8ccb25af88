// SPDX-License-Identifier: Apache-2.0
// The conditions of a run, by allow-list.
#include "report/environment.hpp"

#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "report/redact.hpp"

namespace assay::report {

namespace {

enum class Kept : std::uint8_t {
  value,   // a plain word, list or number
  number,  // digits and separators only: the same variable may also name a device by its serial
  set      // only that it is set: paths, and texts of free form
};

struct Variable {
  std::string_view name;
  char kind;  // N S D E, see variable_class
  Kept kept = Kept::value;
};

// CUDA: vendor documentation of cuBLAS, cuDNN and the driver; CPU: manuals of OpenBLAS, MKL, BLIS, oneDNN, OpenMP, glibc.
constexpr Variable variables[] = {
    // CPU libraries: which kernel runs, and in how many parts a sum is cut
    {"OPENBLAS_CORETYPE", 'S'},
    {"OPENBLAS_NUM_THREADS", 'N'},
    {"OPENBLAS_MAIN_FREE", 'D'},
    {"GOTO_NUM_THREADS", 'N'},
    {"OMP_NUM_THREADS", 'N'},
    {"OMP_DYNAMIC", 'D'},
    {"OMP_PROC_BIND", 'D'},
    {"OMP_PLACES", 'D'},
    {"OMP_SCHEDULE", 'D'},
    {"OMP_THREAD_LIMIT", 'N'},
    {"KMP_AFFINITY", 'D'},
    {"MKL_NUM_THREADS", 'N'},
    {"MKL_DYNAMIC", 'D'},
    {"MKL_CBWR", 'N'},
    {"MKL_DEBUG_CPU_TYPE", 'S'},
    {"MKL_ENABLE_INSTRUCTIONS", 'S'},
    {"BLIS_NUM_THREADS", 'N'},
    {"BLIS_ARCH_TYPE", 'S'},
    {"ONEDNN_MAX_CPU_ISA", 'S'},
    {"DNNL_MAX_CPU_ISA", 'S'},
    {"ONEDNN_DEFAULT_FPMATH_MODE", 'N'},
    {"GLIBC_TUNABLES", 'S'},
    {"MALLOC_PERTURB_", 'D'},
    // CUDA libraries
    {"NVIDIA_TF32_OVERRIDE", 'N'},
    {"CUBLAS_WORKSPACE_CONFIG", 'N'},
    {"CUBLAS_EMULATE_SINGLE_PRECISION", 'N'},
    {"CUBLAS_EMULATE_DOUBLE_PRECISION", 'N'},
    {"CUBLAS_EMULATION_STRATEGY", 'N'},
    {"CUBLAS_FIXEDPOINT_EMULATION_MANTISSA_BIT_COUNT", 'N'},
    {"CUBLAS_EMULATION_SPECIAL_VALUES_SUPPORT_MASK", 'N'},
    {"CUBLASLT_HEURISTICS_CACHE_CAPACITY", 'S'},
    {"CUBLASLT_HEURISTICS_LUT_FILE", 'S', Kept::set},
    {"CUBLASLT_DISABLE_CPU_INSTRUCTIONS_MASK", 'S'},
    {"CUBLASLT_WORKSPACE_SIZE", 'S'},
    {"CUBLAS_AUTOTUNING_CACHE_CAPACITY", 'S'},
    {"CUBLAS_FORCE_XMMA_KERNEL_INIT", 'S'},
    {"CUBLASLT_LOG_LEVEL", 'E'},
    {"CUBLASLT_LOG_MASK", 'E'},
    {"CUBLASLT_LOG_FILE", 'E', Kept::set},
    {"CUBLAS_LOGINFO_DBG", 'E'},
    {"CUBLAS_LOGDEST_DBG", 'E', Kept::set},
    {"CUBLAS_NVTX_LEVEL", 'E'},
    {"CUDNN_ERRATA_JSON_FILE", 'S', Kept::set},
    {"CUDNN_FORWARD_COMPAT_DISABLE", 'S'},
    {"CUDNN_FORCE_KERNEL_INIT", 'S'},
    {"CUDNN_LIB_CONFIG", 'S'},
    {"CUDNN_RESCALE_THRESHOLD", 'N'},
    {"CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT", 'N'},
    {"CUDNN_LOGLEVEL_DBG", 'E'},
    {"CUDNN_LOGDEST_DBG", 'E', Kept::set},
    {"CUDNN_NVTX_LEVEL", 'E'},
    {"CUDNN_FRONTEND_LOG_INFO", 'E'},
    {"CUDNN_FRONTEND_LOG_FILE", 'E', Kept::set},
    // CUDA driver and compiler
    {"CUDA_FORCE_PTX_JIT", 'S'},
    {"CUDA_FORCE_JIT", 'S'},
    {"CUDA_DISABLE_PTX_JIT", 'S'},
    {"CUDA_DISABLE_JIT", 'S'},
    {"CUDA_CACHE_DISABLE", 'S'},
    {"CUDA_CACHE_MAXSIZE", 'S'},
    {"CUDA_CACHE_PATH", 'S', Kept::set},
    {"CUDA_MODULE_LOADING", 'S'},
    {"CUDA_MODULE_DATA_LOADING", 'S'},
    {"CUDA_LAUNCH_BLOCKING", 'D'},
    {"CUDA_DEVICE_MAX_CONNECTIONS", 'D'},
    {"CUDA_SCALE_LAUNCH_QUEUES", 'D'},
    {"CUDA_VISIBLE_DEVICES", 'S', Kept::number},
    {"CUDA_DEVICE_ORDER", 'S'},
    {"CUDA_DISABLE_PERF_BOOST", 'D'},
    {"CUDA_LOG_FILE", 'E', Kept::set},
    {"CUDA_FORCE_PRELOAD_LIBRARIES", 'S', Kept::set},
    {"CUDA_HOME", 'S', Kept::set},
    {"CUDA_PATH", 'S', Kept::set},
    {"CUDA_ROOT", 'S', Kept::set},
    // frameworks whose settings reach the same libraries
    {"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", 'N'},
    {"TORCH_BLAS_PREFER_CUBLASLT", 'S'},
    {"DISABLE_ADDMM_CUDA_LT", 'S'},
    {"TORCH_CUDNN_USE_HEURISTIC_MODE_B", 'S'},
    {"TORCH_CUDNN_SDPA_DEPRIORITIZED", 'S'},
    {"PYTORCH_CUDA_ALLOC_CONF", 'D'},
    {"PYTORCH_NO_CUDA_MEMORY_CACHING", 'D'},
    {"TRITON_PTXAS_PATH", 'S', Kept::set},
    {"TRITON_PTXAS_BLACKWELL_PATH", 'S', Kept::set},
    {"TRITON_OVERRIDE_ARCH", 'S'},
    {"TRITON_CACHE_DIR", 'S', Kept::set},
    {"TRITON_ALWAYS_COMPILE", 'S'},
    {"NVTE_FLASH_ATTN", 'S'},
    {"NVTE_FUSED_ATTN", 'S'},
    {"NVTE_UNFUSED_ATTN", 'S'},
    {"NVTE_FUSED_ATTN_BACKEND", 'S'},
    {"NVTE_ALLOW_NONDETERMINISTIC_ALGO", 'D'},
    {"XLA_FLAGS", 'N', Kept::set},
    // the loader
    {"LD_LIBRARY_PATH", 'S', Kept::set},
    {"LD_PRELOAD", 'S', Kept::set},
    {"LD_DEBUG", 'E', Kept::set},
};

const Variable* find_variable(std::string_view name) {
  const auto* const it =
      std::find_if(std::begin(variables), std::end(variables), [&](const Variable& v) { return v.name == name; });
  return it == std::end(variables) ? nullptr : it;
}

constexpr std::string_view first_of_cuda = "NVIDIA_TF32_OVERRIDE", first_of_loader = "LD_LIBRARY_PATH";

// A token that mixes letters with four digits or more, or has more than ten digits, may be a serial number or a UUID.
// ("AVX512", "x86", "134217728" are not.)
bool looks_like_a_serial(std::string_view value) {
  std::size_t digits = 0, letters = 0;
  for (std::size_t i = 0; i <= value.size(); ++i) {
    const auto c = i < value.size() ? static_cast<unsigned char>(value[i]) : static_cast<unsigned char>(' ');
    if (std::isdigit(c) != 0)
      ++digits;
    else if (std::isalpha(c) != 0)
      ++letters;
    else
      digits = letters = 0;
    if (digits > 10 || (digits >= 4 && letters > 0)) return true;
  }
  return false;
}

bool only(std::string_view value, std::string_view also, bool letters) {
  return std::all_of(value.begin(), value.end(), [&](char c) {
    const auto u = static_cast<unsigned char>(c);
    return std::isdigit(u) != 0 || (letters && u < 0x80 && std::isalpha(u) != 0) || also.find(c) != std::string_view::npos;
  });
}

/// The value of a "key : value" or "key=value" line, the first one, trimmed of blanks and quotes; "" when there is none.
std::string line_value(const char* file, std::string_view wanted, char separator) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, wanted.size(), wanted) != 0) continue;
    const std::size_t at = line.find_first_not_of(" \t", wanted.size());
    if (at == std::string::npos || line[at] != separator) continue;
    const std::size_t first = line.find_first_not_of(" \t\"", at + 1);
    const std::size_t last = line.find_last_not_of(" \t\"\r");
    return first == std::string::npos ? "" : line.substr(first, last - first + 1);
  }
  return "";
}

std::set<std::string> cpu_flags() {
  std::istringstream words(line_value("/proc/cpuinfo", "flags", ':'));
  std::set<std::string> flags;
  for (std::string word; words >> word;) flags.insert(word);
  return flags;
}

/// Of the flags that decide which kernel a maths library picks, those present.
std::string isa(const std::set<std::string>& flags) {
  std::string out;
  for (const char* flag : {"sse4_2", "avx", "f16c", "fma", "avx2", "avx_vnni", "avx512f", "avx512dq", "avx512bw", "avx512vl",
                           "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "amx_fp16"})
    if (flags.count(flag) != 0) out += (out.empty() ? "" : " ") + std::string(flag);
  return out;
}

std::string container() {
  const auto exists = [](const char* path) {
    std::error_code error;
    return std::filesystem::exists(path, error);
  };
  if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr) return "kubernetes";  // whether it is set, never its value
  if (exists("/run/.containerenv")) return "podman";
  if (exists("/.dockerenv")) return "docker";
  if (exists("/.singularity.d")) return "apptainer";
  return "none";
}

/// Who started this process, from whether a variable is set, never from its value.
std::string orchestrator() {
  if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr) return "kubernetes";
  if (std::getenv("SLURM_JOB_ID") != nullptr) return "slurm";
  return "";
}

/// Tells runs before a reboot from runs after it: the start of a number that the kernel draws at every boot.
std::string boot() {
  std::ifstream in("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(in, id);
  return id.substr(0, 8);
}

/// An image digest that whoever started the container chose to hand in; nothing but a digest is taken.
std::string image_digest() {
  constexpr std::string_view prefix = "sha256:";
  const char* const value = std::getenv("ASSAY_IMAGE_DIGEST");
  const std::string digest = value == nullptr ? "" : value;
  const bool good = digest.size() == prefix.size() + 64 && digest.compare(0, prefix.size(), prefix) == 0 &&
                    digest.find_first_not_of("0123456789abcdef", prefix.size()) == std::string::npos;
  if (good) return digest;
  // Podman writes the image's id, a digest without its prefix, for whoever may read it: imageid="...".
  const std::string id = std::string(prefix) + line_value("/run/.containerenv", "imageid", '=');
  return id.size() == prefix.size() + 64 && id.find_first_not_of("0123456789abcdef", prefix.size()) == std::string::npos ? id
                                                                                                                         : "";
}

std::map<std::string, std::string> read_system() {
  std::map<std::string, std::string> s;
  s["os"] = line_value("/etc/os-release", "PRETTY_NAME", '=');
  utsname kernel{};
  if (uname(&kernel) == 0) s["kernel"] = kernel.release;  // not nodename: that is the host
  s["libc"] = std::string("glibc ") + gnu_get_libc_version();
  s["cpu"] = line_value("/proc/cpuinfo", "model name", ':');
  const std::set<std::string> flags = cpu_flags();
  s["isa"] = isa(flags);
  s["virtualised"] = flags.count("hypervisor") != 0 ? "yes" : "no";
  s["logical_cpus"] = std::to_string(sysconf(_SC_NPROCESSORS_ONLN));
  const double bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  s["memory_gib"] = std::to_string(static_cast<long long>(bytes / (1024.0 * 1024.0 * 1024.0) + 0.5));
  s["container"] = container();
  s["image_digest"] = image_digest();
  s["orchestrator"] = orchestrator();
  s["boot"] = boot();
  s["microcode"] = line_value("/proc/cpuinfo", "microcode", ':');
  const KernelDriver driver = kernel_driver();
  s["nvidia_module"] = driver.version;
  s["nvidia_module_flavour"] = driver.flavour;
  std::erase_if(s, [](const auto& entry) { return entry.second.empty(); });
  return s;
}

#ifndef ASSAY_VERSION
#define ASSAY_VERSION "unknown"
#endif
#ifndef ASSAY_COMMIT
#define ASSAY_COMMIT "unknown"
#endif
#ifndef ASSAY_COMPILER
#define ASSAY_COMPILER "unknown"
#endif
#ifndef ASSAY_BUILD
#define ASSAY_BUILD "unknown"
#endif

}  // namespace

std::vector<std::string_view> allowed_variables() {
  std::vector<std::string_view> names;
  for (const Variable& v : variables) names.push_back(v.name);
  return names;
}

std::vector<std::string_view> cleared_variables() {
  std::vector<std::string_view> names;
  bool cuda = false;
  for (const Variable& v : variables) {
    cuda = (cuda || v.name == first_of_cuda) && v.name != first_of_loader;
    if (cuda && v.kind != 'E' && v.name != "CUDA_VISIBLE_DEVICES" && v.name != "CUDA_DEVICE_ORDER") names.push_back(v.name);
  }
  return names;
}

KernelDriver parse_kernel_driver(std::string_view text) {
  // "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build ..."
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.154.05  Thu Dec 28 ..."
  const std::string line(text.substr(0, text.find('\n')));
  if (!line.starts_with("NVRM version:")) return {};
  std::istringstream words(line);
  KernelDriver out;
  for (std::string word; out.version.empty() && words >> word;)
    if (std::isdigit(static_cast<unsigned char>(word[0])) != 0 && word.find('.') != std::string::npos && only(word, ".", false))
      out.version = word;
  if (!out.version.empty()) out.flavour = line.find("Open Kernel Module") != std::string::npos ? "open" : "proprietary";
  return out;
}

KernelDriver kernel_driver() {
  std::ifstream in("/proc/driver/nvidia/version");
  std::string line;
  std::getline(in, line);
  return parse_kernel_driver(line);
}

char variable_class(std::string_view name) {
  const Variable* v = find_variable(name);
  return v == nullptr ? '\0' : v->kind;
}

std::string recorded_value(std::string_view name, std::string_view value) {
  const Variable* v = find_variable(name);
  if (v == nullptr || v->kept == Kept::set || value.size() > 64) return "set";
  if (v->kept == Kept::number && !only(value, ",:-", false)) return "set";
  if (!only(value, "_.,:=+-", true) || looks_like_a_serial(value) || redact(value) != value) return "set";
  return std::string(value);
}

Environment read_environment() {
  Environment e;
  e.assay = {{"version", ASSAY_VERSION}, {"commit", ASSAY_COMMIT}, {"compiler", ASSAY_COMPILER}, {"build", ASSAY_BUILD}};
  e.system = read_system();
  for (const Variable& v : variables)
    if (const char* value = std::getenv(std::string(v.name).c_str()))
      e.variables[std::string(v.name)] = recorded_value(v.name, value);
  return e;
}

}  // namespace assay::report
