#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# docs/bugs.md against the case lists: every id it names is a case, and every family of tests it promises has one per operation.
import pathlib
import re
import subprocess
import sys

assay, page = sys.argv[1], pathlib.Path(sys.argv[2])
EXPANSION = re.compile(r"`(g1:[a-z0-9_]+:[^`]+)`")


def listed(level):
    lines = subprocess.run([assay, "list", "cases", "--level", level], capture_output=True, text=True, check=True).stdout
    cases = {}
    for line in lines.splitlines():
        case, _, tags = line.partition(" | ")
        cases.setdefault(case.strip(), set()).update(tags.split())
    return cases


def main():
    text = page.read_text()
    deep, standard = listed("deep"), listed("standard")
    wrong = []
    ids = EXPANSION.findall(text)
    if len(ids) < 60:
        wrong.append(f"{page.name} names {len(ids)} cases, expected 60 or more: is the page whole?")
    wrong += [f"{page.name} names {case}, which is in no case list" for case in ids if case not in deep]
    families = re.findall(r"^\| (T\d\d) \|[^|]*\|([^|]*)\|", text, re.M)
    if len(families) < 15:
        wrong.append(f"{page.name} promises {len(families)} families, expected 15 or more")
    for family, operations in families:
        for operation in re.findall(r"[a-z_0-9]+", operations):
            if not any(case.startswith(f"g1:{operation}:") and family in tags for case, tags in standard.items()):
                wrong.append(f"no case of {operation} at level standard has the tag {family} that {page.name} promises")
    # Control: an id that no list has must be noticed.
    if "g1:gemm:m=3,n=3,k=3,seed=123456" in deep:
        wrong.append("control: a case that nobody listed is listed")
    print("\n".join(wrong) or f"{len(ids)} cases, {len(families)} families")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
