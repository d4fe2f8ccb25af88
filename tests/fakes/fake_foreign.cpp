// SPDX-License-Identifier: Apache-2.0
// A shared library that is no BLAS at all.
extern "C" __attribute__((visibility("default"))) int fake_answer() {
  return 42;
}
