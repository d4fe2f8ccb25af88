#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A folder includes only folders above it, and every op is in all its places.

layering_test.py SOURCE_DIR               checks the tree; one line per violation, exit 1 when there is any
layering_test.py SOURCE_DIR --self-check  plants each kind of violation in a copy and requires that it is reported
"""
import re
import shutil
import sys
import tempfile
from pathlib import Path

# Folder -> project folders that it may include (besides itself). Longest match decides.
MAY_INCLUDE = {
    "reference": [],
    "report": [],
    "kernels": [],
    "probes/library": ["reference", "report", "kernels"],
    "probes/device": ["reference", "report", "kernels", "probes/library"],
    "probes/ops": ["reference", "report", "kernels", "probes/library", "probes/device"],
    "probes/diagnose": ["reference", "report", "kernels", "probes/library", "probes/device", "probes/ops"],
    "probes/run": ["reference", "report", "kernels", "probes/library", "probes/device", "probes/ops", "probes/diagnose"],
    "probes": ["reference", "report", "kernels"],
}
TOP = ("reference", "report", "kernels", "probes")
SUFFIXES = {".hpp", ".cpp", ".h", ".c", ".cu", ".cuh", ".inc"}
CUDA = re.compile(r"(cuda|cublas|cudnn|nvrtc|nvml|cusparse|cusolver|cutlass|cub/|thrust/|crt/|mma\.h)")
THIRD_PARTY = {
    "reference": re.compile(r"(Eigen/|xxhash\.h$|omp\.h$|[a-z]?mmintrin\.h$|immintrin\.h$)"),
    "report": re.compile(r"(nlohmann/|fmt/)"),
    "kernels": re.compile(r"$^"),
    "probes": re.compile(r"(nlohmann/|fmt/|CLI/|Eigen/|omp\.h$|[a-z]?mmintrin\.h$|immintrin\.h$)"),
}
# The one file that may include headers of NVIDIA's: cudnn-frontend, which itself includes cudnn.h.
CUDA_ALLOWED = {file: ("cudnn_frontend.h",) for file in ("probes/library/cudnn_graph.cpp", "probes/library/cudnn_unguarded.hpp")}
KNOWN_THIRD_PARTY = re.compile(r"(Eigen/|nlohmann/|fmt/|CLI/|doctest/|xxhash\.h$|omp\.h$|[a-z]?mmintrin\.h$|immintrin\.h$|boost/|gtest/)")
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include\b[ \t]*(\S[^\n]*)', re.M)


def without_comments(text):
    return COMMENT.sub(lambda m: m.group(0) if m.group(0)[0] == '"' else re.sub(r"[^\n]", " ", m.group(0)), text)


def allowed(folder):
    """The key of MAY_INCLUDE that covers a folder, and the project folders that it may include."""
    if folder.startswith("probes/cli") or folder.startswith("probes/bisect"):
        return folder, list(TOP)
    key = max((k for k in MAY_INCLUDE if folder == k or folder.startswith(k + "/")), key=len)
    return key, MAY_INCLUDE[key] + [key]


def include_problem(where, target, quoted):
    """Why the file `where` (relative path) may not include `target`, or None."""
    top = where.split("/")[0]
    parts = target.split("/")
    if ".." in parts or "." in parts or target.startswith("/"):
        return "leaves its include root: name the file from the top, such as reference/dtype.hpp"
    if parts[0] in TOP and len(parts) > 1:
        key, folders = allowed(str(Path(where).parent))
        if any(target.startswith(folder + "/") for folder in folders):
            return None
        return f"{key} may include only {', '.join(folders)}"
    if quoted:
        return "is not named from the top, such as reference/dtype.hpp"
    if CUDA.match(target) and target not in CUDA_ALLOWED.get(where, ()):
        return "is a CUDA header: declarations of our own serve every toolkit"
    if KNOWN_THIRD_PARTY.match(target) and not THIRD_PARTY[top].match(target):
        return f"{top} does not use this library"
    if top in ("reference", "kernels") and ("/" in target or "." in target) and not THIRD_PARTY[top].match(target):
        return f"{top} uses only the C++ standard library and its own list of libraries"
    return None


def include_problems(root):
    problems, files = [], 0
    for top in TOP:
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            files += 1
            where = path.relative_to(root).as_posix()
            text = without_comments(path.read_text(encoding="utf-8"))
            for match in INCLUDE.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                named = re.match(r'"([^"]+)"|<([^>]+)>', match.group(1))
                if not named:
                    problems.append(f"{where}:{line}: includes a macro, which cannot be checked: name the file")
                    continue
                target = named.group(1) or named.group(2)
                why = include_problem(where, target, named.group(1) is not None)
                if why:
                    problems.append(f"{where}:{line}: includes {target}: {why}")
    if files < 10:
        problems.append(f"{root}: only {files} source files found, expected the whole tree: is this the source folder?")
    return problems


def registry_problems(root):
    problems = []
    listed = re.search(r"set\(ASSAY_OPS\s+([^)]*)\)", (root / "CMakeLists.txt").read_text())
    ops = listed.group(1).split() if listed else []
    if not ops:
        return ["CMakeLists.txt: set(ASSAY_OPS ...) names no op, expected at least one"]
    registry = without_comments((root / "probes/ops/registry.cpp").read_text())
    for op in ops:
        for place in (f"reference/ops/{op}.hpp", f"probes/ops/{op}/{op}.cases"):
            if not (root / place).is_file():
                problems.append(f"op {op} is in ASSAY_OPS, but there is no {place}")
        if not re.search(rf"\b{re.escape(op)}::make\b", registry):
            problems.append(f"op {op} is in ASSAY_OPS, but probes/ops/registry.cpp does not name {op}::make")
    for made in re.findall(r"\b(\w+)::make\s*\(", registry):
        if made not in ops:
            problems.append(f"probes/ops/registry.cpp makes op {made}, but ASSAY_OPS in CMakeLists.txt does not list it")
    for folder in sorted((root / "probes/ops").iterdir()):
        if folder.is_dir() and folder.name not in ops:
            problems.append(f"probes/ops/{folder.name}/ is no op of ASSAY_OPS in CMakeLists.txt: list it or remove it")
    for header in sorted((root / "reference/ops").glob("*.hpp")):
        if header.stem not in ops:
            problems.append(f"reference/ops/{header.name} is no op of ASSAY_OPS in CMakeLists.txt: list it or remove it")
    return problems


def all_problems(root):
    return include_problems(root) + registry_problems(root)


def self_check(root):
    """(what is planted, what must be reported); each alone in a copy of the tree."""
    def append(name, text):
        return lambda copy: (copy / name).write_text((copy / name).read_text() + text)

    def replace(name, old, new):
        def edit(copy):
            text = (copy / name).read_text()
            assert old in text, f"{name} no longer contains {old}: mend the self-check"
            (copy / name).write_text(text.replace(old, new))
        return edit

    def folder(name):
        return lambda copy: (copy / name).mkdir()

    plants = [
        (append("reference/dtype.hpp", '\n#include "report/record.hpp"\n'), "reference may include only reference"),
        (append("report/record.hpp", '\n#include "reference/dtype.hpp"\n'), "report may include only report"),
        (append("report/record.hpp", "\n#include <probes/ops/case.hpp>\n"), "report may include only report"),
        (append("probes/library/library.hpp", '\n#include "probes/ops/case.hpp"\n'), "probes/library may include only"),
        (append("probes/ops/case.hpp", '\n#include "probes/run/runner.hpp"\n'), "probes/ops may include only"),
        (append("probes/ops/case.cpp", '\n#  include "../../report/record.hpp"\n'), "leaves its include root"),
        (append("probes/ops/case.cpp", '\n#include "case.hpp"\n'), "is not named from the top"),
        (append("reference/dtype.hpp", "\n#include <fmt/format.h>\n"), "does not use this library"),
        (append("reference/dtype.hpp", "\n#include <unistd.h>\n"), "uses only the C++ standard library"),
        (append("report/record.hpp", "\n#include <Eigen/Core>\n"), "does not use this library"),
        (append("probes/ops/case.hpp", "\n#include <cuda_runtime.h>\n"), "is a CUDA header"),
        (append("probes/library/cudnn_graph.hpp", "\n#include <cudnn_frontend.h>\n"), "is a CUDA header"),
        (append("probes/library/cudnn_graph.cpp", "\n#include <cuda.h>\n"), "is a CUDA header"),
        (append("probes/ops/case.hpp", "\n#include SOME_FILE\n"), "includes a macro"),
        (folder("probes/ops/unlisted"), "probes/ops/unlisted/ is no op"),
        (lambda copy: (copy / "reference/ops/unlisted.hpp").write_text(""), "reference/ops/unlisted.hpp is no op"),
        (lambda copy: (copy / "reference/ops/gemm.hpp").unlink(), "there is no reference/ops/gemm.hpp"),
        (lambda copy: (copy / "probes/ops/gemm/gemm.cases").unlink(), "there is no probes/ops/gemm/gemm.cases"),
        (replace("probes/ops/registry.cpp", "gemm::make", "gem::make"), "does not name gemm::make"),
        (replace("CMakeLists.txt", "set(ASSAY_OPS ", "set(ASSAY_OPS fft "), "op fft is in ASSAY_OPS"),
        (replace("CMakeLists.txt", "set(ASSAY_OPS ", "set(NO_OPS "), "names no op"),
    ]
    harmless = append("reference/dtype.hpp", '\n// #include "report/record.hpp"\n/* #include <fmt/format.h>\n#include "../x.hpp" */\n')
    missed = 0
    with tempfile.TemporaryDirectory() as scratch:
        for number, (plant, expected) in enumerate(plants + [(harmless, None)]):
            copy = Path(scratch) / str(number)
            copy.mkdir()
            for top in TOP:
                if (root / top).is_dir():
                    shutil.copytree(root / top, copy / top)
            shutil.copy(root / "CMakeLists.txt", copy)
            plant(copy)
            found = [p for p in all_problems(copy) if p not in all_problems(root)]
            good = not found if expected is None else any(expected in p for p in found)
            if not good:
                missed += 1
                print(f"planted violation {number}: expected a report with '{expected}', got {found}")
    print(f"{len(plants)} violations planted, {missed} of the reports wrong")
    return 1 if missed else 0


def main():
    root = Path(sys.argv[1])
    if sys.argv[2:] == ["--self-check"]:
        return self_check(root)
    problems = all_problems(root)
    for problem in problems:
        print(problem)
    print(f"layering: {len(problems)} violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
