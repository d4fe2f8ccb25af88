// SPDX-License-Identifier: Apache-2.0
// Parsers that are wrong on purpose: the fuzzer must find each of them. First argument: which one.

#include "fuzz.hpp"

namespace {

/// A check forgotten behind two right bytes, as real parsers have them.
bool reached(std::string_view input) {
  return input.size() > 4 && input[0] == 'A' && input[2] == '9';
}

void wrong_exception(std::string_view input) {
  if (reached(input)) throw std::out_of_range("planted");
}
void wrong_result(std::string_view input) {
  fuzz::require(!reached(input), "planted");
}
void reads_past_the_end(std::string_view input) {
  volatile char next = 0;
  if (reached(input)) next = input.data()[input.size()];
  (void)next;
}
void overflows(std::string_view input) {
  volatile int large = 0x7fffffff;
  if (reached(input)) large = large + input[0];
}
void takes_memory(std::string_view input) {
  if (reached(input)) delete[] new char[std::size_t{1} << 40];
}
void crashes(std::string_view input) {
  if (reached(input)) std::raise(SIGSEGV);
}
void hangs(std::string_view input) {
  alarm(1);  // instead of the 10 s that a real input has
  while (reached(input)) pause();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view which = argc > 1 ? argv[1] : "";
  const std::pair<std::string_view, void (*)(std::string_view)> parsers[] = {{"exception", wrong_exception},
                                                                             {"result", wrong_result},
                                                                             {"overread", reads_past_the_end},
                                                                             {"overflow", overflows},
                                                                             {"memory", takes_memory},
                                                                             {"crash", crashes},
                                                                             {"hang", hangs}};
  for (const auto& [name, parser] : parsers) {
    if (name == which) return fuzz::run(argc - 1, argv + 1, {parser, {}});
  }
  std::fprintf(stderr, "fuzz_self_check: unknown parser\n");
  return 2;
}
