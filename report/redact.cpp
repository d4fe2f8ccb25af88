// SPDX-License-Identifier: Apache-2.0
// Takes the owner of a machine out of text that leaves it.
#include "report/redact.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

namespace assay::report {

namespace {

bool word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}
bool path_character(char c) {
  return word_character(c) || c == '-' || c == '.';
}

/// Replaces `what` where the characters around it satisfy `inside` on neither side.
std::string replace_whole(std::string_view text, std::string_view what, std::string_view by, bool (*inside)(char)) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t hit; (hit = text.find(what, at)) != std::string_view::npos;) {
    const std::size_t end = hit + what.size();
    const bool whole = (hit == 0 || !inside(text[hit - 1])) && (end == text.size() || !inside(text[end]));
    out += text.substr(at, hit - at);
    if (whole) {
      out += by;
      at = end;
    } else {
      out += text[hit];
      at = hit + 1;
    }
  }
  out += text.substr(at);
  return out;
}

/// "/home/alice/lib" -> "/home/USER/lib": under sudo the owner of the files is not the user of the process.
std::string hide_other_homes(std::string_view text, std::string_view parent) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t hit; (hit = text.find(parent, at)) != std::string_view::npos;) {
    std::size_t end = hit + parent.size();
    while (end < text.size() && path_character(text[end])) ++end;
    const bool named = end > hit + parent.size() && (hit == 0 || !path_character(text[hit - 1]));
    out += text.substr(at, hit + parent.size() - at);
    if (named) out += "USER";
    at = named ? end : hit + parent.size();
  }
  out += text.substr(at);
  return out;
}

void add(std::vector<std::string>& list, const char* value) {
  if (value != nullptr && *value != '\0' && std::find(list.begin(), list.end(), value) == list.end()) list.emplace_back(value);
}

struct PasswordEntry {
  std::string name, home;
};

// Read once: on a cluster the lookup may go over the network.
const PasswordEntry& password_entry() {
  static const PasswordEntry entry = [] {
    const passwd* p = getpwuid(geteuid());
    return p == nullptr ? PasswordEntry{} : PasswordEntry{p->pw_name, p->pw_dir};
  }();
  return entry;
}

bool identifies(std::string_view name) {
  return name.size() >= 3 && name != "root" && name != "localhost" && name != "localhost.localdomain";
}

}  // namespace

Identity this_identity() {
  Identity id;
  add(id.homes, std::getenv("HOME"));
  add(id.homes, password_entry().home.c_str());
  for (const char* variable : {"USER", "LOGNAME", "SUDO_USER"}) add(id.users, std::getenv(variable));
  add(id.users, password_entry().name.c_str());
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) == 0) {
    add(id.hosts, host.data());  // the full name first: its first label alone would leave the domain standing
    const std::string full = host.data();
    add(id.hosts, full.substr(0, full.find('.')).c_str());
  }
  return id;
}

std::string redact(std::string_view text, const Identity& id) {
  std::string out(text);
  for (std::string home : id.homes) {
    while (home.size() > 1 && home.back() == '/') home.pop_back();
    if (home.size() > 1 && home.front() == '/') out = replace_whole(out, home, "~", path_character);
  }
  for (const char* parent : {"/home/", "/Users/"}) out = hide_other_homes(out, parent);
  for (const std::string& user : id.users)
    if (identifies(user)) out = replace_whole(out, user, "USER", word_character);
  for (const std::string& host : id.hosts)
    if (identifies(host)) out = replace_whole(out, host, "HOST", word_character);
  return out;
}

std::string redact(std::string_view text) {
  return redact(text, this_identity());
}

Record redacted(Record r) {
  const Identity id = this_identity();
  r.library.path = redact(r.library.path, id);
  r.reason = redact(r.reason, id);
  r.known_defect = redact(r.known_defect, id), r.waived = redact(r.waived, id);
  for (auto& [name, value] : r.conditions) value = redact(value, id);
  return r;
}

Environment redacted(Environment e) {
  const Identity id = this_identity();
  for (auto* map : {&e.assay, &e.system, &e.variables})
    for (auto& [name, value] : *map) value = redact(value, id);
  for (LibraryIdentity& library : e.libraries) library.path = redact(library.path, id);
  e.command = redact(e.command, id);
  for (std::string& line : e.known_defects) line = redact(line, id);
  return e;
}

}  // namespace assay::report
