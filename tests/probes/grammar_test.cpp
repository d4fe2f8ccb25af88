// SPDX-License-Identifier: Apache-2.0
// The metamorphic test of the case grammar (T10): changing a key changes what is computed or how its operands lie, as predicted
// by the truth. A key that nothing reads would make every case that sets it a lie.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <set>

#include "probes/ops/op.hpp"
#include "reference/inputs.hpp"

using namespace assay;

namespace {

/// What a target is given and what it must return, as text.
std::string meaning(const std::string& id) {
  const Problem p = make_problem(id);
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::span<const std::byte>> inputs;
  std::string text;
  for (std::size_t i = 0; i < p.operands.size(); ++i) {
    const Operand& o = p.operands[i];
    text += fmt::format("{} {} {} {} {};", o.role, name(o.dtype), fmt::join(o.dims, "x"), fmt::join(o.strides, "/"), o.offset);
    memory.emplace_back(static_cast<std::size_t>(storage_elements(o)) * size_bytes(o.dtype), std::byte{0xFF});
    if (o.access != Access::out) fill(o, p.fills[i], 1, memory.back());
  }
  for (const auto& m : memory) inputs.emplace_back(m);
  text += fmt::format("{} {} {} {};", p.place_at_end, p.repeat, p.callers, p.queue);
  for (const Expected& e : find_op(p.id.op).expect(p, inputs, {})) text += fmt::format("{};", fmt::join(e.value, " "));
  return text;
}

/// Other values that the key could have: every other word, or numbers nearby.
std::vector<std::string> alternatives(const Parameter& key, const std::string& now) {
  std::vector<std::string> out;
  if (key.kind == ParameterKind::word) {
    for (const std::string_view choice : key.choices)
      if (choice != now) out.emplace_back(choice);
  } else if (key.kind == ParameterKind::integer) {
    for (const std::int64_t step : {1, 2, 3, 4, -1})
      if (const auto v = std::stoll(now) + step; static_cast<double>(v) >= key.least && static_cast<double>(v) <= key.most)
        out.push_back(fmt::to_string(v));
  } else {
    for (const char* v : {"0.5", "2", "0", "0.001"})
      if (now != v) out.emplace_back(v);
  }
  return out;
}

/// Cases whose keys are changed one at a time; a key is proven when it works in one of them. `silent`: keys that choose how
/// the call is made and leave operands and truth alone.
struct Base {
  std::vector<std::string> ids;
  std::set<std::string_view> silent;
};
const std::map<std::string_view, Base>& bases() {
  static const std::map<std::string_view, Base> all = {
      {"gemm", {{"g1:gemm:m=4,n=3,k=5,batch=2,beta=0.5,in=bf16,fill=normal"}, {"mode"}}},
      {"activation", {{"g1:activation:rows=3,n=5,kind=gelu_erf,in=bf16,fill=normal"}, {}}},
      {"softmax", {{"g1:softmax:rows=3,n=5,in=bf16,fill=normal"}, {}}},
      {"conv1d",
       {{"g1:conv1d:n=2,cin=4,cout=6,l=9,k=3,in=bf16,fill=normal",
         "g1:conv1d:n=2,cin=4,cout=6,l=9,k=3,stride=2,padl=2,padr=1,groups=2,bias=1,fill=integer"},
        {}}},
      {"conv_transpose1d",
       {{"g1:conv_transpose1d:n=2,cin=4,cout=6,l=5,k=3,stride=2,in=bf16,fill=normal",
         "g1:conv_transpose1d:n=2,cin=4,cout=6,l=5,k=3,stride=3,dilation=2,groups=2,bias=1,fill=integer"},
        {}}},
      {"attention",
       {{"g1:attention:b=2,hq=4,hkv=2,sq=3,skv=5,d=4,in=bf16,lse=1,fill=normal",
         "g1:attention:sq=3,skv=5,d=4,in=bf16,bias=head,fill=normal", "g1:attention:sq=3,skv=5,d=4,in=bf16,fill=normal"},
        {}}},
      {"layernorm", {{"g1:layernorm:rows=3,n=5,in=bf16,fill=normal", "g1:layernorm:rows=3,n=5,fill=offset"}, {}}},
  };
  return all;
}

}  // namespace

TEST_CASE("every key of every op's grammar changes what is computed or how it lies in memory") {
  for (const Op& op : all_ops()) {
    CAPTURE(op.name);
    REQUIRE(bases().contains(op.name));
    const Base& base = bases().at(op.name);
    for (const Parameter& key : op.grammar) {
      if (key.name == "seed") continue;  // the seed is drawn by the runner; other data, same problem
      CAPTURE(key.name);
      int legal = 0, felt = 0;
      for (const std::string& id : base.ids) {
        const std::string before = meaning(id);
        CaseId changed = make_problem(id).id;
        for (const std::string& value : alternatives(key, changed.word(key.name))) {
          changed.set(key.name, value);
          try {
            const std::string after = meaning(to_string(changed, op.grammar));
            ++legal, felt += after != before;
          } catch (const CaseError&) {
          }
        }
      }
      CHECK(legal > 0);
      if (base.silent.contains(key.name))
        CHECK(felt == 0);
      else
        CHECK(felt > 0);
    }
  }
}
