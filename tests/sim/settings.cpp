// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/settings.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <stdexcept>

#include "tests/sim/device.hpp"

namespace assay::sim {
namespace {

struct Kind {
  std::string_view name, keys;  // keys it understands, each followed by a blank
};
constexpr std::array<Kind, 10> kinds = {{{"flush_subnormals", "sm kernel build "},
                                         {"k_tail", "sm kernel build "},
                                         {"drop_store", "sm kernel build "},
                                         {"guard", "sm kernel build "},
                                         {"sticky", "sm kernel build "},
                                         {"late_error", "sm kernel build "},
                                         {"hang", "sm kernel build "},
                                         {"launch_fail", "sm kernel build code "},
                                         {"alloc_fail", "sm after "},
                                         {"copy_flip", "sm kernel build after "}}};

std::size_t number(std::string_view text, std::string_view what) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw std::invalid_argument(fmt::format("{} is \"{}\"; expected a number", what, text));
  return value;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (std::size_t end = 0; end != text.npos; text.remove_prefix(end == text.npos ? text.size() : end + 1))
    parts.push_back(text.substr(0, end = text.find(at)));
  return parts;
}

void set_key(Fault& f, std::string_view pair) {
  const std::size_t equals = pair.find('=');
  const std::string_view key = pair.substr(0, equals), value = equals == pair.npos ? "" : pair.substr(equals + 1);
  const Kind& kind = *std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) { return k.name == f.name; });
  if (value.empty() || kind.keys.find(std::string(key) + " ") == kind.keys.npos)
    throw std::invalid_argument(
        fmt::format("fault {} has no key \"{}\"; expected key=value with a key of: {}", f.name, pair, kind.keys));
  if (key == "sm") f.sm = static_cast<int>(number(value, pair));
  if (key == "code") f.code = static_cast<int>(number(value, pair));
  if (key == "after") f.after = number(value, pair);
  if (key == "kernel") f.kernel = value;
  if (key == "build") f.build = value;
  if (key == "build" && value != "ptx" && value != "cubin")
    throw std::invalid_argument(fmt::format("fault {}: build is \"{}\"; expected ptx or cubin", f.name, value));
}

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

Settings read_settings() {
  Settings s;
  if (const auto text = environment("ASSAY_SIM_SM"); !text.empty()) s.sm = static_cast<int>(number(text, "ASSAY_SIM_SM"));
  if (const auto text = environment("ASSAY_SIM_MEMORY"); !text.empty()) s.memory_bytes = number(text, "ASSAY_SIM_MEMORY");
  if (const auto text = environment("ASSAY_SIM_DRIVER"); !text.empty())
    s.driver = static_cast<int>(number(text, "ASSAY_SIM_DRIVER"));
  s.log = environment("ASSAY_SIM_LOG");
  s.faults = parse_faults(environment("ASSAY_SIM_FAULT"));
  architecture(s.sm);  // known
  newest_ptx(s.driver);
  return s;
}

void append_to_log(const std::string& line) {
  if (settings().log.empty()) return;
  const int file = open(settings().log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0 || write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    fmt::print(stderr, "simulated device: cannot write the log file {}\n", settings().log);
    std::abort();
  }
  close(file);
}

}  // namespace

bool Fault::applies(int device_sm, const Circumstance& c) const {
  return (!sm || *sm == device_sm) && (build.empty() || build == c.build) && c.before >= after.value_or(0) &&
         (kernel.empty() || fnmatch(kernel.c_str(), std::string(c.kernel).c_str(), 0) == 0);
}

std::vector<Fault> parse_faults(std::string_view text) {
  std::vector<Fault> faults;
  if (text.empty()) return faults;
  for (const std::string_view one : split(text, ',')) {
    const std::vector<std::string_view> parts = split(one, ':');
    const bool known = std::any_of(kinds.begin(), kinds.end(), [&](const Kind& k) { return k.name == parts[0]; });
    if (!known) throw std::invalid_argument(fmt::format("the simulated device has no fault named \"{}\"", parts[0]));
    Fault f{.name = std::string(parts[0]), .sm = {}, .code = {}, .after = {}, .kernel = {}, .build = {}};
    for (std::size_t i = 1; i < parts.size(); ++i) set_key(f, parts[i]);
    faults.push_back(std::move(f));
  }
  return faults;
}

const Settings& settings() {
  static const Settings all = [] {
    try {
      return read_settings();
    } catch (const std::exception& e) {
      fmt::print(stderr, "simulated device: {}\n", e.what());
      std::abort();
    }
  }();
  return all;
}

const Fault* fault(std::string_view name, const Circumstance& c) {
  for (const Fault& f : settings().faults)
    if (f.name == name && f.applies(settings().sm, c)) return &f;
  return nullptr;
}

void log_call(std::string_view call, std::string_view text, int code) {
  append_to_log(fmt::format("{} {}{}{} -> {}\n", getpid(), call, text.empty() ? "" : ": ", text, code));
}

void announce(std::string_view text) {
  fmt::print(stderr, "simulated device: {}\n", text);
  append_to_log(fmt::format("{} {}\n", getpid(), text));
}

}  // namespace assay::sim
