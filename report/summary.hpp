// SPDX-License-Identifier: Apache-2.0
// What a run's records add up to: counts, exit code, and the verdict in one sentence with the next command to type.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/record.hpp"

namespace assay::report {

/// What a run knows beyond its records.
struct RunFacts {
  std::string level;              // "quick", "standard", "deep"; empty when cases were named
  std::string program = "assay";  // how commands on the last line begin
  std::string folder;             // where the records lie, for the next command
  std::string resume;             // command that continues this run; empty: made from the folder alone
  std::int64_t not_started = 0;   // required case x target pairs that were planned and have no record
  bool interrupted = false;
  bool strict = false;               // a suspect result fails the run
  std::string device;                // name of the GPU, or of the simulated device, that gave results; empty: none
  bool environment_differs = false;  // from the one that was promised
  std::vector<std::string> unmet;    // of --require and the profile: targets, or "gpu", that gave no result
  std::vector<std::string> notes;    // of required targets, promised conditions and waivers, a sentence each
};

/// Where a record stands once its repeats are counted.
enum class Standing : std::uint8_t { pass, fail, fault, flaky, suspect, waived, unsupported, unavailable };
std::string_view name(Standing);
constexpr std::size_t standings = 8;

/// Flaky: the same inputs both passed and failed, or an excess below the rigorous bound did not return on every fresh seed.
/// Beyond the rigorous bound fresh seeds do not matter: a failure that needs its own data is still a failure.
/// Waived: it would be one of those, and the profile of the run excuses it.
Standing standing(const Record&);
/// The same as if nothing excused it.
Standing unexcused(const Record&);
/// Failed or faulted in every one of two runs or more.
bool confirmed(const Record&);

/// A record and where it stands.
struct Judged {
  const Record* record;
  Standing standing;
};
/// One entry per key, in the order of the file. Of two records with one key the later one counts; when one passed and the
/// other failed, the pair is flaky.
std::vector<Judged> judged(std::span<const Record>);

struct Summary {
  std::array<std::int64_t, standings> count{};  // by Standing
  std::int64_t confirmed = 0;                   // of the fails and faults
  std::int64_t required_unavailable = 0;        // required, and could not run: never counts as a pass

  std::int64_t operator[](Standing s) const { return count[static_cast<std::size_t>(s)]; }
  std::int64_t failed() const { return (*this)[Standing::fail] + (*this)[Standing::fault]; }
  std::int64_t ran() const {
    return failed() + (*this)[Standing::pass] + (*this)[Standing::flaky] + (*this)[Standing::suspect] +
           (*this)[Standing::waived];
  }
};

Summary summarise(std::span<const Record>);

/// 0 all required passed, 1 wrong or fault (or suspect under strict), 2 nothing could run, 3 incomplete, 4 flaky,
/// 5 passed in another environment than promised. Precedence 1 > 4 > 3 > 5 > 0; 2 when nothing ran and nothing is left to
/// resume.
int exit_code(const Summary&, const RunFacts&);

/// "gemm fp32 is wrong on openblas:core=Haswell in 3 of 312 cases (confirmed)": no newline, no advice.
std::string headline(std::span<const Record>, const RunFacts&);
/// The command that looks closer at the outcome or continues the run.
std::string next_command(std::span<const Record>, const RunFacts&);
/// "no GPU was probed", "NVIDIA H200 was probed"; a simulated device is none.
std::string device_words(const RunFacts&);
/// The last line of a run: verdict word, headline, whether a GPU was probed, next command.
std::string verdict_sentence(std::span<const Record>, const RunFacts&);

/// One line for the shell that runs this case on this target again, with its library file; a variant sets its own environment.
std::string reproducer(const Record&);
/// "openblas:core=Haswell"
std::string full_target(const Record&);
/// "3 of 3 runs", "2 of 3 runs, 1 of 2 fresh seeds", "not re-run"
std::string k_of_n(const Confirmation&);
/// "failed in 3 of 3 runs", "not re-run"
std::string failed_in(const Confirmation&);
/// Quoted for a POSIX shell where that is needed.
std::string shell_word(std::string_view);

}  // namespace assay::report
