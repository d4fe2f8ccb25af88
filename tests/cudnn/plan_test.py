#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real cuDNN accepts every graph of the quick list for described GPUs, and offers what it offered before.

plan_test.py ASSAY DRIVER          compares with golden-VERSION.txt beside this file; another version: not compared, said so
plan_test.py ASSAY DRIVER --write  writes that file
DRIVER loads images and does nothing else (plan_driver.cpp). Exit 77: no cuDNN here, or assay was built without its part.
"""
import concurrent.futures
import json
import subprocess
import sys
from pathlib import Path

ARCHITECTURES = (80, 90, 100, 120)
# Made into plans, engines that compile at run time included. One graph of every operation and more.
PLANNED = (
    "g1:conv1d:n=2,cin=16,cout=32,l=100,k=3,padl=1,padr=1",
    "g1:conv1d:n=2,cin=16,cout=16,l=40,k=3,padl=2,groups=16,layout=nlc,in=bf16",
    "g1:conv_transpose1d:n=2,cin=8,cout=16,l=13,k=4,stride=2,padl=1,padr=1",
    "g1:gemm:m=64,n=48,k=512,in=bf16,bias=1,act=relu",
    "g1:layernorm:rows=9,n=256,kind=rms,gamma=1,in=bf16,stats=1",
    "g1:attention:hq=4,hkv=2,sq=64,skv=128,d=64,in=bf16,lse=1,mask=causal",
)
# cuDNN has a softmax in its graphs since 9.21; before, none of the engines takes one made of pointwise steps and reductions.
WITHOUT_PLANS = {"softmax"}


def plan(assay, driver, sm, *arguments):
    command = [assay, "plan", "--arch", f"sm_{sm}", "--libraries", f"cuda={driver}", "--json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == 2:
        print(f"not run: {done.stderr.strip()}")
        sys.exit(77)
    return json.loads(done.stdout)


def summary(entry):
    """How one case fares on one architecture."""
    if "refused" in entry:
        return "refused"
    if "error" in entry:
        return "error"
    candidates = entry["candidates"]
    if candidates and "state" in candidates[0]:
        return f"{sum(c['state'] == 'plan' for c in candidates)}/{len(candidates)}"
    return str(len(candidates))


def main():
    assay, driver = sys.argv[1:3]
    named = [word for case in PLANNED for word in ("--case", case)]
    jobs = [(sm, how) for how in (named, ["--level", "quick", "--list-only"]) for sm in ARCHITECTURES]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        outputs = list(pool.map(lambda job: plan(assay, driver, job[0], *job[1]), jobs))
    version = outputs[0]["cudnn"]

    lines, bad = {}, []
    for (sm, how), output in zip(jobs, outputs):
        operations = set()
        for entry in output["cases"]:
            said = summary(entry)
            where = f"{'plans' if how is named else 'candidates'} {entry['case']}"
            lines.setdefault(where, []).append(f"sm_{sm} {said}")
            if said == "error":
                bad.append(f"sm_{sm} {entry['case']}: {entry['error']}")
            if how is named and said.startswith("0/"):
                bad.append(f"sm_{sm} {entry['case']}: no candidate became a plan")
            if said not in ("refused", "error", "0"):
                operations.add(entry["case"].split(":")[1])
        expected = {"conv1d", "conv_transpose1d", "gemm", "layernorm", "attention"}
        if not expected <= operations:
            bad.append(f"sm_{sm}: nothing offered for {', '.join(sorted(expected - operations))}")
        if operations & WITHOUT_PLANS:
            print(f"sm_{sm}: cuDNN {version} now has plans for {', '.join(sorted(operations & WITHOUT_PLANS))}: expect them here")
    text = "".join(f"{where}: {', '.join(said)}\n" for where, said in lines.items()
                   if any(not s.endswith(" refused") for s in said))
    golden = Path(__file__).parent / f"golden-{version}.txt"
    if sys.argv[3:] == ["--write"]:
        golden.write_text(text)
    elif not golden.exists():
        print(f"cuDNN {version} has no golden list: what it offers was not compared")
    elif golden.read_text() != text:
        old, new = golden.read_text().splitlines(), text.splitlines()
        bad += [f"was {line}" for line in old if line not in new][:20] + [f"is  {line}" for line in new if line not in old][:20]
    for line in bad:
        print(line)
    print(f"cuDNN {version}: {len(lines)} cases on {len(ARCHITECTURES)} architectures, {len(bad)} complaints")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
