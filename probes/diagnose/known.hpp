// SPDX-License-Identifier: Apache-2.0
// Defects that somebody published: which files and problems they concern, and the case that meets them. A match explains a
// failure; it never excuses one.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "probes/diagnose/predicate.hpp"
#include "report/record.hpp"

namespace assay {

/// One entry of data/known_defects.json. Versions are the library's own, not the toolkit's.
struct KnownDefect {
  std::string id;                       // "cublas-6580689"
  std::string component;                // cublas, cublasLt, cudnn, nvrtc, onednn, openblas, blis
  std::string from;                     // first version that has it; "": no source names one
  std::string last;                     // last version known to have it, "13.1" stands for every 13.1.x; "": up to fixed_in
  std::string fixed_in;                 // first version known to be right; "": none is known
  std::vector<std::string> also_fixed;  // patch releases of older lines: 12.8.5 rights 12.8.5 and later 12.8.x
  std::vector<std::string> sm;          // "9.0", "10.x"; empty: every device, or none
  std::string when;                     // the problems that meet it; "": no case of this suite can
  Predicate predicate;
  std::string case_id;     // of the suite; meets `when`
  std::string no_case;     // why there is none
  std::string what;        // what goes wrong, in a few words
  std::string source;      // address of the public text
  std::string confidence;  // "vendor", "reported" or "measured", then what is not known of the range
  std::string reviewed;    // date
};

/// What one of the loaded files says it is, and the device that it works on.
struct LoadedLibrary {
  std::string component, version;  // "cublaslt", "13.1.0"; empty when it says nothing
  std::string sm;                  // "9.0"; empty: no device, or not known
};
/// From a library's own words: "cuBLASLt 13.1.0 for CUDA 13.0", "oneDNN 2.6.3".
LoadedLibrary loaded_library(std::string_view version_text, std::string_view sm = {});
/// "9.0" from "90", "9.0", "sm_90a"; "" from anything else.
std::string sm_text(std::string_view);

/// Dotted numbers compared number by number, missing ones as 0: 12.9 < 12.10, 13 == 13.0.0. Throws CaseError when one is none.
int compare_versions(std::string_view a, std::string_view b);

/// Throws CaseError: one sentence that says where, what was expected, what to do. `where` names the text in it.
std::vector<KnownDefect> read_known_defects(std::string_view json, std::string_view where);
/// The text compiled in.
std::string_view embedded_known_defects();

/// The facts that predicates speak of: a case's keys with defaults that follow another key resolved (out=same is in), and op.
Facts facts_of(const CaseId&);
/// The same of a record, with core and algorithm of what computed it.
Facts facts_of(const report::Record&);

/// Whether the version and the device lie in the entry's range. An unknown version lies in none; an unknown device in none
/// that names devices.
bool in_range(const KnownDefect&, const LoadedLibrary&);
/// Entries for this library that this problem meets.
std::vector<const KnownDefect*> matching(const std::vector<KnownDefect>&, const LoadedLibrary&, const Facts&);

/// "ID: known, fixed in Y (source)" for a record that failed, entries joined by "; "; "" for one that did not, or for a new
/// failure. `version_text`: what its library says of itself. The record's verdict stays what it is.
std::string known_defect_of(const std::vector<KnownDefect>&, const report::Record&, std::string_view version_text);
/// "from 12.6.3 to 13.7.0", "before 9.15.1, also right from 12.8.5"
std::string range_text(const KnownDefect&);
/// "your cuBLASLt 13.1.0 is inside the range of ID (...), see case ...". `named` is the library as it calls itself.
std::string notice(const KnownDefect&, std::string_view named);
/// One line per entry for these libraries, each entry once.
std::vector<std::string> notices(const std::vector<KnownDefect>&, const std::vector<report::LibraryIdentity>&,
                                 std::string_view sm);

}  // namespace assay
