// SPDX-License-Identifier: Apache-2.0
// What tests of emulated kernels share: memory that the checker knows, and a launch under every schedule.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "tests/emulator/emulator.hpp"

namespace assay::emulator {

/// Device memory of exactly `count` elements, in an allocation of its own.
template <class T>
class Memory {
 public:
  /// Not initialised: NaN bytes, and the checker reports a read.
  explicit Memory(std::size_t count) : count_(count), at_(new T[count]) {
    std::memset(static_cast<void*>(at_.get()), 0xff, count * sizeof(T));
    register_memory(at_.get(), count * sizeof(T), false);
  }
  explicit Memory(std::span<const T> values) : count_(values.size()), at_(new T[values.size()]) {
    std::copy(values.begin(), values.end(), at_.get());
    register_memory(at_.get(), count_ * sizeof(T), true);
  }
  explicit Memory(const std::vector<T>& values) : Memory(std::span<const T>(values)) {}
  ~Memory() { forget_memory(at_.get()); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  T* at() { return at_.get(); }
  std::vector<T> values() const { return {at_.get(), at_.get() + count_}; }
  void fill(T x) {
    std::fill_n(at_.get(), count_, x);
    mark_initialised(at_.get(), count_ * sizeof(T));
  }

 private:
  std::size_t count_;
  std::unique_ptr<T[]> at_;
};

inline constexpr Schedule all_schedules[] = {Schedule::in_order, Schedule::reverse, Schedule::random};

inline std::string text(const Report& report) {
  std::string lines;
  for (const Finding& f : report.findings) lines += f.kind + ": " + f.what + "\n";
  return lines;
}

extern const Kernel emulated_language[], emulated_planted[];  // tests/emulator/language.cu, planted/planted.cu; end: no name

/// Of kernels/ or of the tests' own; throws when there is none.
inline const Kernel& kernel_named(std::string_view name) {
  if (const Kernel* const k = find_kernel(name)) return *k;
  for (const Kernel* list : {emulated_language, emulated_planted})
    for (const Kernel* k = list; k->name; ++k)
      if (k->name == name) return *k;
  throw std::invalid_argument("no kernel " + std::string(name));
}

template <class Args>
Report launch_kernel(std::string_view name, const kernels::Launch& shape, const Args& args, const Options& options = {}) {
  return launch(kernel_named(name), shape, std::as_bytes(std::span(&args, 1)), options);
}

/// The output (count elements at args.*output) of a kernel, which every schedule must give bit for bit and without a finding.
template <class T, class Args, class Pointer>
std::vector<T> clean_result(std::string_view name, const kernels::Launch& shape, Args args, Pointer Args::*output,
                            std::size_t count, const Options& given = {}) {
  std::vector<T> first;
  for (const Schedule s : all_schedules) {
    Memory<T> y(count);
    args.*output = y.at();
    Options options = given;
    options.schedule = s;
    const Report report = launch_kernel(name, shape, args, options);
    CHECK_MESSAGE(report.clean(), text(report));
    const std::vector<T> values = y.values();
    if (s == Schedule::in_order)
      first = values;
    else
      CHECK_MESSAGE(std::memcmp(first.data(), values.data(), count * sizeof(T)) == 0, std::string(name)
                                                                                          << ": the schedule matters");
  }
  return first;
}

/// Every version of an op exists in every format it names.
inline void check_entries(const std::string& op, std::span<const kernels::Version> versions) {
  for (const kernels::Version& v : versions) {
    std::string format;
    for (const char c : std::string(v.formats) + " ") {
      if (c != ' ') {
        format += c;
        continue;
      }
      const std::string name = op + "_" + v.name + "_" + format;
      CHECK_MESSAGE(find_kernel(name) != nullptr, name);
      format.clear();
    }
  }
}

}  // namespace assay::emulator
