// SPDX-License-Identifier: Apache-2.0
// A graph of cuDNN computed on the host from nothing but the front end's serialisation of it: dims, strides, attributes. It
// knows no operation of assay, so that what it computes is what the graph says.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>

namespace assay::cudnn_test {

/// `memory`: first logical element of each tensor that has memory, by uid. In double, stored in the tensor's format. Throws
/// std::runtime_error for what a graph may not say: unknown steps, dims that do not fit.
void evaluate(const nlohmann::json& graph, const std::map<std::int64_t, std::byte*>& memory);

}  // namespace assay::cudnn_test
