// SPDX-License-Identifier: Apache-2.0
// Philox4x32-10 against the published known-answer vectors (Random123, kat_vectors).

#include "reference/philox.hpp"

#include <doctest/doctest.h>

using namespace assay;

TEST_CASE("philox gives the published vectors") {
  CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) == PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) == PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("philox_element puts index, stream and word in the counter and the seed in the key") {
  CHECK(philox_element(0x299f31d0a4093822, 0x13198a2e, 0x85a308d3243f6a88, 0x03707344) ==
        PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}
