// SPDX-License-Identifier: Apache-2.0
#include "report/compare_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "report/json.hpp"
#include "report/printable.hpp"
#include "report/summary.hpp"

namespace assay::report {

namespace {

using Map = std::map<std::string, std::string>;
using Kind = Difference::Kind;

/// Conditions in the order of how much they explain.
enum Rank : std::uint8_t {
  judge,  // what assay itself expected
  tested_library,
  per_result,  // threads, variables of a variant, compiler and image of a kernel
  numbers,     // variables that change numbers or select code
  determinism,
  gpu,
  processor,
  other_library,
  surroundings,
  assay_itself,
  evidence  // variables for evidence only, paths, the boot
};

bool wrong(Standing s) {
  return s == Standing::fail || s == Standing::fault;
}
bool ran(Standing s) {
  return s != Standing::unsupported && s != Standing::unavailable;
}

std::string where(const Record& r) {
  return r.op + (r.formats.empty() ? "" : " " + r.formats) + " on " + full_target(r);
}
std::string words(const Judged& j) {
  return std::string(name(j.standing)) + (j.record->label.empty() ? "" : " " + j.record->label) +
         (j.record->waived.empty() ? "" : " (waived)");
}
/// What was measured: that a profile excuses a failure makes no run differ from another.
std::vector<Judged> measured(std::span<const Record> records) {
  std::vector<Judged> all = judged(records);
  for (Judged& j : all)
    if (j.standing == Standing::waived) j.standing = unexcused(*j.record);
  return all;
}

/// Both known, and not the same. One that is empty was not recorded: by an older minor version, or because nothing ran.
bool differ(const std::string& a, const std::string& b) {
  return !a.empty() && !b.empty() && a != b;
}

bool repeats_itself(const Record& r) {
  return r.repeats_identical == r.repeats && r.label != "NONDETERMINISTIC";
}

struct Pair {
  Judged a, b;
};

/// Collects equal differences under one entry.
class Collected {
 public:
  /// The entry, with this result counted in; `a` and `b` tell entries apart only where `distinct`.
  Difference& add(Kind kind, int rank, const std::string& what, const std::string& a, const std::string& b,
                  const std::string& case_id, bool distinct = true) {
    const auto [it, fresh] =
        at_.try_emplace({kind, rank, what, distinct ? a : std::string(), distinct ? b : std::string()}, entries_.size());
    if (fresh) entries_.push_back({rank, {kind, what, a, b, 0, 0, case_id, {}, {}}});
    Difference& d = entries_[it->second].second;
    if (!case_id.empty()) ++d.results;
    return d;
  }
  std::vector<Difference> sorted() {
    std::stable_sort(entries_.begin(), entries_.end(), [](const auto& x, const auto& y) {
      return std::tuple(x.second.kind, x.first, -x.second.results) < std::tuple(y.second.kind, y.first, -y.second.results);
    });
    std::vector<Difference> out;
    for (auto& [rank, d] : entries_) out.push_back(std::move(d));
    return out;
  }

 private:
  std::vector<std::pair<int, Difference>> entries_;
  std::map<std::tuple<Kind, int, std::string, std::string, std::string>, std::size_t> at_;
};

void refuse_other_inputs(const RunData& a, const RunData& b) {
  std::map<std::string, std::string> inputs;
  for (const Record& r : a.records)
    if (!r.input_digest.empty()) inputs.try_emplace(r.case_id, r.input_digest);
  for (const Record& r : b.records) {
    const auto it = inputs.find(r.case_id);
    if (it != inputs.end() && differ(it->second, r.input_digest))
      throw FileError(fmt::format(
          "the runs cannot be compared: the inputs of {} have digest {} in {} and {} in {}; run both with one version of assay",
          r.case_id, it->second, a.folder, r.input_digest, b.folder));
  }
}

std::string target_list(const RunData& run) {
  std::set<std::string> names;
  for (const Record& r : run.records) names.insert(full_target(r));
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "" : ", ") + n;
  return out.empty() ? "no results" : shortened(out, 200);
}

std::vector<Pair> pairs(const RunData& a, const RunData& b, RunComparison& out) {
  using Key = std::pair<std::string, std::string>;
  std::map<Key, std::vector<Judged>> left;
  const auto key = [](const Judged& j) { return Key(j.record->case_id, full_target(*j.record)); };
  for (const Judged& j : measured(b.records)) left[key(j)].push_back(j);
  const std::vector<Judged> all = measured(a.records);
  std::vector<const Judged*> partner(all.size(), nullptr);
  std::set<const Record*> taken;
  for (const bool same_path : {true, false})
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto it = left.find(key(all[i]));
      if (partner[i] != nullptr || it == left.end()) continue;
      for (const Judged& j : it->second)
        if (!taken.contains(j.record) && (!same_path || j.record->library.path == all[i].record->library.path)) {
          partner[i] = &j, taken.insert(j.record);
          break;
        }
    }
  std::vector<Pair> found;
  const auto without = [](const Judged& j, std::int64_t& count, std::string& example) {
    if (count++ == 0) example = where(*j.record) + ", " + j.record->case_id;
  };
  for (std::size_t i = 0; i < all.size(); ++i)
    if (partner[i] != nullptr)
      found.push_back({all[i], *partner[i]});
    else
      without(all[i], out.only_a, out.only_a_example);
  for (const Judged& j : judged(b.records))
    if (!taken.contains(j.record)) without(j, out.only_b, out.only_b_example);
  out.compared = static_cast<std::int64_t>(found.size());
  return found;
}

/// 0 became wrong, 1 became flaky, 2 was wrong or flaky, 3 the rest.
int verdict_rank(Standing a, Standing b) {
  if (wrong(b) && !wrong(a)) return 0;
  if (b == Standing::flaky) return 1;
  return wrong(a) || wrong(b) || a == Standing::flaky ? 2 : 3;
}

void compare_results(const Pair& p, Collected& all, RunComparison& out) {
  const Record &a = *p.a.record, &b = *p.b.record;
  const bool bits = differ(a.output_digest, b.output_digest), repeatable = repeats_itself(a) && repeats_itself(b);
  if (p.a.standing != p.b.standing || a.label != b.label) {
    ++out.verdicts;
    const Record& worse = wrong(p.a.standing) && !wrong(p.b.standing) ? a : b;
    Difference& d =
        all.add(Kind::verdict, verdict_rank(p.a.standing, p.b.standing), where(b), words(p.a), words(p.b), b.case_id);
    if (d.results == 1) {
      d.detail = worse.reason;
      if (ran(p.a.standing) && ran(p.b.standing) && !a.output_digest.empty() && !b.output_digest.empty())
        d.detail += std::string(d.detail.empty() ? "" : "; ") + (bits ? "other bits" : "the same bits, judged otherwise");
      d.again = reproducer(worse);
    }
  }
  const auto note = [&](Difference& d) {
    if (d.results == 1) d.again = reproducer(b);
  };
  if (bits && !repeatable) ++out.unrepeatable;
  if (bits && repeatable) {
    ++out.outputs;
    note(all.add(Kind::output, 0, where(b), "", "", b.case_id));
  }
  bool algorithm = false;
  const auto chosen = [&](const char* part, const std::string& from, const std::string& to) {
    if (!differ(from, to)) return;
    algorithm = true;
    note(all.add(Kind::algorithm, 0, where(b), part + from, part + to, b.case_id));
  };
  chosen("", a.algorithm, b.algorithm);
  chosen("plan ", a.plan, b.plan);
  chosen("arithmetic: ", a.arithmetic, b.arithmetic);
  out.algorithms += algorithm;
  if (differ(a.reference_digest, b.reference_digest))
    all.add(Kind::condition, judge, "expected values of " + b.op + " " + b.formats + ", computed by assay", "", "", b.case_id);
}

/// A value that is another one in every record, however alike the runs are.
bool is_time(const std::string& key) {
  return key.ends_with(" ms");
}

Rank variable_rank(const std::string& name) {
  const char kind = variable_class(name);
  return kind == 'D' ? determinism : kind == 'E' ? evidence : numbers;
}

template <class See>
void each_key(const Map& a, const Map& b, See see) {
  static const std::string none = "(none)";
  std::set<std::string> keys;
  for (const Map* m : {&a, &b})
    for (const auto& [key, value] : *m) keys.insert(key);
  const auto value = [](const Map& m, const std::string& key) {
    const auto it = m.find(key);
    return it == m.end() || it->second.empty() ? none : it->second;
  };
  for (const std::string& key : keys)
    if (value(a, key) != value(b, key)) see(key, value(a, key), value(b, key));
}

void compare_conditions(const Pair& p, Collected& all) {
  const Record &a = *p.a.record, &b = *p.b.record;
  // What a worker tells is there only where a call was made.
  if (!ran(p.a.standing) || !ran(p.b.standing)) return;
  const auto library = [&](const char* field, const std::string& from, const std::string& to, Rank rank) {
    if (differ(from, to)) all.add(Kind::condition, rank, "library of " + b.target + ": " + field, from, to, b.case_id);
  };
  library("version", a.library.version, b.library.version, tested_library);
  library("core", a.library.core, b.library.core, tested_library);
  library("sha256", a.library.sha256.substr(0, 16), b.library.sha256.substr(0, 16), tested_library);
  library("path", a.library.path, b.library.path, evidence);
  // What differs from result to result, such as the digest of a kernel's PTX, is one entry with its first values.
  each_key(a.conditions, b.conditions, [&](const std::string& key, const std::string& from, const std::string& to) {
    if (!is_time(key))
      all.add(Kind::condition, key.starts_with("file ") ? evidence : per_result, key + " of " + full_target(b), from, to,
              b.case_id, false);
  });
}

struct Flat {  // the fields of a GPU that a run does not change
  Map& out;
  void operator()(const char* key, const std::string& v) { out[key] = v; }
  void operator()(const char* key, int v) { out[key] = std::to_string(v); }
  void operator()(const char*, const GpuState&) {}
};

Map gpus(const Environment& e) {
  Map out;
  for (const Gpu& g : e.gpus) {
    Map one;
    Flat flat{one};
    json::gpu_fields(flat, g);
    for (const auto& [key, value] : one) out[fmt::format("GPU {}: {}", g.ordinal, key)] = value;
  }
  return out;
}

/// What else was mapped, by soname: several files of one name together.
Map other_libraries(const RunData& run, const std::set<std::string>& under_test) {
  std::map<std::string, std::set<std::string>> files;
  for (const LibraryIdentity& l : run.environment->libraries)
    if (!under_test.contains(l.path))
      files[l.soname.empty() ? l.path.substr(l.path.find_last_of('/') + 1) : l.soname].insert(
          fmt::format("{}{}sha256 {}", l.version, l.version.empty() ? "" : " ", l.sha256.substr(0, 16)));
  Map out;
  for (const auto& [name, identities] : files)
    for (const std::string& i : identities) out["mapped " + name] += (out["mapped " + name].empty() ? "" : ", ") + i;
  return out;
}

void compare_environments(const RunData& a, const RunData& b, Collected& all) {
  if (!a.environment || !b.environment) return;
  const Environment &x = *a.environment, &y = *b.environment;
  const auto compare = [&](const Map& from, const Map& to, auto rank) {
    each_key(from, to, [&](const std::string& key, const std::string& was, const std::string& is) {
      all.add(Kind::condition, rank(key), key, was, is, "");
    });
  };
  std::set<std::string> under_test;
  for (const RunData* run : {&a, &b})
    for (const Record& r : run->records) under_test.insert(r.library.path);
  compare(x.variables, y.variables, variable_rank);
  compare(gpus(x), gpus(y), [](const std::string&) { return gpu; });
  compare(x.system, y.system, [](const std::string& key) {
    return key == "cpu" || key == "isa" || key == "microcode" ? processor : key == "boot" ? evidence : surroundings;
  });
  compare(other_libraries(a, under_test), other_libraries(b, under_test), [](const std::string&) { return other_library; });
  Map mine, yours;
  for (const auto& [key, value] : x.assay) mine["assay " + key] = value;
  for (const auto& [key, value] : y.assay) yours["assay " + key] = value;
  compare(mine, yours, [](const std::string&) { return assay_itself; });
}

std::string plural(std::int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

std::string line(const Difference& d) {
  constexpr std::array<std::string_view, 4> names = {"verdict", "output", "algorithm", "condition"};
  const auto value = [](const std::string& text) { return printable(shortened(text, 200)); };
  std::string out = fmt::format("{:<9}  {}", names.at(static_cast<std::size_t>(d.kind)), printable(d.what));
  if (d.kind == Kind::output)
    out += ": other bits";
  else if (d.a.empty() && d.b.empty())
    out += ": not the same";
  else
    out += fmt::format(": {} -> {}", value(d.a), value(d.b));
  if (d.results > 0)
    out += d.of > 0 ? fmt::format(" in {} of {}", d.results, plural(d.of, "result"))
                    : fmt::format(" in {}", plural(d.results, "result"));
  if (!d.example.empty() && d.kind != Kind::condition) out += fmt::format(", first {}", printable(d.example));
  if (!d.detail.empty()) out += "\n           " + printable(shortened(d.detail, 500));
  return out + "\n";
}

std::string last_line(const RunComparison& c, const std::string& program) {
  const std::int64_t conditions =
      std::count_if(c.differences.begin(), c.differences.end(), [](const Difference& d) { return d.kind == Kind::condition; });
  const std::string alike =
      plural(c.compared, "result") + " with equal verdicts, bits and algorithms" +
      (c.not_run > 0 ? fmt::format(" ({} of them unsupported or unavailable in both)", c.not_run) : std::string());
  const std::string around = conditions == 0 ? "the same conditions" : plural(conditions, "other condition");
  switch (exit_code(c)) {
    case 1: {
      const std::string again = c.differences.front().again;
      return fmt::format("DIFFERENT: of {} {} another verdict, {} other bits, {} another algorithm; {}. Next: {}\n",
                         plural(c.compared, "result"), c.verdicts, c.outputs, c.algorithms, around,
                         program + again.substr(std::string_view("assay").size()));
    }
    case 3:
      return fmt::format("SAME AS FAR AS COMPARED: {}; {} only in the first run, {} only in the second{}; {}\n", alike,
                         c.only_a, c.only_b, c.broken_off ? ", broken off" : "", around);
    default:
      return fmt::format("SAME: {}; {}\n", alike, around);
  }
}

}  // namespace

RunComparison compare_runs(const RunData& a, const RunData& b) {
  refuse_other_inputs(a, b);
  RunComparison out;
  out.broken_off = a.broken_off || b.broken_off;
  Collected all;
  const std::vector<Pair> both = pairs(a, b, out);
  if (std::ranges::none_of(both, [](const Pair& p) { return ran(p.a.standing) || ran(p.b.standing); }))
    throw FileError(
        fmt::format("there is nothing to compare: no case ran on the same target in {} ({}) and in {} ({}); "
                    "name the same cases and targets in both runs",
                    a.folder, target_list(a), b.folder, target_list(b)));
  std::map<std::string, std::int64_t> of;
  for (const Pair& p : both) {
    ++of[where(*p.b.record)];
    out.not_run += !ran(p.a.standing) && !ran(p.b.standing);
    compare_results(p, all, out);
    compare_conditions(p, all);
  }
  compare_environments(a, b, all);
  out.differences = all.sorted();
  for (Difference& d : out.differences)
    if (const auto it = of.find(d.what); it != of.end()) d.of = it->second;
  return out;
}

int exit_code(const RunComparison& c) {
  if (c.verdicts + c.outputs + c.algorithms > 0) return 1;
  return c.only_a + c.only_b > 0 || c.broken_off ? 3 : 0;
}

std::string comparison_text(const RunComparison& c, const RunData& a, const RunData& b, const std::string& program,
                            std::size_t most) {
  std::string out = fmt::format("{} -> {}\n", printable(a.folder), printable(b.folder));
  std::map<Kind, std::size_t> shown;
  std::map<Kind, std::size_t> left_out;
  for (std::size_t i = 0; i < c.differences.size(); ++i) {
    const Difference& d = c.differences[i];
    if (shown[d.kind]++ < most)
      out += line(d);
    else
      ++left_out[d.kind];
    if (i + 1 == c.differences.size() || c.differences[i + 1].kind != d.kind)
      if (left_out[d.kind] > 0) out += fmt::format("           and {} more of this kind\n", left_out[d.kind]);
  }
  if (c.unrepeatable > 0)
    out += fmt::format("note       {} have other bits on targets that do not repeat their own: no difference between runs\n",
                       plural(c.unrepeatable, "result"));
  for (const auto& [run, count, example] :
       {std::tuple(&a, c.only_a, &c.only_a_example), std::tuple(&b, c.only_b, &c.only_b_example)}) {
    if (count > 0)
      out += fmt::format("only in {}: {}, first {}\n", printable(run->folder), plural(count, "result"), printable(*example));
    if (run->broken_off) out += fmt::format("note       {} was broken off before its end\n", printable(run->folder));
    if (!run->environment)
      out += fmt::format("note       {} has no environment.json: variables, system and GPUs are not compared\n",
                         printable(run->folder));
  }
  return out + last_line(c, program);
}

}  // namespace assay::report
