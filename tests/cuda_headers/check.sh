#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check.sh COMPILER SOURCE_DIR MAJOR: compiles the comparison of our CUDA declarations with the headers of this CUDA major: the
# toolkit's, or those that tools/fetch_wheels.sh --cuda put into the cache. Exit 77 (not run) when there are none.
set -u
compiler=$1 source=$2 major=$3
here=$source/tests/cuda_headers
cache=${XDG_CACHE_HOME:-$HOME/.cache}/assay/wheels
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# version_of FOLDER: 12080.
version_of() { sed -n 's/^#define CUDA_VERSION \([0-9]*\)$/\1/p' "$1/cuda.h"; }

# compare FOLDER...: the comparison agrees, and a wrong number and a wrong argument are both seen.
compare() {
  flags=-Wno-deprecated-declarations nvml='without nvml.h' cublas='without cublas_v2.h' cudnn='without cudnn.h'
  for folder in "$@"; do
    flags="$flags -isystem $folder"
    if [ -f "$folder/nvml.h" ]; then nvml='nvml.h' flags="$flags -DHAVE_NVML"; fi
    if [ -f "$folder/cublas_v2.h" ]; then cublas='cublas_v2.h' flags="$flags -DHAVE_CUBLAS"; fi
    if [ -f "$folder/cudnn.h" ]; then cudnn='cudnn.h' flags="$flags -DHAVE_CUDNN"; fi
  done
  # shellcheck disable=SC2086 # the folders hold no blanks
  try() { "$compiler" -std=c++20 -fsyntax-only "$@" $flags -x c++ "$here/declarations.cpp"; }
  try -I"$source" || exit 1
  plant() {
    file=probes/library/$3
    mkdir -p "$scratch/$1/probes/library"
    sed "$2" "$source/$file" >"$scratch/$1/$file"
    if cmp -s "$source/$file" "$scratch/$1/$file"; then
      echo "the plan to plant a wrong $1 fits nothing any more"
      exit 1
    fi
    if try -I"$scratch/$1" -I"$source" 2>/dev/null; then
      echo "a wrong $1 was not seen with $*"
      exit 1
    fi
  }
  plant number 's/CUDA_ERROR_STUB_LIBRARY = 34/CUDA_ERROR_STUB_LIBRARY = 35/' cuda_symbols.hpp
  plant argument 's/X(cuMemFree_v2, (CUdeviceptr))/X(cuMemFree_v2, (int))/' cuda_symbols.hpp
  if [ "$cublas" = cublas_v2.h ]; then
    plant 'number of cuBLAS' 's/X(CUBLAS_COMPUTE_32F, 68)/X(CUBLAS_COMPUTE_32F, 69)/' cublas_types.hpp
    plant 'argument of cuBLAS' 's/int ldc, long long stride_c,/long long stride_c, int ldc,/' cublas.hpp
  fi
  echo "agrees with cuda.h of CUDA $(version_of "$1"), nvrtc.h, $nvml, $cublas, $cudnn in $*"
}

compared=0
for include in "${CUDA_HOME:-/usr/local/cuda}/include" /usr/local/cuda/include /usr/local/cuda-*/include; do
  { [ -f "$include/cuda.h" ] && [ -f "$include/nvrtc.h" ]; } || continue
  [ $(($(version_of "$include") / 1000)) = "$major" ] || continue
  compare "$include" # wherever NVML's header is not the toolkit's, the cache may have it
  compared=1
  break
done
runtime=$(ls -d "$cache/nvidia-cuda-runtime-cu$major"-*/include 2>/dev/null | head -n 1)
nvrtc=$(ls -d "$cache/nvidia-cuda-nvrtc-cu$major"-*/include 2>/dev/null | head -n 1)
nvml=$(ls -d "$cache/nvidia-nvml-dev-cu$major"-*/include "$cache"/nvidia-nvml-dev-"$major".*/include 2>/dev/null | head -n 1)
cublas_headers=$(ls -d "$cache/nvidia-cublas-cu$major"-*/include 2>/dev/null | head -n 1)
if [ -n "$runtime" ] && [ -n "$nvrtc" ]; then
  # shellcheck disable=SC2086 # empty where it was not fetched
  compare "$runtime" "$nvrtc" $nvml $cublas_headers
  compared=1
elif [ $compared = 1 ] && [ -n "$nvml" ]; then
  compare "$include" "$nvml"
fi
[ $compared = 1 ] && exit 0
echo "not run: no headers of CUDA $major here (./assay test --wheels fetches those of 12.8; tools/fetch_wheels.sh --cublas those of cuBLAS; a toolkit has its own)"
exit 77
