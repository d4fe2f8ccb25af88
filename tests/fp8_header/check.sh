#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check.sh COMPILER SOURCE_DIR BUILD_DIR: compiles the fp8 comparison against the toolkit's cuda_fp8.h and runs it.
# Exit 77 (not run) where no such header is found.
set -u
compiler=$1 source=$2 build=$3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
for include in "${CUDA_HOME:-/usr/local/cuda}/include" /usr/local/cuda/include /usr/include; do
  [ -f "$include/cuda_fp8.h" ] || continue
  "$compiler" -std=c++20 -O2 -I"$source" -isystem "$include" "$source/tests/fp8_header/compare.cpp" "$build/libreference.a" \
    -fopenmp -lxxhash -o "$work/compare" || exit 1
  # The comparison can fail: halfway cases rounded away from zero must be seen.
  sed 's/encode(t.ours, x, Rounding::nearest,/encode(t.ours, x, Rounding::nearest_away,/' "$source/tests/fp8_header/compare.cpp" >"$work/wrong.cpp"
  "$compiler" -std=c++20 -O2 -I"$source" -isystem "$include" "$work/wrong.cpp" "$build/libreference.a" \
    -fopenmp -lxxhash -o "$work/wrong" || exit 1
  if "$work/wrong" >/dev/null; then
    echo "a wrong rounding was not seen with $include"
    exit 1
  fi
  "$work/compare"
  exit
done
echo 'not run: no cuda_fp8.h here (it comes with the CUDA toolkit)'
exit 77
