// SPDX-License-Identifier: Apache-2.0
// One case x target result with the conditions that produced it. Plain data; one JSON line each in run.jsonl.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay::report {

/// "major.minor". Readers accept the same major and ignore unknown fields.
inline constexpr std::string_view schema_version = "1.3";

enum class Verdict : std::uint8_t { pass, fail, fault, suspect, unsupported, unavailable };
std::string_view name(Verdict);
std::optional<Verdict> parse_verdict(std::string_view);

/// A library file as mapped after use.
struct LibraryIdentity {
  std::string path, soname, build_id, sha256, version, core;
  std::int64_t size_bytes = 0;
};

/// Numbers of a comparison; bit patterns and 64-bit integers become strings in JSON.
struct Comparison {
  std::int64_t compared = 0, bad = 0, over_iid = 0;
  std::int64_t nan_unexpected = 0, nan_missing = 0, inf_mismatch = 0, unwritten = 0, subnormal_flushed = 0, overflow_open = 0;
  std::int64_t first_bad = -1, worst_index = -1, worst_ulp = 0;
  std::string worst_got_bits, worst_expected_bits;
  double worst_got = 0, worst_expected = 0;
  double max_over_hard = 0, max_over_iid = 0, rms_over_statistic = 0, rms_over_rounding = 0, bias = 0;
  double smallest_fault = 0;  // median bound / RMS(value): power of this case
  double blind_fraction = 0;
  bool sampled = false;
  std::string verification;  // "whole", "whole,exact", "rows:16", "panels:512+rows:16", "panels:512,exact"
};

struct Confirmation {
  int runs = 0, failed = 0;  // same inputs, each in a fresh worker, the first run included
  int fresh_seed_runs = 0, fresh_seed_failed = 0;
};

struct Record {
  std::string case_id, op, formats, tags;
  std::string target, variant;
  bool required = true;
  Verdict verdict = Verdict::unavailable;
  std::string
      label;  // WRONG, UNWRITTEN, OUT-OF-BOUNDS, NAN-LEAK, NONDETERMINISTIC, MODE, OVERFLOW-EXPECTED, POLICY, MISTRUSTED, BUILD
  std::string reason;  // one sentence in plain words
  LibraryIdentity library;
  std::string algorithm, arithmetic;
  std::string plan;          // JSON text of the plan that the library chose, where it tells
  std::string known_defect;  // of a failure that a published defect explains: "ID: known, fixed in Y (SOURCE)"
  std::string waived;        // of a failure that the run's profile excuses: "until 2027-03-01: reason"; the verdict stays
  std::string tensors;       // file of the run folder that holds this failure's tensors: "failures/001-gemm-blis.safetensors"
  std::map<std::string, std::string> contract;    // convention -> "promised: SOURCE" or "not promised"
  std::map<std::string, std::string> conditions;  // core, threads, rounding mode, environment set by the variant
  std::optional<Comparison> comparison;           // first call
  std::optional<Comparison> second;               // second call, other data
  Confirmation confirmation;
  int repeats = 0, repeats_identical = 0;
  std::string input_digest, reference_digest, output_digest;
  std::vector<std::string> output_tiles;  // per 64x64 tile, when at most 64
  std::vector<std::int64_t> bad_indices;  // up to 64 logical indices
  std::vector<std::int64_t> output_dims;
  double execute_ms = 0, reference_ms = 0;
  std::string started;  // UTC, ISO 8601
};

/// The key that a resumed run matches on.
std::string key(const Record&);

}  // namespace assay::report
