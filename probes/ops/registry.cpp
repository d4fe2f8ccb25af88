// SPDX-License-Identifier: Apache-2.0
// The list of operations. Adding one adds one line here and one name to ASSAY_OPS in CMakeLists.txt.
#include <fmt/format.h>

#include <algorithm>

#include "probes/ops/activation/activation.hpp"
#include "probes/ops/attention/attention.hpp"
#include "probes/ops/conv1d/conv1d.hpp"
#include "probes/ops/conv_transpose1d/conv_transpose1d.hpp"
#include "probes/ops/gemm/gemm.hpp"
#include "probes/ops/layernorm/layernorm.hpp"
#include "probes/ops/op.hpp"
#include "probes/ops/softmax/softmax.hpp"

namespace assay {

namespace {

std::vector<Op> make_all() {
  std::vector<Op> ops;
  ops.push_back(gemm::make());
  ops.push_back(softmax::make());
  ops.push_back(activation::make());
  ops.push_back(conv1d::make());
  ops.push_back(conv_transpose1d::make());
  ops.push_back(attention::make());
  ops.push_back(layernorm::make());
  for (Op& op : ops) {
    const std::vector<Parameter> own = op.grammar;
    for (const Parameter& common : common_parameters())
      if (std::none_of(own.begin(), own.end(), [&](const Parameter& p) { return p.name == common.name; }))
        op.grammar.push_back(common);
  }
  return ops;
}

}  // namespace

std::span<const Op> all_ops() {
  static const std::vector<Op> ops = make_all();
  return ops;
}

const Op& find_op(std::string_view name) {
  std::string known;
  for (const Op& op : all_ops()) {
    if (op.name == name) return op;
    known += (known.empty() ? "" : ", ") + std::string(op.name);
  }
  throw CaseError(fmt::format("there is no operation '{}'; known operations: {}", name, known));
}

Problem make_problem(std::string_view id) {
  const Op& op = find_op(case_op(id));
  const CaseId parsed = parse_case(id, op.grammar);
  Problem p = op.problem(parsed);
  p.queue = parsed.word("queue");
  return p;
}

std::string canonical(std::string_view id) {
  const Op& op = find_op(case_op(id));
  return to_string(parse_case(id, op.grammar), op.grammar);
}

const Operand& Problem::operand(std::string_view role) const {
  return operands[operand_index(role)];
}

std::size_t Problem::operand_index(std::string_view role) const {
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i].role == role) return i;
  throw std::logic_error("no operand " + std::string(role));
}

std::vector<std::size_t> Problem::outputs() const {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i].access != Access::in) out.push_back(i);
  return out;
}

}  // namespace assay
