// SPDX-License-Identifier: Apache-2.0
// Foreign text becomes one line of valid UTF-8.
#include "report/printable.hpp"

#include <doctest/doctest.h>

using assay::report::printable;
using assay::report::shortened;

namespace {
const std::string fffd = "\xEF\xBF\xBD";
}

TEST_CASE("valid text of every sequence length stays as it is") {
  const std::string text =
      "a ~ \xC2\xA0 \xC3\xA9 \xE2\x9C\x93 \xED\x9F\xBF \xEE\x80\x80 \xEF\xBF\xBD \xF0\x9F\x99\x82 \xF4\x8F\xBF\xBF";
  CHECK(printable(text) == text);
}

TEST_CASE("every control character becomes a blank") {
  for (int c = 0; c < 32; ++c) CHECK(printable(std::string(1, static_cast<char>(c)) + "x") == " x");
  CHECK(printable("\x7f") == " ");
  for (int c = 0x80; c < 0xA0; ++c) CHECK(printable("\xC2" + std::string(1, static_cast<char>(c))) == " ");
}

TEST_CASE("what is not UTF-8 becomes U+FFFD byte by byte") {
  CHECK(printable("\x80") == fffd);                        // a continuation without a lead
  CHECK(printable("\xC0\xAF") == fffd + fffd);             // overlong '/'
  CHECK(printable("\xE0\x80\xAF") == fffd + fffd + fffd);  // overlong
  CHECK(printable("\xED\xA0\x80") == fffd + fffd + fffd);  // a surrogate
  CHECK(printable("\xF0\x80\x80\x80") == fffd + fffd + fffd + fffd);
  CHECK(printable("\xF4\x90\x80\x80") == fffd + fffd + fffd + fffd);  // above U+10FFFF
  CHECK(printable("\xFF"
                  "a\xE2\x9C") == fffd + "a" + fffd + fffd);  // torn at the end
  CHECK(printable("\xE2"
                  "ab") == fffd + "ab");
  CHECK(printable("\xEF\xBF\xBE"
                  "a\xEF\xBF\xBF") == fffd + "a" + fffd);  // U+FFFE, U+FFFF
}

TEST_CASE("text is shortened between characters") {
  CHECK(shortened("abc", 3) == "abc");
  CHECK(shortened("abcd", 3) == "abc...");
  CHECK(shortened("a\xC3\xA9z", 2) == "a...");
}
