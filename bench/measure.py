#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What assay itself costs, as ratios within one run, beside what earlier runs on this kind of machine measured.

  bench/measure.py ASSAY BENCH_FOLDER [--record] [--skip levels|speed]

ASSAY: the release program. BENCH_FOLDER: where reference_speed and verify_speed were built. --record appends a line to
bench/history.jsonl. Needs a quiet machine and about eight minutes on two cores. Exit code: 0 within the aims, 1 beyond one of
them or slower than the median of the history by a quarter, 2 a program failed."""
import argparse
import datetime
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

HISTORY = pathlib.Path(__file__).with_name("history.jsonl")
# Name: (aim, what it is). Every number is better when it is smaller.
AIMS = {
    "quick s": (30, "level quick, wall time"),
    "quick GiB": (1, "its peak memory, all processes (PSS)"),
    "standard s": (180, "level standard, wall time"),
    "standard GiB": (4, "its peak memory"),
    "standard idle": (0.25, "share of the cores' time that level standard leaves idle"),
    "gemm value": (1.3, "reference over an Eigen fp64 product"),
    "gemm magnitudes": (2.2, "the same with the magnitudes of bounds"),
    "conv1d magnitudes": (2.2, ""),
    "attention magnitudes": (2.2, ""),
    "verify 4096": (1 / 35, "verification over an Eigen fp64 product"),
    "verify 4096 exact": (1 / 80, "with an exact fill"),
    "verify 8192": (1 / 60, ""),
    "verify 8192 exact": (1 / 80, ""),
}
SLOWER = 1.25
# Wall times depend on the machine: they are compared with the aims, never with another machine's history.
ABSOLUTE = re.compile(r" (s|GiB)$")


def processes(root):
    """Of a process and everything below it."""
    children = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    todo, found = [root], []
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


def pss_bytes(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return int(re.search(r"^Pss:\s+(\d+) kB", text, re.M).group(1)) * 1024


def watched(command, interval=0.25):
    """(wall seconds, processor seconds, peak bytes) of a command and its children."""
    before, begin = os.times(), time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(pss_bytes(p) for p in processes(process.pid)))
        time.sleep(interval)
    after = os.times()
    if process.returncode not in (0, 1):
        sys.exit(f"measure: {' '.join(map(str, command))} ended with {process.returncode}")
    busy = after.children_user + after.children_system - before.children_user - before.children_system
    return time.monotonic() - begin, busy, peak


def seconds(command, rounds=3):
    """Least wall time."""
    return min(timed(command) for _ in range(rounds))


def timed(command):
    begin = time.monotonic()
    if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode not in (0, 1):
        sys.exit(f"measure: {' '.join(map(str, command))} failed")
    return time.monotonic() - begin


def levels(assay, folder):
    out = {}
    for level in ("quick", "standard"):
        wall, busy, peak = watched([assay, "run", "--level", level, "--ci", "--out", folder / level])
        out[f"{level} s"], out[f"{level} GiB"] = wall, peak / 2**30
        out[f"{level} idle"] = max(0.0, 1 - busy / wall / os.cpu_count())
    return out


def copy_seconds_per_byte():
    """One copy of memory that no cache holds."""
    source = bytearray(1 << 28)
    target = bytearray(1 << 28)
    best = 1e9
    for _ in range(5):
        begin = time.monotonic()
        target[:] = source
        best = min(best, time.monotonic() - begin)
    return best / len(source)


def passes(assay, folder):
    """What a case costs per byte of its output beyond the call itself, in copies of a byte: inputs, truth, bounds, poison, guards,
    three calls. No tensor is copied between judge and worker (one mapping), so all of it is work on the judge's side."""
    copy, out = copy_seconds_per_byte(), {}
    for rows in (64, 512, 2048):
        case = f"g1:activation:rows={rows},n=8192,kind=relu"
        times = []
        for i in range(3):
            run = folder / f"copies-{rows}-{i}"
            wall = timed([assay, "run", "--target", "eigen", "--case", case, "--ci", "--out", run])
            record = json.loads((run / "run.jsonl").read_text().splitlines()[0])
            times.append(wall - 3 * record["execute_ms"] * 1e-3)
        out[f"judging {rows * 8192 * 4 >> 20} MiB"] = min(times) / (rows * 8192 * 4 * copy)
    return out


def worker_start(assay, folder):
    """One more worker with one tiny case, over the start of a process that does nothing."""
    case = ["--case", "g1:gemm:m=1,n=1,k=1,fill=integer", "--ci"]
    nothing = seconds(["/bin/true"], 20)
    names = ["sequential", "sequential_fma", "pairwise", "lanes32", "split_k4"]
    number = [0]

    def run(models):
        number[0] += 1
        return timed([assay, "run", *(a for m in models for a in ("--target", f"model:{m}")), *case, "--out", folder / f"w{number[0]}"])
    one, five = (min(run(models) for _ in range(5)) for models in (names[:1], names))
    return {"worker start": (five - one) / 4 / nothing}


def speed(bench):
    out = {}
    text = subprocess.run([bench / "reference_speed", "5"], capture_output=True, text=True, check=True).stdout
    for name, pattern in (("gemm value", "gemm .*, value"), ("gemm magnitudes", "gemm .*, with magnitudes"),
                          ("conv1d magnitudes", "conv1d .*"), ("attention magnitudes", "attention .*")):
        out[name] = float(re.search(rf"^{pattern}.* x([\d.]+) ", text, re.M).group(1))
    text = subprocess.run([bench / "verify_speed", "3", "1024", "2048", "4096", "8192"], capture_output=True, text=True, check=True).stdout
    for size, family, divisor in re.findall(r"^ *(\d+)  (\w+) .* 1/(\d+) \(", text, re.M):
        out[f"verify {size}{' exact' if family == 'integer' else ''}"] = 1 / float(divisor)
    return out


def main():
    options = argparse.ArgumentParser()
    options.add_argument("assay", type=pathlib.Path)
    options.add_argument("bench", type=pathlib.Path)
    options.add_argument("--record", action="store_true")
    options.add_argument("--skip", choices=("levels", "speed"))
    args = options.parse_args()
    model = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")), "unknown")
    machine = f"{model}, {os.cpu_count()} cores"
    earlier = [json.loads(line) for line in HISTORY.read_text(encoding="utf-8").splitlines()] if HISTORY.exists() else []
    now = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        now |= worker_start(args.assay, folder) | passes(args.assay, folder)
        if args.skip != "speed":
            now |= speed(args.bench)
        if args.skip != "levels":
            now |= levels(args.assay, folder)
    worst = 0
    print(f"{machine}; load {os.getloadavg()[0]:.1f}\n{'what':<24}{'now':>9}{'aim':>9}{'history':>9}")
    for name, value in now.items():
        aim = AIMS.get(name, (None, ""))
        same = [e["numbers"][name] for e in earlier if name in e["numbers"] and (e["machine"] == machine or not ABSOLUTE.search(name))]
        usual = statistics.median(same) if same else None
        words = []
        if aim[0] is not None and not value <= aim[0]:
            words.append("beyond the aim")
        if usual is not None and not value <= SLOWER * usual:
            words.append("SLOWER than the history")
        worst = max(worst, bool(words))
        print(f"{name:<24}{value:>9.3g}{'' if aim[0] is None else format(aim[0], '.3g'):>9}{'' if usual is None else format(usual, '.3g'):>9}  "
              f"{', '.join(words) or aim[1]}")
    if args.record:
        version = subprocess.run([args.assay, "--version"], capture_output=True, text=True, check=True).stdout
        line = {"date": datetime.date.today().isoformat(), "commit": re.search(r"\((\w+)", version).group(1), "machine": machine,
                "numbers": {k: float(f"{v:.4g}") for k, v in now.items()}}
        with open(HISTORY, "a", encoding="utf-8") as history:
            history.write(json.dumps(line) + "\n")
    return worst


if __name__ == "__main__":
    sys.exit(main())
