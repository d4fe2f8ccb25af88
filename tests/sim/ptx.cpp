// SPDX-License-Identifier: Apache-2.0
// The head, the entries, their parameters and shared arrays of PTX text; instructions are not read.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <vector>

#include "tests/sim/image.hpp"
#include "tests/sim/status.hpp"

namespace assay::sim {
namespace {

constexpr std::string_view punctuation = "(){}[],;";

std::string without_comments(std::string_view text) {
  std::string kept;
  for (std::size_t i = 0; i < text.size();) {
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size());
    } else if (text.substr(i, 2) == "/*") {
      const std::size_t end = text.find("*/", i + 2);
      i = end == text.npos ? text.size() : end + 2;
      kept += ' ';
    } else {
      kept += text[i++];
    }
  }
  return kept;
}

/// Words between white space; each sign of punctuation is a word.
std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t i = 0; i < text.size();) {
    if (std::isspace(static_cast<unsigned char>(text[i]))) {
      ++i;
    } else if (punctuation.find(text[i]) != punctuation.npos) {
      words.push_back(text.substr(i++, 1));
    } else {
      const std::size_t start = i;
      while (i < text.size() && !std::isspace(static_cast<unsigned char>(text[i])) &&
             punctuation.find(text[i]) == punctuation.npos)
        ++i;
      words.push_back(text.substr(start, i - start));
    }
  }
  return words;
}

int leading_number(std::string_view text) {
  int value = -1;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

[[noreturn]] void fail(const std::string& why) {
  throw Refusal(ERROR_INVALID_PTX, "ptxas fatal   : " + why);
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(without_comments(text)), words_(words_of(text_)) {}

  /// What follows the first ".name".
  std::string_view directive(std::string_view name) const {
    const auto at = std::find(words_.begin(), words_.end(), name);
    return at == words_.end() || at + 1 == words_.end() ? std::string_view() : *(at + 1);
  }

  std::map<std::string, Entry> entries() {
    std::map<std::string, Entry> all;
    for (at_ = 0; at_ < words_.size(); ++at_)
      if (words_[at_] == ".entry") {
        const std::string name(next());
        all[name] = entry();
      }
    return all;
  }

 private:
  std::string_view next() {
    if (++at_ >= words_.size()) fail("unexpected end of input");
    return words_[at_];
  }

  Entry entry() {
    Entry e;
    int braces = 0;
    do {
      const std::string_view word = next();
      if (word == "{") ++braces;
      if (word == "}" && --braces == 0) break;
      if (word == ".param" && braces == 0) e.parameter_bytes = append_variable(e.parameter_bytes);
      if (word == ".shared" && braces > 0) e.static_shared_bytes = append_variable(e.static_shared_bytes);
      if (word == ".maxntid" && braces == 0) e.threads = product();
    } while (true);
    return e;
  }

  /// "[.align A] .type name[count]" behind what there is already: the end of the new variable.
  std::size_t append_variable(std::size_t bytes) {
    std::size_t alignment = 0, count = 1;
    std::string_view type = next();
    if (type == ".align") {
      alignment = static_cast<std::size_t>(leading_number(next()));
      type = next();
    }
    const std::size_t bits = static_cast<std::size_t>(leading_number(type.substr(std::min<std::size_t>(2, type.size()))));
    if (bits < 8 || bits > 128) fail(fmt::format("a variable of type {}", type));
    if (alignment == 0) alignment = bits / 8;
    next();  // name
    if (at_ + 1 < words_.size() && words_[at_ + 1] == "[") {
      next();
      count = static_cast<std::size_t>(leading_number(next()));
    }
    return (bytes + alignment - 1) / alignment * alignment + count * bits / 8;
  }

  int product() {
    int all = leading_number(next());
    while (at_ + 2 < words_.size() && words_[at_ + 1] == ",") {
      next();
      all *= leading_number(next());
    }
    return all;
  }

  std::string text_;
  std::vector<std::string_view> words_;
  std::size_t at_ = 0;
};

}  // namespace

Image read_ptx(std::string_view text, int sm, std::pair<int, int> newest) {
  Reader reader(text);
  const std::string_view version = reader.directive(".version"), target = reader.directive(".target");
  const std::size_t point = version.find('.');
  if (point == version.npos || target.substr(0, 3) != "sm_") fail("no .version and .target: this is no PTX");
  const std::pair<int, int> asked(leading_number(version), leading_number(version.substr(point + 1)));
  if (asked > newest)
    throw Refusal(ERROR_UNSUPPORTED_PTX_VERSION,
                  fmt::format("ptxas fatal   : Unsupported .version {}; current version is '{}.{}'", version, newest.first,
                              newest.second));
  const int wanted = leading_number(target.substr(3));
  const char suffix = target.back();
  if (suffix == 'a' ? wanted != sm : suffix == 'f' ? wanted / 10 != sm / 10 || wanted > sm : wanted > sm)
    fail(fmt::format("SM version specified by .target ({}) does not run on sm_{}", target, sm));
  return {"ptx", wanted, reader.entries()};
}

}  // namespace assay::sim
