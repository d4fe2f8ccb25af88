// SPDX-License-Identifier: Apache-2.0
// Text from libraries and files, made fit for a terminal and for XML.
#pragma once

#include <string>
#include <string_view>

namespace assay::report {

/// One line of valid UTF-8: every control character (C0, DEL, C1) becomes a blank; every byte that is not UTF-8, and the
/// noncharacters that XML 1.0 forbids (U+FFFE, U+FFFF), become U+FFFD.
std::string printable(std::string_view);

/// At most `bytes` bytes of UTF-8, not cutting a sequence; "..." says that something was left out.
std::string shortened(std::string_view, std::size_t bytes);

}  // namespace assay::report
