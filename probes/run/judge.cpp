// SPDX-License-Identifier: Apache-2.0
#include "probes/run/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <optional>

#include "report/environment.hpp"

namespace assay {

using report::Verdict;

namespace {

std::string at_index(const Operand& out, std::int64_t index) {
  std::string text;
  for (std::size_t i = out.dims.size(); i-- > 0;) {
    const std::int64_t d = std::max<std::int64_t>(out.dims[i], 1);
    text = fmt::format("{}{}{}", index % d, text.empty() ? "" : ",", text);
    index /= d;
  }
  return fmt::format("{}[{}]", out.role, text);
}

std::string share(std::int64_t count, std::int64_t of) {
  return fmt::format("{} of {} elements", count, of);
}

/// The convention that this mismatch breaks, when the case leans on one and nothing else is wrong.
const char* broken_convention(const Problem& p, const Measurement& m, const Finding& d) {
  for (Convention c : p.leans_on) {
    const Contract& promised = m.report.contract;
    switch (c) {
      case Convention::beta_zero_ignores_c:
        // C is NaN before the call, so only NaN can come of reading it on the first call.
        if (!promised.beta_zero_ignores_c.made && d.bad == d.nan_unexpected) return "reads C although beta is 0";
        break;
      case Convention::alpha_zero_ignores_ab:
        if (!promised.alpha_zero_ignores_ab.made && d.bad == d.nan_unexpected) return "reads A or B although alpha is 0";
        break;
      case Convention::nan_propagates:
        if (promised.nan_confined.made && d.nan_leaked > 0) break;
        if (!promised.nan_propagates.made && d.bad == d.nan_missing + d.inf_mismatch + d.nan_unexpected)
          return "does not carry NaN or infinity through as IEEE 754 arithmetic would";
        break;
      case Convention::keeps_subnormals:
        break;  // compare already leaves flushed values out when they are not promised
      case Convention::masked_row:
      case Convention::infinite_argument:
        break;  // judge_two_values
    }
  }
  return nullptr;
}

std::string worst(const Problem& p, const Finding& d) {
  const WorstElement& w = d.worst;
  if (w.index < 0) return {};
  const std::string values =
      d.where + fmt::format("; worst {}: got {:.9g}, true {:.9g}", at_index(p.operands[d.operand], w.index), w.got, w.expected);
  return d.exact ? values : values + fmt::format(", {:.3g} times the bound", w.error_over_bound);
}

/// Elements with two accepted values (Expected::other): the value is NaN by IEEE 754 arithmetic, the other is a number by
/// convention. What is promised must be kept; where nothing is promised, either is policy.
std::optional<Judgement> judge_two_values(const Problem& p, const Contract& promised, const Finding& d,
                                          const std::string& call) {
  if (d.two_values == 0) return std::nullopt;
  const bool masked = std::ranges::count(p.leans_on, Convention::infinite_argument) == 0;
  const char* const where = masked ? "of fully masked rows" : "whose argument is -Inf";
  const char* const number = masked ? "zero probabilities" : "the limit of the function";
  const bool nan_due = masked && promised.masked_row_is_nan.made;
  const bool number_due = masked ? promised.masked_row_is_zero.made : promised.limit_at_infinity.made;
  const std::int64_t kept_nan = d.two_values - d.took_other;
  const auto broken = [&](std::int64_t count, const char* gave, const char* due) {
    return Judgement{
        Verdict::fail, "WRONG",
        fmt::format("{} gave {} in {} {}, where its contract promises {}", call, gave, share(count, d.two_values), where, due)};
  };
  if (nan_due && d.took_other > 0) return broken(d.took_other, number, "NaN");
  if (number_due && kept_nan > 0) return broken(kept_nan, "NaN", number);
  if (nan_due || number_due) return std::nullopt;
  // What IEEE 754 arithmetic gives for a masked row, and the limit of an activation, need no remark.
  const std::int64_t remarkable = masked ? d.took_other : kept_nan;
  if (remarkable > 0)
    return Judgement{Verdict::pass, "POLICY",
                     fmt::format("{} the library gives {} in {} {}, which its contract does not mention: a convention, not an "
                                 "error",
                                 call, masked ? number : "NaN", share(remarkable, d.two_values), where)};
  return std::nullopt;
}

/// Verdict on one set of values; `call` names it in the sentence.
Judgement judge_values(const Problem& p, const Measurement& m, const Finding& d, const std::string& call) {
  if (d.bad > 0) {
    if (const char* convention = broken_convention(p, m, d))
      return {
          Verdict::pass, "POLICY",
          fmt::format("{} the library {}, which its contract does not promise: a convention, not an error", call, convention)};
    const std::string first = fmt::format(", first {}", at_index(p.operands[d.operand], d.first_bad));
    if (d.unwritten > 0)
      return {Verdict::fail, "UNWRITTEN",
              fmt::format("{} left {} of the output unwritten{}", call, share(d.unwritten, d.compared), first)};
    if (d.nan_unexpected > 0)
      return {Verdict::fail, "NAN-LEAK",
              fmt::format("{} returned NaN where a number is due in {}{}", call, share(d.nan_unexpected, d.compared), first)};
    return {Verdict::fail, "WRONG",
            fmt::format("{} is wrong in {}{}{}{}", call, share(d.bad, d.compared), first, worst(p, d),
                        d.exact ? " (integer data: every correct order of summation gives these bits)" : "")};
  }
  if (const std::optional<Judgement> judged = judge_two_values(p, m.report.contract, d, call)) return *judged;
  // Many elements over the statistical gate and none over the rigorous bound: the precision is not the declared one.
  if (d.over_iid > 0) {
    const bool mode = d.over_iid * 100 >= d.compared && d.compared >= 64;
    return {Verdict::fail, mode ? "MODE" : "WRONG",
            fmt::format("{} is less exact than its declared arithmetic ({}) in {}{}", call, describe(m.report.arithmetic),
                        share(d.over_iid, d.compared), worst(p, d)),
            true};
  }
  if (d.rms_exceeded)
    return {Verdict::suspect, "MODE",
            fmt::format("{} stays inside the bound everywhere, but its errors as a whole are larger than {} gives (RMS {:.3g})",
                        call, describe(m.report.arithmetic), std::max(d.rms_over_statistic, d.rms_over_rounding))};
  return {Verdict::pass, "", ""};
}

report::Comparison comparison(const Finding& d, const Problem& p, std::int64_t sampled, const std::string& looked_at_by) {
  report::Comparison c;
  c.compared = d.compared, c.bad = d.bad, c.over_iid = d.over_iid;
  c.nan_unexpected = d.nan_unexpected, c.nan_missing = d.nan_missing, c.inf_mismatch = d.inf_mismatch;
  c.unwritten = d.unwritten, c.subnormal_flushed = d.subnormal_flushed, c.overflow_open = d.overflow_open;
  c.first_bad = d.first_bad, c.worst_index = d.worst.index, c.worst_ulp = d.worst.ulp_error;
  const int digits = format(p.operands[d.operand].dtype).bits / 4;
  if (d.worst.index >= 0) {
    c.worst_got_bits = fmt::format("0x{:0{}x}", d.worst.got_bits, digits);
    c.worst_expected_bits = fmt::format("0x{:0{}x}", d.worst.expected_bits, digits);
  }
  c.worst_got = d.worst.got, c.worst_expected = d.worst.expected;
  c.max_over_hard = d.max_over_hard, c.max_over_iid = d.max_over_iid;
  c.rms_over_statistic = d.rms_over_statistic, c.rms_over_rounding = d.rms_over_rounding, c.bias = d.bias;
  c.smallest_fault = d.median_bound_over_rms, c.blind_fraction = d.blind_fraction;
  c.sampled = sampled > 0 && d.verification.empty();
  c.verification = !d.verification.empty() ? d.verification
                   : sampled > 0           ? fmt::format("rows:{}{}{}", sampled, looked_at_by.empty() ? "" : "+", looked_at_by)
                                           : "whole";
  if (d.exact && d.verification.empty()) c.verification += ",exact";
  return c;
}

std::string promise(const Promise& p) {
  return p.made ? "promised: " + p.source : "not promised";
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

}  // namespace

Judgement judge(const Problem& p, const Measurement& m) {
  switch (m.outcome) {
    case Outcome::unsupported:
      return {Verdict::unsupported, "", m.reason};
    case Outcome::unavailable:
      return {Verdict::unavailable, "", m.reason};
    case Outcome::interrupted:
      return {Verdict::unavailable, "", "interrupted before a result"};
    case Outcome::fault:
      return {Verdict::fault, "", m.reason};
    case Outcome::measured:
      break;
  }
  if (m.bytes_outside > 0)
    return {Verdict::fail, "OUT-OF-BOUNDS",
            fmt::format("the call wrote {} bytes outside its output, first {}", m.bytes_outside, m.outside)};
  if (m.inputs_changed) return {Verdict::fail, "OUT-OF-BOUNDS", "the call changed one of its inputs"};
  const Judgement first = judge_values(p, m, m.first, "the result");
  if (first.verdict == Verdict::fail) return first;
  Judgement second{Verdict::pass, "", ""};
  if (m.second) second = judge_values(p, m, *m.second, "the second call, with other data,");
  if (second.verdict == Verdict::fail) return second;
  if (first.verdict != Verdict::pass) return first;
  if (second.verdict != Verdict::pass) return second;
  if (!m.first.exact && m.first.blind_fraction >= 0.5)
    return {Verdict::suspect, "MISTRUSTED",
            fmt::format("this case cannot fail: in {:.0f}% of the elements the bound is as large as the result",
                        100 * m.first.blind_fraction)};
  const bool differs = m.repeats_identical < m.repeats || m.callers_differing > 0;
  if (differs) {
    const std::string what = fmt::format(
        "bits differ between equal calls ({} of {} repeats identical, {} concurrent callers differing), every result inside "
        "the bound",
        m.repeats_identical, m.repeats, m.callers_differing);
    return {m.report.contract.repeatable.made ? Verdict::suspect : Verdict::pass, "NONDETERMINISTIC", what};
  }
  if (!first.label.empty()) return first;
  if (m.first.overflow_open > 0)
    return {
        Verdict::pass, "OVERFLOW-EXPECTED",
        fmt::format("{} may overflow the format in some order of summation", share(m.first.overflow_open, m.first.compared))};
  return {Verdict::pass, "", ""};
}

report::Record make_record(Truth& truth, const TargetSpec& spec, const Measurement& m, const Judgement& j,
                           const std::string& tags) {
  const Problem& p = truth.problem();
  report::Record r;
  r.case_id = to_string(p.id, truth.op().grammar);
  r.op = p.id.op, r.formats = p.formats, r.tags = tags;
  r.target = spec.target, r.variant = spec.variant, r.required = spec.required;
  r.verdict = j.verdict, r.label = j.label, r.reason = j.reason;
  r.library.path = report::redact(spec.library);
  for (const auto& [key, value] : spec.environment) r.conditions[key] = value.empty() ? "taken out" : value;
  for (const auto& [role, path] : spec.set) r.conditions["file " + role] = report::redact(path);
  if (spec.device >= 0) r.conditions["device"] = fmt::to_string(spec.device);
  for (const auto& [key, value] : m.report.facts)
    if (key != "core" && key != "version")
      r.conditions["library " + key] = value;  // those two are part of the library's identity
  r.input_digest = truth.input_digest();
  r.started = utc_now();
  r.repeats = m.repeats, r.repeats_identical = m.repeats_identical;
  r.algorithm = m.report.algorithm, r.plan = m.report.plan;  // a fault of a device names them as well
  if (m.outcome != Outcome::measured) return r;
  r.arithmetic = describe(m.report.arithmetic);
  const Contract& c = m.report.contract;
  // Conventions, tiles and a second call that passed as well explain a result that is questioned; in thousands of passes they
  // would be most of the file.
  const bool questioned = j.verdict != Verdict::pass || !j.label.empty();
  if (questioned)
    r.contract = {{"beta = 0 ignores C", promise(c.beta_zero_ignores_c)},
                  {"alpha = 0 ignores A, B", promise(c.alpha_zero_ignores_ab)},
                  {"NaN propagates", promise(c.nan_propagates)},
                  {"NaN stays where it belongs", promise(c.nan_confined)},
                  {"subnormals kept", promise(c.keeps_subnormals)},
                  {"repeatable", promise(c.repeatable)},
                  {"masked row is NaN", promise(c.masked_row_is_nan)},
                  {"masked row is zero", promise(c.masked_row_is_zero)},
                  {"activation of -Inf is its limit", promise(c.limit_at_infinity)}};
  r.comparison = comparison(m.first, p, m.first_rows, m.looked_at_by);
  if (m.second && questioned) r.second = comparison(*m.second, p, m.second_rows, m.looked_at_by);
  const Finding& shown = m.first.bad + m.first.over_iid > 0 || !m.second ? m.first : *m.second;
  r.bad_indices = shown.bad_indices;
  r.output_dims = p.operands[shown.operand].dims;
  r.output_digest = m.output_digest;
  if (m.output_tiles.size() > 1 && questioned) r.output_tiles = m.output_tiles;
  r.reference_digest = truth.reference_digest();
  r.execute_ms = m.execute_ms, r.reference_ms = truth.first().reference_ms;
  return r;
}

}  // namespace assay
