// SPDX-License-Identifier: Apache-2.0
#include "probes/run/selftest.hpp"

#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "probes/run/runner.hpp"
#include "reference/inputs.hpp"

namespace assay {

using report::Record;
using report::Verdict;

namespace {

constexpr double hang_deadline_s = 0.5;

Candidate candidate(std::string_view target, std::string_view variant) {
  return {.spec = {.target = std::string(target), .variant = std::string(variant), .library = {}, .environment = {}},
          .only_tag = {},
          .unavailable = {},
          .largest_flops = 0};
}

std::string with_seed(const std::string& id, int seed) {
  return canonical(fmt::format("{},seed={}", id, seed));
}

std::vector<ListedCase> seeded(const std::vector<std::string>& ids, int seeds) {
  std::vector<ListedCase> out;
  for (int seed = 1; seed <= seeds; ++seed)
    for (const std::string& id : ids) out.push_back({with_seed(id, seed), {}});
  return out;
}

/// Runs parts on all cores; each part has workers and an arena of its own.
void in_parallel(std::size_t parts, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  std::exception_ptr error;
  std::mutex mutex;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t)
    threads.emplace_back([&] {
      omp_set_num_threads(1);  // the cases are small and the threads are busy already
      try {
        for (std::size_t i = next++; i < parts && !interrupted; i = next++) body(i);
      } catch (...) {
        const std::scoped_lock lock(mutex);
        error = std::current_exception();
      }
    });
  for (std::thread& t : threads) t.join();
  if (error) std::rethrow_exception(error);
}

FaultResult test_fault(const Op& op, const PlantedFault& fault, int seeds) {
  FaultResult result;
  result.op = op.name, result.name = fault.name, result.what = fault.what;
  result.may_hide_in_noise = fault.may_hide_in_noise;
  result.planted = seeds;
  std::vector<bool> seed_caught(static_cast<std::size_t>(seeds));
  std::map<std::string, int> how;
  RunPlan plan;
  plan.targets = {candidate("planted", fault.name)};
  plan.cases = seeded(fault.cases, seeds);
  plan.confirmations = 0, plan.give_up_after_faults = 0;
  if (fault.hangs) plan.deadline_s = hang_deadline_s;
  std::size_t index = 0;
  Runner runner(std::move(plan), [&](const Record& r) {
    const std::size_t seed = index++ / fault.cases.size();
    const bool caught = r.verdict == Verdict::fail || r.verdict == Verdict::fault || r.verdict == Verdict::suspect;
    const bool integers = exact(*parse_family(make_problem(r.case_id).id.word("fill")));
    (integers ? result.exact_planted : result.real_planted) += 1;
    if (!caught) return;
    (integers ? result.exact_caught : result.real_caught) += 1;
    seed_caught[seed] = true;
    ++how[std::string(name(r.verdict)) + (r.label.empty() ? "" : " " + r.label)];
  });
  runner.run();
  result.caught = static_cast<int>(std::count(seed_caught.begin(), seed_caught.end(), true));
  std::vector<std::pair<int, std::string>> ranked;
  for (const auto& [text, count] : how) ranked.emplace_back(-count, text);
  std::sort(ranked.begin(), ranked.end());
  for (const auto& [count, text] : ranked) result.how += (result.how.empty() ? "" : ", ") + text;
  return result;
}

using Power = std::map<std::string, std::pair<std::vector<double>, double>>;  // case -> (bound over RMS, closest correct error)

CleanResult test_model(const Op& op, const std::string& model, int seeds, Power& power, std::mutex& mutex) {
  CleanResult result;
  result.op = op.name, result.model = model;
  RunPlan plan;
  plan.targets = {candidate("model", model)};
  plan.cases = seeded(op.selftest_clean, seeds);
  plan.confirmations = 0;
  std::size_t index = 0;
  Runner runner(std::move(plan), [&](const Record& r) {
    const std::string& id = op.selftest_clean[index++ % op.selftest_clean.size()];
    if (r.verdict == Verdict::unsupported) {
      ++result.unsupported;
      return;
    }
    ++result.runs;
    if (r.verdict == Verdict::pass)
      ++result.passed;
    else if (r.label == "MISTRUSTED")
      ++result.mistrusted;
    else
      ++result.false_alarms;
    if (r.verdict != Verdict::pass && result.alarms.size() < 5) result.alarms.push_back(r.case_id + ": " + r.reason);
    if (!r.comparison) return;
    const std::scoped_lock lock(mutex);
    auto& [bounds, closest] = power[id];
    bounds.push_back(r.comparison->smallest_fault);
    closest = std::max({closest, std::min(r.comparison->max_over_hard, 1e9), std::min(r.comparison->max_over_iid, 1e9)});
  });
  runner.run();
  return result;
}

}  // namespace

bool SelftestResult::good() const {
  return !interrupted && std::all_of(faults.begin(), faults.end(), [](const FaultResult& f) { return f.good(); }) &&
         std::all_of(clean.begin(), clean.end(), [](const CleanResult& c) { return c.passed == c.runs && c.runs > 0; });
}

SelftestResult run_selftest(const SelftestOptions& options, const std::function<void(std::size_t, std::size_t)>& progress) {
  SelftestResult out;
  std::vector<std::function<void()>> fault_parts, clean_parts;
  std::mutex mutex;
  Power power;
  std::vector<std::string> case_order;
  for (const Op& op : all_ops()) {
    if (!options.op.empty() && op.name != options.op) continue;
    for (const PlantedFault& fault : op.faults) {
      const std::size_t slot = out.faults.size();
      out.faults.emplace_back();
      fault_parts.push_back([&, slot] { out.faults[slot] = test_fault(op, fault, options.fault_seeds); });
    }
    case_order.insert(case_order.end(), op.selftest_clean.begin(), op.selftest_clean.end());
    for (const Target& t : op.targets)
      if (t.name == "model")
        for (const std::string& model : t.variants) {
          const std::size_t slot = out.clean.size();
          out.clean.emplace_back();
          clean_parts.push_back(
              [&, slot, model] { out.clean[slot] = test_model(op, model, options.clean_seeds, power, mutex); });
        }
  }
  const std::size_t total = fault_parts.size() + clean_parts.size();
  std::size_t done = 0;
  const auto timed = [&](std::vector<std::function<void()>>& parts) {
    const auto begin = std::chrono::steady_clock::now();
    in_parallel(parts.size(), [&](std::size_t i) {
      parts[i]();
      const std::scoped_lock lock(mutex);
      progress(++done, total);
    });
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  out.fault_seconds = timed(fault_parts);
  out.clean_seconds = timed(clean_parts);
  out.interrupted = interrupted;
  for (const std::string& id : case_order) {
    auto& [bounds, closest] = power[id];
    if (bounds.empty()) continue;
    std::nth_element(bounds.begin(), bounds.begin() + static_cast<std::ptrdiff_t>(bounds.size() / 2), bounds.end());
    out.power.push_back({id, bounds[bounds.size() / 2], closest});
  }
  return out;
}

}  // namespace assay
