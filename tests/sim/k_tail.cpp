// SPDX-License-Identifier: Apache-2.0
// The planted fault k_tail: which number of a kernel's arguments is the length of its sums.
#include <cstring>

#include "kernels/attention.hpp"
#include "kernels/conv1d.hpp"
#include "kernels/conv_transpose1d.hpp"
#include "kernels/gemm.hpp"
#include "tests/sim/kernel.hpp"

namespace assay::sim {
namespace {

struct Length {
  std::string_view kernels;  // beginning of their names
  std::size_t offset;        // of a long long in the arguments
};
constexpr Length lengths[] = {
    {"gemm_", offsetof(kernels::GemmArgs, k)},
    {"conv1d_", offsetof(kernels::Conv1dArgs, k)},
    {"conv_transpose1d_", offsetof(kernels::ConvTranspose1dArgs, k)},
    {"attention_", offsetof(kernels::AttentionArgs, d)},
};

}  // namespace

void lose_k_tail(std::string_view kernel, std::span<std::byte> arguments) {
  for (const Length& l : lengths) {
    if (!kernel.starts_with(l.kernels)) continue;
    long long k;
    std::memcpy(&k, arguments.data() + l.offset, sizeof k);
    if (k > 1) --k;
    std::memcpy(arguments.data() + l.offset, &k, sizeof k);
  }
}

}  // namespace assay::sim
