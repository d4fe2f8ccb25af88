// SPDX-License-Identifier: Apache-2.0
// Takes the owner of a machine out of text that leaves it: home directories, user names, host names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/environment.hpp"
#include "report/record.hpp"

namespace assay::report {

/// What must not leave this machine. Names shorter than three characters, "root" and "localhost" identify nobody and would
/// hit innocent words.
struct Identity {
  std::vector<std::string> homes, users, hosts;
};

/// Of this process: HOME, USER, LOGNAME, SUDO_USER, the password entry and the host name, with and without its domain.
Identity this_identity();

/// Homes become "~", /home/NAME of anybody "/home/USER", names as whole words "USER" and "HOST". Idempotent.
std::string redact(std::string_view text, const Identity&);

/// The free-text and path fields of a record or environment, redacted for this process: what the writers put into files.
Record redacted(Record);
Environment redacted(Environment);

}  // namespace assay::report
