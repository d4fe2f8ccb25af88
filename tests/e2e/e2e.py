# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: they start the built program and look at what a user would see.

    FILE_test.py ASSAY FAKES [unittest options, such as -k hang]

ASSAY is the built program, FAKES the folder of the stand-in libraries that tests/fakes builds.
"""
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import validate_run

ASSAY = FAKES = None  # absolute paths, set by main()

TINY = "g1:gemm:m=8,n=6,k=16,fill=integer"
SMALL = "g1:gemm:m=48,n=40,k=64,fill=integer"

# What the machine may have set for its libraries must not decide a test.
LIBRARY_VARIABLES = ("OPENBLAS_", "GOTO_", "OMP_", "BLIS_", "MKL_", "NO_COLOR", "ASAN_OPTIONS")


class Outcome:
    """A finished program: exit code, what it printed, and the last line of its standard output."""

    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr
        lines = self.out.splitlines()
        self.last = lines[-1] if lines else ""

    def __str__(self):
        return f"exit {self.code}\nstdout: {self.out[-3000:]}\nstderr: {self.err[-3000:]}"


class EndToEnd(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="assay-e2e-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def environment(self, **variables):
        env = {k: v for k, v in os.environ.items() if not k.startswith(LIBRARY_VARIABLES)}
        env["PATH"] = f"{ASSAY.parent}:{env['PATH']}"  # a printed command begins with "assay"
        return env | variables

    def assay(self, *arguments, program=None, timeout=120, **options):
        options.setdefault("env", self.environment())
        options.setdefault("cwd", self.folder)
        command = [str(a) for a in (program or ASSAY, *arguments)]
        return Outcome(subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                                      **options))

    def shell(self, line, timeout=120, **options):
        options.setdefault("env", self.environment())
        return Outcome(subprocess.run(["sh", "-c", line], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True,
                                      text=True, timeout=timeout, **options))

    def start(self, *arguments, **options):
        """Starts assay and goes on. The process is gone when the test ends, and so are its workers (they die with it)."""
        options.setdefault("env", self.environment())
        process = subprocess.Popen([str(a) for a in (ASSAY, *arguments)], cwd=self.folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        self.addCleanup(lambda: (process.kill() if process.poll() is None else None, process.communicate()))
        return process

    def finish(self, process, timeout=60):
        out, err = process.communicate(timeout=timeout)
        return Outcome(subprocess.CompletedProcess(process.args, process.returncode, out, err))

    def run_cases(self, targets, cases, *more, out="run", **options):
        arguments = ["run", "--out", out]
        for target in targets:
            arguments += ["--target", target]
        for case in cases:
            arguments += ["--case", case]
        return self.assay(*arguments, *more, **options)

    def records(self, out="run"):
        lines = (self.folder / out / "run.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def keys(self, out="run"):
        return [(r["case"], full_target(r), r["library"]["path"]) for r in self.records(out)]

    def by_target(self, out="run"):
        """Records of a run with one case, by target."""
        records = {full_target(r): r for r in self.records(out)}
        self.assertEqual(len(records), len(self.records(out)), "one record per target")
        return records

    def environment_of(self, out="run"):
        return json.loads((self.folder / out / "environment.json").read_text(encoding="utf-8"))

    def report(self, out="run"):
        return (self.folder / out / "report.md").read_text(encoding="utf-8")

    def assert_code(self, outcome, code):
        self.assertEqual(outcome.code, code, str(outcome))

    def assert_valid(self, out="run"):
        """Every line and the environment follow the published schema."""
        try:
            validate_run.check_run(self.folder / out / "run.jsonl", validate_run.load("record.schema.json"), False)
            path = self.folder / out / "environment.json"
            validate_run.check(validate_run.parse(path.read_text(encoding="utf-8"), path),
                               validate_run.load("environment.schema.json"), path)
        except validate_run.Violation as violation:
            self.fail(str(violation))

    def assert_one_sentence(self, outcome, *words):
        """One line on stderr besides those on known defects, and it speaks of every one of `words`. Returns it."""
        said = "".join(line for line in outcome.err.splitlines(True) if "is inside the range of" not in line)
        self.assertRegex(said, r"\Aassay: [^\n]+\n\Z", str(outcome))
        for word in words:
            self.assertIn(word, said)
        return said.strip()

    def assert_refused(self, outcome, *words, out="run"):
        """Bad input: exit 2, one sentence, no run folder begun."""
        self.assert_code(outcome, 2)
        self.assert_one_sentence(outcome, *words)
        self.assertFalse((self.folder / out / "run.jsonl").exists(), "nothing was begun")

    def wait_for(self, condition, what, timeout=60):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            time.sleep(0.01)
        self.fail(f"waited {timeout} s in vain for {what}")

    def lines_written(self, out="run"):
        path = self.folder / out / "run.jsonl"
        return path.read_bytes().count(b"\n") if path.exists() else 0


def full_target(record):
    return record["target"] + (":" + record["variant"] if record["variant"] else "")


def next_command(outcome):
    """The command that the last line ends in."""
    return outcome.last.split(" Next: ", 1)[1]


def reproducers(report):
    """The commands that report.md prints under "Again:"."""
    return re.findall(r"^Again:\n\n```sh\n(.*?)\n```$", report, re.MULTILINE | re.DOTALL)


def system_library(name):
    """Path of a BLAS of this machine, or None."""
    patterns = {"openblas": "/usr/lib/x86_64-linux-gnu/openblas-*/libopenblas*.so",
                "blis": "/usr/lib/x86_64-linux-gnu/blis-*/libblis.so*"}
    found = sorted(os.path.realpath(p) for p in glob.glob(patterns[name]))
    return found[0] if found else None


def workers_of(parent):
    """Pids of the living workers that a process started."""
    out = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            state, ppid = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if words[:2] == [b"assay", b"__worker"] and int(ppid) == parent and state != "Z":
            out.append(int(entry.name))
    return out


def is_sanitized():
    """An AddressSanitizer build reports a crash itself and exits, instead of dying by the signal."""
    return b"__asan_init" in ASSAY.read_bytes()


def main():
    global ASSAY, FAKES
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    me = sys.modules["e2e"]
    me.ASSAY, me.FAKES = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
    if not os.access(me.ASSAY, os.X_OK):
        sys.exit(f"{me.ASSAY} is not a program: build the target assay first")
    signal.signal(signal.SIGINT, signal.default_int_handler)
    unittest.main(module="__main__", argv=[sys.argv[0], "-v", *sys.argv[3:]])
