// SPDX-License-Identifier: Apache-2.0
// conv1d: Y = W * X [+ B], cross-correlation along one axis. What every conv1d target reads instead of parsing the case again.
#pragma once

#include <cstdint>
#include <vector>

#include "probes/ops/op.hpp"

namespace assay::conv1d {

/// Y[b,o,j] = B[o] + sum over i < cin/groups, t < k of W[o,i,t] * X[b, group(o)*cin/groups + i, j*stride - padl + t*dilation],
/// where X outside 0..l-1 is zero. Operands of the Problem, in this order: "X" (n,cin,l), "W" (cout,cin/groups,k), "B" (cout)
/// when there is a bias, "Y" (n,cout,lout). Logical dims are the same in both layouts, strides (in elements) differ:
/// channels first: X and Y (n,channel,position), W (cout,cin/groups,k) in memory; channels last: X and Y (n,position,channel),
/// W (cout,k,cin/groups).
struct Call {
  std::int64_t n = 1, cin = 0, cout = 0, l = 0, k = 1, stride = 1, dilation = 1, padl = 0, padr = 0, groups = 1, lout = 0;
  bool bias = false, channels_last = false;
  DType in = DType::f32, out = DType::f32;  // W and B have the format of X
  struct Strides {
    std::int64_t n = 0, channel = 0, position = 1;
  } x, y;
  struct WeightStrides {
    std::int64_t output = 0, input = 0, tap = 1;
  } w;

  std::int64_t group_in() const { return cin / groups; }
  std::int64_t group_out() const { return cout / groups; }
  std::size_t output() const { return bias ? 3 : 2; }  // index of operand Y
};

/// As the target is to be called: with zeros=explicit the padding is part of X, so l is longer and padl = padr = 0.
Call call_of(const Problem&);
/// Products and sums: fp64 for fp64 data, else fp32.
inline DType compute_format(const Call& c) {
  return c.in == DType::f64 ? DType::f64 : DType::f32;
}

Op make();

}  // namespace assay::conv1d
