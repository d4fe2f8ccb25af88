// SPDX-License-Identifier: Apache-2.0
#include "probes/library/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "probes/library/library.hpp"

namespace assay {

namespace {

[[noreturn]] void refuse(std::string_view value, std::string_view why) {
  throw LibraryError(fmt::format(
      "--libraries {}: {}; expected auto, NAME=PATH with NAME one of {} or {}, the path of a library file, a folder, "
      "or from-python PYTHON",
      value, why, fmt::join(cpu_families, ", "), fmt::join(device_roles, ", ")));
}

/// Records write the home folder as ~, and not every shell expands it after an equals sign.
std::string expand_home(std::string path) {
  if (const char* home = std::getenv("HOME"); home != nullptr && path.starts_with("~/")) path.replace(0, 1, home);
  return path;
}

/// The interpreter that a path means: itself, or that of the environment in this folder.
std::string interpreter(const std::string& value, std::string path) {
  if (path.empty()) return "python3";
  path = expand_home(std::move(path));
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return path;
  for (const char* inside : {"/bin/python3", "/bin/python"})
    if (std::filesystem::exists(path + inside, ignored)) return path + inside;
  refuse(value, "the folder has no bin/python3");
}

Choice parse(const std::string& value) {
  Choice out{.kind = Choice::Kind::file, .name = {}, .path = value, .value = value};
  const std::size_t slash = value.find('/'), equals = value.find('=');
  if (equals < slash) {
    out.name = value.substr(0, equals), out.path = value.substr(equals + 1);
    if (std::ranges::find(cpu_families, out.name) == std::end(cpu_families) && !is_device_role(out.name))
      refuse(value, fmt::format("\"{}\" is not a known library name", out.name));
    if (out.path.empty()) refuse(value, "the path is empty");
  } else if (slash == std::string::npos) {
    refuse(value, "it is neither a name with a path nor a path (write ./ before a file of this folder)");
  }
  out.path = expand_home(std::move(out.path));
  std::error_code ignored;
  if (std::filesystem::is_directory(out.path, ignored)) {
    if (!out.name.empty()) refuse(value, "that is a folder; name the file, or give the folder without a name");
    out.kind = Choice::Kind::folder;
  }
  return out;
}

}  // namespace

bool is_device_role(std::string_view name) {
  return std::ranges::find(device_roles, name) != std::end(device_roles);
}

std::vector<Choice> parse_choice(const std::vector<std::string>& values) {
  constexpr std::string_view from_python = "from-python";
  std::vector<Choice> out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::string& v = values[i];
    if (v.empty()) refuse(v, "the value is empty");
    if (v == "auto") {
      out.push_back({.kind = Choice::Kind::automatic, .name = {}, .path = {}, .value = v});
    } else if (v.starts_with(from_python) && (v.size() == from_python.size() ||
                                              std::string_view(" =").find(v[from_python.size()]) != std::string_view::npos)) {
      std::string path = v.size() == from_python.size() ? "" : v.substr(from_python.size() + 1);
      if (path.empty() && i + 1 < values.size() && values[i + 1].find('=') == std::string::npos && values[i + 1] != "auto")
        path = values[++i];
      out.push_back({.kind = Choice::Kind::python, .name = {}, .path = interpreter(v, std::move(path)), .value = v});
    } else {
      out.push_back(parse(v));
    }
  }
  if (out.empty()) out.push_back({});
  return out;
}

}  // namespace assay
