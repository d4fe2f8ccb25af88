// SPDX-License-Identifier: Apache-2.0
#include "probes/run/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <sstream>

#include "probes/run/failing_tensors.hpp"
#include "report/environment.hpp"

namespace assay {

using report::Record;
using report::Verdict;

namespace {

constexpr int alike_before_one_run = 5;
constexpr double slowest_flops_per_s = 1e8;
constexpr double most_kept_bytes = 64 << 20;  // of one failure

bool has_tag(const std::string& tags, const std::string& tag) {
  std::istringstream words(tags);
  for (std::string word; words >> word;)
    if (word == tag) return true;
  return false;
}

bool wrong(const Judgement& j) {
  return j.verdict == Verdict::fail || j.verdict == Verdict::fault;
}

const Target* target_of(const Op& op, const std::string& name) {
  for (const Target& t : op.targets)
    if (t.name == name) return &t;
  return nullptr;
}

struct Interrupted {};

/// The reference refused what the case asks of it: a defect of this program, which must not cost the other results.
std::string own_fault(const std::exception& e) {
  return fmt::format("assay itself could not judge this case ({}); please report it with its id", e.what());
}

}  // namespace

bool offers(const Target& target, const TargetSpec& spec) {
  const std::string variant = spec.variant.substr(0, spec.variant.find('@'));
  const auto has = [&](const std::vector<std::string>& all) { return std::ranges::find(all, variant) != all.end(); };
  return target.variants.empty() || has(target.variants) || has(target.deep_variants);
}

struct Runner::Lane {
  Candidate candidate;
  std::shared_ptr<std::unique_ptr<Worker>> process;  // of its own, or one for all algorithms of a library
  int faults_in_a_row = 0;
  std::map<std::string, int> alike;  // failures of this verdict and label that every re-run repeated
  std::string down;                  // why nothing (more) is tried on this target
  bool told = false;                 // a record says so already; a target that is not required needs no other
  std::string shown_library;         // its path as records write it
  bool rests = false;                // leaves out the case at hand

  const TargetSpec& spec() const { return candidate.spec; }
  std::unique_ptr<Worker>& worker() const { return *process; }
};

namespace {

/// A variant that names one algorithm of many: their lanes take turns in one process, whose context and workspace a small card
/// would not hold eighty times. Empty: a process of its own.
std::string shared_process(const TargetSpec& spec) {
  const auto one_of_many = [&](const Op& op) {
    const Target* const target = target_of(op, spec.target);
    return target != nullptr && std::ranges::find(target->deep_variants, spec.variant) != target->deep_variants.end();
  };
  if (spec.device < 0 || std::ranges::none_of(all_ops(), one_of_many)) return {};
  return nlohmann::json{spec.target, spec.library, spec.set, spec.device, spec.environment}.dump();
}

}  // namespace

Runner::Runner(RunPlan plan, Sink sink, std::function<void(const Progress&)> progress)
    : plan_(std::move(plan)), sink_(std::move(sink)), progress_(std::move(progress)) {
  std::map<std::string, std::shared_ptr<std::unique_ptr<Worker>>> shared;
  for (Candidate& c : plan_.targets) {
    lanes_.push_back(std::make_unique<Lane>());
    const std::string process = shared_process(c.spec);
    std::shared_ptr<std::unique_ptr<Worker>> fresh;
    std::shared_ptr<std::unique_ptr<Worker>>& slot = process.empty() ? fresh : shared[process];
    if (!slot) slot = std::make_shared<std::unique_ptr<Worker>>();
    lanes_.back()->process = slot;
    lanes_.back()->candidate = c;
    lanes_.back()->down = c.unavailable;
    lanes_.back()->shown_library = report::redact(c.spec.library);
  }
}

Runner::~Runner() = default;

bool Runner::run() {
  begin_ = std::chrono::steady_clock::now();
  try {
    if (plan_.next)
      run_endless();
    else
      run_listed();
  } catch (const Interrupted&) {
    return false;
  }
  return true;
}

void Runner::tell(std::size_t done, std::size_t total, const ListedCase& next) const {
  if (progress_)
    progress_({done, total, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count(), next.id});
}

void Runner::run_listed() {
  for (std::size_t i = 0; i < plan_.cases.size(); ++i) {
    tell(i, plan_.cases.size(), plan_.cases[i]);
    run_case(plan_.cases[i]);
  }
}

void Runner::run_endless() {
  std::map<std::string, std::vector<Lane*>> ladders;  // by library
  for (const std::unique_ptr<Lane>& lane : lanes_)
    if (!lane->spec().required && lane->down.empty()) ladders[lane->spec().target + lane->spec().library].push_back(lane.get());
  std::size_t done = 0;
  while (const std::optional<ListedCase> next = plan_.next()) {
    tell(done, 0, *next);
    // One variant after the other, so that each case costs as much as one without a ladder.
    for (auto& [library, ladder] : ladders)
      for (std::size_t i = 0; i < ladder.size(); ++i) ladder[i]->rests = i != done % ladder.size();
    run_case(*next);
    ++done;
  }
}

double Runner::flops_where_limited(const ListedCase& listed) const {
  const bool limited = std::ranges::any_of(lanes_, [](const auto& lane) { return lane->candidate.largest_flops > 0; });
  return limited ? make_problem(listed.id).flops : 0;
}

bool Runner::takes(const Lane& lane, const ListedCase& listed, double flops) const {
  if (lane.rests) return false;
  if (lane.candidate.largest_flops > 0 && !(flops <= lane.candidate.largest_flops)) return false;
  const Target* const target = target_of(find_op(case_op(listed.id)), lane.spec().target);
  if (!target || !offers(*target, lane.spec())) return false;
  // A queue that a CPU library has not.
  if (!target->on_device && listed.id.find(",queue=") != std::string::npos) return false;
  return (lane.candidate.only_tag.empty() || has_tag(listed.tags, lane.candidate.only_tag));
}

std::size_t Runner::required_pairs() const {
  std::size_t pairs = 0;
  for (const ListedCase& c : plan_.cases) {
    const double flops = flops_where_limited(c);
    for (const std::unique_ptr<Lane>& lane : lanes_) pairs += lane->spec().required && takes(*lane, c, flops);
  }
  return pairs;
}

void Runner::compare_builds(const TargetSpec& spec, Record& record) {
  const std::size_t at = spec.variant.find('@');
  if (at == std::string::npos || record.verdict != Verdict::pass || !record.label.empty()) return;
  const std::string version = spec.variant.substr(0, at), build = spec.variant.substr(at + 1);
  if (build.find("-fast") != std::string::npos) return;  // declared to round differently
  const auto [first, fresh] = build_bits_.try_emplace(version, build, record.output_digest);
  if (fresh || first->second.second == record.output_digest) return;
  record.verdict = Verdict::suspect;
  record.label = "BUILD";
  record.conditions["compared with build"] = first->second.first;
  record.reason = fmt::format(
      "within the bound, but not the bits that the same source gives when it is built as {} (digest {} here, {} there): one of "
      "the two compilers changed the arithmetic",
      first->second.first, record.output_digest, first->second.second);
}

void Runner::run_case(const ListedCase& listed) {
  build_bits_.clear();
  std::unique_ptr<Truth> truth;
  std::string too_big;
  const double flops = flops_where_limited(listed);
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (interrupted) throw Interrupted{};
    if (!takes(*lane, listed, flops)) continue;
    Record key;
    key.case_id = listed.id, key.target = lane->spec().target, key.variant = lane->spec().variant;
    key.library.path = lane->shown_library;
    if (plan_.done.contains(report::key(key))) continue;
    if (!lane->down.empty()) {
      if (lane->spec().required || !lane->told) unavailable_record(listed, *lane, lane->down);
      lane->told = true;
      continue;
    }
    if (!truth && too_big.empty()) {
      try {
        truth = std::make_unique<Truth>(listed.id);
      } catch (const Unavailable& e) {
        too_big = e.what();
      } catch (const std::invalid_argument& e) {
        too_big = own_fault(e);
      }
    }
    if (!truth) {
      unavailable_record(listed, *lane, too_big);
      continue;
    }
    try {
      run_on(*truth, listed, *lane);
    } catch (const std::invalid_argument& e) {
      lane->worker().reset();
      unavailable_record(listed, *lane, own_fault(e));
    }
  }
}

void Runner::unavailable_record(const ListedCase& listed, Lane& lane, const std::string& why) {
  Record r;
  r.case_id = listed.id, r.op = case_op(listed.id), r.tags = listed.tags, r.formats = make_problem(listed.id).formats;
  r.target = lane.spec().target, r.variant = lane.spec().variant, r.required = lane.spec().required;
  r.library.path = lane.shown_library;
  r.verdict = Verdict::unavailable;
  r.reason = why;
  sink_(r);
}

Measurement Runner::attempt(Truth& truth, Lane& lane, bool keep) {
  const double deadline =
      plan_.deadline_s + truth.problem().flops * static_cast<double>(truth.problem().callers) / slowest_flops_per_s;
  Measurement m;
  try {
    if (!lane.worker()) lane.worker() = std::make_unique<Worker>(lane.spec(), arena_.fd());
    m = measure(truth, lane.spec(), *lane.worker(), arena_, deadline, keep);
  } catch (const Unavailable& e) {
    m.outcome = Outcome::unavailable;
    m.reason = e.what();
  }
  if (m.outcome == Outcome::interrupted) throw Interrupted{};
  if (m.outcome == Outcome::fault) lane.worker().reset();
  return m;
}

void Runner::run_on(Truth& truth, const ListedCase& listed, Lane& lane) {
  const Target& target = *target_of(truth.op(), lane.spec().target);
  Measurement m;
  const std::optional<std::string> refusal = target.refuses ? target.refuses(truth.problem(), lane.spec()) : std::nullopt;
  const bool first_use = !lane.worker();
  if (refusal) {
    m.outcome = Outcome::unsupported;
    m.reason = *refusal;
  } else {
    m = attempt(truth, lane, plan_.keep_tensors && failing_bytes(truth.problem()) <= most_kept_bytes);
  }
  Judgement j = judge(truth.problem(), m);
  Record record = make_record(truth, lane.spec(), m, j, listed.tags);
  if (m.outcome == Outcome::measured || m.outcome == Outcome::fault) identify(lane, m.report, record);
  if (wrong(j)) {
    confirm(truth, lane, j, record);
    record.verdict = j.verdict, record.label = j.label, record.reason = j.reason;
  }
  if (wrong(j) && !m.kept.empty() && plan_.wants_tensors(record, failing_bytes(truth.problem())))
    record.tensors = plan_.keep_tensors(record, failing_tensors(truth, m, record).file);
  compare_builds(lane.spec(), record);
  lane.faults_in_a_row = j.verdict == Verdict::fault ? lane.faults_in_a_row + 1 : 0;
  if (plan_.give_up_after_faults > 0 && lane.faults_in_a_row >= plan_.give_up_after_faults)
    lane.down = fmt::format("not tried: {} calls in a row ended their process", lane.faults_in_a_row);
  // A library that cannot be opened, or a level that it replaces, stays so for every case; this record says it.
  if (m.outcome == Outcome::unavailable && first_use && !m.only_here) {
    lane.down = m.reason;
    lane.told = true;
  }
  sink_(record);
}

void Runner::confirm(Truth& truth, Lane& lane, Judgement& j, Record& record) {
  report::Confirmation& c = record.confirmation;
  c.runs = c.failed = 1;
  const auto again = [&](Truth& t) {
    lane.worker().reset();
    const Judgement repeat = judge(t.problem(), attempt(t, lane));
    return wrong(repeat);
  };
  // A worker start is most of the cost of a re-run. Once several failures of one kind have repeated without exception, one
  // re-run each is enough to see that the next is no accident.
  int& alike = lane.alike[std::string(report::name(j.verdict)) + j.label];
  const int runs = alike < alike_before_one_run ? plan_.confirmations : std::min(plan_.confirmations, 1);
  for (int i = 0; i < runs; ++i) {
    ++c.runs;
    c.failed += again(truth);
  }
  alike = c.failed == c.runs ? alike + 1 : 0;
  if (!j.needs_fresh_seeds) return;
  for (int i = 1; i <= 2; ++i) {
    CaseId fresh = truth.problem().id;
    fresh.set("seed", std::to_string(truth.problem().seed + static_cast<std::uint64_t>(i)));
    Truth other(to_string(fresh, truth.op().grammar));
    ++c.fresh_seed_runs;
    c.fresh_seed_failed += again(other);
  }
  if (c.fresh_seed_failed < c.fresh_seed_runs) {
    j.verdict = Verdict::suspect;
    j.reason += fmt::format("; under the rigorous bound, and repeated on {} of {} fresh seeds only: chance is not excluded",
                            c.fresh_seed_failed, c.fresh_seed_runs);
  }
}

void Runner::identify(Lane& lane, const CallReport& report, Record& record) {
  const std::string& path = lane.spec().library;
  if (path.empty()) return;
  if (!identities_.contains(path) && lane.worker()) {  // a fault has ended it
    const Answer answer = lane.worker()->ask({{"do", "libraries"}}, plan_.deadline_s);
    report::LibraryIdentity mine;
    mine.path = path;
    if (answer.reply)
      for (const report::LibraryIdentity& l : answer.reply->libraries) {
        if (l.path == path) mine = l;
        report::LibraryIdentity shown = l;
        shown.path = report::redact(l.path);
        const auto same = [&](const report::LibraryIdentity& o) { return o.path == shown.path && o.sha256 == shown.sha256; };
        if (std::none_of(libraries_.begin(), libraries_.end(), same)) libraries_.push_back(shown);
      }
    identities_[path] = mine;
  }
  if (const auto known = identities_.find(path); known != identities_.end()) record.library = known->second;
  record.library.path = lane.shown_library;
  if (auto core = report.facts.find("core"); core != report.facts.end()) record.library.core = core->second;
  if (auto version = report.facts.find("version"); version != report.facts.end()) record.library.version = version->second;
}

}  // namespace assay
