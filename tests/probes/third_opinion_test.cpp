// SPDX-License-Identifier: Apache-2.0
// Every reference, in every format, against the oracles of third_opinion.hpp on sampled elements of the quick suite and of
// random cases. A reference may be wrong by this share of what it is used to judge: correct arithmetic without a rounding of
// the output.
#include "third_opinion.hpp"

#include <doctest/doctest.h>
#include <quadmath.h>

#include <cmath>
#include <set>

#include "probes/run/random_cases.hpp"
#include "probes/run/truth.hpp"

using namespace assay;
using third::Quad;

namespace {

constexpr double share_fp32 = 0x1p-18;  // fp64 references: u^2 against u, and the thousands that a long sum may differ by
constexpr double share_fp64 = 0x1p-6;   // double-double sums, long double elsewhere: 11 bits more than fp64
constexpr double most_flops = 1e6;

third::Oracle oracle_of(std::string_view op) {
  return op == "gemm"               ? third::gemm
         : op == "conv1d"           ? third::conv1d
         : op == "conv_transpose1d" ? third::conv_transpose1d
         : op == "softmax"          ? third::softmax
         : op == "activation"       ? third::activation
         : op == "layernorm"        ? third::layernorm
         : op == "attention"        ? third::attention
                                    : nullptr;
}

struct Outcome {
  int compared = 0, special = 0, judged_exactly = 0, wrong = 0;
  std::set<std::string> formats;
  std::string first_wrong;
};

/// `distort`: changes what the oracle says; `other`: the oracle reads this value of a key. Both must then be noticed.
void compare(const std::string& id, third::Oracle oracle, Outcome& out, Quad (*distort)(Quad) = nullptr,
             const std::pair<std::string, std::string>& other = {}) {
  Truth truth(id);
  const Problem& p = truth.problem();
  Problem read = p;
  if (!other.first.empty()) read.id.set(other.first, other.second);
  third::Inputs in{&read, {}};
  for (std::size_t i = 0; i < p.operands.size(); ++i)
    if (p.operands[i].access != Access::out) in.values[p.operands[i].role] = gather(p.operands[i], truth.first().storage[i]);
  const Arithmetic arithmetic{.operand = in.in(),
                              .accumulator = in.compute(),
                              .split_format = in.compute(),
                              .output = in.compute(),
                              .scores = in.compute(),
                              .probabilities = in.compute()};
  const std::vector<Expected>& expected = truth.expected(truth.first());
  out.formats.insert(std::string(p.id.op) + " " + p.formats);
  for (std::size_t o = 0; o < expected.size(); ++o) {
    const Operand& operand = p.operands[truth.outputs()[o]];
    const Expected& e = expected[o];
    const std::int64_t count = std::ssize(e.value);
    if (count == 0) continue;
    const Bound bound = truth.op().bound(p, o, e, arithmetic);
    std::set<std::int64_t> sample{0, count - 1, count / 2,
                                  static_cast<std::int64_t>(p.seed % static_cast<std::uint64_t>(count))};
    for (const std::int64_t at : sample) {
      const auto i = static_cast<std::size_t>(at);
      const std::int64_t logical =
          e.rows.empty() ? at : e.rows[i / static_cast<std::size_t>(e.row_length)] * e.row_length + at % e.row_length;
      Quad right = oracle(in, operand.role, logical);
      if (distort) right = distort(right);
      const Quad value = static_cast<Quad>(e.value[i]) + (e.value_lo.empty() ? Quad{0} : static_cast<Quad>(e.value_lo[i]));
      bool good;
      if (std::isnan(e.sum_abs[i]) || isnanq(right) || isinfq(right) || !std::isfinite(e.value[i])) {
        ++out.special;
        const bool beyond = fabsq(right) > 0x1p1023 && !isnanq(right);  // of fp64's range
        // The mean of a row with Inf is Inf by sums and NaN by updates: the reference leaves it open.
        const bool open = operand.role == "M" && isinfq(right) && std::isnan(e.value[i]);
        good = open || (isnanq(right) && std::isnan(e.value[i])) || right == value || (beyond && std::isinf(e.value[i]));
      } else {
        ++out.compared;
        out.judged_exactly += bound.hard[i] == 0 || bound.exact;
        const double share = in.compute() == DType::f64 ? share_fp64 : share_fp32;
        // An exact result has to be the very number, as far as it is one; what remains below fp64's range is nobody's.
        const Quad allowed = bound.hard[i] == 0 || bound.exact ? Quad{0} : static_cast<Quad>(share * bound.hard[i]);
        good = fabsq(value - right) <= allowed + 0x1p-1074;
      }
      if (good) continue;
      ++out.wrong;
      if (!out.first_wrong.empty()) continue;
      char text[64];
      quadmath_snprintf(text, sizeof text, "%.30Qg", right);
      out.first_wrong = id + " " + operand.role + "[" + std::to_string(logical) + "]: reference " + std::to_string(e.value[i]) +
                        ", third opinion " + text + ", allowed of the bound " + std::to_string(bound.hard[i]);
    }
  }
}

std::vector<std::string> cases_of(const Op& op, std::uint64_t random) {
  std::vector<std::string> ids;
  for (const ListedCase& c : read_case_list(op.cases, "quick", "quick"))
    if (make_problem(c.id).flops <= most_flops) ids.push_back(c.id);
  RandomCases draw(7, {std::string(op.name)});
  for (std::uint64_t k = 0; k < random; ++k)
    if (std::string id = draw.draw(k); make_problem(id).flops <= most_flops) ids.push_back(std::move(id));
  return ids;
}

}  // namespace

TEST_CASE("a third opinion in quad precision agrees with every reference, in every format") {
  for (const Op& op : all_ops()) {
    const third::Oracle oracle = oracle_of(op.name);
    CAPTURE(op.name);
    REQUIRE(bool(oracle));
    Outcome out;
    for (const std::string& id : cases_of(op, 120)) compare(id, oracle, out);
    CAPTURE(out.first_wrong);
    CHECK(out.wrong == 0);
    CHECK(out.compared > 300);
    for (const Parameter& p : op.grammar)
      if (p.name == "in")
        for (const std::string_view word : p.choices) {
          CAPTURE(word);
          const std::string format = std::string(op.name) + " " + std::string(name(*parse_dtype(word)));
          CHECK(
              std::any_of(out.formats.begin(), out.formats.end(), [&](const std::string& f) { return f.starts_with(format); }));
        }
  }
}

TEST_CASE("the third opinion would notice a last place of fp32, and every key that changes a number") {
  for (const Op& op : all_ops()) {
    Outcome out;
    for (const std::string& id : cases_of(op, 0))
      compare(id, oracle_of(op.name), out, [](Quad x) { return x * (1 + Quad{0x1p-26}); });
    CAPTURE(op.name);
    CHECK(out.wrong > (out.compared - out.judged_exactly) / 2);
  }
  const struct {
    const char *id, *key, *value;
  } others[] = {
      {"g1:gemm:m=3,n=3,k=9,alpha=0.5", "alpha", "0.50000006"},
      {"g1:gemm:m=3,n=3,k=9,beta=1", "beta", "0.99999994"},
      {"g1:gemm:m=3,n=3,k=9,act=gelu_erf", "act", "gelu_tanh"},
      {"g1:conv1d:cin=4,cout=4,l=20,k=3,padl=2,padr=1", "padl", "1"},
      {"g1:conv1d:cin=4,cout=4,l=20,k=3,groups=2", "groups", "1"},
      {"g1:conv1d:cin=4,cout=4,l=20,k=3,dilation=2,padl=4", "dilation", "1"},
      {"g1:conv_transpose1d:cin=4,cout=4,l=9,k=3,stride=2,padl=1", "padl", "0"},
      {"g1:conv_transpose1d:cin=4,cout=4,l=9,k=3,groups=2", "groups", "4"},
      {"g1:softmax:rows=2,n=5,kind=log", "kind", "softmax"},
      {"g1:activation:rows=2,n=5", "kind", "gelu_tanh"},
      {"g1:activation:rows=2,n=5,kind=silu", "kind", "relu"},
      {"g1:layernorm:rows=2,n=5", "eps", "1e-6"},
      {"g1:layernorm:rows=2,n=5,kind=rms", "kind", "layer"},
      {"g1:attention:hq=2,sq=7,d=8", "scale", "0.3535535"},
      {"g1:attention:hq=2,sq=7,d=8,mask=causal,skv=9", "mask", "causal_br"},
      {"g1:attention:hq=2,sq=7,d=8,window=3", "window", "4"},
      {"g1:attention:b=2,hq=2,sq=7,d=8,lens=varied", "lens", "full"},
      {"g1:attention:hq=4,hkv=2,sq=7,d=8,lse=1", "hkv", "1"},
  };
  for (const auto& o : others) {
    Outcome out;
    compare(o.id, oracle_of(case_op(o.id)), out, nullptr, {o.key, o.value});
    const std::string what = std::string(o.id) + " read with " + o.key + "=" + o.value;
    CAPTURE(what);
    CHECK(out.wrong > 0);
  }
}
