// SPDX-License-Identifier: Apache-2.0
// Arguments of tests/emulator/planted/planted.cu.
#pragma once

namespace assay::emulator {

struct PlantedArgs {
  const float* a;
  const float* b;
  float* y;
  int m, n, k;
};

}  // namespace assay::emulator
