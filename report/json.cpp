// SPDX-License-Identifier: Apache-2.0
// Records and environments as JSON text, and back from text that nobody vouches for.
#include "report/json.hpp"

#include <fmt/format.h>

#include "report/redact.hpp"

namespace assay::report {

namespace json {

namespace {
constexpr int deepest = 8;  // a record has 3 levels; the rest is room for fields of later minor versions

/// The number before ('.') or after it, -1 when the text is not major.minor.
std::pair<int, int> version(std::string_view text) {
  int major = -1, minor = -1;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return {-1, -1};
  const auto second = std::from_chars(first.ptr + 1, end, minor);
  if (second.ec != std::errc() || second.ptr != end) return {-1, -1};
  return {major, minor};
}
}  // namespace

Value parse(std::string_view text, std::string_view what) {
  const auto guard = [&](int depth, Value::parse_event_t, Value&) {
    if (depth > deepest)
      throw FileError(
          fmt::format("{} is nested more than {} levels deep, which no Assay writes; restore it from a copy", what, deepest));
    return true;
  };
  try {
    return Value::parse(text, guard);
  } catch (const Value::parse_error& e) {
    throw NotJson(
        fmt::format("{} is not JSON from byte {} on, it was cut off or damaged; restore it from a copy", what, e.byte));
  } catch (const Value::exception&) {  // a number that fits no double
    throw NotJson(fmt::format("{} holds a number that no Assay writes; restore it from a copy", what));
  }
}

void check_schema(const Value& v, std::string_view what) {
  if (!v.is_object())
    throw FileError(fmt::format("{} is not a JSON object; expected what an Assay wrote, restore it from a copy", what));
  const auto it = v.find("schema");
  if (it == v.end() || !it->is_string()) wrong_field(what, "schema", fmt::format("\"{}\" or another 1.x", schema_version));
  const auto& written = it->get_ref<const std::string&>();
  const int ours = version(schema_version).first, theirs = version(written).first;
  if (theirs < 0) wrong_field(what, "schema", "major.minor, such as \"1.0\"");
  if (theirs > ours)
    throw FileError(fmt::format("{} was written by a newer Assay (schema {}), this one reads {}.x; use a newer assay", what,
                                written, ours));
  if (theirs < ours)
    throw FileError(
        fmt::format("{} was written by an older Assay (schema {}), this one reads {}.x; use that assay", what, written, ours));
}

std::string dump(const Ordered& v, int indent) {
  return v.dump(indent, ' ', false, Ordered::error_handler_t::replace);
}

void wrong_field(std::string_view what, std::string_view key, std::string_view expected) {
  throw FileError(fmt::format("{} has no valid field \"{}\": expected {}; restore it from a copy", what, key, expected));
}

}  // namespace json

std::string to_json(const Record& record) {
  const Record r = redacted(record);
  json::Ordered out = json::Ordered::object();
  out["schema"] = schema_version;
  json::Writer writer{out};
  json::record_fields(writer, r);
  return json::dump(out, -1);
}

Record record_from_json(std::string_view line) {
  constexpr std::string_view what = "the record";
  const json::Value v = json::parse(line, what);
  json::check_schema(v, what);
  for (const char* needed : {"case", "op", "target", "verdict"})
    if (!v.contains(needed)) json::wrong_field(what, needed, "it to be there");
  Record r;
  json::Reader reader{v, what};
  json::record_fields(reader, r);
  return r;
}

std::string to_json(const Environment& environment) {
  const Environment e = redacted(environment);
  json::Ordered out = json::Ordered::object();
  out["schema"] = schema_version;
  json::Writer writer{out};
  json::environment_fields(writer, e);
  return json::dump(out, 2) + "\n";
}

Environment environment_from_json(std::string_view text) {
  constexpr std::string_view what = "the environment";
  const json::Value v = json::parse(text, what);
  json::check_schema(v, what);
  Environment e;
  json::Reader reader{v, what};
  json::environment_fields(reader, e);
  return e;
}

std::string to_json(const Gpu& gpu) {
  return json::dump(json::Writer::object(gpu), -1);
}

Gpu gpu_from_json(std::string_view text) {
  constexpr std::string_view what = "the description of a GPU";
  const json::Value v = json::parse(text, what);
  if (!v.is_object()) json::wrong_field(what, "name", "an object that has it");
  Gpu gpu;
  json::Reader reader{v, what};
  json::gpu_fields(reader, gpu);
  return gpu;
}

}  // namespace assay::report
