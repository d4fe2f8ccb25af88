// SPDX-License-Identifier: Apache-2.0
// Faults planted in a double of a vendor's library: NAME[:key=value]...[,NAME...]. What it does not understand ends the process
// with a sentence, so that a mistyped fault can never make a test pass.
#pragma once

#include <fnmatch.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace assay::sim {

struct LibraryFault {
  std::string name;
  std::map<std::string, std::string> keys;

  /// Every key is among the facts of the call, with a value that matches (* and ?).
  bool applies(const std::map<std::string, std::string>& facts) const {
    for (const auto& [key, pattern] : keys)
      if (const auto fact = facts.find(key); fact == facts.end() || fnmatch(pattern.c_str(), fact->second.c_str(), 0) != 0)
        return false;
    return true;
  }
};

class LibraryFaults {
 public:
  /// Those that `variable` of the environment names; `names` and `keys` are all there are.
  LibraryFaults(const char* variable, std::span<const char* const> names, std::span<const char* const> keys) {
    const char* const text = std::getenv(variable);
    std::istringstream all(text ? text : "");
    for (std::string one; std::getline(all, one, ',');) {
      std::istringstream parts(one);
      LibraryFault fault;
      std::getline(parts, fault.name, ':');
      if (!known(names, fault.name)) refuse(variable, "there is no fault \"" + fault.name + "\"");
      for (std::string pair; std::getline(parts, pair, ':');) {
        const std::size_t equals = pair.find('=');
        if (equals == pair.npos || !known(keys, pair.substr(0, equals)))
          refuse(variable, "fault " + fault.name + " has no key \"" + pair + "\"");
        fault.keys[pair.substr(0, equals)] = pair.substr(equals + 1);
      }
      faults_.push_back(std::move(fault));
    }
  }

  bool planted(std::string_view name, const std::map<std::string, std::string>& facts) const {
    for (const LibraryFault& f : faults_)
      if (f.name == name && f.applies(facts)) return true;
    return false;
  }

 private:
  static bool known(std::span<const char* const> names, std::string_view name) {
    for (const char* const n : names)
      if (name == n) return true;
    return false;
  }
  [[noreturn]] static void refuse(const char* variable, const std::string& why) {
    std::fprintf(stderr, "simulated library: %s: %s\n", variable, why.c_str());
    std::abort();
  }

  std::vector<LibraryFault> faults_;
};

}  // namespace assay::sim
