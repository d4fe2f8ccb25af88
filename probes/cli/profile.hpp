// SPDX-License-Identifier: Apache-2.0
// Profiles (docs/profiles.md): what a run must cover, which failures are excused until when, which conditions are promised.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "probes/diagnose/predicate.hpp"
#include "report/environment.hpp"

namespace assay::cli {

/// Excuses failures of these problems on these targets. The verdict stays; only the exit code does not follow it.
struct Waiver {
  std::string target;  // shell pattern on "openblas:core=Haswell"
  Predicate when;
  std::vector<std::string> verdicts;  // of fail, fault, flaky, suspect; empty: any
  std::string reason, expires;        // the last day on which it holds, 2027-03-01
  int line = 0;
  std::int64_t used = 0;  // records that it excused
};

/// One condition that a run must meet: ("gpu.name", "NVIDIA H200*"), ("library.openblas.version", "OpenBLAS 0.3.21*").
struct Promised {
  std::string what, pattern;
  int line = 0;
};

struct Profile {
  std::string name, where, sha256;
  bool strict = false, keep_variables = false;
  std::string level;  // empty: not said
  std::vector<std::string> ops, tags, cases, case_files, targets, libraries, kernel_builds, require;
  std::vector<Waiver> waivers;
  std::vector<Promised> environment;
};

/// Throws CaseError: one sentence with file, line, what was expected. Case files are taken relative to `folder`.
Profile parse_profile(std::string_view toml, const std::string& where, const std::string& folder);
/// A file, or the name of a profile that is built in.
Profile load_profile(const std::string& file_or_name);

struct BuiltInProfile {
  std::string_view name, toml;
};
std::span<const BuiltInProfile> built_in_profiles();

/// "gate.toml (sha256 0123456789abcdef)": which text this run followed.
std::string identity(const Profile&);
/// "until 2027-03-01: reason" where a waiver that still holds on `today` covers this record; "" for one that did not fail.
std::string waive(Profile&, const report::Record&, std::string_view today);
/// What somebody should know of the waivers after a run: expired, about to expire (14 days), excusing nothing.
std::vector<std::string> waiver_notes(const Profile&, std::string_view today);
/// One sentence per condition that is not the promised one.
std::vector<std::string> broken_promises(const Profile&, const report::Environment&);

/// UTC, "2026-12-01".
std::string today_utc();

}  // namespace assay::cli
