#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""oneDNN through the real program: identity, instruction-set levels, the newer major, and the fault that was found in it."""
import glob
import os
import pathlib
import re
import subprocess
import unittest

import e2e
from e2e import SMALL, TINY

BF16 = "g1:gemm:m=33,n=7,k=47,in=bf16,out=f32,order=row,pada=3,fill=integer"  # gaps between rows hold NaN


def system():
    found = sorted({os.path.realpath(p) for p in glob.glob("/usr/lib/*-linux-gnu/libdnnl.so.[0-9]*")})
    return found[0] if found else None


def fetched():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return sorted(str(p) for p in cache.glob("assay/wheels/*/lib/libdnnl.so.3"))


def cpu_flags():
    return set(re.search(r"^flags\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE).group(1).split())


class Onednn(e2e.EndToEnd):
    def environment(self, **variables):
        env = {k: v for k, v in super().environment().items() if not k.startswith(("ONEDNN_", "DNNL_"))}
        return env | variables

    def ladder(self, library):
        self.assert_code(self.run_cases(["onednn*"], [SMALL, BF16], "--libraries", f"onednn={library}", "--quiet"), 3)
        self.assert_valid()
        for record in self.records():
            with self.subTest(library=library, variant=record["variant"], case=record["case"]):
                if record["variant"].startswith("isa=") and record["verdict"] == "pass":
                    self.assertEqual(record["library"]["core"], record["variant"][4:], "the library confirms it")
                    self.assertEqual(record["conditions"]["ONEDNN_MAX_CPU_ISA"], record["variant"][4:])
                self.assertIn(record["verdict"], ("pass", "unsupported", "unavailable"), record["reason"])
                if record["verdict"] == "pass":
                    self.assertTrue(record["algorithm"], "the library names its implementation")
                    self.assertRegex(record["library"]["version"], r"^oneDNN [23]\.\d+\.\d+$")
        passed = {r["variant"] for r in self.records() if r["verdict"] == "pass"}
        self.assertLessEqual({"", "isa=SSE41", "isa=AVX2", "layout=packed", "threads=1"}, passed)

    @unittest.skipUnless(system(), "this machine has no oneDNN library")
    def test_every_level_of_the_systems_onednn_confirms_itself_or_is_unavailable(self):
        self.ladder(system())
        self.assertIn(system(), [lib["path"] for lib in self.environment_of()["libraries"]])

    @unittest.skipUnless(fetched(), "no newer oneDNN in the cache: tools/fetch_wheels.sh fetches one")
    def test_every_level_of_the_fetched_onednn_confirms_itself_or_is_unavailable(self):
        self.ladder(fetched()[0])

    @unittest.skipUnless(system() and "2.6" in system() and "avx512f" in cpu_flags(), "needs oneDNN 2.6 and AVX-512")
    def test_the_division_by_zero_of_onednn_2_6_is_seen_and_named(self):
        """docs/found.md: creating a matmul with a size of 0 ends the process on AVX-512."""
        case = "g1:gemm:m=0,n=1,k=1,fill=integer"
        got = self.run_cases(["onednn", "onednn:isa=AVX2"], [case], "--libraries", f"onednn={system()}")
        self.assert_code(got, 1)
        records = self.by_target()
        self.assertEqual(records["onednn"]["verdict"], "fault")
        self.assertIn("SIGFPE", records["onednn"]["reason"])
        self.assertEqual(records["onednn:isa=AVX2"]["verdict"], "pass")

    def test_a_file_that_is_no_onednn_is_refused_in_one_sentence(self):
        self.assert_refused(self.run_cases(["onednn"], [TINY], "--libraries", f"onednn={e2e.FAKES / 'fake_lp64.so'}"), "dnnl_version")


class FetchWheels(e2e.EndToEnd):
    def test_without_a_network_the_script_says_so_and_leaves_nothing_half_done(self):
        script = pathlib.Path(__file__).parents[2] / "tools" / "fetch_wheels.sh"
        env = self.environment(XDG_CACHE_HOME=str(self.folder), PIP_INDEX_URL="http://127.0.0.1:9/simple", PIP_RETRIES="0",
                               PIP_EXTRA_INDEX_URL="", PIP_CONFIG_FILE="/dev/null")
        got = subprocess.run([script], env=env, capture_output=True, text=True, timeout=120)
        self.assertEqual(got.returncode, 1, got.stderr)
        self.assertIn("could not fetch onednn-cpu-gomp", got.stderr)
        self.assertFalse(list(self.folder.rglob(".complete")))


if __name__ == "__main__":
    e2e.main()
