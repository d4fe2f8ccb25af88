#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# check.sh COMPILER SOURCE_DIR: compiles the comparison of our oneDNN declarations with every set of oneDNN headers on this
# machine: the system's, and those that tools/fetch_wheels.sh put into the cache. Exit 77 (not run) when there is none.
set -u
compiler=$1 source=$2
here=$source/tests/onednn_headers
compared=0
for include in /usr/include "${XDG_CACHE_HOME:-$HOME/.cache}"/assay/wheels/onednn-devel-*/include; do
  [ -f "$include/oneapi/dnnl/dnnl.h" ] || continue
  "$compiler" -std=c++20 -fsyntax-only -I"$source" -isystem "$include" "$here/declarations.cpp" || exit 1
  # The comparison can fail: one number changed must not compile.
  if sed 's/dnnl_bf16 == 2/dnnl_bf16 == 1/' "$here/declarations.cpp" | "$compiler" -std=c++20 -fsyntax-only -I"$source" -isystem "$include" -x c++ - 2>/dev/null; then
    echo "a wrong number was not seen with $include"
    exit 1
  fi
  echo "agrees with $(sed -n 's/^#define DNNL_VERSION_\(MAJOR\|MINOR\) //p' "$include/oneapi/dnnl/dnnl_version.h" | tr '\n' '.')x in $include"
  compared=$((compared + 1))
done
[ $compared -gt 0 ] && exit 0
echo 'not run: no oneDNN headers here (tools/fetch_wheels.sh fetches them, or apt-get install libdnnl-dev)'
exit 77
