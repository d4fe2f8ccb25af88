// SPDX-License-Identifier: Apache-2.0
// No standard defines JUnit XML; elements and attributes are those that https://github.com/testmoapp/junitxml collects from
// what tools write and read.
#include "report/junit.hpp"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "report/printable.hpp"
#include "report/summary.hpp"

namespace assay::report {

namespace {

/// Text or attribute value: one line of characters that XML 1.0 has, at most `bytes` bytes before escaping.
std::string xml(std::string_view text, std::size_t bytes = 2000) {
  std::string out;
  for (const char c : shortened(printable(text), bytes)) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  return out;
}

struct Suite {
  std::string cases, started;
  int tests = 0, failures = 0, errors = 0, skipped = 0;
  double time_s = 0;

  std::string counts() const {
    return fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.6f}\"", tests, failures, errors,
                       skipped, time_s);
  }
  void add(const Suite& s) {
    tests += s.tests, failures += s.failures, errors += s.errors, skipped += s.skipped, time_s += s.time_s;
  }
};

/// What a reader needs to judge a result, one fact per line.
std::string details(const Record& r) {
  std::string out = "\n";
  const auto line = [&](std::string_view what, const std::string& value) {
    if (!value.empty()) out += fmt::format("{}: {}\n", what, xml(value));
  };
  line("formats", r.formats);
  line("library", r.library.path);
  line("version", r.library.version);
  line("core", r.library.core);
  line("sha256", r.library.sha256);
  line("algorithm", r.algorithm);
  line("declared arithmetic", r.arithmetic);
  if (const auto& c = r.comparison)
    line("numbers", fmt::format("{} of {} elements out of bound{}", c->bad + c->over_iid, c->compared,
                                c->first_bad < 0 ? "" : fmt::format(", first at index {}", c->first_bad)));
  line("repeated", failed_in(r.confirmation));
  line("known defect", r.known_defect);
  line("tensors", r.tensors);
  line("again", reproducer(r));
  return out;
}

/// The element inside the testcase; counts it. A pass has none.
std::string result(const Judged& j, bool strict, Suite& suite) {
  const Record& r = *j.record;
  const std::string type = xml(r.label.empty() ? name(j.standing) : std::string_view(r.label));
  const std::string message = xml(r.reason.empty() ? name(j.standing) : std::string_view(r.reason), 500);
  const auto element = [&](std::string_view tag) {
    return fmt::format("      <{0} type=\"{1}\" message=\"{2}\">{3}</{0}>\n", tag, type, message, details(r));
  };
  switch (j.standing) {
    case Standing::fail:
    case Standing::flaky:
      ++suite.failures;
      return element("failure");
    case Standing::fault:
      ++suite.errors;
      return element("error");
    case Standing::suspect:
      if (!strict) return fmt::format("      <system-out>suspect {}: {}{}</system-out>\n", type, message, details(r));
      ++suite.failures;
      return element("failure");
    case Standing::waived:
      ++suite.skipped;
      return fmt::format("      <skipped message=\"waived {}: {}\"/>\n", xml(r.waived, 500), message);
    case Standing::unsupported:
    case Standing::unavailable:
      ++suite.skipped;
      return fmt::format("      <skipped message=\"{}: {}\"/>\n", name(j.standing), message);
    default:
      return r.label.empty() ? "" : fmt::format("      <system-out>{}: {}</system-out>\n", type, message);
  }
}

void add_case(const std::string& case_name, const std::string& class_name, double time_s, const std::string& inside,
              Suite& suite) {
  ++suite.tests, suite.time_s += time_s;
  suite.cases += fmt::format("    <testcase name=\"{}\" classname=\"{}\" time=\"{:.6f}\"{}", xml(case_name), xml(class_name),
                             time_s, inside.empty() ? "/>\n" : ">\n" + inside + "    </testcase>\n");
}

std::string properties(const RunData& run) {
  if (!run.environment) return "";
  std::string out;
  const auto add = [&](const std::string& key, const std::string& value) {
    out += fmt::format("      <property name=\"{}\" value=\"{}\"/>\n", xml(key), xml(value));
  };
  const Environment& e = *run.environment;
  for (const auto& [key, value] : e.assay) add("assay." + key, value);
  for (const auto& [key, value] : e.system) add("system." + key, value);
  for (const auto& [key, value] : e.variables) add("variable." + key, value);
  for (const Gpu& g : e.gpus)
    add(fmt::format("gpu.{}", g.ordinal), fmt::format("{}, SM {}, {}, kernel module {}", g.name, g.sm, g.user_driver,
                                                      g.kernel_driver.empty() ? "unknown" : g.kernel_driver));
  for (const LibraryIdentity& l : e.libraries)
    add("library." + l.path, fmt::format("{}{}sha256 {}", l.version, l.version.empty() ? "" : ", ", l.sha256));
  add("command", e.command);
  return "    <properties>\n" + out + "    </properties>\n";
}

double seconds(const Record& r) {
  return std::isfinite(r.execute_ms) && r.execute_ms > 0 ? r.execute_ms * 1e-3 : 0;
}

}  // namespace

std::string junit_report(const RunData& run, bool strict) {
  std::vector<std::string> order;
  std::map<std::string, Suite> suites;
  const auto suite_of = [&](const std::string& op) -> Suite& {
    const auto [it, fresh] = suites.try_emplace(op);
    if (fresh) order.push_back(op);
    return it->second;
  };
  std::set<std::string> named;
  for (const Judged& j : judged(run.records)) {
    const Record& r = *j.record;
    Suite& suite = suite_of(r.op);
    if (suite.started.empty()) suite.started = r.started.substr(0, 19);  // readers do not expect the Z of UTC
    const std::string class_name = r.op + "." + full_target(r);
    // Two files may be probed under one target name.
    const bool again = !named.insert(class_name + " " + r.case_id).second;
    add_case(again ? r.case_id + " on " + r.library.path : r.case_id, class_name, seconds(r), result(j, strict, suite), suite);
  }
  if (order.empty())
    throw FileError(fmt::format("{} holds no result: name the folder of a run that got as far as its first case", run.folder));
  if (run.broken_off) {
    Suite& suite = suite_of("assay");
    ++suite.errors;
    add_case(
        "the run reaches its end", "assay.run", 0,
        "      <error type=\"incomplete\" message=\"the run was broken off, what follows its last record is not known\"/>\n",
        suite);
  }
  Suite total;
  std::string body;
  const std::string conditions = properties(run);
  for (const std::string& op : order) {
    const Suite& s = suites[op];
    total.add(s);
    body += fmt::format("  <testsuite name=\"{}\" {}{}>\n{}{}  </testsuite>\n", xml(op), s.counts(),
                        s.started.empty() ? "" : fmt::format(" timestamp=\"{}\"", xml(s.started)), conditions, s.cases);
  }
  return fmt::format("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"assay\" {}>\n{}</testsuites>\n",
                     total.counts(), body);
}

}  // namespace assay::report
