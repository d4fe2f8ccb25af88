// SPDX-License-Identifier: Apache-2.0
// Private to report: the JSON dialect of run files, and a writer and a reader driven by one list of fields per type.
// Every 64-bit integer is a string (JSON numbers lose bits beyond 2^53), and so are NaN and the infinities.
#pragma once

#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/jsonl.hpp"

namespace assay::report::json {

using Ordered = nlohmann::ordered_json;  // keys stay in the order of the field list
using Value = nlohmann::json;

/// `what` names the thing in messages: "the record". Throws NotJson, or FileError when it is nested absurdly deep.
Value parse(std::string_view text, std::string_view what);
/// Throws FileError unless "schema" is of our major.
void check_schema(const Value&, std::string_view what);
/// Bytes that are not UTF-8 become U+FFFD instead of an exception: a library's message may hold anything.
std::string dump(const Ordered&, int indent);
[[noreturn]] void wrong_field(std::string_view what, std::string_view key, std::string_view expected);

/// Calls io(key, member) for every field, in the order of the file. Found by argument-dependent lookup for Writer and Reader.
template <class Io, class L>
void library_fields(Io& io, L& l) {
  io("path", l.path), io("soname", l.soname), io("version", l.version), io("core", l.core);
  io("build_id", l.build_id), io("sha256", l.sha256), io("size_bytes", l.size_bytes);
}

template <class Io, class C>
void comparison_fields(Io& io, C& c) {
  io("verification", c.verification), io("sampled", c.sampled), io("compared", c.compared), io("bad", c.bad);
  io("over_iid", c.over_iid), io("nan_unexpected", c.nan_unexpected), io("nan_missing", c.nan_missing);
  io("inf_mismatch", c.inf_mismatch), io("unwritten", c.unwritten), io("subnormal_flushed", c.subnormal_flushed);
  io("overflow_open", c.overflow_open), io("first_bad", c.first_bad), io("worst_index", c.worst_index);
  io("worst_ulp", c.worst_ulp), io("worst_got", c.worst_got), io("worst_expected", c.worst_expected);
  io("worst_got_bits", c.worst_got_bits), io("worst_expected_bits", c.worst_expected_bits);
  io("max_over_hard", c.max_over_hard), io("max_over_iid", c.max_over_iid);
  io("rms_over_statistic", c.rms_over_statistic), io("rms_over_rounding", c.rms_over_rounding), io("bias", c.bias);
  io("smallest_fault", c.smallest_fault), io("blind_fraction", c.blind_fraction);
}

template <class Io, class C>
void confirmation_fields(Io& io, C& c) {
  io("runs", c.runs), io("failed", c.failed);
  io("fresh_seed_runs", c.fresh_seed_runs), io("fresh_seed_failed", c.fresh_seed_failed);
}

template <class Io, class R>
void record_fields(Io& io, R& r) {
  io("case", r.case_id), io("op", r.op), io("formats", r.formats), io("tags", r.tags);
  io("target", r.target), io("variant", r.variant), io("required", r.required);
  io("verdict", r.verdict), io("label", r.label), io("reason", r.reason);
  io("library", r.library), io("algorithm", r.algorithm), io("arithmetic", r.arithmetic);
  io("plan", r.plan), io("known_defect", r.known_defect), io("waived", r.waived), io("tensors", r.tensors);
  io("contract", r.contract), io("conditions", r.conditions);
  io("comparison", r.comparison), io("second", r.second), io("confirmation", r.confirmation);
  io("repeats", r.repeats), io("repeats_identical", r.repeats_identical);
  io("input_digest", r.input_digest), io("reference_digest", r.reference_digest), io("output_digest", r.output_digest);
  io("output_tiles", r.output_tiles), io("output_dims", r.output_dims), io("bad_indices", r.bad_indices);
  io("execute_ms", r.execute_ms), io("reference_ms", r.reference_ms), io("started", r.started);
}

template <class Io, class S>
void gpu_state_fields(Io& io, S& s) {
  io("sm_clock_mhz", s.sm_clock_mhz), io("memory_clock_mhz", s.memory_clock_mhz), io("temperature_c", s.temperature_c);
  io("throttled", s.throttled), io("ecc_corrected", s.ecc_corrected), io("ecc_uncorrected", s.ecc_uncorrected);
}

template <class Io, class G>
void gpu_fields(Io& io, G& g) {
  io("ordinal", g.ordinal), io("name", g.name), io("sm", g.sm), io("multiprocessors", g.multiprocessors);
  io("memory_mib", g.memory_mib), io("l2_kib", g.l2_kib), io("shared_kib_per_block", g.shared_kib_per_block);
  io("largest_clock_mhz", g.largest_clock_mhz), io("power_limit_w", g.power_limit_w), io("ecc", g.ecc), io("mig", g.mig);
  io("vbios", g.vbios), io("user_driver", g.user_driver), io("kernel_driver", g.kernel_driver);
  io("before", g.before), io("after", g.after);
}

template <class Io, class E>
void environment_fields(Io& io, E& e) {
  io("assay", e.assay), io("system", e.system), io("variables", e.variables);
  io("libraries", e.libraries), io("gpus", e.gpus), io("command", e.command);
  io("known_defects", e.known_defects);
}

template <class Io>
void fields(Io& io, const LibraryIdentity& l) {
  library_fields(io, l);
}
template <class Io>
void fields(Io& io, LibraryIdentity& l) {
  library_fields(io, l);
}
template <class Io>
void fields(Io& io, const GpuState& s) {
  gpu_state_fields(io, s);
}
template <class Io>
void fields(Io& io, GpuState& s) {
  gpu_state_fields(io, s);
}
template <class Io>
void fields(Io& io, const Gpu& g) {
  gpu_fields(io, g);
}
template <class Io>
void fields(Io& io, Gpu& g) {
  gpu_fields(io, g);
}
template <class Io>
void fields(Io& io, const Comparison& c) {
  comparison_fields(io, c);
}
template <class Io>
void fields(Io& io, Comparison& c) {
  comparison_fields(io, c);
}
template <class Io>
void fields(Io& io, const Confirmation& c) {
  confirmation_fields(io, c);
}
template <class Io>
void fields(Io& io, Confirmation& c) {
  confirmation_fields(io, c);
}

struct Writer {
  Ordered& out;

  void operator()(const char* key, const std::string& v) { out[key] = v; }
  void operator()(const char* key, bool v) { out[key] = v; }
  void operator()(const char* key, int v) { out[key] = v; }
  void operator()(const char* key, std::int64_t v) { out[key] = std::to_string(v); }
  void operator()(const char* key, double v) {
    if (std::isnan(v))
      out[key] = "nan";
    else if (std::isinf(v))
      out[key] = v > 0 ? "inf" : "-inf";
    else
      out[key] = v;
  }
  void operator()(const char* key, Verdict v) { out[key] = std::string(name(v)); }
  void operator()(const char* key, const std::map<std::string, std::string>& v) {
    out[key] = Ordered::object();
    for (const auto& [name, value] : v) out[key][name] = value;
  }
  void operator()(const char* key, const std::vector<std::string>& v) { out[key] = v; }
  void operator()(const char* key, const std::vector<std::int64_t>& v) {
    out[key] = Ordered::array();
    for (const std::int64_t i : v) out[key].push_back(std::to_string(i));
  }
  template <class T>
  void operator()(const char* key, const std::vector<T>& v) {
    out[key] = Ordered::array();
    for (const T& item : v) out[key].push_back(object(item));
  }
  template <class T>
  void operator()(const char* key, const std::optional<T>& v) {
    if (v) out[key] = object(*v);
  }
  template <class T>
  void operator()(const char* key, const T& v) {
    out[key] = object(v);
  }

  template <class T>
  static Ordered object(const T& v) {
    Ordered o = Ordered::object();
    Writer inner{o};
    fields(inner, v);
    return o;
  }
};

/// A missing field keeps its default (a later minor version may add fields); one of the wrong type throws FileError.
struct Reader {
  const Value& in;
  std::string_view what;

  const Value* find(const char* key) const {
    const auto it = in.find(key);
    return it == in.end() ? nullptr : &*it;
  }
  const std::string& text(const Value& v, const char* key) const {
    if (!v.is_string()) wrong_field(what, key, "a string");
    return v.get_ref<const std::string&>();
  }
  std::int64_t integer(const Value& v, const char* key) const {
    const std::string& digits = text(v, key);
    std::int64_t n = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
    if (error != std::errc() || end != digits.data() + digits.size()) wrong_field(what, key, "a 64-bit integer as a string");
    return n;
  }

  void operator()(const char* key, std::string& v) const {
    if (const Value* x = find(key)) v = text(*x, key);
  }
  void operator()(const char* key, bool& v) const {
    const Value* x = find(key);
    if (x == nullptr) return;
    if (!x->is_boolean()) wrong_field(what, key, "true or false");
    v = x->get<bool>();
  }
  void operator()(const char* key, int& v) const {
    const Value* x = find(key);
    if (x == nullptr) return;
    // Two steps: an unsigned value beyond int64 must not wrap.
    const bool fits = x->is_number_unsigned()
                          ? x->get<std::uint64_t>() <= std::numeric_limits<int>::max()
                          : x->is_number_integer() && x->get<std::int64_t>() >= std::numeric_limits<int>::min();
    if (!fits) wrong_field(what, key, "an integer");
    v = static_cast<int>(x->get<std::int64_t>());
  }
  void operator()(const char* key, std::int64_t& v) const {
    if (const Value* x = find(key)) v = integer(*x, key);
  }
  void operator()(const char* key, double& v) const {
    const Value* x = find(key);
    if (x == nullptr) return;
    if (x->is_number())
      v = x->get<double>();
    else if (*x == "nan")
      v = std::numeric_limits<double>::quiet_NaN();
    else if (*x == "inf")
      v = std::numeric_limits<double>::infinity();
    else if (*x == "-inf")
      v = -std::numeric_limits<double>::infinity();
    else
      wrong_field(what, key, "a number, \"nan\", \"inf\" or \"-inf\"");
  }
  void operator()(const char* key, Verdict& v) const {
    const Value* x = find(key);
    if (x == nullptr) return;
    const auto verdict = parse_verdict(text(*x, key));
    if (!verdict) wrong_field(what, key, "pass, fail, fault, suspect, unsupported or unavailable");
    v = *verdict;
  }
  void operator()(const char* key, std::map<std::string, std::string>& v) const {
    const Value* x = find(key);
    if (x == nullptr) return;
    if (!x->is_object()) wrong_field(what, key, "an object of strings");
    for (const auto& [name, value] : x->items()) v[name] = text(value, key);
  }
  void operator()(const char* key, std::vector<std::string>& v) const {
    for (const Value& item : array(key)) v.push_back(text(item, key));
  }
  void operator()(const char* key, std::vector<std::int64_t>& v) const {
    for (const Value& item : array(key)) v.push_back(integer(item, key));
  }
  template <class T>
  void operator()(const char* key, std::vector<T>& v) const {
    for (const Value& item : array(key)) object(item, key, v.emplace_back());
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& v) const {
    if (const Value* x = find(key)) object(*x, key, v.emplace());
  }
  template <class T>
  void operator()(const char* key, T& v) const {
    if (const Value* x = find(key)) object(*x, key, v);
  }

 private:
  const Value& array(const char* key) const {
    static const Value none = Value::array();
    const Value* x = find(key);
    if (x == nullptr) return none;
    if (!x->is_array()) wrong_field(what, key, "an array");
    return *x;
  }
  template <class T>
  void object(const Value& x, const char* key, T& v) const {
    if (!x.is_object()) wrong_field(what, key, "an object");
    Reader inner{x, what};
    fields(inner, v);
  }
};

}  // namespace assay::report::json
