// SPDX-License-Identifier: Apache-2.0
// The CUDA language as the emulator gives it: positions, warps, atomics, barriers, shared memory, limits.
#include "tests/emulator/language.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "tests/emulator/trial.hpp"

namespace assay::emulator {
namespace {

/// The results of one warp, `each` a lane, equal under every schedule.
std::vector<long long> results(const char* name, const kernels::Launch& shape, std::size_t count) {
  return clean_result<long long>(name, shape, LanguageArgs{}, &LanguageArgs::out, count);
}

TEST_CASE("every thread knows its place in grid and block") {
  const kernels::Launch shape{.grid_x = 2, .grid_y = 3, .grid_z = 2, .block_x = 5, .block_y = 4, .block_z = 3};
  const auto out = results("language_position", shape, 12 * 60);
  std::size_t at = 0;
  for (unsigned bz = 0; bz < 2; ++bz)
    for (unsigned by = 0; by < 3; ++by)
      for (unsigned bx = 0; bx < 2; ++bx)
        for (unsigned z = 0; z < 3; ++z)
          for (unsigned y = 0; y < 4; ++y)
            for (unsigned x = 0; x < 5; ++x)
              CHECK(out[at++] == x + 100 * y + 10000 * z + 1000000ll * (bx + 10 * by + 100 * bz));
}

TEST_CASE("shuffles read the lane that PTX says, for every type") {
  for (const char* name : {"language_shuffle_float", "language_shuffle_double", "language_shuffle_int",
                           "language_shuffle_unsigned", "language_shuffle_long"}) {
    CAPTURE(name);
    const auto out = results(name, {.block_x = 32}, 32 * 12);
    for (int lane = 0; lane < 32; ++lane) {
      const int own8 = lane / 8 * 8;
      const int from[12] = {5, (lane + 1) % 32, own8 + 3, lane >= 1 ? lane - 1 : lane, lane % 16 >= 3 ? lane - 3 : lane,
                            lane < 31 ? lane + 1 : lane, lane < 16 ? lane + 16 : lane, lane % 8 + 5 < 8 ? lane + 5 : lane,
                            lane % 2 == 0 ? lane + 1 : lane - 1, (lane + 16) % 32,
                            // ^12 changes the segment of 8: a later segment may not be read, an earlier one may
                            (lane ^ 12) < own8 + 8 ? lane ^ 12 : lane, 31 - lane};
      for (int i = 0; i < 12; ++i) {
        CAPTURE(lane);
        CAPTURE(i);
        CHECK(out[static_cast<std::size_t>(lane * 12 + i)] == 3 * from[i] + 1);
      }
    }
  }
}

TEST_CASE("votes and reductions see the lanes of their mask and no others") {
  const auto out = results("language_votes", {.block_x = 32}, 32 * 14);
  unsigned thirds = 0, fifths = 0;
  for (unsigned lane = 0; lane < 32; ++lane) thirds |= (lane % 3 == 0) << lane, fifths |= (lane % 5 == 0) << lane;
  for (int lane = 0; lane < 32; ++lane) {
    const bool low = lane < 16;
    const unsigned half = low ? 0xffffu : 0xffff0000u;
    const long long expected[14] = {
        thirds,        fifths & half, 1, !low, 1, low, 0x11111111ll << lane % 4, half, 31 * 16, low ? -120 : -376, -31,
        low ? 15 : 31, 0xffffffffll,  0};
    for (std::size_t i = 0; i < 14; ++i) {
      CAPTURE(lane);
      CAPTURE(i);
      CHECK(out[static_cast<std::size_t>(lane) * 14 + i] == expected[i]);
    }
  }
}

TEST_CASE("atomic operations lose nothing under any schedule") {
  constexpr unsigned threads = 256;
  for (const Schedule s : all_schedules)
    for (const std::uint64_t seed : {1, 2, 3}) {
      Memory<unsigned> counters(std::vector<unsigned>{0, 0, 5000, 0, threads});
      Memory<long long> out(threads);
      Memory<float> y(std::vector<float>{0});
      const LanguageArgs args{out.at(), nullptr, y.at(), counters.at(), 0};
      const Report report =
          launch_kernel("language_atomics", {.grid_x = 4, .block_x = 64}, args, {.schedule = s, .seed = seed});
      CHECK_MESSAGE(report.clean(), text(report));
      const auto c = counters.values();
      unsigned largest = 0, smallest = 5000;
      for (unsigned id = 0; id < threads; ++id)
        largest = std::max(largest, id * 7919u % 1009u), smallest = std::min(smallest, id * 7919u % 1009u + 3u);
      CHECK(c[0] == threads * (threads - 1) / 2);
      CHECK(c[1] == largest);
      CHECK(c[2] == smallest);
      CHECK(c[3] == 2 * threads);
      CHECK(y.values()[0] == 0.5f * threads);
      // Exchanged values form one chain: each id and the start once, but for the one that stayed.
      auto seen = out.values();
      seen.push_back(c[4]);
      std::sort(seen.begin(), seen.end());
      for (unsigned id = 0; id <= threads; ++id) CHECK(seen[id] == id);
    }
}

TEST_CASE("a barrier waits for every warp of the block, and counts") {
  const auto out = results("language_barriers", {.block_x = 96}, 96);
  for (unsigned t = 0; t < 96; ++t) CHECK(out[t] == (95 - t) + 1000 * (48 + 100 * (1 + 0 + 4 + 0)));
}

TEST_CASE("static and dynamic shared memory are two arrays of the block, gone with it") {
  std::vector<float> in(64);
  std::iota(in.begin(), in.end(), 1.f);
  Memory<float> x(in);
  const LanguageArgs args{nullptr, x.at(), nullptr, nullptr, 0};
  const auto y = clean_result<float>("language_shared_memory", {.grid_x = 3, .block_x = 64, .shared_bytes = 256}, args,
                                     &LanguageArgs::y, 3 * 64);
  for (std::size_t i = 0; i < y.size(); ++i) CHECK(y[i] == 2 * in[63 - i % 64]);

  Memory<float> poisoned(2 * 64);
  const Report report =
      launch_kernel("language_poison", {.grid_x = 2, .block_x = 64}, LanguageArgs{nullptr, nullptr, poisoned.at(), nullptr, 0});
  CHECK(report.clean() == !checked());
  for (const float before : poisoned.values()) CHECK(std::bit_cast<unsigned>(before) == 0xffffffffu);
}

TEST_CASE("a launch beyond a limit of CUDA is refused and says which") {
  const LanguageArgs args{nullptr, nullptr, nullptr, nullptr, misuse_end};
  const auto refusal = [&](const kernels::Launch& shape, const Options& options = {}) -> std::string {
    try {
      launch_kernel("language_misuse", shape, args, options);
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  CHECK(refusal({.block_x = 1025}).find("block (1025,1,1) exceeds") != std::string::npos);
  CHECK(refusal({.block_x = 32, .block_y = 33}).find("block (32,33,1) exceeds") != std::string::npos);
  CHECK(refusal({.block_z = 65}).find("block (1,1,65) exceeds") != std::string::npos);
  CHECK(refusal({.block_x = 0}).find("is empty") != std::string::npos);
  CHECK(refusal({.grid_y = 65536}).find("grid (1,65536,1) exceeds") != std::string::npos);
  CHECK(refusal({.grid_x = 0x80000000u}).find("exceeds") != std::string::npos);
  CHECK(refusal({.shared_bytes = 49153}).find("49153 bytes of dynamic shared memory exceed the limit of 49152") !=
        std::string::npos);
  CHECK(refusal({.shared_bytes = 49152}).find("shared array part brings shared memory to 49408 bytes") != std::string::npos);
  CHECK(refusal({.shared_bytes = 49152}, {.shared_limit_bytes = 233472}) == "");
  const Kernel& kernel = kernel_named("language_misuse");
  CHECK_THROWS_WITH(launch(kernel, {}, std::as_bytes(std::span("abc"))),
                    "launch of language_misuse: got 4 bytes of arguments, expected 40");
}

TEST_CASE("a random schedule is the same for the same seed") {
  const auto switches = [](std::uint64_t seed) {
    Memory<unsigned> counters(std::vector<unsigned>{0, 0, 5000, 0, 0});
    Memory<long long> out(256);
    Memory<float> y(std::vector<float>{0});
    const LanguageArgs args{out.at(), nullptr, y.at(), counters.at(), 0};
    launch_kernel("language_atomics", {.grid_x = 4, .block_x = 64}, args, {.schedule = Schedule::random, .seed = seed});
    return out.values();
  };
  CHECK(switches(7) == switches(7));
  CHECK(switches(7) != switches(8));
}

}  // namespace
}  // namespace assay::emulator
