// SPDX-License-Identifier: Apache-2.0
#include "probes/library/nvrtc.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>

#include "kernels/sources.hpp"
#include "probes/library/opened.hpp"

namespace assay::nvrtc {

namespace {

/// A text or image that NVRTC hands out in two steps.
std::vector<char> take(int (*size_of)(void*, std::size_t*), int (*get)(void*, char*), void* program) {
  std::size_t size = 0;
  if (size_of(program, &size) != 0 || size == 0) return {};
  std::vector<char> out(size);
  if (get(program, out.data()) != 0) return {};
  return out;
}

}  // namespace

const Nvrtc& Nvrtc::open(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Nvrtc>> opened;
  const std::lock_guard lock(mutex);
  if (const auto found = opened.find(path); found != opened.end()) return *found->second;
  void* const handle = open_exactly(path);
  std::unique_ptr<Nvrtc> out(new Nvrtc);
  out->path_ = path;
  const auto need = [&](const char* name) {
    void* const symbol = ::dlsym(handle, name);
    if (!symbol)
      throw LibraryError(
          fmt::format("{} has no {}: it is no NVRTC, or older than 11.2; name a libnvrtc.so.12 or .13", path, name));
    return symbol;
  };
#define ASSAY_RESOLVE(name, arguments) out->functions_.name = reinterpret_cast<decltype(Functions::name)>(need(#name));
  ASSAY_NVRTC_SYMBOLS(ASSAY_RESOLVE)
#undef ASSAY_RESOLVE
  out->functions_.nvrtcGetErrorString = reinterpret_cast<decltype(Functions::nvrtcGetErrorString)>(need("nvrtcGetErrorString"));
  int count = 0;
  out->functions_.nvrtcVersion(&out->major_, &out->minor_);
  out->functions_.nvrtcGetNumSupportedArchs(&count);
  out->architectures_.resize(static_cast<std::size_t>(std::max(0, count)));
  if (count > 0) out->functions_.nvrtcGetSupportedArchs(out->architectures_.data());
  note_version(path, "NVRTC " + out->version_text());
  return *(opened[path] = std::move(out));
}

std::string Nvrtc::version_text() const {
  return fmt::format("{}.{}", major_, minor_);
}

const std::vector<int>& Nvrtc::architectures() const {
  return architectures_;
}

Result compile(const Nvrtc& nvrtc, const std::string& file, const std::vector<std::string>& options) {
  const Functions& fn = nvrtc.fn();
  std::vector<std::string> names, texts;
  std::string source;
  for (const kernels::Source& s : kernels::sources()) {
    if (s.name == file)
      source = s.text;
    else
      names.emplace_back(s.name), texts.emplace_back(s.text);
  }
  if (source.empty()) throw LibraryError(fmt::format("there is no kernel file {} in this program", file));
  std::vector<const char*> name_list, text_list, option_list;
  for (const std::string& n : names) name_list.push_back(n.c_str());
  for (const std::string& t : texts) text_list.push_back(t.c_str());
  for (const std::string& o : options) option_list.push_back(o.c_str());
  void* program = nullptr;
  if (const int status = fn.nvrtcCreateProgram(&program, source.c_str(), file.c_str(), static_cast<int>(names.size()),
                                               text_list.data(), name_list.data());
      status != 0)
    throw LibraryError(fmt::format("{} cannot begin to compile: {}", nvrtc.path(), fn.nvrtcGetErrorString(status)));
  const int status = fn.nvrtcCompileProgram(program, static_cast<int>(options.size()), option_list.data());
  const std::vector<char> said = take(fn.nvrtcGetProgramLogSize, fn.nvrtcGetProgramLog, program);
  Result out;
  out.log.assign(said.begin(), said.empty() ? said.end() : said.end() - 1);
  if (status == 0) {
    const bool cubin = std::ranges::any_of(options, [](const std::string& o) { return o.find("=sm_") != std::string::npos; });
    out.image =
        cubin ? take(fn.nvrtcGetCUBINSize, fn.nvrtcGetCUBIN, program) : take(fn.nvrtcGetPTXSize, fn.nvrtcGetPTX, program);
  }
  fn.nvrtcDestroyProgram(&program);
  if (status != 0 || out.image.empty())
    throw LibraryError(fmt::format("NVRTC {} refuses {} with {}: {} {}", nvrtc.version_text(), file, fmt::join(options, " "),
                                   fn.nvrtcGetErrorString(status), out.log.substr(0, 600)));
  return out;
}

}  // namespace assay::nvrtc
