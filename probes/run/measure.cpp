// SPDX-License-Identifier: Apache-2.0
#include "probes/run/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

namespace assay {

namespace {

constexpr std::byte first_poison{0xFF};   // NaN in every format
constexpr std::byte repeat_poison{0x7F};  // huge but finite in fp32, fp64, bf16: a result that depends on it changes
constexpr double prepare_deadline_s = 60;

std::uint64_t poison_pattern(DType t, std::byte poison) {
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < size_bytes(t); ++i) bits = bits << 8 | std::to_integer<std::uint64_t>(poison);
  return bits;
}

std::size_t count_other(std::span<const std::byte> bytes, std::byte wanted) {
  return bytes.size() - static_cast<std::size_t>(std::count(bytes.begin(), bytes.end(), wanted));
}

class Session {
 public:
  Session(Truth& truth, const TargetSpec& spec, Worker& worker, Arena& arena, double deadline_s, bool keep)
      : truth_(truth), spec_(spec), worker_(worker), arena_(arena), deadline_s_(deadline_s), keep_(keep) {}

  Measurement run() {
    arena_.reserve(truth_.layout().total_bytes);
    if (!ask(to_json(PrepareRequest{to_string(truth_.problem().id, truth_.op().grammar), spec_, truth_.layout().regions}),
             prepare_deadline_s))
      return m_;
    DataSet& first = truth_.first();
    for (std::int64_t r = 0; r < truth_.problem().repeat; ++r)
      if (!call(first, r == 0 ? first_poison : repeat_poison, r)) return m_;
    if (!call(truth_.second(), first_poison, -1)) return m_;
    ask({{"do", "release"}}, deadline_s_);
    return m_;
  }

 private:
  const Problem& problem() const { return truth_.problem(); }
  const Region& region(std::int64_t caller, std::size_t operand) const {
    return truth_.layout().regions[static_cast<std::size_t>(caller) * problem().operands.size() + operand];
  }
  std::byte fill_byte(const Operand& o, std::byte poison) const { return o.access == Access::out ? poison : gap_byte; }

  /// False when the measurement is over; m_ then says why.
  bool ask(const nlohmann::json& request, double deadline_s) {
    Answer answer = worker_.ask(request, deadline_s);
    if (answer.interrupted) return stop(Outcome::interrupted, "interrupted");
    if (!answer.reply) {
      const std::string said = worker_.output_tail();
      return stop(Outcome::fault, answer.death + (said.empty() ? "" : "; it wrote: " + said));
    }
    const Reply& r = *answer.reply;
    switch (r.kind) {
      case ReplyKind::unsupported:
        return stop(Outcome::unsupported, r.reason);
      case ReplyKind::unavailable:
        return stop(Outcome::unavailable, r.reason);
      case ReplyKind::no_memory:
        m_.only_here = true;
        return stop(Outcome::unavailable, r.reason);
      case ReplyKind::error:
        return stop(Outcome::fault, r.reason);
      case ReplyKind::ok:
        break;
    }
    if (r.before != r.after)
      return stop(Outcome::fault,
                  fmt::format("the library changed the floating-point control of the calling thread: before {}, after {}",
                              describe(r.before), describe(r.after)));
    if (r.report) {
      m_.report = *r.report;
      if (m_.bytes_outside == 0) m_.outside = r.report->outside;
      m_.bytes_outside += r.report->bytes_outside;
      m_.execute_ms = m_.repeats == 0 ? r.execute_ms : m_.execute_ms;
    }
    return true;
  }

  bool stop(Outcome outcome, std::string reason) {
    m_.outcome = outcome;
    m_.reason = std::move(reason);
    return false;
  }

  void write_operands(const DataSet& data, std::byte poison) {
    for (std::int64_t caller = 0; caller < problem().callers; ++caller)
      for (std::size_t i = 0; i < problem().operands.size(); ++i) {
        const std::span<std::byte> pages = arena_.pages(region(caller, i)), storage = arena_.storage(region(caller, i));
        const std::byte around = fill_byte(problem().operands[i], poison);
        const std::size_t before = region(caller, i).begin;
        std::memset(pages.data(), std::to_integer<int>(around), before);
        std::memset(storage.data() + storage.size(), std::to_integer<int>(around), pages.size() - before - storage.size());
        if (problem().operands[i].access == Access::out)
          std::memset(storage.data(), std::to_integer<int>(poison), storage.size());
        else if (!storage.empty())
          std::memcpy(storage.data(), data.storage[i].data(), storage.size());
      }
  }

  void check_surroundings(const DataSet& data, std::byte poison) {
    const auto note = [&](std::size_t bytes, const char* where, const std::string& role) {
      if (bytes == 0) return;
      if (m_.bytes_outside == 0) m_.outside = fmt::format("{} {}", where, role);
      m_.bytes_outside += static_cast<std::int64_t>(bytes);
    };
    for (std::int64_t caller = 0; caller < problem().callers; ++caller)
      for (std::size_t i = 0; i < problem().operands.size(); ++i) {
        const Operand& o = problem().operands[i];
        const Region& g = region(caller, i);
        const std::span<std::byte> pages = arena_.pages(g), storage = arena_.storage(g);
        const std::byte around = fill_byte(o, poison);
        note(count_other(pages.first(g.begin), around), "before the start of", o.role);
        note(count_other(pages.subspan(g.begin + g.bytes), around), "after the end of", o.role);
        if (o.access == Access::in)
          m_.inputs_changed |= !storage.empty() && std::memcmp(storage.data(), data.storage[i].data(), storage.size()) != 0;
        else
          note(static_cast<std::size_t>(disturbed_gap_bytes(o, storage, around)), "in the gaps between rows of", o.role);
      }
  }

  /// The worst of the outputs: an auxiliary one that is wrong counts as much as the main one.
  Finding judge_values(DataSet& data, std::int64_t caller, std::byte poison) {
    Finding worst;
    if (std::optional<Finding> verified = verify_large(data, caller, poison)) {
      keep_if_wrong(*verified, data, caller);
      return std::move(*verified);
    }
    if (!data.rows.empty() && truth_.op().suspicious) {
      const std::vector<std::span<const std::byte>> inputs(data.storage.begin(), data.storage.end());
      m_.looked_at_by = truth_.op().looked_at_by;
      Truth::judge_more(data,
                        truth_.op().suspicious(problem(), inputs, arena_.storage(region(caller, truth_.outputs().front()))));
    }
    for (std::size_t i = 0; i < truth_.outputs().size(); ++i) {
      const std::size_t operand = truth_.outputs()[i];
      const Operand& out = problem().operands[operand];
      const Expected& expected = truth_.expected(data)[i];
      const Bound& bound = truth_.bounds(data, m_.report.arithmetic)[i];
      // An output that is also an input starts as data, not as poison: nothing there can be called unwritten by its bits.
      Finding found{compare(out, arena_.storage(region(caller, operand)), expected, bound, m_.report.arithmetic,
                            poison_pattern(out.dtype, poison), m_.report.contract.keeps_subnormals.made),
                    operand,
                    bound.exact,
                    {},
                    {}};
      if (i == 0)
        worst = std::move(found);
      else
        keep_worse(worst, std::move(found));
    }
    keep_if_wrong(worst, data, caller);
    return worst;
  }

  void keep_if_wrong(const Finding& f, const DataSet& data, std::int64_t caller) {
    if (!keep_ || !m_.kept.empty() || (f.bad == 0 && f.over_iid == 0 && !f.rms_exceeded)) return;
    m_.kept_second = &data != &truth_.first();
    for (const std::size_t operand : truth_.outputs()) {
      const std::span<const std::byte> bytes = arena_.storage(region(caller, operand));
      m_.kept.emplace_back(bytes.begin(), bytes.end());
    }
  }

  /// A result too large to be computed again, where the op can check it all the same.
  std::optional<Finding> verify_large(DataSet& data, std::int64_t caller, std::byte poison) {
    if (data.rows.empty() || !truth_.op().verify) return std::nullopt;
    const std::vector<std::span<const std::byte>> inputs(data.storage.begin(), data.storage.end());
    const std::size_t operand = truth_.outputs().front();
    std::optional<Verified> v = truth_.op().verify(
        problem(), inputs,
        {arena_.storage(region(caller, operand)), m_.report.arithmetic,
         poison_pattern(problem().operands[operand].dtype, poison), m_.report.contract.keeps_subnormals.made});
    if (!v) {
      // Of the second call only rows are looked at, as of any result that is large.
      if (&data == &truth_.first()) truth_.judge_whole(data);
      return std::nullopt;
    }
    return Finding{std::move(v->found), operand, v->exact, std::move(v->method), std::move(v->where)};
  }

  static void keep_worse(Finding& kept, Finding other) {
    const auto rank = [](const Finding& d) { return std::tuple(d.bad, d.over_iid, d.rms_exceeded); };
    if (rank(other) > rank(kept)) kept = std::move(other);
  }

  /// One digest over all outputs of a caller.
  Digest digest_outputs(std::int64_t caller) const {
    std::vector<Digest> parts;
    for (std::size_t operand : truth_.outputs())
      parts.push_back(digest_tensor(problem().operands[operand], arena_.storage(region(caller, operand))));
    return parts.size() == 1 ? parts.front() : digest_bytes(std::as_bytes(std::span(parts)));
  }

  /// One execution and everything the judge reads from it. `repeat` < 0: the second call with other data.
  bool call(DataSet& data, std::byte poison, std::int64_t repeat) {
    write_operands(data, poison);
    if (!ask({{"do", "execute"}}, deadline_s_)) return false;
    check_surroundings(data, poison);
    const Digest digest = digest_outputs(0);
    if (repeat < 0) {
      m_.second = judge_values(data, 0, poison);
      m_.second_rows = static_cast<std::int64_t>(data.rows.size());
    } else {
      ++m_.repeats;
      const bool same = repeat == 0 || digest == first_digest_;
      m_.repeats_identical += same;
      if (repeat == 0) {
        first_digest_ = digest;
        m_.output_digest = hex(digest);
        m_.first = judge_values(data, 0, poison);
        m_.first_rows = static_cast<std::int64_t>(data.rows.size());
        const std::size_t main = truth_.outputs().front();
        const std::vector<Digest> tiles = digest_tiles(problem().operands[main], arena_.storage(region(0, main)));
        if (tiles.size() <= 64)
          for (const Digest& t : tiles) m_.output_tiles.push_back(hex(t));
      } else if (!same) {
        keep_worse(m_.first, judge_values(data, 0, poison));
      }
    }
    for (std::int64_t caller = 1; caller < problem().callers; ++caller) {
      if (digest_outputs(caller) == digest) continue;
      ++m_.callers_differing;
      keep_worse(repeat < 0 ? *m_.second : m_.first, judge_values(data, caller, poison));
    }
    return true;
  }

  Truth& truth_;
  const TargetSpec& spec_;
  Worker& worker_;
  Arena& arena_;
  double deadline_s_;
  bool keep_;
  Measurement m_;
  Digest first_digest_;
};

}  // namespace

Measurement measure(Truth& truth, const TargetSpec& spec, Worker& worker, Arena& arena, double deadline_s, bool keep) {
  return Session(truth, spec, worker, arena, deadline_s, keep).run();
}

}  // namespace assay
