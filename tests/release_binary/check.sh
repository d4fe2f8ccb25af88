#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The release program can be copied into any container: it needs only the C and C++ run-time libraries, and none newer than
# glibc 2.34 and GCC 11's libstdc++ (RHEL 9, Ubuntu 22.04, Debian 12).
#   check.sh BINARY       one sentence per violation, exit 1
#   check.sh --self-check BINARY CXX    a program that breaks each rule must be refused
set -eu

allowed='libc.so.6 libm.so.6 libstdc++.so.6 libgcc_s.so.1 libgomp.so.1 ld-linux-x86-64.so.2'
newest_glibc=2.34
newest_glibcxx=3.4.29

# newest PREFIX: the largest version with this prefix on standard input, and a symbol that asks for it.
newest() {
  sed -n "s/.*[( ]$1_\([0-9.]*\))\{0,1\} *\(.*\)/\1 \2/p" | sort -V | tail -n 1
}

check() {
  [ -f "$1" ] || {
    echo "there is no $1: build it with ./assay --version"
    return 1
  }
  bad=0
  needed=$(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p' | tr '\n' ' ')
  # A static program, or a file that readelf cannot read, needs nothing: that is not the release either.
  case " $needed " in
    *' libc.so.6 '*) ;;
    *) echo "$1 does not need libc.so.6, expected a dynamically linked program" && bad=1 ;;
  esac
  for library in $needed; do
    case " $allowed " in
      *" $library "*) ;;
      *) echo "$1 needs $library, expected only $allowed: open it at run time instead of linking it" && bad=1 ;;
    esac
  done
  if readelf -d "$1" | grep -Eq '\((RPATH|RUNPATH)\)'; then
    echo "$1 has a run path, expected none: it would find other libraries on another machine" && bad=1
  fi
  undefined=$(objdump -T "$1" | grep -F '*UND*')
  for rule in "GLIBC $newest_glibc" "GLIBCXX $newest_glibcxx"; do
    name=${rule% *} most=${rule#* }
    found=$(echo "$undefined" | newest "$name")
    [ -n "$found" ] || {
      echo "$1 asks for no $name symbol, expected a C++ program" && bad=1
      continue
    }
    version=${found%% *}
    if [ "$(printf '%s\n%s\n' "$version" "$most" | sort -V | tail -n 1)" != "$most" ]; then
      echo "$1 asks for ${name}_$version (${found#* }), expected at most ${name}_$most: avoid that function, or build on Debian 12"
      bad=1
    fi
  done
  [ $bad = 0 ] && echo "$1: needs ${needed% }; at most GLIBC and GLIBCXX $(echo "$undefined" | newest GLIBC | cut -d' ' -f1)" \
    "and $(echo "$undefined" | newest GLIBCXX | cut -d' ' -f1)"
  return $bad
}

# planted NAME EXPECTED SOURCE FLAG...: compiles a program and requires the sentence.
planted() {
  name=$1 expected=$2
  printf '%s\n' "$3" >"$scratch/$name.cpp"
  shift 3
  "$cxx" -std=c++20 "$scratch/$name.cpp" -o "$scratch/$name" "$@"
  if said=$(check "$scratch/$name"); then
    echo "planted $name was not refused: $said" && missed=1
  else
    case $said in *"$expected"*) ;; *) echo "planted $name: expected '$expected', got: $said" && missed=1 ;; esac
  fi
}

self_check() {
  cxx=$2 missed=0
  check "$1"
  scratch=$(mktemp -d)
  trap 'rm -rf "$scratch"' EXIT
  hello='#include <iostream>
int main() { std::cout << 1 << std::endl; }'
  planted library 'needs libz.so.1' "$hello" -Wl,--no-as-needed -l:libz.so.1
  planted run_path 'has a run path' "$hello" -Wl,-rpath,/opt/lib
  planted static 'does not need libc.so.6' "$hello" -static
  planted glibc 'asks for GLIBC_2.36 ' '#include <iostream>
#include <cstdlib>
int main() { std::cout << arc4random(); }'
  planted glibcxx 'asks for GLIBCXX_3.4.30 ' '#include <condition_variable>
#include <mutex>
int main() { std::mutex m; std::unique_lock l(m); std::condition_variable().wait(l); }'
  if check "$scratch/nothing"; then echo 'a missing file was not refused' && missed=1; fi
  return $missed
}

if [ "$1" = --self-check ]; then
  shift
  self_check "$@"
else
  check "$1"
fi
