// SPDX-License-Identifier: Apache-2.0
#include "probes/device/build.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "kernels/sources.hpp"
#include "probes/library/library.hpp"
#include "probes/library/nvrtc.hpp"
#include "probes/library/sha256.hpp"

namespace assay::device {

namespace {

namespace fs = std::filesystem;

constexpr std::array<std::pair<std::string_view, Maker>, 4> makers = {{{"nvrtc-cubin", Maker::nvrtc_cubin},
                                                                       {"nvrtc-ptxas", Maker::nvrtc_ptxas},
                                                                       {"nvrtc-ptx", Maker::nvrtc_ptx},
                                                                       {"nvcc-cubin", Maker::nvcc_cubin}}};

const std::string& file_of(const std::map<std::string, std::string>& set, const std::string& role) {
  const auto found = set.find(role);
  if (found == set.end())
    throw LibraryError(fmt::format("this build needs {}, and none was found; name it with --libraries {}=PATH", role, role));
  return found->second;
}

/// A folder that goes with its owner.
class Scratch {
 public:
  Scratch() : path_((fs::temp_directory_path() / "assay-kernel-XXXXXX").string()) {
    if (!mkdtemp(path_.data()))
      throw LibraryError(fmt::format("cannot make a folder in {}", fs::temp_directory_path().string()));
  }
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

std::vector<char> read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const std::string& path, std::string_view bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream out(path, std::ios::binary);
  if (!out.write(bytes.data(), static_cast<std::streamsize>(bytes.size())).flush())
    throw LibraryError(fmt::format("cannot write {}: is the disk full?", path));
}

/// What a compiler printed. Throws CompileError unless it ends with 0.
std::string run_tool(const std::vector<std::string>& command, const Scratch& scratch) {
  const std::string log = scratch.file("log");
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = -1;
  const int failed = posix_spawn(&child, argv.front(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw LibraryError(fmt::format("cannot start {}", command.front()));
  int status = 0;
  waitpid(child, &status, 0);
  const std::vector<char> said = read(log);
  const std::string text(said.begin(), said.end());
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw CompileError(fmt::format("{} refused a kernel of ours: {}", command.front(), text.substr(0, 600)));
  return text;
}

/// The last version number in what `tool --version` prints: "13.0.88".
std::string tool_version(const std::string& tool, const Scratch& scratch) {
  const std::string said = run_tool({tool, "--version"}, scratch);
  const std::size_t at = said.rfind(", V");
  return at == std::string::npos ? "" : said.substr(at + 3, said.find_first_of(" \n", at + 3) - at - 3);
}

std::string short_digest(std::span<const char> bytes) {
  return sha256_hex(std::as_bytes(bytes)).substr(0, 16);
}

/// The architecture to compile for: the device's own, or the lowest of its family.
int target_sm(const Build& build, int sm) {
  if (!build.lower) return sm;
  if (sm >= 80 && sm < 90) return 80;
  if (sm >= 100 && sm < 110) return 100;
  if (sm >= 120) return 120;
  return sm / 10 * 10;
}

std::vector<std::string> common_options(const Build& build) {
  return build.fast ? std::vector<std::string>{"--std=c++20", "--use_fast_math"}
                    : std::vector<std::string>{"--std=c++20", "--fmad=false"};
}

Image by_nvrtc(const Build& build, const std::string& file, int sm, const std::map<std::string, std::string>& set) {
  const bool to_ptx = build.maker != Maker::nvrtc_cubin;
  const nvrtc::Nvrtc& compiler = nvrtc::Nvrtc::open(file_of(set, "nvrtc"));
  std::vector<std::string> options = common_options(build);
  options.push_back("--device-as-default-execution-space");  // the headers' constexpr functions serve host and device
  options.push_back(fmt::format("--gpu-architecture={}_{}", to_ptx ? "compute" : "sm", sm));
  if (!to_ptx && build.level != 3) options.push_back(fmt::format("--ptxas-options=-O{}", build.level));
  nvrtc::Result made = nvrtc::compile(compiler, file, options);
  Image out;
  out.bytes = std::move(made.image);
  out.ptx = to_ptx, out.sm = sm;
  out.compiler = fmt::format("NVRTC {}", compiler.version_text());
  if (to_ptx) out.ptx_digest = short_digest(out.bytes);
  return out;
}

Image by_ptxas(const Build& build, const std::string& file, int sm, const std::map<std::string, std::string>& set) {
  const std::string& ptxas = file_of(set, "ptxas");
  Image out = by_nvrtc(build, file, sm, set);
  const Scratch scratch;
  write(scratch.file("kernel.ptx"), std::string_view(out.bytes.data()));
  run_tool({ptxas, fmt::format("-arch=sm_{}", sm), fmt::format("-O{}", build.level), scratch.file("kernel.ptx"), "-o",
            scratch.file("kernel.cubin")},
           scratch);
  out.compiler += fmt::format(" (PTX), ptxas {}", tool_version(ptxas, scratch));
  out.bytes = read(scratch.file("kernel.cubin"));
  out.ptx = false;
  return out;
}

Image by_nvcc(const Build& build, const std::string& file, int sm, const std::map<std::string, std::string>& set) {
  const std::string& nvcc = file_of(set, "nvcc");
  const Scratch scratch;
  for (const kernels::Source& s : kernels::sources()) write(scratch.file(s.name), s.text);
  std::vector<std::string> command = {nvcc,
                                      "-cubin",
                                      fmt::format("-arch=sm_{}", sm),
                                      fmt::format("-Xptxas=-O{}", build.level),
                                      "-I" + scratch.file("."),
                                      scratch.file(file),
                                      "-o",
                                      scratch.file("kernel.cubin")};
  for (const std::string& option : common_options(build)) command.push_back(option);
  run_tool(command, scratch);
  Image out;
  out.bytes = read(scratch.file("kernel.cubin"));
  out.sm = sm;
  out.compiler = fmt::format("nvcc {}", tool_version(nvcc, scratch));
  return out;
}

}  // namespace

Build parse_build(std::string_view text) {
  const auto refuse = [&](std::string_view why) -> Build {
    throw std::invalid_argument(
        fmt::format("kernel build \"{}\": {}; expected nvrtc-cubin, nvrtc-ptx, nvrtc-ptxas or nvcc-cubin, then any of -O0 ... "
                    "-O3, -fast, -lower",
                    text, why));
  };
  Build out;
  std::string_view rest = text;
  for (const auto& [word, maker] : makers)
    if (rest.starts_with(word) && (rest.size() == word.size() || rest[word.size()] == '-')) {
      out.maker = maker;
      rest.remove_prefix(word.size());
      break;
    }
  if (rest.size() == text.size()) return refuse("it names no compiler");
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view word = rest.substr(0, rest.find('-'));
    rest.remove_prefix(word.size());
    if (word == "fast")
      out.fast = true;
    else if (word == "lower")
      out.lower = true;
    else if (word.size() == 2 && word[0] == 'O' && word[1] >= '0' && word[1] <= '3')
      out.level = word[1] - '0';
    else
      return refuse(fmt::format("\"{}\" is not known", word));
  }
  return out;
}

std::string name(const Build& b) {
  std::string out;
  for (const auto& [word, maker] : makers)
    if (maker == b.maker) out = word;
  if (b.level != 3) out += fmt::format("-O{}", b.level);
  if (b.fast) out += "-fast";
  if (b.lower) out += "-lower";
  return out;
}

std::vector<std::string_view> roles(const Build& b) {
  if (b.maker == Maker::nvcc_cubin) return {"nvcc"};
  if (b.maker == Maker::nvrtc_ptxas) return {"nvrtc", "ptxas"};
  return {"nvrtc"};
}

std::vector<Build> all_builds(const std::map<std::string, std::string>& set) {
  std::vector<Build> out;
  for (const auto& [word, maker] : makers) {
    const std::vector<std::string_view> needed = roles({.maker = maker});
    if (!std::ranges::all_of(needed, [&](std::string_view role) { return set.contains(std::string(role)); })) continue;
    out.push_back({.maker = maker});
    out.push_back({.maker = maker, .level = 0});
    out.push_back({.maker = maker, .level = 1});
    out.push_back({.maker = maker, .fast = true});
    if (maker != Maker::nvrtc_ptx) out.push_back({.maker = maker, .lower = true});
  }
  return out;
}

Image make_image(const Build& build, const std::string& file, int sm, const std::map<std::string, std::string>& set) {
  const int target = target_sm(build, sm);
  Image out = build.maker == Maker::nvcc_cubin    ? by_nvcc(build, file, target, set)
              : build.maker == Maker::nvrtc_ptxas ? by_ptxas(build, file, target, set)
                                                  : by_nvrtc(build, file, target, set);
  out.digest = short_digest(out.bytes);
  return out;
}

}  // namespace assay::device
