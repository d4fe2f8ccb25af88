// SPDX-License-Identifier: Apache-2.0
// The tensors of a failure, for people and tools: inputs, what came, what is right, and the bound per element.
#pragma once

#include <string>
#include <vector>

#include "probes/run/measure.hpp"
#include "report/record.hpp"
#include "report/safetensors.hpp"

namespace assay {

/// Tensors with the memory they lie in.
struct FailingTensors {
  report::TensorFile file;
  std::vector<std::vector<std::byte>> memory;
};

/// Bytes that a file of this problem would have, about.
double failing_bytes(const Problem&);

/// Every operand dense and row-major under its role ("A", an input that is overwritten as "C.before"), outputs as they came,
/// "C.expected" and "C.bound" in F64 ("C.expected_low" where fp64 cannot hold the truth) where the truth was made; on some rows
/// only: their numbers as "rows". Metadata: case, seed of the data, target, variant, library, verdict, label, reason.
FailingTensors failing_tensors(Truth&, const Measurement&, const report::Record&);

/// Throws report::FileError where an input of the file is not what this assay makes of the case in it. Returns that case.
std::string case_of_tensors(const report::TensorFile&, std::string_view where);

}  // namespace assay
