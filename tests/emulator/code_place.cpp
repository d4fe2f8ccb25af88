// SPDX-License-Identifier: Apache-2.0
// Names of code places, as far as the dynamic symbol table knows them (programs link with ENABLE_EXPORTS).
#include "tests/emulator/code_place.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

namespace assay::emulator {
namespace {

const char anchor = 0;  // any address in the image

/// The image's first and last byte + 1.
std::pair<std::uintptr_t, std::uintptr_t> find_image() {
  std::pair<std::uintptr_t, std::uintptr_t> range{0, 0};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        std::uintptr_t low = ~std::uintptr_t{0}, high = 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& p = info->dlpi_phdr[i];
          if (p.p_type != PT_LOAD) continue;
          low = std::min(low, info->dlpi_addr + p.p_vaddr);
          high = std::max(high, info->dlpi_addr + p.p_vaddr + p.p_memsz);
        }
        const auto mine = reinterpret_cast<std::uintptr_t>(&anchor);
        if (mine < low || mine >= high) return 0;
        *static_cast<std::pair<std::uintptr_t, std::uintptr_t>*>(result) = {low, high};
        return 1;
      },
      &range);
  return range;
}

const std::pair<std::uintptr_t, std::uintptr_t>& image() {
  static const auto range = find_image();
  return range;
}

std::string hexadecimal(std::uintptr_t x) {
  char digits[24];
  std::snprintf(digits, sizeof digits, "0x%zx", static_cast<std::size_t>(x));
  return digits;
}

/// "void assay::kernels::f<float>(...)" -> "f<float>"
std::string short_name(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  std::string name = status == 0 ? readable.get() : symbol;
  if (const auto parameters = name.find('('); parameters != std::string::npos) name.erase(parameters);
  if (name.starts_with("void ")) name.erase(0, 5);
  if (name.starts_with("assay::")) name.erase(0, name.find("::", 7) + 2);
  return name;
}

}  // namespace

std::int32_t relative(const void* code) {
  return static_cast<std::int32_t>(reinterpret_cast<std::uintptr_t>(code) - image().first);
}

bool in_program(std::uintptr_t at) {
  return at >= image().first && at < image().second;
}

std::string describe(std::int32_t code) {
  const std::uintptr_t call = image().first + static_cast<std::uint32_t>(code) - 1;  // a return address is one too far
  Dl_info info{};
  if (!dladdr(reinterpret_cast<const void*>(call), &info) || !info.dli_fname) return hexadecimal(call);
  const std::string file = info.dli_fname;
  std::string place =
      file.substr(file.rfind('/') + 1) + "+" + hexadecimal(call - reinterpret_cast<std::uintptr_t>(info.dli_fbase));
  if (!info.dli_sname) return place;
  return short_name(info.dli_sname) + "+" + hexadecimal(call - reinterpret_cast<std::uintptr_t>(info.dli_saddr)) + " (" +
         place + ")";
}

}  // namespace assay::emulator
