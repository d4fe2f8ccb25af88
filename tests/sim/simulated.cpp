// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/simulated.hpp"

#include <dlfcn.h>
#include <doctest/doctest.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdlib>

namespace assay::sim_test {

Library::Library(Environment environment) {
  for (const auto& [name, value] : environment) {
    setenv(name, value.c_str(), 1);
    variables_.push_back(name);
  }
  handle_ = dlopen(ASSAY_SIM_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  REQUIRE_MESSAGE(handle_, dlerror());
}

Library::~Library() {
  dlclose(handle_);
  for (const std::string& name : variables_) unsetenv(name.c_str());
  CHECK_MESSAGE(!dlopen(ASSAY_SIM_LIBRARY, RTLD_NOW | RTLD_NOLOAD),
                "the library stays loaded: the next test would not start afresh");
}

void* Library::find(const char* name) const {
  return dlsym(handle_, name);
}

void* Library::entry(const char* name) const {
  void* const found = find(name);
  REQUIRE_MESSAGE(found, name);
  return found;
}

Device::Device(Environment environment) : Library(environment) {
  Handle context = nullptr;
  REQUIRE(call("cuInit", 0u) == 0);
  REQUIRE(call("cuDevicePrimaryCtxRetain", &context, 0) == 0);
  REQUIRE(call("cuCtxSetCurrent", context) == 0);
}

Address Device::allocate(std::size_t bytes) const {
  Address at = 0;
  REQUIRE(call("cuMemAlloc_v2", &at, bytes) == 0);
  return at;
}
int Device::upload(Address to, const void* from, std::size_t bytes, Handle stream) const {
  return call("cuMemcpyHtoDAsync_v2", to, from, bytes, stream);
}
int Device::download(void* to, Address from, std::size_t bytes, Handle stream) const {
  return call("cuMemcpyDtoHAsync_v2", to, from, bytes, stream);
}
Handle Device::stream(unsigned flags) const {
  Handle made = nullptr;
  REQUIRE(call("cuStreamCreate", &made, flags) == 0);
  return made;
}
Handle Device::event(unsigned flags) const {
  Handle made = nullptr;
  REQUIRE(call("cuEventCreate", &made, flags) == 0);
  return made;
}

int Device::load(const void* image, Handle* module) const {
  Handle unused = nullptr;
  return call("cuModuleLoadDataEx", module ? module : &unused, image, 0u, static_cast<int*>(nullptr),
              static_cast<void**>(nullptr));
}
Handle Device::function(const std::string& image, const char* name) const {
  Handle module = nullptr, found = nullptr;
  REQUIRE(load(image.data(), &module) == 0);
  REQUIRE(call("cuModuleGetFunction", &found, module, name) == 0);
  return found;
}

std::string ptx(const std::string& version, const std::string& target, std::initializer_list<const char*> entries,
                std::size_t parameter_bytes, const std::string& directives, const std::string& body) {
  std::string text = "// made by hand\n.version " + version + "\n.target " + target + "\n.address_size 64\n";
  for (const std::string name : entries)
    text += ".visible .entry " + name + "(\n .param .align 8 .b8 " + name + "_param_0[" + std::to_string(parameter_bytes) +
            "]\n)\n" + directives + "{\n" + body + " ret;\n}\n";
  return text;
}

std::string cubin(unsigned flags, unsigned abi_version, std::initializer_list<const char*> entries, unsigned machine,
                  unsigned registers) {
  std::string names(1, '\0'), file(sizeof(Elf64_Ehdr), '\0');
  std::vector<Elf64_Shdr> sections(1);
  const auto add = [&](const std::string& name, unsigned type, const void* bytes = nullptr, std::size_t count = 0) {
    Elf64_Shdr s = {};
    s.sh_name = static_cast<unsigned>(names.size());
    s.sh_type = type;
    s.sh_offset = file.size();
    s.sh_size = count;
    names += name + '\0';
    if (bytes) file.append(static_cast<const char*>(bytes), count);
    sections.push_back(s);
  };
  for (const std::string name : entries) add(".text." + name, SHT_PROGBITS);
  if (registers > 0) {
    const std::string symbol_names = '\0' + std::string(*entries.begin()) + '\0';
    Elf64_Sym symbols[2] = {};
    symbols[1].st_name = 1;
    // Format 4, attribute 0x2f (registers), 8 bytes: number of the symbol, count.
    const unsigned info[] = {0x04u | 0x2fu << 8 | 8u << 16, 1, registers};
    add(".strtab", SHT_STRTAB, symbol_names.data(), symbol_names.size());
    add(".symtab", SHT_SYMTAB, symbols, sizeof symbols);
    add(".nv.info", SHT_PROGBITS, info, sizeof info);
  }
  add(".shstrtab", SHT_STRTAB);
  sections.back().sh_size = names.size();
  file += names;
  file.resize((file.size() + 7) / 8 * 8);

  Elf64_Ehdr head = {};
  std::copy_n(ELFMAG, SELFMAG, head.e_ident);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_ABIVERSION] = static_cast<unsigned char>(abi_version);
  head.e_machine = static_cast<Elf64_Half>(machine);
  head.e_flags = flags;
  head.e_shoff = file.size();
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shnum = static_cast<Elf64_Half>(sections.size());
  head.e_shstrndx = static_cast<Elf64_Half>(sections.size() - 1);
  std::copy_n(reinterpret_cast<const char*>(&head), sizeof head, file.data());
  return file.append(reinterpret_cast<const char*>(sections.data()), sections.size() * sizeof(Elf64_Shdr));
}

Softmax::Softmax(const Device& d, std::int64_t rows_, std::int64_t n_)
    : device(d),
      rows(rows_),
      n(n_),
      in(static_cast<std::size_t>(rows * n)),
      x(d.allocate(in.size() * 4)),
      y(d.allocate(in.size() * 4)) {
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 16;
}

kernels::SoftmaxArgs Softmax::args() const {
  kernels::SoftmaxArgs g = {};
  g.x = reinterpret_cast<const void*>(x), g.y = reinterpret_cast<void*>(y);
  g.rows = rows, g.n = g.ldx = g.ldy = n;
  return g;
}

int Softmax::launch(Handle function, Handle stream) const {
  return device.launch(function, kernels::softmax_launch(args()), args(), stream);
}

std::vector<float> Softmax::result() const {
  std::vector<float> got(in.size());
  REQUIRE(device.download(got.data(), y, got.size() * 4) == 0);
  REQUIRE(device.synchronize() == 0);
  return got;
}

int Softmax::wrong(const std::vector<float>& got) const {
  int count = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* const from = in.data() + row * n;
    double sum = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += std::exp(static_cast<double>(from[j]));
    for (std::int64_t j = 0; j < n; ++j) {
      const double expected = std::exp(static_cast<double>(from[j])) / sum;
      if (!(std::abs(got[static_cast<std::size_t>(row * n + j)] - expected) <= 1e-6)) ++count;
    }
  }
  return count;
}

int status_in_child(void (*body)()) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (const int null = open("/dev/null", O_WRONLY); null >= 0) dup2(null, 1), dup2(null, 2);
    for (const int signal : {SIGSEGV, SIGABRT, SIGALRM}) std::signal(signal, SIG_DFL);
    alarm(10);
    body();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace assay::sim_test
