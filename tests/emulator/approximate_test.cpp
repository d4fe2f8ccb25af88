// SPDX-License-Identifier: Apache-2.0
// The kernels of approximate units meet the bit patterns that they are given, each once.
#include "kernels/approximate.hpp"

#include <bit>
#include <cmath>

#include "tests/emulator/on_device.hpp"

namespace assay::emulator {
namespace {

TEST_CASE("kernels of approximate units take first + i step, and leave what lies beyond") {
  for (const kernels::Version& v : kernels::approximate_versions) {
    const long long count = 777;
    Array out(DType::f32, count + 5);
    const kernels::ApproximateArgs args{static_cast<float*>(out.data()), 0x3f000001u, 40961, count};
    run<kernels::ApproximateArgs>("approximate_" + std::string(v.name) + "_f32", {{kernels::approximate_launch(args), args}},
                                  {&out});
    for (long long i = count; i < count + 5; ++i) CHECK(out.untouched(static_cast<std::size_t>(i)));
    const std::string name = v.name;
    for (const long long i : {0ll, 1ll, 255ll, 256ll, 776ll}) {
      const double x = std::bit_cast<float>(0x3f000001u + static_cast<std::uint32_t>(i) * 40961u);
      const double due = name == "ex2"     ? std::exp2(x)
                         : name == "lg2"   ? std::log2(x)
                         : name == "rcp"   ? 1 / x
                         : name == "rsqrt" ? 1 / std::sqrt(x)
                         : name == "sqrt"  ? std::sqrt(x)
                         : name == "sin"   ? std::sin(x)
                         : name == "cos"   ? std::cos(x)
                                           : std::tanh(x);
      const float got = std::bit_cast<float>(static_cast<std::uint32_t>(out.bits(static_cast<std::size_t>(i))));
      CHECK(std::abs(got - due) <= 0x1p-24 * std::abs(due));
    }
  }
}

}  // namespace
}  // namespace assay::emulator
