// SPDX-License-Identifier: Apache-2.0
// What a run's records add up to.
#include "report/summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "report/environment.hpp"

namespace assay::report {

namespace {

constexpr std::array<std::string_view, standings> standing_names = {"pass",    "fail",   "fault",       "flaky",
                                                                    "suspect", "waived", "unsupported", "unavailable"};

bool beyond_rigorous_bound(const Record& r) {
  return (r.comparison && r.comparison->bad > 0) || (r.second && r.second->bad > 0);
}

Summary count(const std::vector<Judged>& all) {
  Summary s;
  for (const Judged& j : all) {
    ++s.count[static_cast<std::size_t>(j.standing)];
    const bool wrong = j.standing == Standing::fail || j.standing == Standing::fault;
    if (wrong && confirmed(*j.record)) ++s.confirmed;
    if (j.standing == Standing::unavailable && j.record->required) ++s.required_unavailable;
  }
  return s;
}

void add_once(std::vector<std::string>& list, std::string text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(std::move(text));
}

/// "a, b and 3 more"
std::string listed(const std::vector<std::string>& items, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < std::min(items.size(), most); ++i) out += (i == 0 ? "" : ", ") + items[i];
  if (items.size() > most) out += fmt::format(" and {} more", items.size() - most);
  return out;
}

std::string plural(std::int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", n, noun, n == 1 ? "" : "s");
}

/// Which op and format on which targets, of the records that stand as asked.
struct Where {
  std::vector<std::string> what, targets;
};

template <class Wanted>
Where where(const std::vector<Judged>& all, Wanted wanted) {
  Where w;
  for (const Judged& j : all) {
    if (!wanted(j.standing)) continue;
    add_once(w.what, j.record->op + (j.record->formats.empty() ? "" : " " + j.record->formats));
    add_once(w.targets, full_target(*j.record));
  }
  return w;
}

const Record* first(const std::vector<Judged>& all, Standing a, Standing b) {
  const auto it = std::find_if(all.begin(), all.end(), [&](const Judged& j) { return j.standing == a || j.standing == b; });
  return it == all.end() ? nullptr : it->record;
}

std::string failure_headline(const std::vector<Judged>& all, const Summary& s) {
  const Where w = where(all, [](Standing x) { return x == Standing::fail || x == Standing::fault; });
  const std::int64_t wrong = s[Standing::fail], faults = s[Standing::fault];
  const bool one = w.what.size() == 1;
  const std::string_view be = one ? "is wrong" : "are wrong", fault = one ? "faults" : "fault";
  const std::string verb = faults == 0 ? std::string(be) : wrong == 0 ? std::string(fault) : fmt::format("{} or {}", be, fault);
  const std::string sure = s.confirmed == s.failed() ? "confirmed"
                           : s.confirmed == 0        ? "not confirmed by a re-run"
                                                     : fmt::format("{} confirmed by re-runs", s.confirmed);
  return fmt::format("{} {} on {} in {} of {} ({})", listed(w.what, 2), verb, listed(w.targets, 2), s.failed(),
                     plural(s.ran(), "result"), sure);
}

std::string incomplete_headline(const std::vector<Judged>& all, const Summary& s, const RunFacts& facts) {
  std::vector<std::string> parts;
  if (facts.interrupted) parts.emplace_back("the run was interrupted");
  if (facts.not_started > 0) parts.push_back(plural(facts.not_started, "required result") + " not started");
  if (s.required_unavailable > 0) {
    std::vector<std::string> targets;
    for (const Judged& j : all)
      if (j.standing == Standing::unavailable && j.record->required) add_once(targets, full_target(*j.record));
    parts.push_back(fmt::format("{} unavailable ({})", plural(s.required_unavailable, "required result"), listed(targets, 2)));
  }
  if (!facts.unmet.empty()) parts.push_back(fmt::format("no result of the required {}", listed(facts.unmet, 3)));
  return fmt::format("{}; {} of {} that ran passed", listed(parts, 3), s[Standing::pass], s.ran());
}

std::string pass_headline(const std::vector<Judged>& all, const Summary& s) {
  const Where w = where(all, [](Standing x) { return x == Standing::pass || x == Standing::suspect; });
  std::string out =
      fmt::format("{} within bound: {} on {}", plural(s[Standing::pass], "result"), listed(w.what, 3), listed(w.targets, 3));
  if (s[Standing::suspect] > 0) out += fmt::format("; {} suspect", s[Standing::suspect]);
  if (s[Standing::waived] > 0) out += fmt::format("; {} waived by the profile", s[Standing::waived]);
  if (s[Standing::unavailable] > 0) out += fmt::format("; {} unavailable", s[Standing::unavailable]);
  return out;
}

bool strict_failure(const Summary& s, const RunFacts& f) {
  return f.strict && s[Standing::suspect] > 0;
}

std::string headline(const std::vector<Judged>& all, const RunFacts& facts) {
  const Summary s = count(all);
  switch (exit_code(s, facts)) {
    case 1:
      if (s.failed() > 0) return failure_headline(all, s);
      return fmt::format("{} suspect, which --strict counts as failing", plural(s[Standing::suspect], "result"));
    case 2:
      return fmt::format("nothing could run: {} unsupported, {} unavailable", s[Standing::unsupported],
                         s[Standing::unavailable]);
    case 3:
      return incomplete_headline(all, s, facts);
    case 4: {
      const Where w = where(all, [](Standing x) { return x == Standing::flaky; });
      return fmt::format("{} both passed and failed on {} in {} of {}", listed(w.what, 2), listed(w.targets, 2),
                         s[Standing::flaky], plural(s.ran(), "result"));
    }
    case 5:
      return pass_headline(all, s) + "; but the environment is not the promised one";
    default:
      return pass_headline(all, s);
  }
}

std::string next_command(const std::vector<Judged>& all, const RunFacts& facts) {
  const Summary s = count(all);
  const Record* again = nullptr;
  switch (exit_code(s, facts)) {
    case 1:
      again = s.failed() > 0 ? first(all, Standing::fail, Standing::fault) : first(all, Standing::suspect, Standing::suspect);
      break;
    case 4:
      again = first(all, Standing::flaky, Standing::flaky);
      break;
    case 2:
      return "assay list targets";
    case 3:
      if (!facts.interrupted && facts.not_started == 0) return "assay list targets";
      if (!facts.resume.empty()) return facts.resume;
      return facts.folder.empty() ? "assay run --resume" : "assay run --resume --out " + shell_word(facts.folder);
    case 5:
      return "assay env";
    default:
      again = first(all, Standing::suspect, Standing::suspect);
  }
  if (again != nullptr) return reproducer(*again);
  if (facts.level == "quick") return "assay run --level standard";
  if (facts.level == "standard") return "assay run --level deep";
  return "assay selftest";
}

constexpr std::string_view verdict_words[] = {"PASS", "FAIL", "NOTHING RAN", "INCOMPLETE", "FLAKY", "PASS, OTHER ENVIRONMENT"};

/// A redacted path starts with "~", which the shell expands only outside quotes.
std::string chosen_library(const std::string& name, const std::string& path) {
  const bool home = path.compare(0, 2, "~/") == 0;
  return " --libraries " + shell_word(name) + "=" + (home ? "~/" + shell_word(path.substr(2)) : shell_word(path));
}

}  // namespace

std::string_view name(Standing s) {
  return standing_names.at(static_cast<std::size_t>(s));
}

Standing unexcused(const Record& r) {
  switch (r.verdict) {
    case Verdict::unsupported:
      return Standing::unsupported;
    case Verdict::unavailable:
      return Standing::unavailable;
    default:
      break;
  }
  const Confirmation& c = r.confirmation;
  if (c.failed > 0 && c.failed < c.runs) return Standing::flaky;
  const bool wrong = r.verdict == Verdict::fail || r.verdict == Verdict::fault;
  if (wrong && c.fresh_seed_failed < c.fresh_seed_runs && !beyond_rigorous_bound(r)) return Standing::flaky;
  switch (r.verdict) {
    case Verdict::pass:
      return Standing::pass;
    case Verdict::fail:
      return Standing::fail;
    case Verdict::fault:
      return Standing::fault;
    default:
      return Standing::suspect;
  }
}

Standing standing(const Record& r) {
  const Standing s = unexcused(r);
  const bool excusable = s != Standing::pass && s != Standing::unsupported && s != Standing::unavailable;
  return excusable && !r.waived.empty() ? Standing::waived : s;
}

std::vector<Judged> judged(std::span<const Record> records) {
  std::vector<Judged> out;
  std::map<std::string, std::size_t> seen;
  const auto wrong = [](Standing s) { return s == Standing::fail || s == Standing::fault; };
  for (const Record& r : records) {
    Standing now = standing(r);
    const auto [it, fresh] = seen.try_emplace(key(r), out.size());
    if (fresh) {
      out.push_back({&r, now});
      continue;
    }
    Judged& before = out[it->second];
    const bool both = (wrong(now) && before.standing == Standing::pass) || (wrong(before.standing) && now == Standing::pass);
    if (both || before.standing == Standing::flaky) now = Standing::flaky;
    before = {&r, now};
  }
  return out;
}

bool confirmed(const Record& r) {
  const Standing s = standing(r);
  return (s == Standing::fail || s == Standing::fault) && r.confirmation.runs >= 2 &&
         r.confirmation.failed == r.confirmation.runs;
}

Summary summarise(std::span<const Record> records) {
  return count(judged(records));
}

int exit_code(const Summary& s, const RunFacts& facts) {
  if (s.failed() > 0 || strict_failure(s, facts)) return 1;
  if (s[Standing::flaky] > 0) return 4;
  if (facts.interrupted || facts.not_started > 0) return 3;
  if (s.ran() == 0) return 2;
  if (s.required_unavailable > 0 || !facts.unmet.empty()) return 3;
  return facts.environment_differs ? 5 : 0;
}

std::string headline(std::span<const Record> records, const RunFacts& facts) {
  return headline(judged(records), facts);
}
std::string next_command(std::span<const Record> records, const RunFacts& facts) {
  return next_command(judged(records), facts);
}

std::string device_words(const RunFacts& facts) {
  if (facts.device.empty()) return "no GPU was probed";
  if (facts.device.find("simulated") != std::string::npos) return fmt::format("no GPU was probed, only the {}", facts.device);
  return fmt::format("{} was probed", facts.device);
}

std::string verdict_sentence(std::span<const Record> records, const RunFacts& facts) {
  const std::vector<Judged> all = judged(records);
  const auto code = static_cast<std::size_t>(exit_code(count(all), facts));
  return fmt::format("{}: {}; {}. Next: {}", verdict_words[code], headline(all, facts), device_words(facts),
                     facts.program + next_command(all, facts).substr(std::string_view("assay").size()));
}

std::string full_target(const Record& r) {
  return r.variant.empty() ? r.target : r.target + ":" + r.variant;
}

std::string k_of_n(const Confirmation& c) {
  if (c.runs == 0) return "not re-run";
  std::string out = fmt::format("{} of {}", c.failed, plural(c.runs, "run"));
  if (c.fresh_seed_runs > 0) out += fmt::format(", {} of {}", c.fresh_seed_failed, plural(c.fresh_seed_runs, "fresh seed"));
  return out;
}

std::string failed_in(const Confirmation& c) {
  return (c.runs == 0 ? "" : "failed in ") + k_of_n(c);
}

std::string shell_word(std::string_view text) {
  constexpr std::string_view plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:=,+@%-";
  if (!text.empty() && text.find_first_not_of(plain) == std::string_view::npos) return std::string(text);
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else
      out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;  // one line stays one line
  }
  return out + "'";
}

/// The name that --libraries has for the file under test. Our kernels are probed through the driver.
std::string library_role(const Record& r, bool on_device) {
  if (on_device && r.target == "kernel") return "cuda";
  return r.target == "cublaslt" ? "cublasLt" : r.target;
}

std::string reproducer(const Record& r) {
  // A variant sets its own variables, so its name says all: openblas:core=Haswell.
  std::string out = "assay run --target " + shell_word(full_target(r));
  // Two builds that differ can only be seen to differ together.
  const auto other_build = r.conditions.find("compared with build");
  const bool two_builds = other_build != r.conditions.end();
  if (two_builds)
    out += " --target " + shell_word(r.target + ":" + r.variant.substr(0, r.variant.find('@') + 1) + other_build->second);
  const auto device = r.conditions.find("device");
  const bool on_device = device != r.conditions.end();
  if (!r.library.path.empty()) out += chosen_library(library_role(r, on_device), r.library.path);
  if (on_device) {
    // A kernel is compiled anew: its compilers and its build belong to the question.
    for (const auto& [key, value] : r.conditions)
      if (key.starts_with("file ")) out += chosen_library(key.substr(5), value);
    if (const std::size_t at = r.variant.find('@'); at != std::string::npos)
      out += " --kernel-builds " + shell_word((two_builds ? other_build->second + "," : "") + r.variant.substr(at + 1));
    if (device->second != "0") out += " --device " + shell_word(device->second);
  }
  return out + " --case " +
         (r.case_id.find_first_of("'\n") == std::string::npos ? "'" + r.case_id + "'" : shell_word(r.case_id));
}

}  // namespace assay::report
