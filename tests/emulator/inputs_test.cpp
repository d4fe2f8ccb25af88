// SPDX-License-Identifier: Apache-2.0
// Inputs made by kernels have the bits of the host's generator; the busy neighbour stays in its own memory.
#include "reference/inputs.hpp"

#include "kernels/inputs.hpp"
#include "kernels/neighbour.hpp"
#include "reference/tensor.hpp"
#include "tests/emulator/on_device.hpp"

namespace assay::emulator {
namespace {

TEST_CASE("inputs made by kernels equal the host's bit for bit, in every family and format") {
  struct Named {
    const char* kernel;
    Family family;
    std::int64_t limit;
  };
  for (const Named& f : {Named{"normal", Family::normal, 1}, Named{"uniform", Family::uniform, 1},
                         Named{"integer", Family::integer, 9}, Named{"integer", Family::integer, 1}})
    for (const DType t : kernel_formats)
      for (const std::uint64_t seed : {1ull, 0xfedcba9876543210ull}) {
        const std::int64_t count = 777;
        const Operand operand{.dtype = t, .dims = {count}, .strides = {1}, .span = count, .stream = 3};
        const auto expected = generate(operand, {.family = f.family, .limit = f.limit}, seed);
        Array out(t, static_cast<std::size_t>(count));
        const kernels::InputsArgs args{out.data(), count, seed, 3, f.limit};
        run<kernels::InputsArgs>("inputs_" + std::string(f.kernel) + "_" + suffix(t), {{kernels::inputs_launch(args), args}},
                                 {&out});
        REQUIRE(expected.size() == out.size());
        std::size_t different = 0;
        for (std::size_t i = 0; i < out.size(); ++i) different += out.bits(i) != expected[i];
        CHECK(different == 0);
      }
}

TEST_CASE("the busy neighbour is clean and writes all of its scratch memory") {
  Array scratch(DType::f32, kernels::neighbour_bytes / 4);
  const kernels::NeighbourArgs args{static_cast<float*>(scratch.data()), 3};
  run<kernels::NeighbourArgs>("neighbour_busy", {{kernels::neighbour_launch(), args}}, {&scratch});
  for (std::size_t i = 0; i < scratch.size(); ++i) CHECK_FALSE(scratch.untouched(i));
}

}  // namespace
}  // namespace assay::emulator
