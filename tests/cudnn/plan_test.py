#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The real cuDNN accepts every graph of the quick list for described GPUs, and offers what it offered before.

plan_test.py ASSAY DRIVER [--newer] [--write]
DRIVER loads images and does nothing else (plan_driver.cpp). Compares with golden-VERSION.txt beside this file, where a graph
has "plans/candidates", and the graphs of a case that is several of them are joined by '+'.
--newer: a cuDNN that tools/fetch_wheels.sh --cudnn has fetched, for sm_120 only, and compared with the one found by plan diff.
--write: writes the golden file. Exit 77: no such cuDNN here, or assay was built without its part.
"""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ARCHITECTURES = (80, 90, 100, 120)
# One graph of every operation and more. On sm_120 three candidates are made plans, elsewhere one.
PLANNED = (
    "g1:conv1d:n=2,cin=16,cout=32,l=100,k=3,padl=1,padr=1",
    "g1:conv1d:n=2,cin=16,cout=16,l=40,k=3,padl=2,groups=16,layout=nlc,in=bf16",
    "g1:conv1d:n=2,cin=16,cout=32,l=100,k=3,padl=1,padr=1,bias=1",
    "g1:conv_transpose1d:n=2,cin=8,cout=16,l=13,k=4,stride=2,padl=1,padr=1",
    "g1:conv_transpose1d:n=2,cin=8,cout=16,l=13,k=4,stride=2,padl=1,padr=1,bias=1,layout=nlc",
    "g1:gemm:m=64,n=48,k=512,in=bf16,bias=1,act=relu",
    "g1:gemm:m=64,n=48,k=512,alpha=3,beta=0.5,bias=1",
    "g1:layernorm:rows=9,n=256,gamma=1,beta=1",
    "g1:layernorm:rows=9,n=256,kind=rms,gamma=1,in=bf16,stats=1",
    "g1:softmax:rows=9,n=67",
    "g1:softmax:rows=9,n=256,kind=log,in=bf16",
    "g1:attention:hq=4,hkv=2,sq=64,skv=128,d=64,in=bf16,lse=1,mask=causal",
    "g1:attention:b=4,hq=2,sq=5,skv=65,d=64,lens=varied,in=bf16",
    "g1:attention:hq=4,hkv=2,sq=64,skv=128,d=64",
)
OPERATIONS = {"conv1d", "conv_transpose1d", "gemm", "layernorm", "softmax", "attention"}
# A case that the front end refuses and cuDNN, asked behind its back, plans on sm_120: with a window and s_q > s_kv.
GUARDED = "g1:attention:hq=2,sq=17,skv=9,window=5,d=64,in=bf16"
LISTED = ("--level", "quick", "--list-only")
# Engines that compile at run time take the heuristics of softmax's graphs two thirds of the time of all: on sm_120 only.
LISTED_QUICKLY = (*LISTED, *(word for op in sorted(OPERATIONS - {"softmax"}) for word in ("--op", op)))


def not_run(why):
    print(f"not run: {why}")
    sys.exit(77)


def named(*cases):
    return [word for case in cases for word in ("--case", case)]


def ask(assay, driver, cudnn, sm, *arguments):
    command = [assay, "plan", "--arch", f"sm_{sm}", "--libraries", f"cuda={driver}", "--json", *arguments]
    done = subprocess.run(command + (["--cudnn", cudnn] if cudnn else []), capture_output=True, text=True)
    if done.returncode == 2:
        not_run(done.stderr.strip())
    return json.loads(done.stdout)


def state(entry):
    """How one graph fares on one architecture."""
    if "refused" in entry:
        return "refused"
    if "error" in entry:
        return "error"
    candidates = entry["candidates"]
    plans = [c["state"] == "plan" for c in candidates if "state" in c]
    return f"{sum(plans)}/{len(candidates)}" if plans else str(len(candidates))


def newer_cudnn():
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "assay" / "wheels"
    found = sorted(cache.glob("nvidia-cudnn-cu13-*/lib/libcudnn.so.9"))
    return str(found[-1]) if found else not_run("no newer cuDNN here; tools/fetch_wheels.sh --cudnn fetches one (520 MB)")


def differences(assay, old, new):
    """What plan diff says of two outputs: exit code and lines."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for name, output in (("old", old), ("new", new)):
            paths.append(str(Path(folder) / name))
            Path(paths[-1]).write_text(json.dumps(output))
        done = subprocess.run([assay, "plan", "diff", *paths], capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()


def guards(assay, driver, cudnn):
    """The front end's word is passed on; without its guards cuDNN itself decides, and both are on record."""
    (kept,) = ask(assay, driver, cudnn, 120, *named(GUARDED))["cases"]
    (passed,) = ask(assay, driver, cudnn, 120, "--no-guards", "--plans", "1", *named(GUARDED))["cases"]
    if "cudnn-frontend 1." not in kept.get("refused", ""):
        yield f"the front end's guard is not named: {json.dumps(kept)[:200]}"
    if not passed.get("guard") or passed["guard"] != kept.get("refused") or not state(passed).startswith("1/"):
        yield f"the guard was not passed: {json.dumps(passed)[:200]}"


def main():
    assay, driver = sys.argv[1:3]
    cudnn = newer_cudnn() if "--newer" in sys.argv else None
    architectures = (120,) if cudnn else ARCHITECTURES
    jobs = [(sm, how) for sm in architectures
            for how in ((*named(*PLANNED), "--plans", "3" if sm == 120 else "1"), LISTED if sm == 120 else LISTED_QUICKLY)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        outputs = list(pool.map(lambda job: ask(assay, driver, cudnn, job[0], *job[1]), jobs))
    version = outputs[0]["cudnn"]

    lines, bad = {}, list(guards(assay, driver, cudnn))
    for (sm, how), output in zip(jobs, outputs):
        states, offered = {}, set()
        for entry in output["cases"]:
            states.setdefault(entry["case"], []).append(state(entry))
            if "error" in entry:
                bad.append(f"sm_{sm} {entry['case']}: {entry['error']}")
        for case, graphs in states.items():
            listed = "--list-only" in how
            where = f"{'candidates' if listed else 'plans'} {case}"
            lines.setdefault(where, []).append(f"sm_{sm} {'+'.join(graphs)}")
            if not any(g in ("refused", "error", "0") or g.startswith("0/") for g in graphs):
                offered.add(case.split(":")[1])
            elif not listed and sm == 120:
                bad.append(f"sm_{sm} {case}: not every graph became a plan: {'+'.join(graphs)}")
        missing = OPERATIONS - offered - ({"softmax"} if how is LISTED_QUICKLY else set())
        if missing:
            bad.append(f"sm_{sm}: nothing for {', '.join(sorted(missing))}")
    text = "".join(f"{where}: {', '.join(said)}\n" for where, said in lines.items()
                   if any(not s.endswith(" refused") for s in said))
    golden = Path(__file__).parent / f"golden-{version}.txt"
    if "--write" in sys.argv:
        golden.write_text(text)
    elif not golden.exists():
        print(f"cuDNN {version} has no golden list: what it offers was not compared")
    elif golden.read_text() != text:
        old, new = golden.read_text().splitlines(), text.splitlines()
        bad += [f"was {line}" for line in old if line not in new][:20] + [f"is  {line}" for line in new if line not in old][:20]
    if cudnn:
        found = ask(assay, driver, None, 120, *LISTED)
        code, said = differences(assay, found, outputs[1])
        if code != 1 or not any(line.startswith("cudnn: ") and version in line for line in said):
            bad.append(f"plan diff between cuDNN {found['cudnn']} and {version} says (exit {code}): {said[:3]}")
        if differences(assay, found, found)[0] != 0:
            bad.append("plan diff finds differences between an output and itself")
        print(f"cuDNN {found['cudnn']} and {version}: {said[-1] if said else 'nothing said'}")
    for line in bad:
        print(line)
    print(f"cuDNN {version}: {len(lines)} cases on {len(architectures)} architectures, {len(bad)} complaints")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
