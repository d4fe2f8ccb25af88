// SPDX-License-Identifier: Apache-2.0
// A third opinion on every reference: each operation written down once more from its definition in docs, in quad precision
// (113 bits, libquadmath), one element at a time, with its own indexing. MPFR would give more digits than any check here needs
// and is one more package; long double, the second implementations' format, is too near to fp64's own references.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "probes/ops/op.hpp"

namespace assay::third {

using Quad = __float128;

/// What the oracles read: operands decoded exactly, row-major, by role, and the keys of the case.
struct Inputs {
  const Problem* problem = nullptr;
  std::map<std::string, std::vector<double>> values;

  /// NaN outside: where a test has a key read wrongly, sizes are wrong too, and an oracle that strays must disagree.
  Quad at(const std::string& role, std::int64_t index) const {
    const std::vector<double>& v = values.at(role);
    return index >= 0 && index < std::ssize(v) ? v[static_cast<std::size_t>(index)] : std::numeric_limits<double>::quiet_NaN();
  }
  bool has(const std::string& role) const { return values.contains(role); }
  std::int64_t n(std::string_view key) const { return problem->id.integer(key); }
  const std::string& word(std::string_view key) const { return problem->id.word(key); }
  DType in() const { return *parse_dtype(word("in")); }
  DType compute() const { return in() == DType::f64 ? DType::f64 : in() == DType::i8 ? DType::i32 : DType::f32; }
};

/// Element `e` (row-major) of the output with this role.
using Oracle = Quad (*)(const Inputs&, const std::string& role, std::int64_t e);

Quad gemm(const Inputs&, const std::string&, std::int64_t);
Quad conv1d(const Inputs&, const std::string&, std::int64_t);
Quad conv_transpose1d(const Inputs&, const std::string&, std::int64_t);
Quad softmax(const Inputs&, const std::string&, std::int64_t);
Quad activation(const Inputs&, const std::string&, std::int64_t);
Quad layernorm(const Inputs&, const std::string&, std::int64_t);
Quad attention(const Inputs&, const std::string&, std::int64_t);
/// kind: gelu_erf, gelu_tanh, silu, relu, none.
Quad activated(const std::string& kind, Quad z);

}  // namespace assay::third
