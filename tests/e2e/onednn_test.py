#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""oneDNN through the real program: identity, instruction-set levels, the newer major, and the fault that was found in it."""
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import e2e
from e2e import SMALL, TINY

BF16 = "g1:gemm:m=33,n=7,k=47,in=bf16,out=f32,order=row,pada=3,fill=integer"  # gaps between rows hold NaN

OTHERS = ["g1:softmax:rows=5,n=33", "g1:activation:rows=5,n=33,kind=silu", "g1:layernorm:rows=5,n=33,gamma=1,stats=1",
          "g1:conv1d:cin=16,cout=16,l=20,k=3,padl=1,padr=1,fill=integer", "g1:conv_transpose1d:cin=16,cout=16,l=9,k=4,stride=2,fill=integer",
          "g1:attention:hq=2,sq=9,d=16,mask=causal"]


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
        self.assert_code(self.run_cases(["onednn*"], [SMALL, BF16, *OTHERS], "--libraries", f"onednn={library}", "--quiet"), 3)
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

    @unittest.skipUnless(system() and "2.6" in system() and "avx2" in cpu_flags(), "needs oneDNN 2.6 and AVX2")
    def test_the_log_probability_above_zero_of_onednn_2_6_is_seen(self):
        """docs/found.md: the generated logarithm of 1 is not 0."""
        got = self.run_cases(["onednn", "onednn:isa=AVX2", "onednn:isa=AVX"], ["g1:softmax:rows=1,n=1,kind=log"], "--libraries", f"onednn={system()}")
        self.assert_code(got, 1)
        records = self.by_target()
        for wrong in ("onednn", "onednn:isa=AVX2"):
            self.assertEqual((records[wrong]["verdict"], records[wrong]["label"]), ("fail", "WRONG"))
            self.assertGreater(records[wrong]["comparison"]["worst_got"], 0)
        self.assertEqual(records["onednn:isa=AVX"]["verdict"], "pass")

    @unittest.skipUnless(system() and "2.6" in system() and "avx2" in cpu_flags(), "needs oneDNN 2.6 and AVX2")
    def test_a_published_defect_is_announced_and_named_with_its_failure_which_stays_one(self):
        case = "g1:softmax:rows=1,n=1,kind=log"
        got = self.run_cases(["onednn"], [case], "--libraries", f"onednn={system()}")
        self.assert_code(got, 1)
        self.assertIn("your oneDNN 2.6.3 is inside the range of onednn-2.6.3-log-softmax", got.err)
        (record,) = self.records()
        self.assertEqual(record["verdict"], "fail")
        self.assertEqual(record["known_defect"], "onednn-2.6.3-log-softmax: known, fixed in 3.2.0 (docs/found.md)")
        self.assertIn("onednn-2.6.3-log-softmax", " ".join(self.environment_of()["known_defects"]))
        self.assert_valid()
        # The same failure under a list whose range this version lies outside of: a file beside the program wins.
        program = self.folder / "bin" / "assay"
        (program.parent / "data").mkdir(parents=True)
        shutil.copy2(e2e.ASSAY, program)
        defects = json.loads((pathlib.Path(__file__).parents[2] / "data" / "known_defects.json").read_text(encoding="utf-8"))
        (entry,) = [d for d in defects if d["id"] == "onednn-2.6.3-log-softmax"]
        entry["from"], entry["last"] = "2.6.4", "2.9.9"
        (program.parent / "data" / "known_defects.json").write_text(json.dumps([entry]), encoding="utf-8")
        other = subprocess.run([program, "run", "--target", "onednn", "--case", case, "--libraries", f"onednn={system()}", "--out", "other"],
                               cwd=self.folder, env=self.environment(), capture_output=True, text=True, timeout=120)
        self.assertEqual((other.returncode, other.stderr), (1, ""))
        (record,) = self.records("other")
        self.assertEqual((record["verdict"], record["known_defect"]), ("fail", ""))

    @unittest.skipUnless(system() and "2.6" in system() and "avx512f" in cpu_flags(), "needs oneDNN 2.6 and AVX-512")
    def test_the_double_rounding_of_16_bit_softmax_before_onednn_3_5_is_seen(self):
        """docs/found.md: exponentials are stored in the format of the result before they are normalised."""
        cases = ["g1:softmax:rows=2,n=2,in=bf16", "g1:softmax:rows=2,n=2,in=bf16,out=f32"]
        self.assert_code(self.run_cases(["onednn"], cases, "--libraries", f"onednn={system()}"), 1)
        self.assertEqual({r["case"]: r["verdict"] for r in self.records()}, {cases[0]: "fail", cases[1]: "pass"})

    def ignored_stride(self, library):
        """docs/found.md: layer normalization steps by the width of a row, whatever the stride."""
        cases = ["g1:layernorm:rows=2,n=2,padx=1,pady=1", "g1:layernorm:rows=2,n=2", "g1:softmax:rows=2,n=2,padx=1,pady=1"]
        self.assert_code(self.run_cases(["onednn"], cases, "--libraries", f"onednn={library}"), 1)
        self.assertEqual({r["case"]: r["verdict"] for r in self.records()}, dict(zip(cases, ("fail", "pass", "pass"))))
        (record,) = [r for r in self.records() if r["verdict"] == "fail"]
        self.assertEqual(record["label"], "OUT-OF-BOUNDS")

    @unittest.skipUnless(system() and "2.6" in system(), "needs oneDNN 2.6")
    def test_the_ignored_stride_of_layer_normalization_in_onednn_2_6_is_seen(self):
        self.ignored_stride(system())

    @unittest.skipUnless(fetched(), "no newer oneDNN in the cache: tools/fetch_wheels.sh fetches one")
    def test_the_ignored_stride_of_layer_normalization_in_the_fetched_onednn_is_seen(self):
        self.ignored_stride(fetched()[0])

    def overflowing_scratchpad(self, library):
        """docs/found.md: deconvolution keeps a result with gaps in a scratchpad without."""
        case = "g1:conv_transpose1d:cin=1,cout=2,l=1,k=1,gapy=64,fill=integer"
        biased = case.replace("gapy", "bias=1,gapy")
        self.assert_code(self.run_cases(["onednn"], [case, biased], "--libraries", f"onednn={library}"), 1)
        self.assertEqual({r["case"]: r["verdict"] for r in self.records()}, {case: "pass", biased: "fault"})
        self.assertIn("wrote outside the 136 bytes of its scratchpad", " ".join(r["reason"] for r in self.records()))

    @unittest.skipUnless(system() and "2.6" in system(), "needs oneDNN 2.6")
    def test_the_overflowing_scratchpad_of_deconvolution_in_onednn_2_6_is_seen(self):
        self.overflowing_scratchpad(system())

    @unittest.skipUnless(fetched(), "no newer oneDNN in the cache: tools/fetch_wheels.sh fetches one")
    def test_the_overflowing_scratchpad_of_deconvolution_in_the_fetched_onednn_is_seen(self):
        self.overflowing_scratchpad(fetched()[0])

    @unittest.skipUnless(system() and "2.6" in system(), "needs oneDNN 2.6")
    def test_the_batched_bias_with_gaps_in_onednn_2_6_is_seen(self):
        """docs/found.md: a binary add per batch entry steps over the destination as if it had no gaps."""
        case = "g1:gemm:m=2,n=1,k=2,batch=2,order=row,padc=1,bias=1,fill=integer"
        cases = [case, case.replace(",padc=1", ""), case.replace(",bias=1", "")]
        self.assert_code(self.run_cases(["onednn"], cases, "--libraries", f"onednn={system()}"), 1)
        self.assertEqual({r["case"]: (r["verdict"], r["label"]) for r in self.records()},
                         {case: ("fail", "UNWRITTEN"), cases[1]: ("pass", ""), cases[2]: ("pass", "")})

    @unittest.skipUnless(system() and "2.6" in system(), "needs oneDNN 2.6")
    def test_the_relu_that_depends_on_the_layout_in_onednn_2_6_is_seen(self):
        """docs/found.md: reference code multiplies -Inf by 0."""
        cases = ["g1:activation:rows=2,n=2,kind=relu,padx=1,pady=1,fill=masked", "g1:activation:rows=2,n=2,kind=relu,fill=masked"]
        self.assert_code(self.run_cases(["onednn"], cases, "--libraries", f"onednn={system()}"), 1)
        self.assertEqual({r["case"]: (r["verdict"], r["label"]) for r in self.records()},
                         {cases[0]: ("fail", "NAN-LEAK"), cases[1]: ("pass", "")})

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
