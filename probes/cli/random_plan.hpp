// SPDX-License-Identifier: Apache-2.0
// The cases of run --random.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "probes/run/random_cases.hpp"

namespace assay::cli {

/// Cases at random until the time is over; counts them.
class RandomPlan {
 public:
  RandomPlan(std::uint64_t seed, double minutes, const std::vector<std::string>& ops)
      : seed_(seed),
        cases_(seed, ops),
        end_(std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(60'000 * minutes))) {}

  std::optional<ListedCase> operator()() {
    if (std::chrono::steady_clock::now() >= end_) return std::nullopt;
    return ListedCase{cases_.draw(drawn_++), "random", 0};
  }
  std::string sentence() const {
    return fmt::format(
        "random cases 0 to {} of seed {} ({} combinations were drawn again: no operation has them, or too large)", drawn_ - 1,
        seed_, cases_.redrawn());
  }

 private:
  std::uint64_t seed_;
  RandomCases cases_;
  std::chrono::steady_clock::time_point end_;
  std::uint64_t drawn_ = 0;
};

}  // namespace assay::cli
