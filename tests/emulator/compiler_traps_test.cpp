// SPDX-License-Identifier: Apache-2.0
// kernels/compiler_traps.cu under the emulator: each gives what its plain twin says, and the inputs would show the mistake that
// was reported.
#include "kernels/compiler_traps.hpp"

#include <map>

#include "tests/emulator/trial.hpp"

namespace assay::emulator {
namespace {

using kernels::Trap;
using kernels::trap::Words;

std::vector<unsigned> inputs(long long n, unsigned seed) {
  std::vector<unsigned> words(static_cast<std::size_t>(n));
  for (long long i = 0; i < n; ++i) words[static_cast<std::size_t>(i)] = kernels::trap::input(i, seed);
  return words;
}

/// The reported mistakes, where one formula says them.
std::map<std::string, unsigned (*)(const Words&, long long)> mistakes() {
  return {
      {"abs_max",
       [](const Words& w, long long i) {
         const int x = w.as_int(i), y = static_cast<int>(kernels::trap::abs_max(Words{&w.in[i ^ 1], 1}, 0));
         return static_cast<unsigned>(x < y ? y : x);  // max(x, |y|)
       }},
      {"negated_max",
       [](const Words& w, long long i) {
         const int a = w.small(i), b = w.small(i ^ 1), c = w.small(i ^ 2);
         return static_cast<unsigned>(a > b ? (a < c ? c : a) : (b < c ? c : b));  // without the minus
       }},
      {"sign_flip",
       [](const Words& w, long long i) {
         const unsigned bits = w[i];
         if ((bits & 0x7fffffffu) <= 0x7f800000u) return kernels::trap::sign_flip(w, i);
         const unsigned other[2] = {0xffffffffu, w[i ^ 1]};  // neg of NaN gives the one NaN 0x7fffffff
         return kernels::trap::sign_flip({other, 2}, 0);
       }},
      {"argmax_ties",
       [](const Words& w, long long i) {
         const auto same = [&](long long at) { return w.as_short(at) == -32768; };
         return same(i / 32 * 32) ? 0 : kernels::trap::argmax_ties(w, i);  // -32768 does not tie
       }},
      {"divergent_shuffle",
       [](const Words& w, long long i) { return (w[i & ~1ll] & 3) == 3 ? w[i] : kernels::trap::divergent_shuffle(w, i); }},
      {"early_exit", [](const Words& w, long long i) { return i % 32 == 0 ? 0 : kernels::trap::early_exit(w, i); }},
      {"bit_select",
       [](const Words& w, long long i) {
         const unsigned x = kernels::trap::bit_select(w, i);
         return x == 0xdeadu ? 0 : x;  // the predicate is lost
       }},
      {"packed_add", [](const Words& w, long long i) { return kernels::trap::packed_add(w, i) - (i % 2 == 1 ? 1 : 0); }},
      {"saturated_negation",
       [](const Words& w, long long i) {
         return static_cast<unsigned>(static_cast<short>(-w.as_short(i)) + static_cast<short>(-w.as_short(i ^ 1)));
       }},
      {"packed_f32", [](const Words& w, long long i) { return kernels::trap::packed_f32(w, i ^ 1); }},
      {"complex_product", [](const Words& w, long long i) { return i % 2 == 0 ? kernels::trap::complex_product(w, i) : 0; }},
      {"wide_index",
       [](const Words& w, long long i) {
         unsigned sum = 0;
         for (unsigned row = 0; row < 8; ++row) sum += (row + 5) * (0x30000001u + (w[i] & 0xffu)) + static_cast<unsigned>(i);
         return sum + w[(5ll * (0x30000001ll + (w[i] & 0xffu)) + i) % 32];
       }},
      {"signed_division",
       [](const Words& w, long long i) {
         return kernels::trap::signed_division(w, i) + 11 * static_cast<unsigned>(w.as_int(i) | 1);  // x / UINT_MAX = 0
       }},
      {"predicated_store",
       [](const Words& w, long long i) { return i % 128 / 16 == 7 ? 0xffffffffu : kernels::trap::predicated_store(w, i); }},
      {"nested_selects",
       [](const Words& w, long long i) {
         const unsigned x = kernels::trap::nested_selects(w, i);
         return x == 0xfffefffeu ? 0xffffffffu : x;
       }},
  };
}

}  // namespace

TEST_CASE("kernels of compiler traps give what their plain twins say, for any number of words") {
  for (const Trap& trap : kernels::traps)
    for (const long long n : {1, 31, 128, 1000})
      for (const unsigned seed : {1u, 2u}) {
        CAPTURE(std::string(trap.name));
        const std::vector<unsigned> words = inputs(n, seed);
        Memory<unsigned> in(words);
        const kernels::TrapArgs g = {in.at(), nullptr, n};
        const auto got = clean_result<unsigned>(std::string("trap_") + trap.name, kernels::trap_launch(g), g,
                                                &kernels::TrapArgs::out, static_cast<std::size_t>(n));
        long long wrong = 0;
        for (long long i = 0; i < n; ++i) wrong += got[static_cast<std::size_t>(i)] != trap.expected({words.data(), n}, i);
        CHECK(wrong == 0);
      }
}

TEST_CASE("inputs of compiler traps would show the mistake that was reported") {
  const auto wrong = mistakes();
  const std::vector<unsigned> words = inputs(1024, 1);
  for (const Trap& trap : kernels::traps) {
    CAPTURE(std::string(trap.name));
    REQUIRE(wrong.count(trap.name) == 1);
    long long shown = 0;
    for (long long i = 0; i < 1024; ++i)
      shown += wrong.at(trap.name)({words.data(), 1024}, i) != trap.expected({words.data(), 1024}, i);
    CHECK(shown > 0);
  }
}

TEST_CASE("every kernel of a compiler trap is in the table") {
  std::size_t kernels_of_traps = 0;
  for (const Kernel& k : kernels()) kernels_of_traps += std::string_view(k.name).starts_with("trap_");
  CHECK(kernels_of_traps == std::size(kernels::traps));
}

}  // namespace assay::emulator
