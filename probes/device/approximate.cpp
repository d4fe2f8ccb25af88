// SPDX-License-Identifier: Apache-2.0
#include "probes/device/approximate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <thread>
#include <vector>

#include "kernels/approximate.hpp"
#include "probes/device/loaded.hpp"

namespace assay::device {

namespace {

constexpr double any = std::numeric_limits<double>::infinity();
constexpr std::uint32_t poison = 0xffffffff;  // not the NaN that PTX gives, 7fffffff
constexpr double smallest_normal = 0x1p-126, largest_finite = 0x1.fffffep127;

// PTX ISA 8.5, "Floating Point Instructions". Where editions differ (ex2 2^-22.5, lg2 2^-22.6, sin and cos 2^-20.9 before 7.0)
// the weaker one: it is what a later architecture may use.
const Unit all_units[] = {
    {"ex2", [](double x) { return std::exp2(x); }, 0x1p-22, false, any},
    {"lg2", [](double x) { return std::log2(x); }, 0x1p-22, false, any},
    {"rcp", [](double x) { return 1 / x; }, 0x1p-23, false, any},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 1.2781e-7 /* 2^-22.9 */, false, any},
    {"sqrt", [](double x) { return std::sqrt(x); }, 0x1p-23, false, any},
    {"sin", [](double x) { return std::sin(x); }, 6.7435e-7 /* 2^-20.5 */, true, 6.283185},
    {"cos", [](double x) { return std::cos(x); }, 6.7435e-7 /* 2^-20.5 */, true, 6.283185},
    {"tanh", [](double x) { return std::tanh(x); }, 0x1p-11, false, any},
};

/// Error of y in the measure of the unit's limit; NaN where one of the two is no number.
double error_of(const Unit& unit, double x, float y, double due) {
  const double distance = std::abs(static_cast<double>(y) - due);
  if (unit.absolute || (unit.name == "lg2" && x >= 0.5 && x <= 2)) return distance;
  return distance / std::max(std::abs(due), smallest_normal);
}

std::string power_of_two(double error) {
  return error == 0 ? "0" : fmt::format("2^{:.2f}", std::log2(error));
}

}  // namespace

std::span<const Unit> units() {
  return all_units;
}

void note(const Unit& unit, UnitErrors& e, std::uint32_t first, std::uint32_t step, std::span<const float> y) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::uint32_t bits = first + static_cast<std::uint32_t>(i) * step;
    const double x = std::bit_cast<float>(bits);
    ++e.inputs;
    const bool written = std::bit_cast<std::uint32_t>(y[i]) != poison;
    if (std::abs(x) > unit.largest && !std::isinf(x) && written) continue;  // no error is documented; NaN and Inf are
    const double due = unit.function(x);
    const bool number = std::isfinite(due);
    // Beyond the largest finite number the exact result is one that fp32 has not: Inf stands for it.
    const bool right =
        number ? std::isfinite(y[i]) || (std::abs(due) > largest_finite && std::isinf(y[i]) && (y[i] > 0) == (due > 0))
               : (std::isnan(due) ? std::isnan(y[i]) : static_cast<double>(y[i]) == due);
    if (!right || !written) {
      if (e.special++ == 0) e.special_bits = bits;
    } else if (number && std::isfinite(y[i])) {
      const double error = error_of(unit, x, y[i], due);
      if (error > e.worst) e.worst = error, e.worst_bits = bits;
      e.above += !(error <= unit.limit);
    }
  }
}

void join(UnitErrors& to, const UnitErrors& from) {
  if (to.special == 0) to.special_bits = from.special_bits;
  if (from.worst > to.worst) to.worst = from.worst, to.worst_bits = from.worst_bits;
  to.inputs += from.inputs, to.special += from.special, to.above += from.above;
}

std::string describe(const Unit& unit, const UnitErrors& e) {
  std::string out =
      fmt::format("{}.approx.f32: {} inputs, largest {} error {} at {:#010x} (documented {}{})", unit.name, e.inputs,
                  unit.absolute ? "absolute" : "relative", power_of_two(e.worst), e.worst_bits, power_of_two(unit.limit),
                  std::isinf(unit.largest) ? "" : fmt::format(" for |x| up to {:.2f}", unit.largest));
  if (e.above > 0) out += fmt::format(", {} ABOVE", e.above);
  if (e.special > 0) out += fmt::format(", {} WRONG NaN, Inf or overflow, first at {:#010x}", e.special, e.special_bits);
  return out;
}

int check_approximations(const std::string& driver, int ordinal, const std::map<std::string, std::string>& set,
                         std::uint32_t step, std::string& lines) {
  constexpr std::uint64_t patterns = std::uint64_t{1} << 32;
  constexpr long long chunk = 1 << 24;
  const Context& context = Context::get(driver, ordinal);
  const Loaded& loaded = load_once(context, Build{}, "kernels/approximate.cu", set);
  const Stream stream(context);
  const auto total = static_cast<long long>((patterns + step - 1) / step);
  const Buffer out(context, static_cast<std::size_t>(std::min(chunk, total)) * sizeof(float));
  std::vector<float> y(static_cast<std::size_t>(std::min(chunk, total)));
  const std::size_t threads = std::max(1u, std::thread::hardware_concurrency());
  int wrong = 0;
  for (const Unit& unit : units()) {
    UnitErrors errors;
    for (long long done = 0; done < total; done += chunk) {
      const long long count = std::min(chunk, total - done);
      const auto first = static_cast<std::uint32_t>(static_cast<std::uint64_t>(done) * step);
      const kernels::ApproximateArgs args{static_cast<float*>(device_pointer(out.address())), first, step, count};
      out.poison(stream);
      launch(context, loaded.module.function(fmt::format("approximate_{}_f32", unit.name)), kernels::approximate_launch(args),
             std::as_bytes(std::span(&args, 1)), stream);
      out.download(stream, std::as_writable_bytes(std::span(y)));
      std::vector<UnitErrors> parts(threads);
      std::vector<std::thread> team;
      const std::size_t share = (static_cast<std::size_t>(count) + threads - 1) / threads;
      for (std::size_t t = 0; t < threads; ++t)
        team.emplace_back([&, t] {
          const std::size_t from = std::min(t * share, static_cast<std::size_t>(count)),
                            to = std::min(from + share, static_cast<std::size_t>(count));
          note(unit, parts[t], first + static_cast<std::uint32_t>(from) * step, step, std::span(y).subspan(from, to - from));
        });
      for (std::thread& t : team) t.join();
      for (const UnitErrors& part : parts) join(errors, part);
    }
    wrong += errors.above > 0 || errors.special > 0;
    lines += describe(unit, errors) + "\n";
  }
  return wrong;
}

}  // namespace assay::device
