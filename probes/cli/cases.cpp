// SPDX-License-Identifier: Apache-2.0
#include "probes/cli/cases.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "probes/ops/op.hpp"

namespace assay::cli {

namespace {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  if (fs::is_directory(path) || !in || !(text << in.rdbuf() || fs::file_size(path) == 0))
    throw CaseError(fmt::format("cannot read the case list {}: check the path and its permissions", path.string()));
  return text.str();
}

struct CaseList {
  std::string where, text;
};
CaseList list_of(const Op& op) {
  std::error_code none;
  const fs::path beside = fs::read_symlink("/proc/self/exe", none).parent_path() / "cases" / fmt::format("{}.cases", op.name);
  if (fs::exists(beside, none)) return {beside.string(), read_text(beside)};
  return {fmt::format("{}.cases (embedded)", op.name), std::string(op.cases)};
}

bool carries(const ListedCase& c, const std::vector<std::string>& tags) {
  if (tags.empty()) return true;
  std::istringstream words(c.tags);
  // A tag is met by a word that starts with it, so whisper meets whisper-tiny.enc.fc1.
  for (std::string word; words >> word;)
    for (const std::string& tag : tags)
      if (word.starts_with(tag)) return true;
  return false;
}

}  // namespace

std::vector<ListedCase> select_cases(const CaseQuery& q) {
  for (const std::string& op : q.ops) find_op(op);
  std::vector<ListedCase> out;
  std::set<std::string> seen;
  const auto wanted = [&](std::string_view op) {
    return q.ops.empty() || std::find(q.ops.begin(), q.ops.end(), op) != q.ops.end();
  };
  const auto take = [&](ListedCase c) {
    c.id = to_string(make_problem(c.id).id, find_op(case_op(c.id)).grammar);
    if (wanted(case_op(c.id)) && carries(c, q.tags) && seen.insert(c.id).second) out.push_back(std::move(c));
  };
  const auto take_list = [&](const CaseList& list, const std::string& level) {
    for (ListedCase& c : read_case_list(list.text, level, list.where)) {
      const std::size_t line = c.line;
      try {
        take(std::move(c));
      } catch (const CaseError& e) {
        throw CaseError(fmt::format("{} line {}: {}", list.where, line, e.what()));
      }
    }
  };
  for (const std::string& id : q.ids) take({id, {}});
  for (const std::string& file : q.files) take_list({file, read_text(file)}, {});
  if (!q.level.empty())
    for (const Op& op : all_ops())
      if (wanted(op.name)) take_list(list_of(op), q.level);
  if (out.empty())
    throw CaseError(fmt::format("no case is left after --op {} --tag {}: see `assay list cases`", fmt::join(q.ops, ","),
                                fmt::join(q.tags, ",")));
  return out;
}

}  // namespace assay::cli
