// SPDX-License-Identifier: Apache-2.0
// SHA-256 of a byte string: names a library file so that two people can tell whether they ran the same one.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace assay {

/// 64 lower-case hexadecimal digits. Source: FIPS 180-4.
std::string sha256_hex(std::span<const std::byte>);

}  // namespace assay
