// SPDX-License-Identifier: Apache-2.0
// The judge of approximate units accepts what PTX documents, whatever lies inside it, and nothing else.
#include "probes/device/approximate.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace assay::device {
namespace {

constexpr std::uint32_t step = 65521;  // prime: every exponent, changing fractions
constexpr std::size_t count = 65552;

/// The unit's function off by `share` of its documented error, towards `sign`.
std::vector<float> results(const Unit& unit, double share) {
  std::vector<float> y;
  for (std::size_t i = 0; i < count; ++i) {
    const double x = std::bit_cast<float>(static_cast<std::uint32_t>(i) * step), due = unit.function(x);
    const bool absolute = unit.absolute || (unit.name == "lg2" && x >= 0.5 && x <= 2);
    const double off = share * unit.limit * (absolute ? 1 : std::max(std::abs(due), 0x1p-126));
    y.push_back(static_cast<float>(std::isfinite(due) ? due + off : due));
  }
  return y;
}

UnitErrors judged(const Unit& unit, const std::vector<float>& y) {
  UnitErrors e;
  note(unit, e, 0, step, y);
  return e;
}

TEST_CASE("results inside the documented error pass, those outside are counted and located") {
  for (const Unit& unit : units()) {
    CAPTURE(std::string(unit.name));
    for (const double share : {-0.45, 0.0, 0.45}) {  // the rest is what rounding to fp32 may take, half of 2^-23 at most
      const UnitErrors e = judged(unit, results(unit, share));
      CHECK(e.inputs == static_cast<std::int64_t>(count));
      CHECK(e.above == 0);
      CHECK(e.special == 0);
      CHECK(e.worst > 0);
    }
    const UnitErrors e = judged(unit, results(unit, 1.6));
    CHECK(e.above > 0);
    CHECK(e.worst > unit.limit);
    CHECK(describe(unit, e).find("ABOVE") != std::string::npos);
  }
}

TEST_CASE("one wrong result among many is found where it is") {
  const float not_a_number = std::numeric_limits<float>::quiet_NaN();
  for (const Unit& unit : units()) {
    CAPTURE(std::string(unit.name));
    std::vector<float> y = results(unit, 0);
    const std::size_t at = 16200;  // x = 0.77
    REQUIRE(std::isfinite(y[at]));
    y[at] *= 1.01f;
    UnitErrors e = judged(unit, y);
    CHECK(e.above == 1);
    CHECK(e.worst_bits == at * step);
    y[at] = not_a_number;
    e = judged(unit, y);
    CHECK(e.special == 1);
    CHECK(e.special_bits == at * step);
    CHECK(describe(unit, e).find("WRONG NaN") != std::string::npos);
  }
}

TEST_CASE("NaN, infinities and overflow have one right answer each") {
  const Unit& ex2 = units()[0];
  const float infinity = std::numeric_limits<float>::infinity();
  const auto special = [&](float x, float y) {
    UnitErrors e;
    note(ex2, e, std::bit_cast<std::uint32_t>(x), 0, std::span(&y, 1));
    return e.special;
  };
  const float unwritten = std::bit_cast<float>(0xffffffffu), canonical = std::bit_cast<float>(0x7fffffffu);
  CHECK(special(unwritten, canonical) == 0);
  CHECK(special(unwritten, unwritten) == 1);
  CHECK(special(200.0f, infinity) == 0);
  CHECK(special(200.0f, -infinity) == 1);
  CHECK(special(-infinity, 0.0f) == 0);
  CHECK(special(-infinity, infinity) == 1);
  CHECK(special(infinity, std::numeric_limits<float>::max()) == 1);
  CHECK(special(std::numeric_limits<float>::quiet_NaN(), 1.0f) == 1);
}

TEST_CASE("parts of a sweep join to the sweep") {
  for (const Unit& unit : units()) {
    const std::vector<float> y = results(unit, 1.6);
    const UnitErrors whole = judged(unit, y);
    UnitErrors joined, second;
    note(unit, joined, 0, step, std::span(y).first(30000));
    note(unit, second, 30000 * step, step, std::span(y).subspan(30000));
    join(joined, second);
    CHECK(describe(unit, joined) == describe(unit, whole));
    CHECK(joined.above == whole.above);
  }
}

}  // namespace
}  // namespace assay::device
