// SPDX-License-Identifier: Apache-2.0
#include "probes/run/protocol.hpp"

#include <fmt/format.h>
#include <immintrin.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "report/jsonl.hpp"

namespace assay {

using nlohmann::json;

namespace {

// MXCSR: bits 0..5 are sticky exception flags, the rest control. x87: bits 8..11 precision and rounding.
constexpr unsigned mxcsr_control = 0xFFC0u, x87_control = 0x0F3Fu;

json to_json(const Arithmetic& a) {
  return {{"operand", name(a.operand)},
          {"operand_rounding", static_cast<int>(a.operand_rounding)},
          {"accumulator", name(a.accumulator)},
          {"tensor_core", a.accumulation == Accumulation::tensor_core},
          {"block", a.block},
          {"fraction_bits", a.fraction_bits},
          {"splits", a.splits},
          {"split_format", name(a.split_format)},
          {"output", name(a.output)},
          {"function_ulps", a.function_ulps},
          {"function_ulps_per_x", a.function_ulps_per_x},
          {"transform", static_cast<int>(a.transform)},
          {"scores", name(a.scores)},
          {"probabilities", name(a.probabilities)},
          {"folded_shift", a.folded_shift}};
}

DType dtype(const json& j) {
  return parse_dtype(j.get<std::string>()).value();
}

Arithmetic arithmetic_from_json(const json& j) {
  Arithmetic a;
  a.operand = dtype(j.at("operand")), a.operand_rounding = static_cast<Rounding>(j.at("operand_rounding").get<int>());
  a.accumulator = dtype(j.at("accumulator"));
  a.accumulation = j.at("tensor_core").get<bool>() ? Accumulation::tensor_core : Accumulation::nearest;
  a.block = j.at("block"), a.fraction_bits = j.at("fraction_bits"), a.splits = j.at("splits");
  a.split_format = dtype(j.at("split_format")), a.output = dtype(j.at("output"));
  a.function_ulps = j.at("function_ulps"), a.function_ulps_per_x = j.at("function_ulps_per_x");
  a.transform = static_cast<Transform>(j.at("transform").get<int>());
  a.scores = dtype(j.at("scores")), a.probabilities = dtype(j.at("probabilities"));
  a.folded_shift = j.at("folded_shift");
  return a;
}

json to_json(const Promise& p) {
  return {{"made", p.made}, {"source", p.source}};
}
Promise promise_from_json(const json& j) {
  return {j.at("made"), j.at("source")};
}

json to_json(const Contract& c) {
  return {{"beta_zero", to_json(c.beta_zero_ignores_c)},
          {"alpha_zero", to_json(c.alpha_zero_ignores_ab)},
          {"nan", to_json(c.nan_propagates)},
          {"subnormals", to_json(c.keeps_subnormals)},
          {"repeatable", to_json(c.repeatable)},
          {"confined", to_json(c.nan_confined)},
          {"masked_nan", to_json(c.masked_row_is_nan)},
          {"masked_zero", to_json(c.masked_row_is_zero)},
          {"limit", to_json(c.limit_at_infinity)}};
}

Contract contract_from_json(const json& j) {
  return {promise_from_json(j.at("beta_zero")),  promise_from_json(j.at("alpha_zero")),  promise_from_json(j.at("nan")),
          promise_from_json(j.at("subnormals")), promise_from_json(j.at("repeatable")),  promise_from_json(j.at("confined")),
          promise_from_json(j.at("masked_nan")), promise_from_json(j.at("masked_zero")), promise_from_json(j.at("limit"))};
}

json to_json(const report::LibraryIdentity& l) {
  return {{"path", l.path},       {"soname", l.soname}, {"build_id", l.build_id}, {"sha256", l.sha256},
          {"version", l.version}, {"core", l.core},     {"size", l.size_bytes}};
}

report::LibraryIdentity library_from_json(const json& j) {
  report::LibraryIdentity l;
  l.path = j.at("path"), l.soname = j.at("soname"), l.build_id = j.at("build_id"), l.sha256 = j.at("sha256");
  l.version = j.at("version"), l.core = j.at("core"), l.size_bytes = j.at("size");
  return l;
}

bool send_all(int fd, const char* data, std::size_t n) {
  while (n > 0) {
    const ssize_t sent = send(fd, data, n, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    n -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, char* data, std::size_t n) {
  while (n > 0) {
    const ssize_t got = recv(fd, data, n, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    data += got;
    n -= static_cast<std::size_t>(got);
  }
  return true;
}

constexpr std::uint32_t largest_message = 64u << 20;

}  // namespace

FloatControl read_float_control() {
  unsigned short x87 = 0;
  asm volatile("fnstcw %0" : "=m"(x87));
  return {_mm_getcsr() & mxcsr_control, x87 & x87_control};
}

void write_float_control(FloatControl c) {
  _mm_setcsr(c.mxcsr);
  const auto x87 = static_cast<unsigned short>(c.x87);
  asm volatile("fldcw %0" : : "m"(x87));
}

std::string describe(FloatControl c) {
  static constexpr const char* modes[] = {"to nearest", "down", "up", "toward zero"};
  return fmt::format("rounding {}, flush-to-zero {}, denormals-are-zero {}, x87 control {:#x}", modes[(c.mxcsr >> 13) & 3],
                     c.mxcsr & 0x8000u ? "on" : "off", c.mxcsr & 0x40u ? "on" : "off", c.x87);
}

json to_json(const PrepareRequest& r) {
  json regions = json::array();
  for (const Region& g : r.regions) regions.push_back({g.file_offset, g.pages_bytes, g.begin, g.bytes});
  return {{"do", "prepare"},
          {"case", r.case_id},
          {"target", r.target.target},
          {"variant", r.target.variant},
          {"library", r.target.library},
          {"set", r.target.set},
          {"device", r.target.device},
          {"regions", regions}};
}

PrepareRequest prepare_from_json(const json& j) {
  PrepareRequest r;
  r.case_id = j.at("case");
  r.target.target = j.at("target"), r.target.variant = j.at("variant"), r.target.library = j.at("library");
  r.target.set = j.at("set").get<std::map<std::string, std::string>>(), r.target.device = j.at("device");
  for (const json& g : j.at("regions")) r.regions.push_back({g.at(0), g.at(1), g.at(2), g.at(3)});
  return r;
}

json to_json(const Reply& r) {
  json j = {{"kind", static_cast<int>(r.kind)},
            {"reason", r.reason},
            {"ms", r.execute_ms},
            {"before", {r.before.mxcsr, r.before.x87}},
            {"after", {r.after.mxcsr, r.after.x87}}};
  if (r.report)
    j["report"] = {{"arithmetic", to_json(r.report->arithmetic)},
                   {"contract", to_json(r.report->contract)},
                   {"algorithm", r.report->algorithm},
                   {"facts", r.report->facts},
                   {"bytes_outside", r.report->bytes_outside},
                   {"outside", r.report->outside},
                   {"plan", r.report->plan}};
  for (const cuda::DeviceInfo& d : r.devices)
    j["devices"].push_back({d.ordinal, d.sm, d.multiprocessors, d.ecc, d.clock_mhz, d.driver_version, d.memory_gib, d.name});
  for (const report::Gpu& g : r.gpus) j["gpus"].push_back(report::to_json(g));
  if (!r.plan.empty()) j["plan"] = r.plan;
  if (!r.complaints.empty()) j["complaints"] = r.complaints;
  if (!r.libraries.empty()) {
    j["libraries"] = json::array();
    for (const auto& l : r.libraries) j["libraries"].push_back(to_json(l));
  }
  return j;
}

Reply reply_from_json(const json& j) {
  Reply r;
  r.kind = static_cast<ReplyKind>(j.at("kind").get<int>());
  r.reason = j.at("reason");
  r.execute_ms = j.at("ms");
  r.before = {j.at("before").at(0), j.at("before").at(1)};
  r.after = {j.at("after").at(0), j.at("after").at(1)};
  if (j.contains("report")) {
    const json& c = j["report"];
    r.report = CallReport{arithmetic_from_json(c.at("arithmetic")),
                          contract_from_json(c.at("contract")),
                          c.at("algorithm"),
                          c.at("facts"),
                          c.at("bytes_outside"),
                          c.at("outside"),
                          c.at("plan")};
  }
  if (j.contains("devices"))
    for (const json& d : j["devices"])
      r.devices.push_back({d.at(0), d.at(1), d.at(2), d.at(3), d.at(4), d.at(5), d.at(6), d.at(7)});
  if (j.contains("gpus"))
    for (const json& g : j["gpus"]) r.gpus.push_back(report::gpu_from_json(g.get<std::string>()));
  if (j.contains("plan")) r.plan = j["plan"];
  if (j.contains("complaints")) r.complaints = j["complaints"].get<std::vector<std::string>>();
  if (j.contains("libraries"))
    for (const json& l : j["libraries"]) r.libraries.push_back(library_from_json(l));
  return r;
}

bool send_message(int fd, const std::string& text) {
  const auto n = static_cast<std::uint32_t>(text.size());
  char head[4] = {static_cast<char>(n), static_cast<char>(n >> 8), static_cast<char>(n >> 16), static_cast<char>(n >> 24)};
  return send_all(fd, head, 4) && send_all(fd, text.data(), text.size());
}

std::optional<std::string> receive_message(int fd) {
  unsigned char head[4];
  if (!receive_all(fd, reinterpret_cast<char*>(head), 4)) return std::nullopt;
  const std::uint32_t n =
      head[0] | (std::uint32_t{head[1]} << 8) | (std::uint32_t{head[2]} << 16) | (std::uint32_t{head[3]} << 24);
  if (n > largest_message) return std::nullopt;  // a worker gone wild, not a message
  std::string text(n, '\0');
  if (!receive_all(fd, text.data(), n)) return std::nullopt;
  return text;
}

}  // namespace assay
