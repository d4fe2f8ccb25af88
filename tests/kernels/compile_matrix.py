#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles every kernels/*.cu for several GPU architectures and looks at what came out.

compile_matrix.py nvcc|nvrtc SOURCE_DIR --sm 80,120     one line per finding, exit 1 when there is any
compile_matrix.py nvcc|nvrtc SOURCE_DIR --self-check    plants each kind of mistake and requires that it is found

Warnings are errors. PTX: one entry per kernel, mma.sync in the entries called mma and nowhere else, nothing flushed, nothing
approximate. Machine code: no stack, no spill, few registers; its ELF header names the architecture, its sections the entries.
Exit 77, not run, where the compiler is not found: nvcc in CUDA_HOME, PATH or /usr/local/cuda; NVRTC by ASSAY_NVRTC=FILE or
beside that nvcc.
"""
import argparse
import concurrent.futures
import ctypes
import glob
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

# As probes/device/build.cpp compiles them; checked below.
COMMON = ["--std=c++20", "--fmad=false"]
NVRTC_ONLY = ["--device-as-default-execution-space"]

# A launch of 256 threads fails beyond 65536/256 = 256 registers; 128 let two such blocks run at once.
REGISTERS = 128
# Entries that may be worse than the rule, by pattern: (registers, bytes of stack, bytes spilled).
EXCEPTIONS = {r"attention_online_\w+": (136, 0, 0)}  # NVRTC for sm_8x: 130


# ---- compilers -------------------------------------------------------------------------------------------------------


class Refused(Exception):
    """The compiler's own words."""


class Made:
    def __init__(self, ptx, cubin, said):
        self.ptx, self.cubin, self.said = ptx, cubin, said


class Nvcc:
    def __init__(self):
        self.path = shutil.which("nvcc", path=os.pathsep.join([os.environ.get("CUDA_HOME", "") + "/bin", os.environ["PATH"],
                                                               "/usr/local/cuda/bin"]))

    def compile(self, root, file, sm, options=COMMON):
        with tempfile.TemporaryDirectory() as scratch:
            stem = os.path.join(scratch, os.path.basename(file)[:-3])
            command = [self.path, "-cubin", f"-arch=sm_{sm}", "-Werror", "all-warnings", "-Xptxas=-v", "--keep", "--keep-dir",
                       scratch, "-I" + root, os.path.join(root, file), "-o", stem + ".cubin", *options]
            done = subprocess.run(command, capture_output=True, text=True, cwd=scratch)
            if done.returncode != 0:
                raise Refused(done.stderr + done.stdout)
            with open(stem + ".ptx") as ptx, open(stem + ".cubin", "rb") as cubin:
                return Made(ptx.read(), cubin.read(), done.stderr + done.stdout)


class Nvrtc:
    def __init__(self):
        home = os.path.dirname(os.path.dirname(os.path.realpath(Nvcc().path or "/usr/local/cuda/bin/nvcc")))
        files = [os.environ.get("ASSAY_NVRTC", "")]
        files += sorted(glob.glob(home + "/lib64/libnvrtc.so.1?") + glob.glob(home + "/lib/libnvrtc.so.1?"), reverse=True)
        self.path = next((f for f in files if os.path.exists(f)), None)
        if self.path:
            self.library = ctypes.CDLL(self.path)

    def text(self, program, what):
        size = ctypes.c_size_t()
        getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvrtcGet{what}")(program, buffer)
        return buffer.raw

    def compile(self, root, file, sm, options=COMMON):
        headers = sorted(glob.glob(root + "/kernels/*.hpp") + glob.glob(root + "/kernels/*.cuh"))
        headers.remove(root + "/kernels/sources.hpp")
        strings = lambda items: (ctypes.c_char_p * len(items))(*items)
        options = [*options, *NVRTC_ONLY, f"--gpu-architecture=sm_{sm}", "--ptxas-options=-v"]
        program = ctypes.c_void_p()
        with open(os.path.join(root, file), "rb") as source:
            texts = [open(h, "rb").read() for h in headers]
            names = [os.path.relpath(h, root).encode() for h in headers]
            self.library.nvrtcCreateProgram(ctypes.byref(program), source.read(), file.encode(), len(headers), strings(texts),
                                            strings(names))
        try:
            status = self.library.nvrtcCompileProgram(program, len(options), strings([o.encode() for o in options]))
            said = self.text(program, "ProgramLog").rstrip(b"\0").decode()
            if status != 0 or "warning" in said:
                raise Refused(said or f"status {status}")
            return Made(self.text(program, "PTX").rstrip(b"\0").decode(), self.text(program, "CUBIN"), said)
        finally:
            self.library.nvrtcDestroyProgram(ctypes.byref(program))


# ---- what is looked at -----------------------------------------------------------------------------------------------


def bodies(ptx):
    """Entry name -> PTX of its body. Functions that are no entries belong to nobody and are not allowed."""
    found = {}
    for piece in re.split(r"^\.visible \.entry |^\t?\.entry ", ptx, flags=re.M)[1:]:
        found[re.match(r"\w+", piece).group()] = piece
    return found


def look_at_ptx(ptx, sm):
    entries = bodies(ptx)
    if not entries:
        yield "no entry in the PTX"
    if re.search(r"^\.(visible |weak )?\.?func|^\.func", ptx, flags=re.M):
        yield "a function was not inlined"
    if not re.search(rf"^\.target sm_{sm}\b", ptx, flags=re.M):
        yield f"the PTX is not for sm_{sm}"
    for name, body in entries.items():
        is_mma, has_mma = "_mma" in name, "mma.sync" in body
        if is_mma and not has_mma:
            yield f"{name}: no mma.sync"
        if has_mma and not is_mma:
            yield f"{name}: mma.sync in a kernel that is not called mma"
        is_approximate = name.startswith("approximate_")
        if is_approximate and not re.search(rf"\t{name.split('_')[1]}\.approx\.f32", body):
            yield f"{name}: not the instruction that it is called by"
        for word in (".ftz", ".approx", ".full"):
            if word in body and not (is_approximate and word == ".approx"):
                yield f"{name}: an instruction {word}"


def look_at_ptxas(said, entries):
    seen = set()
    for part in said.split("Compiling entry function '")[1:]:
        name = part[:part.index("'")]
        seen.add(name)
        allowed = next((v for k, v in EXCEPTIONS.items() if re.fullmatch(k, name)), (REGISTERS, 0, 0))
        memory = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        registers = re.search(r"Used (\d+) registers", part)
        if not memory or not registers:
            yield f"{name}: ptxas does not say what it uses"
            continue
        stack, stores, loads = map(int, memory.groups())
        if int(registers[1]) > allowed[0]:
            yield f"{name}: {registers[1]} registers, allowed {allowed[0]}"
        if stack > allowed[1]:
            yield f"{name}: {stack} bytes of stack, allowed {allowed[1]}"
        if max(stores, loads) > allowed[2]:
            yield f"{name}: spills {max(stores, loads)} bytes, allowed {allowed[2]}"
    if seen != set(entries):
        yield f"ptxas speaks of {sorted(seen)}, the PTX of {sorted(entries)}"


def look_at_cubin(cubin, sm, entries):
    if cubin[:4] != b"\x7fELF" or struct.unpack_from("<H", cubin, 18)[0] != 190:
        yield "the machine code is no ELF file for CUDA"
        return
    flags = struct.unpack_from("<I", cubin, 48)[0]
    target = flags >> 8 & 255 if cubin[8] >= 8 else flags & 255  # ABI 8 came with CUDA 13
    if target != sm:
        yield f"the machine code is for sm_{target}, not sm_{sm}"
    table, size, count, names_at = struct.unpack_from("<Q", cubin, 40)[0], *struct.unpack_from("<HHH", cubin, 58)
    section = lambda i: struct.unpack_from("<IIQQQQ", cubin, table + i * size)
    names = section(names_at)[4]
    found = set()
    for i in range(count):
        at = names + section(i)[0]
        name = cubin[at:cubin.index(b"\0", at)].decode()
        if name.startswith(".text.") and section(i)[5] > 0:
            found.add(name[6:])
    if found != set(entries):
        yield f"the machine code holds {sorted(found)}, the PTX {sorted(entries)}"


def findings(made, sm):
    entries = bodies(made.ptx)
    return [*look_at_ptx(made.ptx, sm), *look_at_ptxas(made.said, entries), *look_at_cubin(made.cubin, sm, entries)]


def check(compiler, root, file, sm):
    try:
        return [f"{file} sm_{sm}: {f}" for f in findings(compiler.compile(root, file, sm), sm)]
    except Refused as refused:
        return [f"{file} sm_{sm}: refused\n{refused}"]


def product_options_differ(root):
    """The product must compile as is tested here."""
    with open(os.path.join(root, "probes", "device", "build.cpp")) as source:
        text = source.read()
    return [f"probes/device/build.cpp does not pass {o}" for o in COMMON + NVRTC_ONLY if f'"{o}"' not in text]


# ---- the check of the check ------------------------------------------------------------------------------------------

BODY = """#include "kernels/portable.cuh"
struct Args { float* x; };
extern "C" __global__ void %s(const Args g) { %s }
"""
MMA = ('unsigned r = 0; float d = g.x[0]; asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%0,%0,%0},'
       '{%1,%1,%1,%1},{%1,%1},{%0,%0,%0,%0};" : "+f"(d) : "r"(r)); g.x[0] = d;')
PLANTED = {  # what must be found: (entry, body)
    "refused": ("a", "int unused; g.x[0] = 1"),
    "no mma.sync": ("a_mma", "g.x[0] = 1;"),
    "not called mma": ("a", MMA),
    "instruction .ftz": ("a", 'asm("add.ftz.f32 %0, %0, %0;" : "+f"(g.x[0]));'),
    "instruction .approx": ("a", "g.x[0] = __expf(g.x[0]);"),
    "not the instruction": ("approximate_ex2_f32", "g.x[0] = __frcp_rn(g.x[0]);"),
    "bytes of stack": ("a", "float y[64]; for (int i = 0; i < 64; ++i) y[static_cast<int>(g.x[i])] = g.x[i + 64]; "
                            "g.x[0] = y[static_cast<int>(g.x[128])];"),
    "registers, allowed": ("a", "float y[200]; for (int i = 0; i < 200; ++i) y[i] = g.x[i]; __syncthreads(); "
                                "for (int i = 0; i < 200; ++i) g.x[i] = y[199 - i];"),
    "spills": ("__launch_bounds__(1024, 2) a",
               "float y[200];\n#pragma unroll\nfor (int i = 0; i < 200; ++i) y[i] = g.x[i]; __syncthreads();\n"
               "#pragma unroll\nfor (int i = 0; i < 200; ++i) g.x[i] = y[199 - i];"),
}


def self_check(compiler, root):
    wrong = []

    def want(what, found):
        found = list(found)
        print(f"planted: {what}: {'found' if any(what in f for f in found) else 'MISSED'}")
        if not any(what in f for f in found):
            wrong.append(f"{what}: not found, but {found}")

    with tempfile.TemporaryDirectory() as scratch:
        shutil.copytree(root + "/kernels", scratch + "/kernels")

        def plant(entry, body):
            with open(scratch + "/kernels/planted.cu", "w") as file:
                file.write(BODY % (entry, body))

        for what, (entry, body) in PLANTED.items():
            plant(entry, body)
            want(what, check(compiler, scratch, "kernels/planted.cu", 80))
        plant("a", "g.x[0] = g.x[1] * g.x[2] + g.x[3];")
        made = compiler.compile(scratch, "kernels/planted.cu", 80)
        if findings(made, 80):
            wrong.append(f"a kernel without a mistake: {findings(made, 80)}")
        want("machine code is for sm_80", look_at_cubin(made.cubin, 90, ["a"]))
        want("machine code holds", look_at_cubin(made.cubin, 80, ["a", "b"]))
        want("PTX is not for", look_at_ptx(made.ptx, 90))
        want("ptxas speaks of", look_at_ptxas("", ["a"]))
        fused = compiler.compile(scratch, "kernels/planted.cu", 80, ["--std=c++20", "--fmad=true"])
        want("fma", ["fma"] if "fma.rn" in fused.ptx and "fma.rn" not in made.ptx else [])
    with tempfile.TemporaryDirectory() as scratch:
        os.makedirs(scratch + "/probes/device")
        open(scratch + "/probes/device/build.cpp", "w").write('"--std=c++20"')
        want("does not pass --fmad=false", product_options_differ(scratch))
    return wrong


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("compiler", choices=["nvcc", "nvrtc"])
    arguments.add_argument("source_dir")
    arguments.add_argument("--sm", default="80,86,89,90,100,120")
    arguments.add_argument("--self-check", action="store_true")
    given = arguments.parse_args()
    compiler = {"nvcc": Nvcc, "nvrtc": Nvrtc}[given.compiler]()
    if not compiler.path:
        print(f"not run: no {given.compiler} found")
        return 77
    root = os.path.realpath(given.source_dir)
    if given.self_check:
        wrong = self_check(compiler, root)
    else:
        files = sorted(os.path.relpath(f, root) for f in glob.glob(root + "/kernels/*.cu"))
        jobs = [(compiler, root, file, int(sm)) for sm in given.sm.split(",") for file in files]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            wrong = product_options_differ(root) + [f for found in pool.map(lambda job: check(*job), jobs) for f in found]
        print(f"{compiler.path}: {len(files)} files for sm_{given.sm}")
        if not files:
            wrong.append("no kernels/*.cu found")
    for line in wrong:
        print(line)
    print(f"compile matrix: {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
