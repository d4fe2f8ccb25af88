// SPDX-License-Identifier: Apache-2.0
// Opening a oneDNN: which file was mapped, its major, its functions, its CPU engine, and what it says of itself.
#include "probes/library/onednn.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <map>
#include <mutex>

#include "probes/library/elf.hpp"
#include "probes/library/onednn_symbols.hpp"
#include "probes/library/opened.hpp"

namespace assay::onednn {

namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const Library>> by_path;
};
/// Never destroyed: threads of the library's runtime may still run while the process ends.
Registry& registry() {
  static auto* const opened = new Registry;
  return *opened;
}

template <class Function>
void find(void* handle, const char* name, Function& to) {
  to = reinterpret_cast<Function>(::dlsym(handle, name));
}

/// dnnl_cpu_isa_t. The bits of the two majors differ where Intel's names came in another order.
struct IsaName {
  int major2, major3;  // -1: not in this major
  const char* name;
};
constexpr std::array<IsaName, 14> isa_names{{
    {0x1, 0x1, "SSE41"},
    {0x3, 0x3, "AVX"},
    {0x7, 0x7, "AVX2"},
    {0x407, 0xf, "AVX2_VNNI"},
    {-1, 0x1f, "AVX2_VNNI_2"},
    {0xf, -1, "AVX512_MIC"},
    {0x1f, -1, "AVX512_MIC_4OPS"},
    {0x27, 0x27, "AVX512_CORE"},
    {0x67, 0x67, "AVX512_CORE_VNNI"},
    {0xe7, 0xe7, "AVX512_CORE_BF16"},
    {-1, 0x1ef, "AVX512_CORE_FP16"},
    {0x3e7, 0xfef, "AVX512_CORE_AMX"},
    {-1, 0x1fef, "AVX512_CORE_AMX_FP16"},
    {-1, 0x22fff, "AVX10_2_AMX_2"},
}};

}  // namespace

const char* status_word(Status status) {
  switch (status) {
    case success:
      return "success";
    case out_of_memory:
      return "out of memory";
    case invalid_arguments:
      return "invalid arguments";
    case unimplemented:
      return "unimplemented";
    case last_implementation_reached:
      return "last implementation reached";
    case runtime_error:
      return "runtime error";
    case not_required:
      return "not required";
    default:
      return "a status that its documentation does not list";
  }
}

void check(Status status, const char* call) {
  if (status == success) return;
  const std::string said = fmt::format("{} answered {}: {}", call, status, status_word(status));
  // Sizes that a release cannot take are "invalid arguments" as often as "unimplemented" (a batch of 0 in 2.6).
  if (status == unimplemented || status == invalid_arguments) throw Refused(said);
  throw std::runtime_error(said);
}

Symbols resolve(void* handle, int major, const std::string& path) {
  Symbols s;
  s.major = major;
  const auto required = [&](const char* name, auto& to) {
    find(handle, name, to);
    if (to == nullptr)
      throw LibraryError(fmt::format("{} has no {}, which oneDNN {} must have; name a complete library", path, name, major));
  };
#define ASSAY_RESOLVE(name, ...) required(#name, s.name);
  ASSAY_ONEDNN_BOTH(ASSAY_RESOLVE)
  ASSAY_ONEDNN_CHANGED(ASSAY_RESOLVE)
  if (major == 2) {
    ASSAY_ONEDNN_2(ASSAY_RESOLVE)
  } else {
    ASSAY_ONEDNN_3(ASSAY_RESOLVE)
  }
#undef ASSAY_RESOLVE
  if (major == 2) find(handle, "dnnl_softmax_v2_forward_desc_init", s.dnnl_softmax_v2_forward_desc_init);
  find(handle, "dnnl_primitive_attr_set_fpmath_mode", s.dnnl_primitive_attr_set_fpmath_mode);
  return s;
}

Library::Library() = default;
Library::~Library() = default;

const Library* opened(const std::string& path) {
  const std::lock_guard lock(registry().mutex);
  const auto found = registry().by_path.find(path);
  return found == registry().by_path.end() ? nullptr : found->second.get();
}

const Library& Library::open(const std::string& path) {
  std::error_code missing;  // read_library says it better
  const std::string real = std::filesystem::canonical(path, missing).string();
  const std::lock_guard lock(registry().mutex);
  auto& by_path = registry().by_path;
  if (const auto found = by_path.find(real); found != by_path.end()) return *found->second;
  const LibraryFile file = read_library_without_digest(path);  // the whole file, 50 MB and more
  if (!is_onednn(file))
    throw LibraryError(fmt::format("{} exports no dnnl_version: it is no oneDNN; name another file", file.path));

  void* const handle = open_exactly(file.path);
  decltype(Symbols::dnnl_version) ask_version = nullptr;
  find(handle, "dnnl_version", ask_version);
  const RawVersion raw = *ask_version();
  if (raw.major != 2 && raw.major != 3)
    throw LibraryError(
        fmt::format("{} is oneDNN {}.{}.{}; assay knows majors 2 and 3", file.path, raw.major, raw.minor, raw.patch));
  if ((raw.cpu_runtime & runtime_sycl) != 0)
    throw LibraryError(
        fmt::format("{} runs its CPU engine through SYCL, which needs SYCL memory; name a build for OpenMP, TBB or "
                    "one thread (the wheels onednn-cpu-gomp, -iomp, -tbb)",
                    file.path));

  std::unique_ptr<Library> lib(new Library);
  lib->path_ = file.path;
  lib->version_ = {raw.major, raw.minor, raw.patch, raw.hash == nullptr ? "" : raw.hash, raw.cpu_runtime};
  lib->symbols_ = std::make_unique<const Symbols>(resolve(handle, raw.major, file.path));
  if ((raw.cpu_runtime & runtime_openmp) != 0) lib->omp_threads_ = ::dlsym(handle, "omp_get_max_threads");
  void* engine = nullptr;
  if (const Status status = lib->symbols_->dnnl_engine_create(&engine, engine_cpu, 0); status != success)
    throw LibraryError(fmt::format("{} has no CPU engine: dnnl_engine_create answered {}; name a build with one", file.path,
                                   status_word(status)));
  lib->engine_ = Handle(engine, {lib->symbols_->dnnl_engine_destroy});
  return *(by_path[file.path] = std::move(lib));
}

std::string Library::version_text() const {
  return fmt::format("oneDNN {}.{}.{}", version_.major, version_.minor, version_.patch);
}

std::string Library::isa() const {
  const int bits = symbols_->dnnl_get_effective_cpu_isa();
  for (const IsaName& n : isa_names)
    if ((version_.major == 2 ? n.major2 : n.major3) == bits) return n.name;
  return fmt::format("{:#x}", bits);
}

std::string Library::runtime_text() const {
  switch (version_.runtime) {
    case runtime_sequential:
      return "sequential";
    case runtime_openmp:
      return "OpenMP";
    case runtime_tbb:
      return "TBB";
    case runtime_threadpool:
      return "thread pool of the caller";
    default:
      return fmt::format("{:#x}", version_.runtime);
  }
}

int Library::threads() const {
  if (version_.runtime == runtime_sequential) return 1;
  return omp_threads_ == nullptr ? 0 : reinterpret_cast<int (*)()>(omp_threads_)();
}

}  // namespace assay::onednn
