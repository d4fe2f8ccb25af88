// SPDX-License-Identifier: Apache-2.0
// Random cases: a function of seed and number, valid, and reaching every key of every grammar.
#include "probes/run/random_cases.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>

namespace assay {
namespace {

TEST_CASE("a random case depends on its seed and number alone, and its id is the canonical one") {
  RandomCases once(7, {}), again(7, {}), other(8, {});
  again.draw(3);
  int different = 0;
  for (std::uint64_t k = 0; k < 60; ++k) {
    const std::string id = once.draw(k);
    CHECK(again.draw(k) == id);
    CHECK(canonical(id) == id);
    different += other.draw(k) != id;
  }
  CHECK(different == 60);
}

TEST_CASE("random cases reach every operation, every word of every key and many numbers, and stay small") {
  RandomCases cases(1, {});
  std::map<std::string, std::map<std::string, std::set<std::string>>> seen;  // op, key -> values
  double largest = 0;
  for (std::uint64_t k = 0; k < 6000; ++k) {
    const Problem p = make_problem(cases.draw(k));
    largest = std::max(largest, p.flops);
    for (const auto& [key, value] : p.id.values) seen[p.id.op][key].insert(value);
  }
  CHECK(largest <= 1e9);
  CHECK(largest > 1e8);
  CHECK(seen.size() == all_ops().size());
  for (const Op& op : all_ops())
    for (const Parameter& p : op.grammar) {
      if (p.name == "queue") continue;  // of devices
      CAPTURE(op.name);
      CAPTURE(p.name);
      const std::set<std::string>& values = seen[std::string(op.name)][std::string(p.name)];
      if (p.kind == ParameterKind::word)
        for (const std::string_view word : p.choices) {
          CAPTURE(word);
          CHECK(values.contains(std::string(word)));
        }
      else
        CHECK(values.size() >= (p.most == 1 || p.name == "repeat" ? 2 : 3));
    }
}

TEST_CASE("only the operations that were asked for are drawn, and an unknown one is refused") {
  RandomCases cases(1, {"softmax"});
  for (std::uint64_t k = 0; k < 20; ++k) CHECK(case_op(cases.draw(k)) == "softmax");
  CHECK_THROWS_WITH_AS(RandomCases(1, {"softmaz"}), doctest::Contains("softmax"), CaseError);
}

}  // namespace
}  // namespace assay
